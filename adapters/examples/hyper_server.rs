//! A hyper server whose timeouts are tickwheel's: headers that do not end, requests that take too long. tokio brings
//! the sockets and no timers.
//!
//!     cargo run -p tickwheel-util --example hyper_server

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::time::Duration;
use tickwheel_util::HyperTimer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How long a client may take for the headers of a request, and between two requests.
const HEADERS: Duration = Duration::from_millis(200);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_millis(50);

/// What the server is for: `/slow` takes its time.
async fn work(path: &str) -> String {
    if path == "/slow" {
        std::future::pending::<()>().await;
    }
    format!("{path} at your service")
}

/// Answers within the limit, one way or the other.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path();
    let (status, text) = match tickwheel::timeout(ANSWER, work(path)).await {
        Ok(text) => (StatusCode::OK, text),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    Ok(response)
}

async fn serve(listener: TcpListener) -> std::io::Result<()> {
    let mut builder = http1::Builder::new();
    builder.timer(HyperTimer::new()).header_read_timeout(HEADERS);
    loop {
        let (stream, peer) = listener.accept().await?;
        let connection = builder.serve_connection(TokioIo::new(stream), service_fn(answer));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                println!("{peer}: {error}");
            }
        });
    }
}

/// What a client reads that says this, until the connection ends.
async fn said(to: std::net::SocketAddr, text: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(to).await?;
    stream.write_all(text.as_bytes()).await?;
    let mut all = String::new();
    stream.read_to_string(&mut all).await?;
    Ok(all)
}

/// Serves three clients and looks at what they get.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(serve(listener));

    let quick = said(address, "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await?;
    assert!(quick.starts_with("HTTP/1.1 200"), "{quick}");
    let slow = said(address, "GET /slow HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await?;
    assert!(slow.starts_with("HTTP/1.1 503"), "{slow}");
    let silent = said(address, "GET / HTTP/1.1\r\nhost: a\r\n").await?;
    assert!(!silent.contains("200"), "{silent}");

    server.abort();
    println!("served: one in time, one too slow, one cut off");
    Ok(())
}
