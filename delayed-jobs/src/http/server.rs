//! Connections: hyper speaks HTTP on them, and tickwheel's timers end those whose clients take too long.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tickwheel_util::{HyperTimer, time};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::LAST;
use crate::settings::Settings;

/// How long the node waits after it failed to accept a client.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a client may take. `guard` limits the request itself.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// From the connection to the end of its first header.
    header: Duration,
    /// From an answer to the end of the next header, and from one part of an answer that the client takes to the next.
    idle: Duration,
}

impl Limits {
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            header: settings.header_timeout,
            idle: settings.idle_timeout,
        }
    }
}

/// Serves until `end` is ready, and for at most [`LAST`] longer if requests are under way then.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    end: impl Future<Output = ()>,
) {
    let (open, mut end) = (GracefulShutdown::new(), pin!(end));
    let mut builder = http1::Builder::new();
    builder
        .timer(HyperTimer::new())
        .header_read_timeout(limits.idle);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut end => break,
        };
        let Ok((stream, _)) = accepted else {
            // The client has gone, or there is no descriptor for it. The next one may have more luck.
            time::sleep(PAUSE).await;
            continue;
        };
        let asked = Arc::new(Notify::new());
        let asks = Arc::clone(&asked);
        let service = TowerToHyperService::new(router.clone());
        let service = service_fn(move |request| {
            asks.notify_one();
            service.call(request)
        });
        let stream = TokioIo::new(Reader::new(stream, limits.idle));
        let served = open.watch(builder.serve_connection(stream, service));
        tokio::spawn(attend(served, asked, limits.header));
    }
    drop(listener);
    let _ = time::timeout(LAST, open.shutdown()).await;
}

/// Serves a connection to its end, unless it has not asked for anything within `limit`.
async fn attend(served: impl Future, asked: Arc<Notify>, limit: Duration) {
    let mut served = pin!(served);
    let first = tokio::select! {
        _ = &mut served => return,
        first = time::timeout(limit, asked.notified()) => first,
    };
    if first.is_ok() {
        served.await;
    }
}

/// A client that must go on reading: a write that waits for it for longer than `limit` is an error.
struct Reader {
    stream: TcpStream,
    limit: Duration,
    /// Since when a write waits.
    waits: Option<Pin<Box<time::Sleep>>>,
}

impl Reader {
    fn new(stream: TcpStream, limit: Duration) -> Self {
        Self {
            stream,
            limit,
            waits: None,
        }
    }

    /// Judges a write that has or has not taken place.
    fn judge(
        &mut self,
        cx: &mut Context<'_>,
        write: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if write.is_ready() {
            self.waits = None;
            return write;
        }
        let waits = self
            .waits
            .get_or_insert_with(|| Box::pin(time::sleep(self.limit)));
        ready!(waits.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Reader {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(cx, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.judge(cx, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
