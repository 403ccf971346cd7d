//! The server, by real clients over loopback sockets.
//!
//! Lower bounds are strict: what the client did last, it did before the moment that it remembers, so a connection that
//! is closed less than the timeout after that moment was closed early. Upper bounds leave room for a busy machine.

use super::connection::HEARTBEAT;
use super::server::Server;
use crate::settings::server::HostSettings;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How much longer than necessary anything may take.
const SLACK: Duration = Duration::from_secs(5);
const NEVER: Duration = Duration::ZERO;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn server(idle: Duration, heartbeat: Duration, loops: usize) -> Server {
    Server::start(HostSettings { idle, heartbeat, loops }).unwrap()
}

fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(2 * SLACK)).unwrap();
    stream.set_write_timeout(Some(2 * SLACK)).unwrap();
    stream
}

/// Sends `text` and waits for it to come back; heartbeats that are read on the way.
fn exchange(stream: &mut TcpStream, text: &[u8]) -> usize {
    stream.write_all(text).unwrap();
    let (mut echo, mut heartbeats, mut chunk) = (Vec::new(), 0, [0; 4096]);
    while echo.len() < text.len() {
        let read = stream.read(&mut chunk).unwrap();
        assert_ne!(read, 0, "closed in the middle of an exchange");
        let (beats, bytes): (Vec<u8>, Vec<u8>) =
            chunk[..read].iter().partition(|byte| **byte == HEARTBEAT[0]);
        heartbeats += beats.len();
        echo.extend(bytes);
    }
    assert_eq!(echo, text);
    heartbeats
}

/// Waits for the server to close the connection; what came before that.
fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let (mut came, mut chunk) = (Vec::new(), [0; 64 * 1024]);
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return came,
            Ok(read) => came.extend(&chunk[..read]),
            // A server that has not read everything resets.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return came,
            Err(error) => panic!("the connection is not closed: {error}"),
        }
    }
}

/// Whether the connection is open and has nothing to say.
fn is_open(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let read = stream.read(&mut [0; 16]);
    stream.set_nonblocking(false).unwrap();
    read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < SLACK, "{what} is not true after {SLACK:?}");
        thread::sleep(ms(2));
    }
}

/// Tells the other threads of a test when it is over, also when it fails.
struct TellAtEnd<'a>(&'a AtomicBool);

impl Drop for TellAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A busy machine may make a chatty client a silent one: then with more time to talk.
#[test]
fn a_chatty_client_is_kept_and_a_silent_one_closed_on_time() {
    let told = [ms(700), ms(2_000), ms(6_000)].into_iter().any(chatty_and_silent_ones);
    assert!(told, "the machine is too busy for a client to speak every six seconds");
}

/// False if the chatty client itself was silent for too long.
fn chatty_and_silent_ones(idle: Duration) -> bool {
    let server = server(idle, NEVER, 2);
    let addr = server.addr();
    let chatted = thread::scope(|scope| {
        let chatty = scope.spawn(|| {
            let begun = Instant::now();
            let mut chatty = connect(addr);
            while begun.elapsed() < 2 * idle {
                let pause = Instant::now();
                exchange(&mut chatty, b"still here");
                thread::sleep(ms(40));
                if pause.elapsed() >= idle {
                    return false;
                }
            }
            let last = Instant::now();
            exchange(&mut chatty, b"good bye");
            assert_eq!(until_closed(&mut chatty), b"");
            let silence = last.elapsed();
            assert!(silence >= idle && silence < idle + SLACK, "closed after {silence:?}");
            true
        });
        for word in [&b""[..], b"hello"] {
            scope.spawn(move || {
                let last = Instant::now();
                let mut silent = connect(addr);
                exchange(&mut silent, word);
                assert_eq!(until_closed(&mut silent), b"");
                let silence = last.elapsed();
                assert!(silence >= idle && silence < idle + SLACK, "closed after {silence:?}");
            });
        }
        chatty.join().unwrap()
    });
    if chatted {
        let stats = server.stats();
        assert_eq!((stats.closed_idle, stats.open(), server.timers()), (3, 0, 0));
    }
    chatted
}

/// Says something again and again until `done`; how many of the clients were closed because this thread, on a busy
/// machine, was silent for too long itself.
fn chat(count: usize, addr: SocketAddr, idle: Duration, done: &AtomicBool) -> usize {
    let mut clients: Vec<_> = (0..count).map(|_| (Instant::now(), connect(addr))).collect();
    while !done.load(Ordering::Relaxed) {
        let words: Vec<_> = clients
            .iter_mut()
            .map(|(_, stream)| (Instant::now(), stream.write_all(b"tick").is_ok()))
            .collect();
        let mut words = words.into_iter();
        clients.retain_mut(|(last, stream)| {
            let (said, heard) = words.next().unwrap();
            let mut echo = [0; 4];
            if heard && stream.read_exact(&mut echo).is_ok() {
                assert_eq!(&echo, b"tick");
                *last = said;
                return true;
            }
            assert!(last.elapsed() >= idle, "a chatty client is closed after {:?}", last.elapsed());
            false
        });
        thread::sleep(ms(30));
    }
    clients.retain_mut(|(last, stream)| {
        let open = is_open(stream);
        assert!(open || last.elapsed() >= idle, "closed after {:?}", last.elapsed());
        open
    });
    count - clients.len()
}

#[test]
fn of_hundreds_of_connections_only_the_silent_ones_are_closed() {
    const IDLE: Duration = ms(1000);
    const EACH: usize = 120;
    let server = server(IDLE, NEVER, 2);
    let addr = server.addr();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let chatty = scope.spawn(|| chat(EACH, addr, IDLE, &done));
        let over = TellAtEnd(&done);
        // Since when each is silent, at the earliest.
        let mut silent: Vec<_> = (0..EACH).map(|_| (Instant::now(), connect(addr))).collect();
        let begun = Instant::now();
        while !silent.is_empty() {
            silent.retain_mut(|(since, stream)| {
                let open = is_open(stream);
                let silence = since.elapsed();
                assert!(open || silence >= IDLE, "closed early, after {silence:?}");
                open
            });
            assert!(begun.elapsed() < IDLE + SLACK, "{} are forgotten", silent.len());
            thread::sleep(ms(5));
        }
        eventually("one timer each", || server.timers() as u64 == server.stats().open());
        drop(over);
        let excused = chatty.join().unwrap();
        // A busy machine may have let the chatty ones in only now.
        eventually("all were let in", || server.stats().accepted == 2 * EACH as u64);
        assert_eq!(server.stats().closed_idle, (EACH + excused) as u64);
    });
    eventually("all have left", || server.stats().open() == 0);
    assert_eq!(server.timers(), 0, "closed connections leave no timers");
}

#[test]
fn quiet_peers_get_heartbeats_and_busy_ones_none() {
    const HEARTBEAT_EVERY: Duration = ms(60);
    let server = server(ms(60_000), HEARTBEAT_EVERY, 1);
    let addr = server.addr();
    thread::scope(|scope| {
        scope.spawn(move || {
            let begun = Instant::now();
            let mut quiet = connect(addr);
            for number in 1..=8 {
                let mut beat = [1];
                quiet.read_exact(&mut beat).unwrap();
                assert_eq!(beat, HEARTBEAT);
                assert!(begun.elapsed() >= HEARTBEAT_EVERY * number, "number {number} is early");
            }
            assert!(begun.elapsed() < HEARTBEAT_EVERY * 8 + SLACK);
        });
        scope.spawn(move || {
            let mut busy = connect(addr);
            let mut last = Instant::now();
            for _ in 0..30 {
                thread::sleep(ms(15));
                let sent = Instant::now();
                // A heartbeat on the way to this echo belongs to the silence before it.
                let beats = exchange(&mut busy, b"tick");
                let silence = last.elapsed();
                let deserved = silence.as_nanos() / HEARTBEAT_EVERY.as_nanos();
                assert!(beats as u128 <= deserved, "{beats} heartbeats in {silence:?}");
                last = sent;
            }
        });
    });
    eventually("all heartbeats are counted", || server.stats().heartbeats >= 8);
}

#[test]
fn a_client_that_never_reads_is_stopped_and_closed_and_the_others_do_not_notice() {
    const IDLE: Duration = ms(400);
    let server = server(IDLE, NEVER, 1);
    let addr = server.addr();
    let done = AtomicBool::new(false);
    let excused = thread::scope(|scope| {
        let polite = scope.spawn(|| chat(4, addr, IDLE, &done));
        let over = TellAtEnd(&done);
        let mut deaf = connect(addr);
        let begun = Instant::now();
        deaf.set_nonblocking(true).unwrap();
        let (mut sent, mut last) = (0, Instant::now());
        loop {
            match deaf.write(&[b'x'; 16 * 1024]) {
                Ok(written) => (sent, last) = (sent + written, Instant::now()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(ms(1)),
                Err(_) => break,
            }
            assert!(last.elapsed() < IDLE + SLACK, "a client that never reads is kept");
            assert!(sent < 1 << 30, "nobody stops a client that never reads");
        }
        assert!(begun.elapsed() >= IDLE, "closed early");
        drop(over);
        polite.join().unwrap()
    });
    let stats = server.stats();
    assert_eq!(stats.closed_idle, 1 + excused as u64, "{stats:?}");
}

#[test]
fn a_slow_reader_gets_every_byte_although_it_takes_longer_than_the_timeout() {
    const IDLE: Duration = ms(1000);
    // More than the buffers of two sockets hold, so that the server has to wait for this client.
    const BYTES: usize = 16 << 20;
    const CHUNK: usize = 256 * 1024;
    const PERIOD: usize = 251;
    let server = server(IDLE, NEVER, 1);
    let mut writer = connect(server.addr());
    let mut reader = writer.try_clone().unwrap();
    let bytes: Vec<u8> = (0..CHUNK + PERIOD).map(|at| (at % PERIOD) as u8).collect();
    let bytes = &bytes;
    let begun = Instant::now();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut at = 0;
            while at < BYTES {
                let end = CHUNK.min(BYTES - at);
                writer.write_all(&bytes[at % PERIOD..][..end]).unwrap();
                at += end;
            }
            // The server still owes the rest of the echo.
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let (mut at, mut chunk) = (0, vec![0; CHUNK]);
        loop {
            let read = reader.read(&mut chunk).unwrap();
            if read == 0 {
                break;
            }
            assert!(chunk[..read] == bytes[at % PERIOD..][..read], "garbled after {at} bytes");
            at += read;
            assert!(begun.elapsed() < IDLE + 2 * SLACK, "stuck after {at} bytes");
            thread::sleep(ms(20));
        }
        assert_eq!(at, BYTES, "closed by the server: {:?}", server.stats());
    });
    assert!(begun.elapsed() > IDLE, "the reader was not slow");
    eventually("the connection is closed", || server.stats().closed_by_peer == 1);
    assert_eq!((server.stats().echoed, server.timers()), (BYTES as u64, 0));
}

#[test]
fn sockets_and_timers_compete_and_neither_starves() {
    const IDLE: Duration = ms(1000);
    const SILENT: usize = 150;
    // 150 connections with a heartbeat every 5 ms: 30 000 alarms a second beside two floods of echo, on one loop.
    let server = server(IDLE, ms(5), 1);
    let addr = server.addr();
    let done = AtomicBool::new(false);
    let flooded: [AtomicU64; 2] = Default::default();
    thread::scope(|scope| {
        for counter in &flooded {
            let mut writer = connect(addr);
            let mut reader = writer.try_clone().unwrap();
            scope.spawn(move || while writer.write_all(&[b'x'; 32 * 1024]).is_ok() {});
            let done = &done;
            scope.spawn(move || {
                let mut chunk = vec![0; 128 * 1024];
                while !done.load(Ordering::Relaxed) {
                    let read = reader.read(&mut chunk).unwrap();
                    assert_ne!(read, 0, "a flood is not idle");
                    counter.fetch_add(read as u64, Ordering::Relaxed);
                }
                reader.shutdown(Shutdown::Both).unwrap();
            });
        }
        let _over = TellAtEnd(&done);
        let mut beats = [0usize; SILENT];
        let flood = || flooded.each_ref().map(|counter| counter.load(Ordering::Relaxed));
        let mut silent: Vec<_> =
            (0..SILENT).map(|_| (Instant::now(), Some(connect(addr)))).collect();
        let (begun, before) = (Instant::now(), flood());
        let mut open = SILENT;
        while open > 0 {
            thread::sleep(ms(100));
            for (number, (since, slot)) in silent.iter_mut().enumerate() {
                let Some(stream) = slot else { continue };
                let mut chunk = [0; 4096];
                stream.set_nonblocking(true).unwrap();
                match stream.read(&mut chunk) {
                    Ok(0) => {
                        assert!(since.elapsed() >= IDLE, "closed early");
                        (*slot, open) = (None, open - 1);
                    }
                    Ok(read) => beats[number] += read,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
            }
            assert!(begun.elapsed() < IDLE + SLACK, "{open} silent connections are forgotten");
        }
        // A second has passed.
        assert!(beats.iter().all(|beats| *beats > 0), "heartbeats starved: {beats:?}");
        let after = flood();
        assert!(before[0] < after[0] && before[1] < after[1], "a flood starved: {after:?}");
    });
    assert_eq!(server.stats().closed_idle, SILENT as u64);
}

#[test]
fn stopping_closes_every_connection() {
    let server = server(ms(60_000), NEVER, 2);
    let mut clients: Vec<_> = (0..10).map(|_| connect(server.addr())).collect();
    for client in &mut clients {
        exchange(client, b"hello");
    }
    let stats = server.stop().unwrap();
    assert_eq!((stats.accepted, stats.closed_idle), (10, 0));
    for client in &mut clients {
        assert_eq!(until_closed(client), b"");
    }
}
