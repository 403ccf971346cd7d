//! How many connections one process may hold. Ground: knows no other room.

use std::net::Ipv4Addr;

/// Descriptors that are not connections: standard streams, the pipes between the processes, a poll and a
/// waker per loop, files that are open for a moment.
const RESERVED: u64 = 64;
const RESERVED_PER_LOOP: u64 = 4;

/// Connections from one source address: fewer than the 28 232 ephemeral ports that Linux has by default,
/// because the search for a free one gets slow when few are left.
const PER_ADDRESS: usize = 12_000;

/// Raises the limit of open files as far as this process may; the limit then, `None` where none is known.
#[cfg(unix)]
pub(crate) fn raise_open_files() -> Option<u64> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => Some(hard),
        Err(_) => Some(soft),
    }
}

/// Other systems have no such limit.
#[cfg(not(unix))]
pub(crate) fn raise_open_files() -> Option<u64> {
    None
}

/// Connections that fit under the limit beside everything else, at most `wanted`.
pub(crate) fn connections(wanted: usize, open_files: Option<u64>, loops: usize) -> usize {
    let Some(limit) = open_files else { return wanted };
    let others = RESERVED + RESERVED_PER_LOOP * loops as u64;
    let room = usize::try_from(limit.saturating_sub(others)).unwrap_or(usize::MAX);
    wanted.min(room)
}

/// Addresses for the clients, so many that none runs out of ports. Empty: whatever the system chooses.
pub(crate) fn sources(connections: usize) -> Vec<Ipv4Addr> {
    if connections <= PER_ADDRESS {
        return Vec::new();
    }
    let addresses = connections.div_ceil(PER_ADDRESS).min(250) as u8;
    (1..=addresses).map(|last| Ipv4Addr::new(127, 0, 0, last)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_everything_else() {
        assert_eq!(connections(10_000, Some(20_000), 2), 10_000);
        assert_eq!(connections(10_000, Some(1024), 2), 1024 - 64 - 8);
        assert_eq!(connections(10_000, Some(10), 2), 0);
        assert_eq!(connections(10_000, None, 2), 10_000);
    }

    #[test]
    fn many_connections_come_from_several_addresses() {
        assert!(sources(10_000).is_empty());
        let two = [Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 2)];
        assert_eq!(sources(19_000), two);
    }
}
