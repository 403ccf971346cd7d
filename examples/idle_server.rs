//! A TCP echo server that closes idle connections: one `mio` loop, one `EventLoopTimer`, one timer per
//! connection that every read pushes out.
//!
//! ```text
//! cargo run --example idle_server                     a demonstration of two seconds
//! cargo run --example idle_server -- 127.0.0.1:7777   a server, until it is interrupted
//! ```
//!
//! What a production server adds (backpressure, read budgets, several loops, heartbeats) is in
//! `loadtest/src/host`.

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Registry, Token};
use std::collections::HashMap;
use std::error::Error;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tickwheel::{EventLoopTimer, Key, Settings, Time};

/// A connection on which nothing arrived for this long is closed.
const IDLE: Duration = Duration::from_secs(1);

const LISTENER: Token = Token(0);
const TIMER: Token = Token(1);

struct Connection {
    stream: TcpStream,
    /// Names the timer that closes it.
    idle: Key<Token>,
}

struct Server {
    listener: TcpListener,
    timer: EventLoopTimer<Token>,
    connections: HashMap<Token, Connection>,
    /// Tokens are never used twice, so no alarm meets the next connection.
    next: usize,
}

fn serve(mut listener: TcpListener) -> Result<(), Box<dyn Error>> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(256);
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let timer = Settings::new().build_with_mio(poll.registry(), TIMER)?;
    let mut server = Server { listener, timer, connections: HashMap::new(), next: 2 };
    loop {
        let timeout = server.timer.poll_timeout(server.timer.now());
        match poll.poll(&mut events, timeout) {
            // A signal, such as Ctrl-Z and `fg`: an empty round.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            polled => polled?,
        }
        // Sockets first: bytes that have arrived beat a timeout of the same round.
        for event in &events {
            match event.token() {
                LISTENER => server.accept(poll.registry())?,
                TIMER => {}
                token => server.echo(token),
            }
        }
        let now = server.timer.now();
        let connections = &mut server.connections;
        // If more is due than one call may fire, the next timeout is zero.
        server.timer.poll(now, |expired| {
            println!("closing connection {} after {IDLE:?} of silence", expired.payload.0);
            // Dropping the stream closes it and takes it out of the poll.
            connections.remove(&expired.payload);
        });
    }
}

impl Server {
    fn accept(&mut self, registry: &Registry) -> Result<(), Box<dyn Error>> {
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The client has gone again, or there is no descriptor left for it.
                Err(error) => {
                    eprintln!("a connection is lost: {error}");
                    return Ok(());
                }
            };
            let token = Token(self.next);
            self.next += 1;
            registry.register(&mut stream, token, Interest::READABLE)?;
            let idle = self.timer.schedule(self.timer.now(), IDLE, token)?;
            self.connections.insert(token, Connection { stream, idle });
        }
    }

    /// Echoes what has arrived, and gives the connection another [`IDLE`] of time.
    fn echo(&mut self, token: Token) {
        // It may have been closed since the event.
        let Some(connection) = self.connections.get_mut(&token) else { return };
        match echo_all(&mut connection.stream) {
            Ok(true) => {
                let now: Time = self.timer.now();
                self.timer.reschedule(now, connection.idle, IDLE);
            }
            // The client has hung up, is broken, or does not take its echo.
            Ok(false) | Err(_) => {
                self.timer.cancel(connection.idle);
                self.connections.remove(&token);
            }
        }
    }
}

/// Echoes until there is no more to read; `false` at the end of the stream.
fn echo_all(stream: &mut TcpStream) -> io::Result<bool> {
    let mut chunk = [0; 4096];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return Ok(false),
            Ok(read) => stream.write_all(&chunk[..read])?,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    if let Some(address) = std::env::args().nth(1).and_then(|text| text.parse().ok()) {
        return serve(TcpListener::bind(address)?);
    }
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || serve(listener).map_err(|error| eprintln!("{error}")));
    // A client that talks for half a second and then falls silent.
    let mut client = std::net::TcpStream::connect(address)?;
    let mut last = Instant::now();
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(100));
        last = Instant::now();
        client.write_all(b"hello")?;
        client.read_exact(&mut [0; 5])?;
    }
    assert_eq!(client.read(&mut [0; 5])?, 0, "the server closes the connection");
    println!("the client was closed {:?} after its last word", last.elapsed());
    assert!(last.elapsed() >= IDLE, "never early");
    Ok(())
}
