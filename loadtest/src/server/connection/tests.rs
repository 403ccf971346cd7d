//! A connection against a server that the test plays itself.

use std::net::{TcpListener, TcpStream as StdStream};

use super::*;

const RULES: Rules = Rules { idle: Duration::from_secs(2), grace: Duration::from_secs(5) };

/// A connection of this kind, and the server's end of it.
fn connected(kind: Kind) -> (Connection, StdStream, Desk) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let name = Name { client: 0, slot: 3, life: 1 };
    let address = listener.local_addr().unwrap();
    let mut connection = Connection::open(address, None, kind, name).unwrap();
    let server = listener.accept().unwrap().0;
    while !connection.establish(Instant::now()).unwrap() {}
    (connection, server, Desk::new(RULES))
}

/// Lets the client say something; what the server gets.
fn said(connection: &mut Connection, server: &mut StdStream, desk: &mut Desk) -> Vec<u8> {
    assert_eq!(connection.say(100, desk), Standing::Open);
    let mut heard = vec![0; 100];
    server.read_exact(&mut heard).unwrap();
    heard
}

/// Lets the client read until it has got `bytes` or the end.
fn receive(connection: &mut Connection, desk: &mut Desk, bytes: u64) -> Standing {
    let before = desk.bytes;
    while desk.bytes < before + bytes {
        if connection.receive(desk) == Standing::Closed {
            return Standing::Closed;
        }
    }
    connection.receive(desk)
}

#[test]
fn an_echo_with_heartbeats_is_intact_and_measured() {
    let (mut connection, mut server, mut desk) = connected(Kind::Chatty);
    let heard = said(&mut connection, &mut server, &mut desk);
    server.write_all(&[0]).unwrap();
    server.write_all(&heard[..40]).unwrap();
    server.write_all(&[0]).unwrap();
    server.write_all(&heard[40..]).unwrap();
    assert_eq!(receive(&mut connection, &mut desk, 102), Standing::Open);
    let figures = desk.tally.of(Kind::Chatty);
    assert_eq!((figures.echoed, figures.heartbeats, figures.round_trip.len()), (100, 2, 1));
    assert_eq!(desk.tally.evidence.count(Fault::Corrupt), 0);
}

#[test]
fn a_forged_echo_is_found_once() {
    let (mut connection, mut server, mut desk) = connected(Kind::Fading);
    let mut heard = said(&mut connection, &mut server, &mut desk);
    heard[17] ^= 0x40;
    heard.extend([9, 9]);
    server.write_all(&heard).unwrap();
    assert_eq!(receive(&mut connection, &mut desk, 102), Standing::Open);
    let lines = desk.tally.evidence.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("fading connection 0:3#1 from 127.0.0.1:"), "{lines:?}");
    assert!(lines[0].contains("byte 17 of the echo"), "{lines:?}");
}

#[test]
fn a_close_with_echo_missing_is_found() {
    let (mut connection, mut server, mut desk) = connected(Kind::Fading);
    let heard = said(&mut connection, &mut server, &mut desk);
    server.write_all(&heard[..60]).unwrap();
    drop(server);
    assert_eq!(receive(&mut connection, &mut desk, 61), Standing::Closed);
    let in_time = Instant::now() + RULES.idle;
    connection.closed(in_time, &mut desk);
    assert_eq!(desk.tally.evidence.count(Fault::Corrupt), 1);
    assert!(desk.tally.evidence.lines()[0].contains("40 bytes of echo missing"));
}

#[test]
fn a_forged_close_of_a_chatty_connection_is_early() {
    let (mut connection, server, mut desk) = connected(Kind::Chatty);
    drop(server);
    assert_eq!(receive(&mut connection, &mut desk, 1), Standing::Closed);
    connection.closed(Instant::now(), &mut desk);
    assert_eq!(desk.tally.evidence.count(Fault::Early), 1);
    assert_eq!(desk.tally.of(Kind::Chatty).closed, 1);
}

#[test]
fn a_half_open_connection_says_no_more_than_the_buffers_hold() {
    let (mut connection, _server, mut desk) = connected(Kind::HalfOpen);
    while !connection.has_talked_enough(Instant::now()) {
        assert_eq!(connection.say(5000, &mut desk), Standing::Open);
    }
    assert_eq!(desk.tally.of(Kind::HalfOpen).sent, HALF_OPEN_MOST);
}

#[test]
fn a_flood_ends_when_nothing_goes_any_more() {
    let (mut connection, _server, mut desk) = connected(Kind::Flooding);
    while connection.flood(&mut desk).is_none() {}
    assert!(desk.tally.of(Kind::Flooding).sent > 0);
    connection.left_open(Instant::now() + RULES.idle + 2 * RULES.grace, &mut desk);
    assert_eq!(desk.tally.evidence.count(Fault::Forgotten), 1);
}
