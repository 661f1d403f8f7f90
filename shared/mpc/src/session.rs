//! A session: one party's place in a computation, its links and its keys.

use std::fmt;

use rand::Rng;
use zeroize::Zeroizing;

use crate::error::MpcError;
use crate::link::{Link, Traffic};
use crate::party_index::PartyIndex;
use crate::random::{CommonRandomness, KEY_BYTES};
use crate::shares::{BitShares, Shares};

/// The length of what parties agree on before they compute, in bytes.
pub const CONTEXT_BYTES: usize = 32;

/// A party's place and the context.
const GREETING_BYTES: usize = 1 + CONTEXT_BYTES;

/// One party's session of a computation. All parties call the same operations in the same order
/// with operands of the same length.
pub struct Session {
    party: PartyIndex,
    next: Box<dyn Link>,
    previous: Box<dyn Link>,
    /// Shared with the previous party: its numbers are components of this party's own index.
    pub(crate) with_previous: CommonRandomness,
    /// Shared with the next party.
    pub(crate) with_next: CommonRandomness,
    traffic: Traffic,
    /// True after an error: the streams of random numbers may be out of step, and a number drawn
    /// twice would hide nothing.
    over: bool,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("party", &self.party)
            .field("traffic", &self.traffic)
            .finish()
    }
}

impl Session {
    /// Begins a session: agrees on a key with each of the other parties, and checks that they take
    /// the places beside this one and run the same computation. `context` is a hash of what all
    /// must agree on: the session's name, and the program with its settings.
    ///
    /// # Errors
    /// [`MpcError::Disagreement`]; errors of links.
    pub fn begin(
        party: PartyIndex,
        context: &[u8; CONTEXT_BYTES],
        next: Box<dyn Link>,
        previous: Box<dyn Link>,
    ) -> Result<Self, MpcError> {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        rand::rng().fill_bytes(&mut *key);
        let (with_previous, with_next) =
            (CommonRandomness::new(*key), CommonRandomness::new([0; KEY_BYTES]));
        let traffic = Traffic::default();
        let mut session =
            Self { party, next, previous, with_previous, with_next, traffic, over: false };
        let greeting = [&[party.0], &context[..]].concat();
        session.send(party.next(), greeting.clone())?;
        session.send(party.previous(), [&greeting[..], &*key].concat())?;
        let theirs = session.receive(party.previous(), GREETING_BYTES)?;
        session.check_greeting(party.previous(), &theirs, context)?;
        let theirs = Zeroizing::new(session.receive(party.next(), GREETING_BYTES + KEY_BYTES)?);
        let (theirs, their_key) = theirs.split_at(GREETING_BYTES);
        session.check_greeting(party.next(), theirs, context)?;
        key.copy_from_slice(their_key);
        session.with_next = CommonRandomness::new(*key);
        Ok(session)
    }

    /// Checks the place of another party and what it computes.
    fn check_greeting(
        &self,
        party: PartyIndex,
        greeting: &[u8],
        context: &[u8; CONTEXT_BYTES],
    ) -> Result<(), MpcError> {
        match greeting.split_first() {
            Some((place, _)) if *place != party.0 => {
                Err(MpcError::Disagreement { party, what: "the order of the parties" })
            }
            Some((_, theirs)) if theirs == context => Ok(()),
            _ => Err(MpcError::Disagreement { party, what: "the session or its settings" }),
        }
    }

    /// Returns the shares of public numbers: component 0 is the number, the others are 0.
    #[must_use]
    pub fn public(&self, values: &[u64]) -> Shares {
        Shares::of_component(self.party, PartyIndex::FIRST, values)
    }

    /// Returns this party's place.
    #[must_use]
    pub const fn party(&self) -> PartyIndex {
        self.party
    }

    /// Returns the messages that this party has sent so far.
    #[must_use]
    pub const fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn link(&mut self, party: PartyIndex) -> &mut dyn Link {
        if party == self.party.next() { &mut *self.next } else { &mut *self.previous }
    }

    /// Checks that nothing has failed yet.
    ///
    /// # Errors
    /// [`MpcError::Over`].
    pub(crate) fn check_alive(&self) -> Result<(), MpcError> {
        if self.over { Err(MpcError::Over) } else { Ok(()) }
    }

    /// Ends the session, whose others wait for a step that this party does not take, with the
    /// error that says why.
    pub(crate) fn end(&mut self, error: MpcError) -> MpcError {
        self.over = true;
        error
    }

    /// Sends a message to one of the others.
    ///
    /// # Errors
    /// [`MpcError::Link`].
    pub(crate) fn send(&mut self, to: PartyIndex, message: Vec<u8>) -> Result<(), MpcError> {
        self.check_alive()?;
        self.traffic.bytes += message.len() as u64;
        self.traffic.messages += 1;
        let sent = self.link(to).send(message);
        self.over = sent.is_err();
        sent.map_err(|error| MpcError::Link { party: to, error })
    }

    /// Waits for a message of `bytes` bytes from one of the others.
    ///
    /// # Errors
    /// [`MpcError::Link`], and [`MpcError::MessageLength`] for a message of another length.
    pub(crate) fn receive(&mut self, from: PartyIndex, bytes: usize) -> Result<Vec<u8>, MpcError> {
        self.check_alive()?;
        let message = self.link(from).receive();
        self.over = message.as_ref().map_or(true, |message| message.len() != bytes);
        let message = message.map_err(|error| MpcError::Link { party: from, error })?;
        if message.len() == bytes {
            return Ok(message);
        }
        Err(MpcError::MessageLength { party: from, expected: bytes, got: message.len() })
    }

    /// Sends words, each cut to its lowest `bytes` bytes.
    ///
    /// # Errors
    /// [`MpcError::Link`].
    pub(crate) fn send_words(
        &mut self,
        to: PartyIndex,
        words: &[u64],
        bytes: usize,
    ) -> Result<(), MpcError> {
        let mut message = Vec::with_capacity(bytes * words.len());
        words.iter().for_each(|word| message.extend_from_slice(&word.to_le_bytes()[..bytes]));
        self.send(to, message)
    }

    /// Waits for `count` words of `bytes` bytes.
    ///
    /// # Errors
    /// As [`Session::receive`].
    pub(crate) fn receive_words(
        &mut self,
        from: PartyIndex,
        count: usize,
        bytes: usize,
    ) -> Result<Vec<u64>, MpcError> {
        Ok(words_of(&self.receive(from, bytes * count)?, bytes))
    }

    /// Returns `count` numbers of this party's part of a sharing of zero: the three parts add up
    /// to 0, and any two of them are uniform (Araki et al. 2016, section 2.2).
    pub(crate) fn zero_sums(&mut self, count: usize) -> Vec<u64> {
        let (plus, minus) = (self.with_previous.words(count), self.with_next.words(count));
        plus.into_iter().zip(minus).map(|(plus, minus)| plus.wrapping_sub(minus)).collect()
    }

    /// Returns `count` words of this party's part of a sharing of zero under exclusive or.
    pub(crate) fn zero_parities(&mut self, count: usize) -> Vec<u64> {
        let (one, other) = (self.with_previous.words(count), self.with_next.words(count));
        one.into_iter().zip(other).map(|(one, other)| one ^ other).collect()
    }

    /// Returns `count` words of bits that nobody knows, as shares. No message.
    pub(crate) fn random_bits(&mut self, count: usize) -> BitShares {
        BitShares { own: self.with_previous.words(count), next: self.with_next.words(count) }
    }
}

/// Returns the words of a message, of `bytes` bytes each.
pub(crate) fn words_of(message: &[u8], bytes: usize) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    message.chunks_exact(bytes).map(word).collect()
}
