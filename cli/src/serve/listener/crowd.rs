//! Who is connected: so many in all, so many from one peer. Whoever comes beyond that is let go of at once.

use super::limits::ConnectionLimits;
use crate::clock::Stopwatch;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Crowd {
    limits: ConnectionLimits,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    all: usize,
    by_peer: HashMap<Peer, usize>,
    turned_away: u64,
    last_told: Option<Stopwatch>,
}

/// Who counts as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Peer {
    ThisHost,
    Address(IpAddr),
    /// The first 64 bits of an IPv6 address.
    Network([u16; 4]),
}

/// A connection that is let in, until it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    crowd: Arc<Crowd>,
    peer: Peer,
}

/// A flood is told of in the log, not written into it.
const TELL_EVERY: Duration = Duration::from_secs(10);

impl Crowd {
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        Self { limits, inside: Mutex::default() }
    }

    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Seat> {
        let peer = Peer::of(address);
        let most = match peer {
            Peer::ThisHost => self.limits.of_this_host,
            Peer::Address(_) | Peer::Network(_) => self.limits.of_one_peer,
        };
        let mut inside = self.inside();
        let here = inside.by_peer.get(&peer).copied().unwrap_or_default();
        if inside.all >= self.limits.all || here >= most {
            inside.tell(address, here);
            return None;
        }
        inside.all += 1;
        inside.by_peer.insert(peer, here + 1);
        Some(Seat { crowd: Arc::clone(self), peer })
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn tell(&mut self, address: IpAddr, connections: usize) {
        self.turned_away += 1;
        if self.last_told.is_some_and(|told| told.elapsed() < TELL_EVERY) {
            return;
        }
        let (turned_away, all) = (self.turned_away, self.all);
        tracing::warn!(%address, connections, all, turned_away, "too many connections: further ones are closed at once");
        self.last_told = Some(Stopwatch::start());
    }
}

impl Peer {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            address if address.is_loopback() => Self::ThisHost,
            address @ IpAddr::V4(_) => Self::Address(address),
            IpAddr::V6(address) => Self::Network(network(address)),
        }
    }
}

fn network(address: Ipv6Addr) -> [u16; 4] {
    let [a, b, c, d, ..] = address.segments();
    [a, b, c, d]
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut inside = self.crowd.inside();
        inside.all -= 1;
        if let Some(here) = inside.by_peer.get_mut(&self.peer) {
            *here -= 1;
            if *here == 0 {
                inside.by_peer.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(all: usize, of_one_peer: usize, of_this_host: usize) -> Arc<Crowd> {
        let limits =
            ConnectionLimits { all, of_one_peer, of_this_host, ..ConnectionLimits::within(1_024, 1_024) };
        Arc::new(Crowd::new(limits))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn refuse_24_one_peer_takes_no_more_than_its_own() {
        let crowd = crowd(100, 2, 5);
        let seats: Vec<_> = (0..10).filter_map(|_| crowd.admit(ip("192.0.2.1"))).collect();
        assert_eq!(seats.len(), 2);
        assert!(crowd.admit(ip("192.0.2.2")).is_some());
        assert!(crowd.admit(ip("::ffff:192.0.2.1")).is_none(), "the same address in other words");
        drop(seats);
        assert!(crowd.admit(ip("192.0.2.1")).is_some());
        assert_eq!(crowd.inside().by_peer.len(), 0, "who is gone is forgotten");
    }

    #[test]
    fn refuse_24_of_ipv6_a_network_of_64_bits_counts_as_one() {
        let crowd = crowd(100, 2, 5);
        let _seats =
            [crowd.admit(ip("2001:db8:1:2::1")).unwrap(), crowd.admit(ip("2001:db8:1:2:ffff::")).unwrap()];
        assert!(crowd.admit(ip("2001:db8:1:2::3")).is_none());
        assert!(crowd.admit(ip("2001:db8:1:3::1")).is_some());
    }

    #[test]
    fn refuse_24_this_host_leaves_room_for_others_and_they_for_it() {
        let crowd = crowd(8, 2, 6);
        let here: Vec<_> = (0..10).filter_map(|_| crowd.admit(ip("127.0.0.1"))).collect();
        assert_eq!(here.len(), 6);
        assert!(crowd.admit(ip("::1")).is_none() && crowd.admit(ip("127.0.0.2")).is_none());
        let others: Vec<_> =
            (1..10).filter_map(|last| crowd.admit(IpAddr::from([192, 0, 2, last]))).collect();
        assert_eq!(others.len(), 2, "so many in all");
    }
}
