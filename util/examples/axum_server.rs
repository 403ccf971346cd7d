//! An axum server whose limits of time are all tickwheel's: for a whole request, for pauses of an upload, and for a
//! client that does not send its headers.
//!
//! It asks itself four times, prints and checks the answers, and ends:
//!
//! ```text
//! cargo run -p tickwheel-util --example axum_server --all-features
//! ```

use axum::{Router, body::Bytes, http::StatusCode, routing};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use std::io;
use std::time::Duration;
use tickwheel_util::layer::{IdleRequestBodyLayer, StatusTimeoutLayer};
use tickwheel_util::{HyperTimer, time};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const REQUEST: Duration = Duration::from_millis(400);
const PAUSE: Duration = Duration::from_millis(200);
const HEADERS: Duration = Duration::from_millis(600);
/// How long the server waits after it failed to accept a client.
const RETRY: Duration = Duration::from_millis(100);

fn app() -> Router {
    Router::new()
        .route("/fast", routing::get(async || "here you are"))
        .route("/slow", routing::get(std::future::pending::<&str>))
        .route(
            "/upload",
            routing::post(async |body: Bytes| body.len().to_string()),
        )
        .layer(IdleRequestBodyLayer::new(PAUSE))
        .layer(StatusTimeoutLayer::new(
            StatusCode::GATEWAY_TIMEOUT,
            REQUEST,
        ))
}

async fn serve(listener: TcpListener) {
    let service = TowerToHyperService::new(app());
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // The client has gone, or there is no descriptor for it. The next one may have more luck.
            time::sleep(RETRY).await;
            continue;
        };
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder
            .timer(HyperTimer::new())
            .header_read_timeout(HEADERS);
        tokio::spawn(builder.serve_connection(TokioIo::new(stream), service.clone()));
    }
}

pub(crate) fn main() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(serve(listener));
        for (what, request, status) in [
            (
                "in time",
                "GET /fast HTTP/1.1\r\nhost: a\r\n\r\n",
                Some("200"),
            ),
            (
                "too slow",
                "GET /slow HTTP/1.1\r\nhost: a\r\n\r\n",
                Some("504"),
            ),
            (
                "a paused upload",
                "POST /upload HTTP/1.1\r\ncontent-length: 9\r\n\r\nhalf",
                Some("400"),
            ),
            ("half a header", "GET /fast HTTP/1.1\r\nhost:", None),
        ] {
            let (mut stream, mut answer) = (TcpStream::connect(address).await?, [0; 1024]);
            stream.write_all(request.as_bytes()).await?;
            let limit = Duration::from_secs(60);
            let length = time::timeout(limit, stream.read(&mut answer)).await??;
            let answer = String::from_utf8_lossy(&answer[..length]);
            println!(
                "{what}: {}",
                answer.lines().next().unwrap_or("the connection was closed")
            );
            assert_eq!(answer.get(9..12), status, "{answer}");
            // `axum::serve` would keep the connection of a client that falls silent.
            let more = time::timeout(limit, stream.read(&mut [0; 1024])).await??;
            assert_eq!(more, 0, "the server closes the connection");
        }
        Ok(())
    })
}
