//! The server: hyper's, with every limit that a server facing strangers has.

use super::count::{Call, count, total};
use super::idle::Idle;
use super::timers::{NoTimers, OurTimers, Timers, TokioTimers};
use crate::measure::Usage;
use clap::ValueEnum;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::io::{self, Read as _, Write as _};
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// Headers must have come by then; between two requests of a connection as well.
const HEADERS: Duration = Duration::from_secs(20);
/// A connection on which nothing is read or written for so long is closed.
const IDLE: Duration = Duration::from_secs(60);
/// A request is answered by then.
const REQUEST: Duration = Duration::from_secs(30);
/// What a client that names no deadline is given.
const DEADLINE: Duration = Duration::from_secs(5);
/// The request's header with the client's deadline, in milliseconds.
const DEADLINE_HEADER: &str = "x-deadline-ms";

/// Whose timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Variant {
    /// No limit at all.
    None,
    /// tokio's.
    Tokio,
    /// tickwheel's.
    Tickwheel,
}

/// What a server has done and used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Served {
    /// Requests answered.
    pub requests: u64,
    /// Timers made.
    pub made: u64,
    /// Timers given another deadline.
    pub reset: u64,
    /// Processor time, in microseconds.
    pub cpu_us: u64,
    /// Times that a thread went to sleep.
    pub switches: u64,
}

/// Serves in this process until nothing more can be read from its input; prints the port, then what it has done.
///
/// # Errors
///
/// If there is no port, or nobody to tell it to.
pub fn run(variant: Variant, http2: bool) -> io::Result<()> {
    // Timers in every variant's runtime: where none is made they cost a look per park.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    println!("{}", listener.local_addr()?.port());
    io::stdout().flush()?;
    match variant {
        Variant::None => drop(runtime.spawn(serve::<NoTimers>(listener, http2))),
        Variant::Tokio => drop(runtime.spawn(serve::<TokioTimers>(listener, http2))),
        Variant::Tickwheel => drop(runtime.spawn(serve::<OurTimers>(listener, http2))),
    }
    let before = Usage::now();
    io::stdin().read_to_end(&mut Vec::new())?;
    let used = Usage::now();
    println!(
        "{}",
        told(&Served {
            requests: total(Call::Request),
            made: total(Call::Made),
            reset: total(Call::Reset),
            cpu_us: u64::try_from((used.cpu - before.cpu).as_micros()).unwrap_or(u64::MAX),
            switches: u64::try_from(used.switches - before.switches).unwrap_or(0),
        })
    );
    runtime.shutdown_background();
    Ok(())
}

fn told(served: &Served) -> String {
    let Served { requests, made, reset, cpu_us, switches } = served;
    format!("{requests} {made} {reset} {cpu_us} {switches}")
}

impl Served {
    /// From what a server printed at its end.
    pub(super) fn of_line(line: &str) -> Option<Self> {
        let mut numbers = line.split(' ').map(|number| number.parse().ok());
        let mut next = || numbers.next()?;
        Some(Self {
            requests: next()?,
            made: next()?,
            reset: next()?,
            cpu_us: next()?,
            switches: next()?,
        })
    }
}

async fn serve<T: Timers>(listener: TcpListener, http2: bool) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) if http2 => drop(tokio::spawn(serve_http2::<T>(stream))),
            Ok((stream, _)) => drop(tokio::spawn(serve_http1::<T>(stream))),
            // One connection that went before it was taken, or no descriptor for it: the others go on.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

fn guarded<T: Timers>(stream: TcpStream) -> Idle<T, TokioIo<TcpStream>> {
    let _ = stream.set_nodelay(true);
    Idle::new(TokioIo::new(stream), IDLE)
}

async fn serve_http1<T: Timers>(stream: TcpStream) {
    let mut builder = http1::Builder::new();
    match T::hyper() {
        Some(timer) => builder.timer(timer).header_read_timeout(HEADERS),
        None => builder.header_read_timeout(None),
    };
    // A connection that breaks off is the client's affair.
    let _ = builder.serve_connection(guarded::<T>(stream), service_fn(answer::<T>)).await;
}

async fn serve_http2<T: Timers>(stream: TcpStream) {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    if let Some(timer) = T::hyper() {
        builder.timer(timer).keep_alive_interval(HEADERS).keep_alive_timeout(HEADERS);
    }
    builder.max_concurrent_streams(1000);
    let _ = builder.serve_connection(guarded::<T>(stream), service_fn(answer::<T>)).await;
}

async fn answer<T: Timers>(
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let named =
        request.headers().get(DEADLINE_HEADER).and_then(|text| text.to_str().ok()?.parse().ok());
    let deadline = named.map_or(DEADLINE, Duration::from_millis);
    let response = T::limit(REQUEST, async move {
        match T::limit(deadline, backend()).await {
            Some(body) => Response::new(Full::new(body)),
            None => refused(StatusCode::GATEWAY_TIMEOUT),
        }
    });
    let response = response.await.unwrap_or_else(|| refused(StatusCode::SERVICE_UNAVAILABLE));
    count(Call::Request);
    Ok(response)
}

fn refused(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

/// What has the answer: not there at once, as it is with a database or the next server, so that both limits are armed.
async fn backend() -> Bytes {
    let answer = tokio::spawn(async { Bytes::from_static(b"hello, world\n") });
    tokio::task::yield_now().await;
    answer.await.expect("the task does not panic")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn asks<T: Timers>() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve::<T>(listener, false));
        let mut client = TcpStream::connect(address).await.unwrap();
        let mut answer = [0; 1024];
        for (deadline, expected) in
            [("", "HTTP/1.1 200"), ("x-deadline-ms: 900\r\n", "HTTP/1.1 200")]
        {
            let request = format!("GET / HTTP/1.1\r\nhost: a\r\n{deadline}\r\n");
            client.write_all(request.as_bytes()).await.unwrap();
            let length = client.read(&mut answer).await.unwrap();
            assert!(answer[..length].starts_with(expected.as_bytes()), "{:?}", &answer[..length]);
        }
        server.abort();
    }

    #[tokio::test]
    async fn every_variant_answers_and_those_with_limits_ask_for_timers() {
        asks::<NoTimers>().await;
        let before = total(Call::Made);
        asks::<TokioTimers>().await;
        let between = total(Call::Made);
        asks::<OurTimers>().await;
        let (theirs, ours) = (between - before, total(Call::Made) - between);
        assert!(
            theirs >= 5 && theirs == ours,
            "two limits a request, and the connection's: {theirs}, {ours}"
        );
        assert!(total(Call::Request) >= 6 && total(Call::Reset) > 0);
    }

    #[test]
    fn what_a_server_says_is_understood() {
        let served = Served { requests: 7, made: 14, reset: 3, cpu_us: 99, switches: 2 };
        assert_eq!(Served::of_line(&told(&served)), Some(served));
        assert_eq!(Served::of_line("7 14 3"), None);
    }
}
