//! A hyper server whose timeouts are tickwheel's: headers that do not end, requests that take too long. tokio brings
//! the sockets and no timers.
//!
//!     cargo run -p tickwheel-util --example hyper_server

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io;
use std::time::Duration;
use tickwheel_util::{HyperTimer, time};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How long a client may take for the headers of a request, and between two requests.
const HEADERS: Duration = Duration::from_millis(200);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_millis(50);
/// How long the server waits after it failed to accept a client.
const PAUSE: Duration = Duration::from_millis(100);

/// What the server is for: `/slow` takes its time.
async fn work(path: &str) -> String {
    if path == "/slow" {
        std::future::pending::<()>().await;
    }
    format!("{path} at your service")
}

/// Answers within the limit, one way or the other.
async fn answer(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    let (status, text) = match time::timeout(ANSWER, work(request.uri().path())).await {
        Ok(text) => (StatusCode::OK, text),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    };
    let mut response = Response::new(text);
    *response.status_mut() = status;
    Ok(response)
}

async fn serve(listener: TcpListener) {
    let mut builder = http1::Builder::new();
    builder
        .timer(HyperTimer::new())
        .header_read_timeout(HEADERS);
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // The client has gone, or there is no descriptor for it. The next one may have more luck.
            time::sleep(PAUSE).await;
            continue;
        };
        let connection = builder.serve_connection(TokioIo::new(stream), service_fn(answer));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                println!("{peer}: {error}");
            }
        });
    }
}

/// Serves three clients and looks at what they get.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(serve(listener));
    for (what, request, status) in [
        (
            "in time",
            "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
            Some("200"),
        ),
        (
            "too slow",
            "GET /slow HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
            Some("503"),
        ),
        ("half a header", "GET / HTTP/1.1\r\nhost: a\r\n", None),
    ] {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        println!(
            "{what}: {}",
            answer.lines().next().unwrap_or("the connection was closed")
        );
        assert_eq!(answer.get(9..12), status, "{answer}");
    }
    Ok(())
}
