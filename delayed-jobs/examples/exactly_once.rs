//! Exactly one effect per job although deliveries repeat: the consumer notes the job's id together with
//! the effect, in one transaction of wherever the effect is. Here that is Redis, and the effect is a sum.
//!
//! `cargo run --example exactly_once` starts a Redis and a node of its own.

use std::time::Duration;

use delayed_jobs::local::RedisProcess;
use delayed_jobs::{Consumer, Delivery, NewJob, Node, Settings, When};
use redis::Script;

/// Adds to the sum unless this job has been counted. One script, so both happen or neither.
const BOOK: &str = "
if redis.call('SADD', KEYS[1], ARGV[1]) == 1 then redis.call('INCRBY', KEYS[2], ARGV[2]) end
return tonumber(redis.call('GET', KEYS[2]))";

async fn book(redis: &redis::Client, job: &Delivery) -> redis::RedisResult<u64> {
    let mut connection = redis.get_multiplexed_async_connection().await?;
    let script = Script::new(BOOK);
    let mut call = script.key("{account}:booked");
    call.key("{account}:sum")
        .arg(job.id.as_str())
        .arg(&job.payload);
    call.invoke_async(&mut connection).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = RedisProcess::start(&[]).await?;
    let settings = Settings {
        redis: server.url(),
        partitions: 2,
        ..Settings::default()
    };
    let node = Node::start(settings.clone()).await?;
    for amount in 1..=10 {
        let when = When::After(Duration::from_millis(amount * 20));
        node.store()
            .create(NewJob::new(amount.to_string(), when))
            .await?;
    }
    let account = redis::Client::open(server.url())?;
    let patience = Duration::from_millis(300);

    // This consumer books and dies before it acknowledges.
    let mut careless = Consumer::connect(settings.clone(), patience).await?;
    for _ in 0..4 {
        let job = careless.next().await;
        book(&account, &job).await?;
    }
    drop(careless);

    // This one is given the same jobs again, and the rest.
    let mut careful = Consumer::connect(settings, patience).await?;
    let (mut repeated, mut sum) = (0, 0);
    for _ in 0..10 {
        let job = careful.next().await;
        repeated += u32::from(job.attempt > 1);
        sum = book(&account, &job).await?;
        careful.acknowledge(&[job]).await?;
    }
    println!("10 jobs, 4 of them booked by the careless one, {repeated} delivered again: {sum}");
    assert_eq!(sum, 55);
    node.stop().await;
    Ok(())
}
