//! quinn's timers.

use crate::engine::{Engine, EngineSleep};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime};
use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tickwheel::Timer;

/// A runtime for quinn's endpoints: sockets and tasks of another one, timers of ours.
///
/// Each connection has one timer, which quinn moves with nearly every packet: it is moved in place, and as a rule the
/// worker is told nothing.
///
/// If the engine takes no timer, because it is stopped or full, the other runtime's own does that connection's work.
///
/// quinn's clock is that of the timers, and not the other runtime's: the one of [`time::Instant`](crate::time::Instant),
/// or with an engine of your own the machine's.
///
/// ```no_run
/// use quinn::{Endpoint, EndpointConfig, TokioRuntime};
/// use std::net::UdpSocket;
/// use std::sync::Arc;
/// use tickwheel_util::QuinnRuntime;
///
/// # async fn listen(config: quinn::ServerConfig) -> std::io::Result<Endpoint> {
/// let socket = UdpSocket::bind("127.0.0.1:4433")?;
/// let runtime = Arc::new(QuinnRuntime::new(TokioRuntime));
/// Endpoint::new(EndpointConfig::default(), Some(config), socket, runtime)
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct QuinnRuntime<R> {
    inner: Arc<R>,
    engine: Engine,
}

impl<R: Runtime> QuinnRuntime<R> {
    /// With timers of the runtime's engine, or the process's; see [`time`](crate::time).
    pub fn new(runtime: R) -> Self {
        Self {
            inner: Arc::new(runtime),
            engine: Engine::Runtimes,
        }
    }

    /// With timers of an engine of your own.
    pub fn on(timer: Timer, runtime: R) -> Self {
        Self {
            inner: Arc::new(runtime),
            engine: Engine::Own(timer),
        }
    }
}

impl<R: Runtime> Runtime for QuinnRuntime<R> {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        let sleep = self.engine.sleep(self.engine.when(deadline));
        Box::pin(QuinnTimer {
            sleep,
            deadline,
            runtime: Arc::clone(&self.inner),
            instead: None,
        })
    }

    #[track_caller]
    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.inner.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        self.inner.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        self.engine.now()
    }
}

/// A connection's timer.
#[derive(Debug)]
struct QuinnTimer<R> {
    sleep: EngineSleep,
    deadline: Instant,
    runtime: Arc<R>,
    /// The other runtime's, if the engine takes none: a timer that is over too early would be asked for ever.
    instead: Option<Pin<Box<dyn AsyncTimer>>>,
}

impl<R: Runtime> AsyncTimer for QuinnTimer<R> {
    fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        self.instead = None;
        self.deadline = deadline;
        let when = self.sleep.when(deadline.into());
        self.sleep.reset(when);
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.instead.is_none() && ready!(self.sleep.poll_sleep(cx)).is_ok() {
            return Poll::Ready(());
        }
        let Self {
            instead,
            runtime,
            deadline,
            ..
        } = &mut *self;
        instead
            .get_or_insert_with(|| runtime.new_timer(*deadline))
            .as_mut()
            .poll(cx)
    }
}
