//! apalis as `cargo bench` of delayed-jobs drives it: see delayed-jobs/benches/figures.rs.

use apalis::prelude::*;
use apalis_redis::{Config, RedisStorage};
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncBufReadExt, BufReader};

/// How often it asks for what is due. It keeps moments in whole seconds, so asking more often gains little.
const POLL: Duration = Duration::from_millis(100);

async fn arrived(number: u64) -> Result<(), BoxDynError> {
    let us = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
    say(&format!("{number} {us}"));
    Ok(())
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Whoever measures has gone: so does this.
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxDynError> {
    let port = std::env::args().nth(1).ok_or("the port of a Redis")?;
    let connection = apalis_redis::connect(format!("redis://127.0.0.1:{port}")).await?;
    let config = Config::default().queue("figures").batch_size(100);
    let storage = RedisStorage::<u64>::new(connection).with_config(config);
    let worker = WorkerBuilder::new("figures")
        .backend(storage.clone().poll_with_interval(POLL))
        .parallelize(tokio::spawn)
        .build(arrived);
    tokio::spawn(worker.run());
    say("ready apalis 1.0.0 (whole seconds)");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let mut storage = storage.clone();
        tokio::spawn(async move {
            let (number, due_ms) = line.split_once(' ').ok_or("two numbers")?;
            // Rounded up: a moment that is cut off to the second would be early.
            let due = due_ms.parse::<u64>()?.div_ceil(1000);
            let task = TaskBuilder::new(number.parse::<u64>()?).run_at_timestamp(due).build();
            storage.push_task(task).await?;
            say("+");
            Ok::<(), BoxDynError>(())
        });
    }
    Ok(())
}
