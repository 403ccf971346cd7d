//! A TCP echo server that closes idle connections: one `mio` loop, one `LocalTimer`, one timer per connection that every
//! read pushes out. The loop arms all its timers itself; `event_loop` shows one in which other threads do, too.
//!
//! ```text
//! cargo run --example idle_server                     a demonstration of two seconds
//! cargo run --example idle_server -- 127.0.0.1:7777   a server, until it is interrupted
//! ```
//!
//! A production server also bounds what it reads from one client in a round, and queues what a slow client does not take.
//! `loadtest/src/server/host.rs` has one loop per core, and checks a socket a last time before it closes it.

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Registry, Token};
use std::collections::HashMap;
use std::error::Error;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use tickwheel::{Expired, LocalTimer, MonotonicClock};

/// A connection on which nothing arrived for this long is closed.
const IDLE: Duration = Duration::from_secs(1);

/// A listener that has no descriptor for a client, for example, is tried again after this long.
const PAUSE: Duration = Duration::from_millis(100);

const LISTENER: Token = Token(0);

fn serve(mut listener: TcpListener) -> Result<(), Box<dyn Error>> {
    let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(256));
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut timer = LocalTimer::new(Duration::from_millis(1))?;
    let clock = MonotonicClock::new();
    // Streams, and the keys of the timers that close them.
    let mut connections = HashMap::new();
    // Tokens are never used twice, so no timer meets the next connection.
    let mut tokens = (1..).map(Token);
    let mut now = clock.now();
    loop {
        match poll.poll(&mut events, timer.poll_timeout(now)) {
            // A signal, such as Ctrl-Z and `fg`: an empty round.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            polled => polled?,
        }
        // Sockets first: bytes that have arrived beat a timeout of the same round. Their timers wait for the one reading
        // of the clock that comes after them.
        let (mut opened, mut heard, mut failed) = (Vec::new(), Vec::new(), false);
        for token in events.iter().map(|event| event.token()) {
            if token == LISTENER {
                failed = accept(&listener, poll.registry(), &mut tokens, &mut opened)?;
            }
            // The listener is none, and this one may have been closed since the event.
            let Some((stream, idle)) = connections.get_mut(&token) else {
                continue;
            };
            if matches!(echo(stream), Ok(true)) {
                heard.push(*idle);
            } else {
                // The client has hung up, is broken, or does not take its echo.
                timer.cancel(*idle);
                connections.remove(&token);
            }
        }
        now = clock.now();
        for (token, stream) in opened {
            let idle = timer.schedule(now, IDLE, token)?;
            connections.insert(token, (stream, idle));
        }
        for idle in heard {
            timer.reschedule(now, idle, IDLE);
        }
        if failed {
            // mio reports waiting clients once, and again when the listener comes back.
            poll.registry().deregister(&mut listener)?;
            timer.schedule(now, PAUSE, LISTENER)?;
        }
        let mut resumed = false;
        // If more is due than one call may fire, the next timeout is zero.
        timer.poll(now, |Expired { payload, .. }| {
            if payload == LISTENER {
                resumed = true;
                return;
            }
            println!("closing connection {} after {IDLE:?} of silence", payload.0);
            // Dropping the stream closes it and takes it out of the poll.
            connections.remove(&payload);
        });
        if resumed {
            poll.registry()
                .register(&mut listener, LISTENER, Interest::READABLE)?;
        }
    }
}

/// Accepts and registers the clients that wait; whether it failed, so that some may still wait.
fn accept(
    listener: &TcpListener,
    registry: &Registry,
    tokens: &mut impl Iterator<Item = Token>,
    opened: &mut Vec<(Token, TcpStream)>,
) -> Result<bool, Box<dyn Error>> {
    loop {
        match listener.accept() {
            Ok((mut stream, _)) => {
                let token = tokens.next().ok_or("there are no more tokens")?;
                registry.register(&mut stream, token, Interest::READABLE)?;
                opened.push((token, stream));
            }
            Err(error) => return Ok(error.kind() != ErrorKind::WouldBlock),
        }
    }
}

/// Echoes until there is no more to read; `false` at the end of the stream.
fn echo(stream: &mut TcpStream) -> io::Result<bool> {
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
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0).into())?;
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
    assert_eq!(
        client.read(&mut [0; 5])?,
        0,
        "the server closes the connection"
    );
    println!(
        "the client was closed {:?} after its last word",
        last.elapsed()
    );
    assert!(last.elapsed() >= IDLE, "never early");
    Ok(())
}
