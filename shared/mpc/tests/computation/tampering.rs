//! Parties in threads whose links change a message.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rand::Rng;
use vfl_mpc::{Link, LinkError, MemoryLink, MpcError, PartyIndex, Session, connect_in_memory};

use super::CONTEXT;

/// The time after which a party that waits for a message is taken to hang.
pub(crate) const SILENCE: Duration = Duration::from_secs(20);

/// The changes of a message that keep its length, and those that do not. A number is 8 bytes where
/// a message's length is a multiple of 8, and one byte elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    /// The lowest bit of every number is flipped.
    Lowest,
    /// Bit 41 of every number of 8 bytes is flipped (2 in a logit), bit 4 of every byte elsewhere.
    Middle,
    /// The highest bit of every number is flipped.
    Highest,
    /// All bytes are random.
    Random,
    /// The message before is sent again in its place.
    Repeated,
    Shortened,
    Empty,
    /// The lowest bit of the first byte is flipped, and nothing else.
    First,
    /// So much is added to every number of 8 bytes.
    Added(u64),
}

impl Change {
    fn of(self, message: &[u8], before: &[u8]) -> Vec<u8> {
        let mut message = message.to_vec();
        let mut flip = |byte: usize, bit: u8, other: u8| match message.len() % 8 {
            0 => message.chunks_exact_mut(8).for_each(|number| number[byte] ^= bit),
            _ => message.iter_mut().for_each(|byte| *byte ^= other),
        };
        match self {
            Self::Lowest => flip(0, 1, 1),
            Self::Middle => flip(5, 2, 16),
            Self::Highest => flip(7, 128, 128),
            Self::Random => rand::rng().fill_bytes(&mut message),
            Self::Repeated => message = before.to_vec(),
            Self::Shortened => drop(message.pop()),
            Self::Empty => message.clear(),
            Self::First => message.iter_mut().take(1).for_each(|byte| *byte ^= 1),
            Self::Added(offset) => message.as_chunks_mut().0.iter_mut().for_each(|number| {
                *number = u64::from_le_bytes(*number).wrapping_add(offset).to_le_bytes();
            }),
        }
        message
    }
}

/// A direction of messages: the sender, the receiver, and true for messages beside the session's.
pub(crate) type Way = (usize, usize, bool);

/// The message of a way that is changed, from 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deviation {
    pub(crate) way: Way,
    pub(crate) at: usize,
    pub(crate) change: Change,
}

/// The messages sent on each way.
#[derive(Default)]
pub(crate) struct Counts([AtomicUsize; 32]);

impl Counts {
    fn at(&self, (from, to, beside): Way) -> &AtomicUsize {
        &self.0[16 * usize::from(beside) + 4 * from + to]
    }

    pub(crate) fn of(&self, way: Way) -> usize {
        self.at(way).load(Ordering::Relaxed)
    }
}

/// A link on which one message is changed.
struct TamperingLink {
    link: MemoryLink,
    way: Way,
    before: Vec<u8>,
    deviation: Option<Deviation>,
    counts: Arc<Counts>,
}

impl Link for TamperingLink {
    fn send(&mut self, message: Vec<u8>) -> Result<(), LinkError> {
        let at = self.counts.at(self.way).fetch_add(1, Ordering::Relaxed);
        let before = std::mem::replace(&mut self.before, message.clone());
        let changed = match self.deviation {
            Some(Deviation { way, at: there, change }) if (way, there) == (self.way, at) => {
                change.of(&message, &before)
            }
            _ => message,
        };
        self.link.send(changed)
    }

    fn receive(&mut self) -> Result<Vec<u8>, LinkError> {
        self.link.receive()
    }
}

/// One place's links beside those of the session, by the other place.
pub(crate) struct SideLinks(Vec<(usize, TamperingLink)>);

impl SideLinks {
    fn link(&mut self, other: usize) -> &mut TamperingLink {
        &mut self.0.iter_mut().find(|(to, _)| *to == other).unwrap().1
    }

    pub(crate) fn send(&mut self, to: usize, message: Vec<u8>) -> Result<(), MpcError> {
        self.link(to).send(message).map_err(closed)
    }

    pub(crate) fn receive(&mut self, from: usize) -> Result<Vec<u8>, MpcError> {
        self.link(from).receive().map_err(closed)
    }

    pub(crate) fn receive_words(&mut self, from: usize) -> Result<Vec<u64>, MpcError> {
        let word = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().unwrap());
        Ok(self.receive(from)?.chunks_exact(8).map(word).collect())
    }
}

/// The failure of a link beside the session's, whose other end does not matter.
fn closed(error: LinkError) -> MpcError {
    MpcError::Link { party: PartyIndex::FIRST, error }
}

/// The part of a computing party, and that of a data owner that does not compute. They return what
/// the party learns.
pub(crate) type Part =
    Arc<dyn Fn(&mut Session, &mut SideLinks) -> Result<Vec<f64>, MpcError> + Send + Sync>;
pub(crate) type OutsidePart =
    Arc<dyn Fn(&mut SideLinks) -> Result<Vec<f64>, MpcError> + Send + Sync>;

/// A protocol, what each place learns if all follow it, and how far that may be off.
pub(crate) struct Protocol {
    pub(crate) name: &'static str,
    pub(crate) part: Part,
    pub(crate) outside: Option<OutsidePart>,
    pub(crate) expected: [Vec<f64>; 4],
    pub(crate) close: f64,
    /// The time after which a party that waits for a message gives up.
    pub(crate) silence: Duration,
}

/// The result at a place, or `None` if it panics.
pub(crate) type Knowledge = Option<Result<Vec<f64>, MpcError>>;

/// Runs a protocol.
pub(crate) fn play(
    protocol: &Protocol,
    deviation: Option<Deviation>,
) -> (Vec<Knowledge>, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let link = |link, way| TamperingLink {
        link,
        way,
        before: Vec::new(),
        deviation,
        counts: counts.clone(),
    };
    let mut beside: Vec<SideLinks> = (0..4).map(|_| SideLinks(Vec::new())).collect();
    for (one, other) in (0..4).flat_map(|one| (one + 1..4).map(move |other| (one, other))) {
        let (first, second) = MemoryLink::pair(protocol.silence);
        beside[one].0.push((other, link(first, (one, other, true))));
        beside[other].0.push((one, link(second, (other, one, true))));
    }
    let outside = beside.pop().unwrap();
    let learnt = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (at, ((next, previous), mut beside)) in
            connect_in_memory(protocol.silence).into_iter().zip(beside).enumerate()
        {
            let next = Box::new(link(next, (at, (at + 1) % 3, false)));
            let previous = Box::new(link(previous, (at, (at + 2) % 3, false)));
            threads.push(scope.spawn(move || {
                let mut session = Session::begin(PartyIndex::ALL[at], CONTEXT, next, previous)?;
                (protocol.part)(&mut session, &mut beside)
            }));
        }
        if let Some(part) = &protocol.outside {
            let mut outside = outside;
            threads.push(scope.spawn(move || part(&mut outside)));
        }
        threads.into_iter().map(|thread| thread.join().ok()).collect()
    });
    (learnt, counts)
}

pub(crate) fn protocol(
    name: &'static str,
    part: Part,
    expected: [Vec<f64>; 4],
    close: f64,
) -> Protocol {
    Protocol { name, part, outside: None, expected, close, silence: SILENCE }
}
