//! Timeouts, sleeps and a heartbeat in async code, on whatever runtime there is.
//!
//! The executor at the end stands for yours: nothing here depends on it.

use std::future::{Future, pending};
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::time::Duration;
use tickwheel::{interval, sleep, timeout};

/// Answers after a while.
async fn call(server: &str, takes: Duration) -> String {
    sleep(takes).await;
    format!("{server} has answered")
}

async fn requests() -> std::io::Result<()> {
    let limit = Duration::from_millis(50);

    println!(
        "{}",
        timeout(limit, call("fast", Duration::from_millis(5))).await?
    );

    let slow = timeout(limit, call("slow", Duration::from_secs(3600))).await;
    assert!(slow.is_err());
    println!("slow has not");

    let mut heartbeat = interval(Duration::from_millis(10));
    for beat in 1..=3 {
        heartbeat.tick().await;
        println!("beat {beat}");
    }

    // An idle timeout: each piece of data pushes it out, which tells the worker nothing.
    let mut idle = sleep(Duration::from_millis(20));
    for _ in 0..3 {
        let data = timeout(Duration::from_millis(5), pending::<()>()).await;
        assert!(data.is_err());
        idle.reset(Duration::from_millis(20));
    }
    idle.await;
    println!("idle for 20 ms: closed");
    Ok(())
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    Ok(block_on(requests())?)
}

/// The smallest of executors.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Thread(std::thread::Thread);
    impl Wake for Thread {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = std::pin::pin!(future);
    let waker = Arc::new(Thread(std::thread::current())).into();
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
