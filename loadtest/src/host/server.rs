//! The server's threads: one that accepts, and its loops.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use mio::Waker;

use super::acceptor::{Acceptor, Door};
use super::counters::Stats;
use super::event_loop::{Loop, LoopHandle};
use crate::settings::server::HostSettings;

/// A running server. Dropping it stops it.
pub(super) struct Server {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    loops: Vec<LoopHandle>,
    acceptor_waker: Arc<Waker>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Server {
    /// Binds the address and starts the threads.
    pub(super) fn start(settings: HostSettings) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let acceptor = Acceptor::new(Arc::clone(&stop))?;
        let mut server = Self {
            addr: acceptor.listener.local_addr()?,
            stop,
            loops: Vec::new(),
            acceptor_waker: Arc::clone(&acceptor.waker),
            threads: Vec::new(),
        };
        let mut doors = Vec::new();
        for number in 0..settings.loops.max(1) {
            let (sender, arrivals) = mpsc::channel();
            let (event_loop, handle) = Loop::new(settings, arrivals, Arc::clone(&server.stop))?;
            doors.push(Door { sender, waker: Arc::clone(&handle.waker) });
            server.loops.push(handle);
            server.spawn(format!("loop-{number}"), move || event_loop.run())?;
        }
        server.spawn("acceptor".to_owned(), move || acceptor.run(&doors))?;
        Ok(server)
    }

    fn spawn(
        &mut self,
        name: String,
        run: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        self.threads.push(thread::Builder::new().name(name).spawn(run)?);
        Ok(())
    }

    /// The address that clients connect to.
    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What the server has done so far.
    pub(super) fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.loops.iter().for_each(|handle| stats.add(&handle.counters));
        stats
    }

    /// Timers pending on all loops: two per open connection, one without heartbeats.
    pub(super) fn timers(&self) -> usize {
        self.loops.iter().map(|handle| handle.remote.pending()).sum()
    }

    /// Closes every connection and ends the threads; the first error that ended one, if any.
    pub(super) fn stop(mut self) -> io::Result<Stats> {
        self.halt()?;
        Ok(self.stats())
    }

    fn halt(&mut self) -> io::Result<()> {
        // ORDERING: Release: pairs with the loads of the threads, which the wakes below make look.
        self.stop.store(true, Ordering::Release);
        let mut result = self.acceptor_waker.wake();
        for handle in &self.loops {
            result = result.and(handle.waker.wake());
        }
        for thread in self.threads.drain(..) {
            result =
                result.and(thread.join().unwrap_or_else(|_| {
                    Err(io::Error::other("a thread of the server has panicked"))
                }));
        }
        result
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.halt() {
            eprintln!("the server has failed: {error}");
        }
    }
}
