//! Admission control of connections: limits per peer and address, with eviction of unauthenticated
//! ones.
//!
//! A connection is in handshake, or a stranger's (the handshake is done without an accepted
//! identity), or known. Each kind has a limit of its own. A flood of strangers never keeps a
//! newcomer out. Instead the oldest unauthenticated connection is evicted, from the address that
//! has most of them and from its most frequent kind. So an attacker who opens connections displaces
//! his own.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;
use vfl_protocol::{Refusal, RefusalKind};

use super::identity::PeerIdentity;
use super::limits::ConnectionLimits;

/// The maximum number of evicted connections that are still open. Beyond it, newcomers are closed
/// at once.
const LEAVING: usize = 32;

/// The stage of a connection without an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// In handshake, and no byte was received.
    Silent,
    /// In handshake, and bytes were received.
    Handshake,
    /// The handshake is done without an accepted identity.
    Stranger,
}

#[derive(Debug)]
struct UnauthenticatedConnection {
    address: IpAddr,
    stage: Stage,
    cut: CancellationToken,
}

#[derive(Debug, Default)]
struct ConnectionBook {
    next: u64,
    /// The unauthenticated connections, by age.
    unknown: BTreeMap<u64, UnauthenticatedConnection>,
    of_address: HashMap<IpAddr, usize>,
    known: HashMap<PeerIdentity, usize>,
    known_in_all: usize,
    /// The sockets that are still open, evicted ones included.
    open: usize,
}

impl ConnectionBook {
    fn strike(&mut self, key: u64) -> Option<UnauthenticatedConnection> {
        let entry = self.unknown.remove(&key)?;
        if let Some(count) = self.of_address.get_mut(&entry.address) {
            *count -= 1;
            if *count == 0 {
                self.of_address.remove(&entry.address);
            }
        }
        Some(entry)
    }

    fn write(&mut self, key: u64, entry: UnauthenticatedConnection) {
        *self.of_address.entry(entry.address).or_default() += 1;
        self.unknown.insert(key, entry);
    }

    /// Evicts the oldest connection of the stage with most entries, among these stages and this
    /// address. One kind of flood then displaces itself, and not the connections that make
    /// progress. Returns false if there is none.
    fn drop_oldest(&mut self, stages: &[Stage], address: Option<IpAddr>) -> bool {
        let of = |stage| {
            let ours = move |e: &UnauthenticatedConnection| {
                e.stage == stage && address.is_none_or(|a| a == e.address)
            };
            self.unknown.iter().filter(move |(_, e)| ours(e)).map(|(&key, _)| key)
        };
        let fullest = stages.iter().copied().rev().max_by_key(|&stage| of(stage).count());
        let oldest = fullest.and_then(|stage| of(stage).next());
        let struck = oldest.and_then(|key| self.strike(key));
        if let Some(entry) = &struck {
            entry.cut.cancel();
        }
        struck.is_some()
    }

    /// Evicts a connection of these stages, from the address that has most entries.
    fn make_room(&mut self, stages: &[Stage]) {
        let most = self
            .of_address
            .iter()
            .max_by_key(|(_, n)| **n)
            .filter(|(_, n)| **n > 1)
            .map(|(&address, _)| address);
        if !most.is_some_and(|address| self.drop_oldest(stages, Some(address))) {
            self.drop_oldest(stages, None);
        }
    }

    fn count(&self, stages: &[Stage]) -> usize {
        self.unknown.values().filter(|e| stages.contains(&e.stage)).count()
    }
}

/// The connection table of one listener.
#[derive(Debug)]
pub(super) struct ConnectionTable {
    bounds: ConnectionLimits,
    book: Mutex<ConnectionBook>,
}

/// Returns the address by which a connection is counted. An IPv6 customer can choose any address of
/// a /64, so that the /64 counts as one.
fn account(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let network = v6.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        v4 => v4,
    }
}

impl ConnectionTable {
    pub(super) fn new(bounds: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { bounds, book: Mutex::default() })
    }

    fn book(&self) -> MutexGuard<'_, ConnectionBook> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a new connection, and evicts another one if there is no room. Returns `None` if
    /// too many evicted connections are still open: the newcomer is then closed.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionSlot> {
        use Stage::{Handshake, Silent, Stranger};
        let address = account(address);
        let mut book = self.book();
        if book.open >= self.bounds.all() + LEAVING {
            return None;
        }
        if book.of_address.get(&address).is_some_and(|&n| n >= self.bounds.per_address) {
            book.drop_oldest(&[Silent, Stranger, Handshake], Some(address));
        }
        if book.count(&[Silent, Handshake]) >= self.bounds.handshakes {
            book.make_room(&[Silent, Handshake]);
        }
        let key = book.next;
        book.next += 1;
        book.open += 1;
        let cut = CancellationToken::new();
        book.write(key, UnauthenticatedConnection { address, stage: Silent, cut: cut.clone() });
        drop(book);
        Some(ConnectionSlot { door: self.clone(), key, cut, known: None })
    }

    /// Evicts the oldest connection without an identity, when file descriptors run out.
    pub(super) fn relieve(&self) {
        self.book().make_room(&[Stage::Silent, Stage::Stranger, Stage::Handshake]);
    }
}

/// A connection's entry in the table, which is removed when this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    door: Arc<ConnectionTable>,
    key: u64,
    cut: CancellationToken,
    known: Option<PeerIdentity>,
}

impl ConnectionSlot {
    /// Returns the token that is cancelled when the connection is evicted.
    pub(super) fn cut(&self) -> &CancellationToken {
        &self.cut
    }

    /// Records that the first byte was received.
    pub(super) fn spoke(&self) {
        if let Some(entry) = self.door.book().unknown.get_mut(&self.key)
            && entry.stage == Stage::Silent
        {
            entry.stage = Stage::Handshake;
        }
    }

    /// Records the peer's identity. The connection no longer counts as unauthenticated.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the identity, or all identities together, have reached their limit of
    /// connections.
    pub(super) fn known(&mut self, identity: &PeerIdentity) -> Result<(), Refusal> {
        let mut book = self.door.book();
        let held = book.known.get(identity).copied().unwrap_or(0);
        let full = |message: String| Err(Refusal::new(RefusalKind::ResourceExhausted, message));
        if held >= self.door.bounds.per_peer {
            return full(format!(
                "{} has {held} connections, the most of one peer; close some",
                identity.words()
            ));
        }
        if book.known_in_all >= self.door.bounds.known {
            return full("all connections for peers are taken; try again later".into());
        }
        book.strike(self.key);
        *book.known.entry(identity.clone()).or_default() += 1;
        book.known_in_all += 1;
        drop(book);
        self.known = Some(identity.clone());
        Ok(())
    }

    /// Records that the handshake is done without an accepted identity.
    pub(super) fn stranger(&self) {
        let mut book = self.door.book();
        // The entry is already removed if the connection was evicted at this very moment.
        let Some(mut entry) = book.strike(self.key) else { return };
        if book.count(&[Stage::Stranger]) >= self.door.bounds.strangers {
            book.make_room(&[Stage::Stranger]);
        }
        entry.stage = Stage::Stranger;
        book.write(self.key, entry);
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut book = self.door.book();
        book.open -= 1;
        book.strike(self.key);
        if let Some(identity) = &self.known {
            book.known_in_all -= 1;
            if let Some(count) = book.known.get_mut(identity) {
                *count -= 1;
                if *count == 0 {
                    book.known.remove(identity);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: ConnectionLimits =
        ConnectionLimits { handshakes: 6, strangers: 3, per_address: 4, known: 5, per_peer: 2 };

    fn address(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    fn peer(n: u8) -> PeerIdentity {
        format!("spiffe://demo/active-party/p{n}").parse().unwrap()
    }

    #[test]
    fn the_oldest_silent_connection_makes_room_first() {
        let door = ConnectionTable::new(BOUNDS);
        let spoke = door.enter(address(0)).unwrap();
        spoke.spoke();
        let silent: Vec<ConnectionSlot> =
            (1..=5).map(|n| door.enter(address(n)).unwrap()).collect();
        let newcomer = door.enter(address(9)).unwrap();
        assert!(silent[0].cut().is_cancelled() && !silent[1].cut().is_cancelled());
        assert!(!spoke.cut().is_cancelled() && !newcomer.cut().is_cancelled());
    }

    #[test]
    fn an_address_displaces_its_own_connections() {
        let door = ConnectionTable::new(ConnectionLimits { handshakes: 100, ..BOUNDS });
        let other = door.enter(address(1)).unwrap();
        let flood: Vec<ConnectionSlot> = (0..20).map(|_| door.enter(address(2)).unwrap()).collect();
        assert!(!other.cut().is_cancelled());
        assert_eq!(flood.iter().filter(|p| !p.cut().is_cancelled()).count(), BOUNDS.per_address);
    }

    #[test]
    fn the_most_crowded_address_makes_room_for_the_others() {
        let door = ConnectionTable::new(BOUNDS);
        let others: Vec<ConnectionSlot> = (0..2).map(|n| door.enter(address(n)).unwrap()).collect();
        let crowd: Vec<ConnectionSlot> = (0..4).map(|_| door.enter(address(9)).unwrap()).collect();
        let newcomer = door.enter(address(3)).unwrap();
        assert!(others.iter().chain([&newcomer]).all(|p| !p.cut().is_cancelled()));
        assert!(crowd[0].cut().is_cancelled() && !crowd[1].cut().is_cancelled());
    }

    #[test]
    fn one_ipv6_network_is_one_address() {
        let of = |text: &str| account(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), address(1));
    }

    #[test]
    fn a_peer_is_held_to_its_number_and_strangers_never_take_its_room() {
        let door = ConnectionTable::new(BOUNDS);
        let mut places: Vec<ConnectionSlot> =
            (0..3).map(|n| door.enter(address(n)).unwrap()).collect();
        assert!(places[0].known(&peer(1)).is_ok() && places[1].known(&peer(1)).is_ok());
        assert_eq!(places[2].known(&peer(1)).unwrap_err().kind, RefusalKind::ResourceExhausted);
        let strangers: Vec<ConnectionSlot> = (0..40)
            .filter_map(|n| door.enter(address(n)))
            .inspect(ConnectionSlot::stranger)
            .collect();
        assert!(strangers.len() > BOUNDS.strangers);
        let held = strangers.iter().filter(|p| !p.cut().is_cancelled()).count();
        assert_eq!(held, BOUNDS.strangers);
        drop(strangers);
        assert!(door.enter(address(7)).unwrap().known(&peer(2)).is_ok());
        drop(places.remove(0));
        assert!(
            door.enter(address(7)).unwrap().known(&peer(1)).is_ok(),
            "a closed connection makes room"
        );
    }

    #[derive(Debug, Clone)]
    enum Event {
        Enter(u8),
        Spoke(prop::sample::Index),
        Known(prop::sample::Index, u8),
        Stranger(prop::sample::Index),
        Leave(prop::sample::Index),
    }

    fn event() -> impl Strategy<Value = Event> {
        let any = any::<prop::sample::Index>;
        prop_oneof![
            5 => (0u8..4).prop_map(Event::Enter),
            2 => any().prop_map(Event::Spoke),
            2 => (any(), 0u8..4).prop_map(|(i, n)| Event::Known(i, n)),
            2 => any().prop_map(Event::Stranger),
            2 => any().prop_map(Event::Leave),
        ]
    }

    proptest! {
        /// Whatever happens in whatever order, no kind of connection passes its bound, the counts
        /// agree with the places held, and an empty house is an empty book.
        #[test]
        fn no_bound_is_ever_passed(events in proptest::collection::vec(event(), 0..200)) {
            let door = ConnectionTable::new(BOUNDS);
            let mut places: Vec<ConnectionSlot> = Vec::new();
            for event in events {
                match event {
                    Event::Enter(n) => places.extend(door.enter(address(n))),
                    _ if places.is_empty() => {}
                    Event::Spoke(i) => {
                        let place = i.get(&places);
                        if place.known.is_none() && !place.cut().is_cancelled() { place.spoke(); }
                    }
                    Event::Known(i, n) => {
                        let at = i.index(places.len());
                        if places[at].known.is_none() { let _ = places[at].known(&peer(n)); }
                    }
                    Event::Stranger(i) => if i.get(&places).known.is_none() { i.get(&places).stranger() },
                    // A connection that is told to go goes in its own time, which is here.
                    Event::Leave(i) => drop(places.swap_remove(i.index(places.len()))),
                }
                let book = door.book();
                prop_assert!(book.count(&[Stage::Silent, Stage::Handshake]) <= BOUNDS.handshakes);
                prop_assert!(book.count(&[Stage::Stranger]) <= BOUNDS.strangers);
                prop_assert!(book.known_in_all <= BOUNDS.known);
                prop_assert!(book.known.values().all(|&n| n <= BOUNDS.per_peer));
                prop_assert!(book.of_address.values().all(|&n| n <= BOUNDS.per_address));
                prop_assert_eq!(book.of_address.values().sum::<usize>(), book.unknown.len());
                prop_assert_eq!(book.open, places.len());
                prop_assert!(book.open <= BOUNDS.all() + LEAVING);
            }
            places.clear();
            let book = door.book();
            prop_assert!(book.unknown.is_empty() && book.of_address.is_empty() && book.known.is_empty());
            prop_assert_eq!((book.open, book.known_in_all), (0, 0));
        }
    }
}
