//! Requests that are tried again, over real sockets.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tickwheel::{Builder, Pinning, Timer};
use tickwheel_util::{Backoff, RetryLayer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::{Layer, ServiceExt, service_fn};

const FIRST: Duration = Duration::from_millis(20);

fn engine() -> Timer {
    Builder::new().shards(1).pinning(Pinning::Off).build().unwrap()
}

/// Asks a server for a byte.
async fn ask(server: SocketAddr) -> io::Result<u8> {
    TcpStream::connect(server).await?.read_u8().await
}

/// A server that hangs up on so many connections before it answers.
async fn moody_server(refusals: u32) -> (SocketAddr, Arc<AtomicU32>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let (address, asked) = (listener.local_addr().unwrap(), Arc::new(AtomicU32::new(0)));
    let count = Arc::clone(&asked);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            if count.fetch_add(1, Ordering::SeqCst) >= refusals {
                stream.write_u8(17).await.unwrap();
            }
        }
    });
    (address, asked)
}

fn failed(answer: &io::Result<u8>) -> bool {
    answer.is_err()
}

#[tokio::test]
async fn a_request_is_tried_until_it_is_answered() {
    let (timer, start) = (engine(), Instant::now());
    let (address, asked) = moody_server(3).await;
    let backoff = Backoff::new(FIRST, Duration::from_secs(9), 5);
    let retry = RetryLayer::on(timer.clone(), backoff, failed);
    assert_eq!(retry.layer(service_fn(ask)).oneshot(address).await.unwrap(), 17);
    assert_eq!((asked.load(Ordering::SeqCst), timer.stats().fired()), (4, 3));
    assert!(start.elapsed() >= (FIRST + 2 * FIRST + 4 * FIRST) / 2, "half of each bound at least");
    // The next one is answered at once and costs no timer.
    assert_eq!(retry.layer(service_fn(ask)).oneshot(address).await.unwrap(), 17);
    assert_eq!(timer.stats().scheduled(), 3);
}

#[tokio::test]
async fn the_last_answer_counts_when_the_tries_are_used_up() {
    let (address, asked) = moody_server(u32::MAX).await;
    let retry = RetryLayer::new(Backoff::new(FIRST / 20, FIRST / 20, 2), failed);
    let error = retry.layer(service_fn(ask)).oneshot(address).await.unwrap_err();
    assert_eq!((error.kind(), asked.load(Ordering::SeqCst)), (io::ErrorKind::UnexpectedEof, 3));
}

#[tokio::test]
async fn permanent_errors_are_not_retried() {
    let (address, asked) = moody_server(u32::MAX).await;
    let never = RetryLayer::new(Backoff::new(FIRST, FIRST, 2), |_: &io::Result<u8>| false);
    assert!(never.layer(service_fn(ask)).oneshot(address).await.is_err());
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn without_a_timer_the_answer_counts_as_it_is() {
    let (address, asked) = moody_server(u32::MAX).await;
    let timer = engine();
    timer.stop().unwrap();
    let retry = RetryLayer::on(timer, Backoff::new(FIRST, FIRST, 2), failed);
    assert!(retry.layer(service_fn(ask)).oneshot(address).await.is_err());
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn retries_without_a_pause_of_their_own_still_yield() {
    let calls = AtomicU32::new(0);
    let refuse = service_fn(async |(): ()| {
        calls.fetch_add(1, Ordering::SeqCst);
        Err::<u8, _>(io::Error::from(io::ErrorKind::ConnectionRefused))
    });
    let backoff = Backoff::new(Duration::ZERO, Duration::ZERO, 1_000_000);
    let retry = RetryLayer::on(engine(), backoff, failed);
    let mut answer = std::pin::pin!(retry.layer(refuse).oneshot(()));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(answer.as_mut().poll(&mut context).is_pending());
    // One, unless this thread was kept from running for a pause.
    assert!(calls.load(Ordering::SeqCst) < 100);
}
