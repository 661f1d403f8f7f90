//! Sessions of private releases: the active party, the coordinator and one passive party compute on
//! shares of the logits of all, and the active party alone learns what the policy releases.
//!
//! The active party's share of a record is the same each time it asks: its logits less masks that
//! follow from the record, its logits and a key of the passive party that computes. The coordinator
//! has hashes of the masked logits in its ledger, and refuses a record whose logits have changed.
//! All other shares are fresh.

mod policy;

use std::sync::mpsc::Receiver;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use vfl_core::types::{RecordIds, ReleasedScores};
use vfl_mpc::{
    CONTEXT_BYTES, Link, LinkError, Logits, MASK_KEY_BYTES, MaskKey, MaskedInput, MpcError,
    PartyIndex, Session, TAG_WORDS, deal, encode_logits,
};
use vfl_protocol::Refusal;
use vfl_protocol::private_release::SessionTerms;

use super::places::Places;
use super::program::{ComputationError, Links};
use super::steps::send_all;

pub use policy::{ModelOutputs, PrivateRelease};

/// The way in which the answers of the live service are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServingMode {
    /// The coordinator sums the logits of all parties, and applies the policy to the scores.
    #[default]
    Plain,
    /// Three parties compute on shares: the coordinator sees no logit and no score.
    Private,
}

/// The time that another party may take for one message of a session.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The name of the program, for the parties' agreement.
const PROGRAM: &[u8] = b"cloison private release 1";

const _: () = assert!(TAG_WORDS == vfl_protocol::private_release::TAG_WORDS);

/// The most records that are computed together, and of one request.
pub const MOST_RECORDS: usize = 8192;
/// The bytes that a party may be ahead for each class of a record.
const AHEAD_BYTES: u64 = 256;

/// The program of a session, which all parties agree on.
#[derive(Debug, Clone)]
pub struct ReleaseProgram {
    classes: usize,
    unit: f64,
    release: PrivateRelease,
    outsiders: usize,
    context: [u8; CONTEXT_BYTES],
}

/// A party's knowledge of some records' logits: numbers of 64 bits, `classes` for each record, one
/// record after the other. What it does not know is empty.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ReleaseInput {
    /// The masks of the active party's logits, at that party and the passive one that computes.
    pub masks: Vec<u64>,
    /// The active party's logits less their masks, at that party and the coordinator.
    pub masked: Vec<u64>,
    /// A passive party's own logits.
    pub own: Vec<u64>,
}

/// Shows the number of records' numbers alone.
impl std::fmt::Debug for ReleaseInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.masks.len().max(self.masked.len()).max(self.own.len());
        write!(f, "ReleaseInput({count} withheld)")
    }
}

impl ReleaseInput {
    /// Appends the numbers of some records of `other`, by their positions.
    pub fn extend(&mut self, other: &Self, records: &[usize], classes: usize) {
        let append = |all: &mut Vec<u64>, from: &[u64]| {
            let of = |record: &usize| from.get(record * classes..(record + 1) * classes);
            records.iter().filter_map(of).for_each(|numbers| all.extend_from_slice(numbers));
        };
        append(&mut self.masks, &other.masks);
        append(&mut self.masked, &other.masked);
        append(&mut self.own, &other.own);
    }
}

/// Records that are computed together.
pub struct ReleaseJob {
    /// The number of records.
    pub records: usize,
    /// This party's knowledge of them.
    pub input: ReleaseInput,
    /// The receiver of the release, which is `Some` at the active party, or of its refusal of what
    /// was opened.
    pub done: oneshot::Sender<Result<Option<ReleasedScores>, Refusal>>,
}

/// The key of masks, on its way from the passive party that computes to the active party.
pub enum MaskKeyExchange {
    /// The passive party's own key.
    Own(MaskKey),
    /// The receiver of the key, at the active party.
    Wanted(oneshot::Sender<MaskKey>),
    /// The party has nothing to do with the key.
    Elsewhere,
}

impl ReleaseProgram {
    /// Creates the program of a session.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if the policy is not computed on shares.
    pub fn new(terms: &SessionTerms) -> Result<Self, Refusal> {
        let SessionTerms {
            session,
            version,
            active_party,
            layout,
            classes,
            policy,
            vectors,
            passive_fingerprint,
            link,
            unit,
        } = terms;
        let outputs = ModelOutputs { classes: *classes, link: *link };
        let release = PrivateRelease::of(policy, vectors, outputs);
        let release = release.map_err(Refusal::precondition)?;
        let mut hash = Sha256::new_with_prefix(PROGRAM);
        let mut field = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        field(session);
        field(version.as_str().as_bytes());
        field(active_party.as_str().as_bytes());
        layout.passive.iter().for_each(|name| field(name.as_str().as_bytes()));
        field(layout.computing.as_str().as_bytes());
        field(&(*classes as u64).to_le_bytes());
        field(policy.to_string().as_bytes());
        vectors.iter().for_each(|score| field(&score.to_le_bytes()));
        field(passive_fingerprint.as_bytes());
        if link.is_numeric() {
            field(link.as_str().as_bytes());
            field(&unit.to_le_bytes());
        }
        Ok(Self {
            unit: *unit,
            classes: *classes,
            release,
            outsiders: layout.passive.len().saturating_sub(1),
            context: hash.finalize().into(),
        })
    }

    /// Returns the release that is computed.
    #[must_use]
    pub fn release(&self) -> &PrivateRelease {
        &self.release
    }

    /// Encodes a data holder's logits, or its part of the predictors of numbers.
    ///
    /// # Errors
    /// [`MpcError::NotRepresentable`] for one that is too large.
    pub fn encode(&self, logits: &[f64]) -> Result<Vec<u64>, MpcError> {
        let units: Vec<f64> = logits.iter().map(|logit| logit / self.unit).collect();
        encode_logits(&units)
    }

    /// Returns the number of classes.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Returns the places of the parties of a session.
    #[must_use]
    pub fn places(terms: &SessionTerms) -> Places {
        Places::new(terms.active_party.clone(), terms.layout.clone())
    }

    /// Returns the most bytes that a party may be ahead of another one.
    pub(super) fn most_bytes(&self) -> u64 {
        AHEAD_BYTES * (MOST_RECORDS * self.release.comparisons(self.classes)) as u64
    }

    /// Returns the tags of the active party's logits, `TAG_WORDS` words for each record.
    #[must_use]
    pub fn tags(&self, key: &MaskKey, ids: &RecordIds, logits: &[u64]) -> Vec<u64> {
        let records = ids.iter().zip(logits.chunks_exact(self.classes));
        records.flat_map(|(id, logits)| key.tag(id.as_bytes(), logits)).collect()
    }

    /// Returns the masks of records with these tags, `classes` numbers for each.
    #[must_use]
    pub fn masks(&self, key: &MaskKey, ids: &RecordIds, tags: &[u64]) -> Vec<u64> {
        let mut masks = Vec::with_capacity(self.classes * ids.len());
        for (id, tag) in ids.iter().zip(tags.as_chunks::<TAG_WORDS>().0) {
            key.extend(&mut masks, id.as_bytes(), *tag, self.classes);
        }
        masks
    }

    /// Computes the jobs one after the other, on the thread of the caller, until their senders are
    /// gone.
    ///
    /// # Errors
    /// [`ComputationError`].
    pub(super) fn run(
        &self,
        links: Links,
        key: MaskKeyExchange,
        jobs: &Receiver<ReleaseJob>,
    ) -> Result<(), ComputationError> {
        match links {
            Links::Computing { party, mut next, mut previous, mut outsiders } => {
                exchange_key(party, key, &mut *next, &mut *previous)?;
                let mut session = Session::begin(party, &self.context, next, previous)?;
                self.check_outsiders(&mut outsiders)?;
                while let Ok(job) = jobs.recv() {
                    let released = match self.compute(&mut session, &mut outsiders, &job) {
                        // The session goes on: that it ended would tell the others of the result.
                        Err(ComputationError::Mpc(error @ MpcError::NoResult { .. })) => {
                            Err(Refusal::internal(format!("a private release failed: {error}")))
                        }
                        released => Ok(released?),
                    };
                    // A caller that has stopped waiting does not matter.
                    let _ = job.done.send(released);
                }
            }
            Links::Outside(mut links) => {
                let context = self.context.to_vec();
                send_all(&mut links, [context.clone(), context.clone(), context])?;
                while let Ok(job) = jobs.recv() {
                    self.check(&job.input.own, job.records)?;
                    send_all(&mut links, deal(&self.by_class(&job.input.own)))?;
                    let _ = job.done.send(Ok(None));
                }
            }
        }
        Ok(())
    }

    fn check(&self, numbers: &[u64], records: usize) -> Result<(), ComputationError> {
        let expected = self.classes * records;
        match numbers.len() == expected {
            true => Ok(()),
            false => {
                Err(MpcError::Shape { what: "the logits", expected, got: numbers.len() }.into())
            }
        }
    }

    fn check_outsiders(&self, outsiders: &mut [Box<dyn Link>]) -> Result<(), ComputationError> {
        if outsiders.len() != self.outsiders {
            return Err(ComputationError::NoLink);
        }
        for (at, link) in outsiders.iter_mut().enumerate() {
            let theirs =
                link.receive().map_err(|error| ComputationError::LostOutsider { at, error })?;
            if theirs != self.context {
                return Err(ComputationError::OtherSession(at));
            }
        }
        Ok(())
    }

    /// Computes the release of one job.
    fn compute(
        &self,
        session: &mut Session,
        outsiders: &mut [Box<dyn Link>],
        job: &ReleaseJob,
    ) -> Result<Option<ReleasedScores>, ComputationError> {
        let (n, k) = (job.records, self.classes);
        let ReleaseInput { masks, masked, own } = &job.input;
        let (masks, masked) = (self.by_class(masks), self.by_class(masked));
        let part = match session.party() {
            PartyIndex::FIRST => MaskedInput::Owner { masks: &masks, masked: &masked },
            PartyIndex::SECOND => MaskedInput::Masked(&masked),
            _ => MaskedInput::Masks(&masks),
        };
        let mut sum = session.shares_masked(part, n * k)?;
        let own = (session.party() == PartyIndex::THIRD).then(|| self.by_class(own));
        sum = sum.plus(&session.share(PartyIndex::THIRD, own.as_deref(), n * k)?)?;
        for (at, link) in outsiders.iter_mut().enumerate() {
            let lost = |error| ComputationError::LostOutsider { at, error };
            let dealt = session.shares_dealt(&link.receive().map_err(lost)?, n * k);
            sum = sum.plus(&dealt.map_err(|e| lost(LinkError::Transport(e.to_string())))?)?;
        }
        let logits = match k {
            1 => Logits::of_numbers(sum),
            _ => Logits::new(n, k, sum)?,
        };
        Ok(self.release.compute(session, &logits, self.unit)?)
    }

    /// Orders numbers class after class.
    fn by_class(&self, numbers: &[u64]) -> Vec<u64> {
        let of_class = |class| numbers.iter().skip(class).step_by(self.classes).copied();
        (0..self.classes).flat_map(of_class).collect()
    }
}

/// Passes the key of masks from the third party to the first.
fn exchange_key(
    party: PartyIndex,
    key: MaskKeyExchange,
    next: &mut dyn Link,
    previous: &mut dyn Link,
) -> Result<(), ComputationError> {
    let at = |party| move |error| MpcError::Link { party, error };
    match (party, key) {
        (PartyIndex::FIRST, MaskKeyExchange::Wanted(wanted)) => {
            let bytes = previous.receive().map_err(at(PartyIndex::THIRD))?;
            let key = <[u8; MASK_KEY_BYTES]>::try_from(&bytes[..]).map_err(|_| {
                let (expected, got) = (MASK_KEY_BYTES, bytes.len());
                MpcError::MessageLength { party: PartyIndex::THIRD, expected, got }
            })?;
            let _ = wanted.send(MaskKey::new(key));
        }
        (PartyIndex::THIRD, MaskKeyExchange::Own(key)) => {
            next.send(key.to_bytes()).map_err(at(PartyIndex::FIRST))?;
        }
        (PartyIndex::SECOND, MaskKeyExchange::Elsewhere) => {}
        _ => return Err(ComputationError::NoLink),
    }
    Ok(())
}
