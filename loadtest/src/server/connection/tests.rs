//! A connection against a server that the test plays itself.

use std::net::{TcpListener, TcpStream as StdStream};

use super::*;

const RULES: Rules = Rules { idle: Duration::from_secs(2), grace: Duration::from_secs(5) };

/// A connection of this kind, and the server's end of it.
fn connected(kind: Kind) -> (Connection, StdStream, Shared) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let name = Name { client: 0, slot: 3, life: 1 };
    let address = listener.local_addr().unwrap();
    let mut connection = Connection::open(address, None, kind, name).unwrap();
    let server = listener.accept().unwrap().0;
    while !connection.establish(Instant::now()).unwrap() {}
    (connection, server, Shared::new(RULES))
}

/// Lets the client say something; what the server gets.
fn said(connection: &mut Connection, server: &mut StdStream, shared: &mut Shared) -> Vec<u8> {
    assert_eq!(connection.say(100, shared), Standing::Open);
    let mut heard = vec![0; 100];
    server.read_exact(&mut heard).unwrap();
    heard
}

/// Lets the client read until it has got `bytes` or the end.
fn receive(connection: &mut Connection, shared: &mut Shared, bytes: u64) -> Standing {
    let before = shared.bytes;
    while shared.bytes < before + bytes {
        if connection.receive(shared) == Standing::Closed {
            return Standing::Closed;
        }
    }
    connection.receive(shared)
}

#[test]
fn an_echo_with_heartbeats_is_intact_and_measured() {
    let (mut connection, mut server, mut shared) = connected(Kind::Chatty);
    let heard = said(&mut connection, &mut server, &mut shared);
    server.write_all(&[0]).unwrap();
    server.write_all(&heard[..40]).unwrap();
    server.write_all(&[0]).unwrap();
    server.write_all(&heard[40..]).unwrap();
    assert_eq!(receive(&mut connection, &mut shared, 102), Standing::Open);
    let figures = shared.totals.of(Kind::Chatty);
    assert_eq!((figures.echoed, figures.heartbeats, figures.round_trip.len()), (100, 2, 1));
    assert_eq!(shared.totals.findings.count(Fault::Corrupt), 0);
}

#[test]
fn a_forged_echo_is_found_once() {
    let (mut connection, mut server, mut shared) = connected(Kind::Fading);
    let mut heard = said(&mut connection, &mut server, &mut shared);
    heard[17] ^= 0x40;
    heard.extend([9, 9]);
    server.write_all(&heard).unwrap();
    assert_eq!(receive(&mut connection, &mut shared, 102), Standing::Open);
    let lines = shared.totals.findings.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("fading connection 0:3#1 from 127.0.0.1:"), "{lines:?}");
    assert!(lines[0].contains("byte 17 of the echo"), "{lines:?}");
}

#[test]
fn a_close_with_echo_missing_is_found() {
    let (mut connection, mut server, mut shared) = connected(Kind::Fading);
    let heard = said(&mut connection, &mut server, &mut shared);
    server.write_all(&heard[..60]).unwrap();
    drop(server);
    assert_eq!(receive(&mut connection, &mut shared, 61), Standing::Closed);
    let in_time = Instant::now() + RULES.idle;
    connection.closed(in_time, &mut shared);
    assert_eq!(shared.totals.findings.count(Fault::Corrupt), 1);
    assert!(shared.totals.findings.lines()[0].contains("40 bytes of echo missing"));
}

#[test]
fn a_forged_close_of_a_chatty_connection_is_early() {
    let (mut connection, server, mut shared) = connected(Kind::Chatty);
    drop(server);
    assert_eq!(receive(&mut connection, &mut shared, 1), Standing::Closed);
    connection.closed(Instant::now(), &mut shared);
    assert_eq!(shared.totals.findings.count(Fault::Early), 1);
    assert_eq!(shared.totals.of(Kind::Chatty).closed, 1);
}

#[test]
fn a_half_open_connection_says_no_more_than_the_buffers_hold() {
    let (mut connection, _server, mut shared) = connected(Kind::HalfOpen);
    while !connection.has_talked_enough(Instant::now()) {
        assert_eq!(connection.say(5000, &mut shared), Standing::Open);
    }
    assert_eq!(shared.totals.of(Kind::HalfOpen).sent, HALF_OPEN_MOST);
}

#[test]
fn a_flood_ends_when_nothing_goes_any_more() {
    let (mut connection, _server, mut shared) = connected(Kind::Flooding);
    while connection.flood(&mut shared).is_none() {}
    assert!(shared.totals.of(Kind::Flooding).sent > 0);
    connection.left_open(Instant::now() + RULES.idle + 2 * RULES.grace, &mut shared);
    assert_eq!(shared.totals.findings.count(Fault::Forgotten), 1);
}
