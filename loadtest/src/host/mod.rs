//! The server that `loadtest server` drives, in a process of its own: a TCP echo server that closes idle
//! connections, one `mio` loop per core, each with its own [`EventLoopTimer`](tickwheel::EventLoopTimer).
//!
//! * `serve` - the process: serves until its standard input ends; `protocol` - what it says
//! * `server` - the threads; `acceptor` - deals connections out; `counters` - what the loops count
//! * `event_loop` - one loop; `peers` - its connections and their timers; `connection` - one of them
//!
//! It does what a production server has to:
//!
//! * **Two timers per connection**, one that closes it and one that sends a heartbeat. Every read pushes both
//!   out, which moves nothing in the wheel.
//! * **One clock read per round**, after the sockets have been read. A deadline is therefore counted from a
//!   moment after the bytes were there, and no connection is closed early as seen by its client. A connection
//!   that arrives later in the round gets a clock read of its own.
//! * **The last look.** A connection that comes due is read once more before it is closed, because bytes that
//!   came while the loop was busy count.
//! * **Nobody starves.** A socket is read up to a budget and then waits for the next round; a round serves a
//!   bounded number of sockets and then polls the timer, which has a budget as well.
//! * **Backpressure.** A peer that does not read its echo is not read from; its deadline then runs like that
//!   of a silent one.

mod acceptor;
mod connection;
mod counters;
mod event_loop;
mod peers;
pub(crate) mod protocol;
mod serve;
mod server;

pub(crate) use serve::host;

#[cfg(test)]
mod tests;
