//! How many connections there may be, and how long one may say nothing.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectionLimits {
    /// Connections in all.
    pub(super) all: usize,
    /// Connections from one address; of IPv6, from one network of 64 bits, which is what one customer gets.
    pub(super) of_one_peer: usize,
    /// Connections from this very host. Its agents, its jobs and a proxy in front of this server all come from one address: they may be
    /// many, but not so many that nobody else finds room.
    pub(super) of_this_host: usize,
    pub(super) tls_handshake: Duration,
    /// From the connection to its first byte.
    pub(super) first_byte: Duration,
    /// From a head's first byte to its last.
    pub(super) head: Duration,
    /// From an answer to the next request's first byte. Longer than what proxies keep a connection for.
    pub(super) idle: Duration,
    /// Requests on one HTTP/2 connection.
    pub(super) streams: u32,
    /// An HTTP/2 connection is asked so often whether it is there, and has so long to answer.
    pub(super) ping: Duration,
    pub(super) pong: Duration,
}

const CONNECTIONS: usize = 16_384;
/// Of the files that this process may have open, this part is for all else: the ledger, agents that are started, calls to others.
const KEPT_FREE: (usize, usize) = (1, 4);

impl ConnectionLimits {
    /// With at most so many files open. One address has at most a quarter of all, however many it may have.
    pub(super) fn within(open_files: usize, of_one_peer: usize) -> Self {
        let (part, of) = KEPT_FREE;
        let all = CONNECTIONS.min(open_files / of * (of - part)).max(1);
        Self {
            all,
            of_one_peer: of_one_peer.min((all / 4).max(1)),
            of_this_host: all / 4 * 3,
            tls_handshake: Duration::from_secs(10),
            first_byte: Duration::from_secs(10),
            head: Duration::from_secs(15),
            idle: Duration::from_secs(75),
            streams: 64,
            ping: Duration::from_secs(20),
            pong: Duration::from_secs(10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_rest() {
        for (open_files, all, of_one_peer) in
            [(256, 192, 48), (1_024, 768, 192), (20_000, 15_000, 1_024), (1_048_576, 16_384, 1_024)]
        {
            let limits = ConnectionLimits::within(open_files, 1_024);
            assert_eq!((limits.all, limits.of_one_peer), (all, of_one_peer));
            assert!(limits.of_this_host < all, "{limits:?}");
        }
        assert_eq!(ConnectionLimits::within(usize::MAX, 1_024).all, 16_384);
        assert_eq!(ConnectionLimits::within(usize::MAX, 100_000).of_one_peer, 4_096);
    }
}
