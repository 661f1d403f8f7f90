//! The program of a private training: what the parties agree on, and the steps that each takes on
//! a thread of its own.
//!
//! The active party, the coordinator and one passive party compute (`vfl_mpc`); further passive
//! parties give shares of their data to these three. Every owner whitens its own block, so that
//! what a column means is known to it alone. A block has as many columns as features: a rank below
//! that is padded with zeros and stays unknown.

use nalgebra::DMatrix;
use sha2::{Digest, Sha256};
use vfl_core::model::contract::InitialSeed;
use vfl_core::model::{Parameters, Schedule};
use vfl_mpc::{CONTEXT_BYTES, FixedPoint, Link, LinkError, MpcError, PartyIndex};
use vfl_numerics::Whitening;
use vfl_protocol::Refusal;
use vfl_protocol::training::computation::{ComputationLayout, EpochCounts};
use vfl_state::journal::Proposal;

use super::labels::TrainingLabels;
use super::model::{LabelUnit, OwnWeights, PrivateModel};

/// The most ring elements of a training's data, over all parties: 2 GiB of shares at each.
const MAX_ELEMENTS: u64 = 1 << 27;

/// The program of a private training, which all parties agree on.
#[derive(Debug, Clone)]
pub struct Program {
    model: PrivateModel,
    classes: usize,
    /// The features of each party, the active one first.
    features: Vec<usize>,
    /// The party that computes among them, from 1.
    computing: usize,
    /// The positions of the records in the order of the computation: those for validation last.
    order: Vec<usize>,
    context: [u8; CONTEXT_BYTES],
}

/// One owner's block, prepared for the computation.
pub struct OwnBlock {
    pub(super) whitening: Whitening,
    /// Records × features, by columns.
    pub(super) values: Vec<u64>,
    /// Records × classes, by columns; at the active party alone.
    pub(super) labels: Option<Vec<u64>>,
    /// The unit of the labels.
    pub(super) unit: LabelUnit,
    /// The first parameters of networks.
    pub(super) start: Vec<u64>,
}

/// The result of a private training at one party.
pub struct ComputationResult {
    /// The epochs, which all parties know.
    pub epochs: EpochCounts,
    /// This party's own parameters; none at the coordinator.
    pub parameters: Option<Parameters>,
}

/// A party's end of its links in a computation.
pub(super) enum Links {
    /// The links of a party that computes.
    Computing {
        /// Its place.
        party: PartyIndex,
        /// The link to the next party.
        next: Box<dyn Link>,
        /// The link to the previous party.
        previous: Box<dyn Link>,
        /// The links to the passive parties that do not compute, in their order.
        outsiders: Vec<Box<dyn Link>>,
    },
    /// The links of a passive party that does not compute to the three that do, by place.
    Outside([Box<dyn Link>; 3]),
}

/// The watcher of a training: it is asked before each epoch, from 1, and ends the training by
/// `false`.
pub(super) type Watcher<'a> = &'a mut dyn FnMut(usize) -> bool;

/// The errors of a private computation.
#[derive(Debug, thiserror::Error)]
pub(super) enum ComputationError {
    /// The computation among the three parties failed.
    #[error(transparent)]
    Mpc(#[from] MpcError),
    /// The link to a passive party that does not compute failed.
    #[error("the data owner at place {place}: {error}")]
    Outsider {
        /// The place of its data, from 1.
        place: usize,
        /// The failure.
        error: LinkError,
    },
    /// A passive party that does not compute takes part in another training.
    #[error("the data owner at place {0} does not agree on the training")]
    OtherTraining(usize),
    /// The link to a passive party that does not compute failed in a session.
    #[error("data owner {at}: {error}")]
    LostOutsider {
        /// The place among the passive parties that do not compute, from 0.
        at: usize,
        /// The failure.
        error: LinkError,
    },
    /// A passive party that does not compute, by its place among these, is in another session.
    #[error("data owner {0} does not agree on the session")]
    OtherSession(usize),
    /// This party's parameters cannot be what a training ends with.
    #[error(
        "the training diverged: the parameters are not finite, or beyond all measure; give features with a few far values a narrower range, \
         with `clamp = true` in the schema"
    )]
    Diverged,
    /// A party has no link that it needs.
    #[error("a link is missing")]
    NoLink,
}

impl Program {
    /// Creates the program of a training with so many features at each party, the active one
    /// first.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for numbers of features that do not fit the parties, or data that is too
    /// large for memory.
    pub fn new(
        proposal: &Proposal,
        layout: &ComputationLayout,
        features: &[u32],
    ) -> Result<Self, Refusal> {
        let Proposal { active_party, config, class_names, ids } = proposal;
        if features.len() != layout.passive.len() + 1 {
            return Err(Refusal::invalid("`features` has not one number for each party"));
        }
        let computing = layout.passive.iter().position(|name| *name == layout.computing);
        let computing = computing
            .ok_or_else(|| Refusal::invalid("`computing_party` is not a party of this training"))?;
        let (n, k) = (ids.len(), class_names.len());
        let columns: u64 = features.iter().map(|&d| u64::from(d)).sum();
        let elements = (n as u64).saturating_mul(columns + 4 * k as u64);
        if elements > MAX_ELEMENTS {
            return Err(Refusal::invalid(format!(
                "a private training of {n} records with {columns} features and {k} classes takes {elements} shares, \
                 {MAX_ELEMENTS} at most; train on fewer records"
            )));
        }
        let schedule = Schedule::new(config, n);
        let order = schedule.training().iter().chain(schedule.validation());
        let order = order.map(|&position| position as usize).collect();
        let model = PrivateModel::new(config, (n, k, features.len()), &schedule)?;
        let mut hash = Sha256::new_with_prefix(model.program());
        let mut field = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        let config = serde_json::to_vec(config).map_err(|e| Refusal::internal(e.to_string()))?;
        field(&config);
        class_names.iter().for_each(|name| field(name.as_bytes()));
        field(active_party.as_str().as_bytes());
        layout.passive.iter().for_each(|name| field(name.as_str().as_bytes()));
        field(layout.computing.as_str().as_bytes());
        features.iter().for_each(|d| field(&d.to_le_bytes()));
        ids.iter().for_each(|id| field(id.as_bytes()));
        Ok(Self {
            model,
            classes: k,
            features: features.iter().map(|&d| d as usize).collect(),
            computing: computing + 1,
            order,
            context: hash.finalize().into(),
        })
    }

    /// Returns the number of features of a party, by its place: the active one has 0.
    #[must_use]
    pub fn features(&self, place: usize) -> usize {
        self.features.get(place).copied().unwrap_or_default()
    }

    /// Returns the most bytes that a party may be ahead of another one: the shares of all data, and
    /// the messages of two epochs of a regression, or of a step of networks.
    pub(super) fn most_bytes(&self) -> u64 {
        let columns: usize = self.features.iter().sum();
        let step = self.model.numbers_of_a_step(self.features.len());
        8 * (self.order.len() * (columns + 32 * self.classes) + step) as u64
    }

    /// Returns the place in the computation of a party's data: `None` for a passive party that does
    /// not compute.
    pub(super) fn owner(&self, place: usize) -> Option<PartyIndex> {
        match place {
            0 => Some(PartyIndex::FIRST),
            place if place == self.computing => Some(PartyIndex::THIRD),
            _ => None,
        }
    }

    /// Prepares a party's features (d × n, in the order of the list) and, at the active party, the
    /// labels. `start` is the seed of the first parameters, and the party's place.
    ///
    /// # Errors
    /// FAILED_PRECONDITION for features that cannot be whitened (values that are not finite), and
    /// for labels that this model is not trained on.
    pub fn prepare(
        &self,
        block: &DMatrix<f64>,
        labels: Option<TrainingLabels<'_>>,
        start: (&InitialSeed, usize),
    ) -> Result<OwnBlock, Refusal> {
        let (n, d) = (self.records(), block.nrows());
        let trained = n - self.model.validation();
        // The reason goes to other parties: it names no record and no place.
        let wrong = |e: &dyn std::fmt::Display| {
            tracing::warn!(reason = %e, "the features of a training cannot be whitened");
            Refusal::precondition("the features of this training cannot be whitened here")
        };
        let whitening =
            Whitening::fit(&block.select_columns(&self.order[..trained])).map_err(|e| wrong(&e))?;
        let coordinates = whitening.apply(&block.select_columns(&self.order));
        let mut padded = DMatrix::zeros(n, d);
        padded.columns_mut(0, coordinates.nrows()).tr_copy_from(&coordinates);
        let fixed = self.fixed();
        let values =
            fixed.encode(&self.model.prepare(padded.as_slice(), n)).map_err(|e| wrong(&e))?;
        let start = fixed.encode(&self.model.start(start, d, self.classes));
        let start = start.map_err(|e| Refusal::internal(e.to_string()))?;
        let labels = labels.map(|labels| self.model.labels(labels, (&self.order, self.classes)));
        let (labels, origin) = labels.transpose()?.unzip();
        let far = |_| {
            Refusal::precondition(
                "a label is missing, or too far from the others for this training",
            )
        };
        let labels = labels.map(|labels| fixed.encode(&labels).map_err(far)).transpose()?;
        let unit =
            LabelUnit { scale: self.model.label_scale(), origin: origin.unwrap_or_default() };
        Ok(OwnBlock { whitening, values, labels, unit, start })
    }

    /// Returns an owner's parameters, of its numbers in the computation. Those of a regression are
    /// feature after feature, k numbers each.
    ///
    /// # Errors
    /// [`ComputationError::Diverged`] for numbers that no training ends with: those of one that
    /// left the ring are drawn from all of it.
    pub(super) fn own_weights(
        &self,
        own: &OwnBlock,
        opened: &[u64],
        place: usize,
    ) -> Result<OwnWeights, ComputationError> {
        let shape = (self.records(), self.classes, self.features(place));
        let opened = self.fixed().decode(opened);
        if opened.iter().any(|value| value.abs() > self.model.largest_opened()) {
            return Err(ComputationError::Diverged);
        }
        Ok(self.model.own_weights(&own.whitening, &opened, shape))
    }

    /// Returns the number of an owner's numbers in the computation, by its place.
    pub(super) fn own_count(&self, place: usize) -> usize {
        self.model.parameters(self.features(place), self.classes)
    }

    /// Returns the number of records, those for validation among them.
    pub(super) fn records(&self) -> usize {
        self.order.len()
    }

    pub(super) fn model(&self) -> &PrivateModel {
        &self.model
    }

    pub(super) fn classes(&self) -> usize {
        self.classes
    }

    /// Returns the number of features of each party, the active one first.
    pub(super) fn blocks(&self) -> &[usize] {
        &self.features
    }

    pub(super) fn context(&self) -> &[u8; CONTEXT_BYTES] {
        &self.context
    }

    pub(super) fn fixed(&self) -> FixedPoint {
        self.model.fixed()
    }

    /// Returns the factor between the weights of prepared and of whitened features.
    pub(super) fn scale(&self) -> f64 {
        self.model.scale(self.records())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;

    use super::*;
    use vfl_core::model::{Combiner, ModelConfig, TrainingConfig, TrainingMode, TrainingValues};
    use vfl_core::types::{PartyName, RecordIds};

    fn config(l2: f64) -> TrainingConfig {
        let mode = TrainingMode::Private;
        TrainingConfig::try_from(TrainingValues { mode, l2, ..TrainingValues::default() }).unwrap()
    }

    /// A party that computes something else in any respect is refused before data is shared.
    #[test]
    fn whatever_differs_changes_the_context() {
        let name = |name: &str| PartyName::new(name).unwrap();
        let proposal = Proposal {
            active_party: name("a"),
            config: config(0.1),
            class_names: vec!["no".into(), "yes".into()],
            ids: RecordIds::new(["1", "2", "3"]).unwrap(),
        };
        let passive = vec![name("p"), name("q")];
        let layout = ComputationLayout { computing: name("p"), passive, calibration: false };
        let context = |proposal: &Proposal, layout: &ComputationLayout, features: &[u32]| {
            *Program::new(proposal, layout, features).unwrap().context()
        };
        let own = context(&proposal, &layout, &[2, 3, 4]);
        assert_eq!(own, context(&proposal, &layout, &[2, 3, 4]));
        let with = |change: &dyn Fn(&mut Proposal)| {
            let mut other = proposal.clone();
            change(&mut other);
            context(&other, &layout, &[2, 3, 4])
        };
        let place = |change: &dyn Fn(&mut ComputationLayout)| {
            let mut other = layout.clone();
            change(&mut other);
            context(&proposal, &other, &[2, 3, 4])
        };
        let others = [
            own,
            with(&|p| p.active_party = name("b")),
            with(&|p| p.config = config(0.2)),
            with(&|p| p.class_names = vec!["yes".into(), "no".into()]),
            with(&|p| p.ids = RecordIds::new(["1", "3", "2"]).unwrap()),
            with(&|p| p.ids = RecordIds::new(["1", "2", "4"]).unwrap()),
            place(&|l| l.computing = name("q")),
            place(&|l| l.passive.reverse()),
            context(&proposal, &layout, &[2, 4, 3]),
        ];
        assert_eq!(others.iter().collect::<HashSet<_>>().len(), others.len());
    }

    /// The unit of labels is part of what parties agree on, where weights are in it.
    #[test]
    fn a_number_has_one_output_and_its_unit() {
        let program = |link: &str, label_scale: Option<f64>, names: &[&str]| {
            let settings = serde_json::json!({ "link": link }).as_object().unwrap().clone();
            let model = ModelConfig::new(Combiner::Sum, "generalized_linear", None, settings);
            let (mode, model) = (TrainingMode::Private, model.unwrap());
            let values = TrainingValues { mode, model, label_scale, ..TrainingValues::default() };
            let proposal = Proposal {
                active_party: PartyName::new("a").unwrap(),
                config: TrainingConfig::try_from(values).unwrap(),
                class_names: names.iter().map(ToString::to_string).collect(),
                ids: RecordIds::new(["1", "2", "3"]).unwrap(),
            };
            let passive = vec![PartyName::new("p").unwrap()];
            let computing = passive[0].clone();
            let layout = ComputationLayout { passive, computing, calibration: false };
            let program = Program::new(&proposal, &layout, &[1, 1]);
            program.map(|program| *program.context()).map_err(|refusal| refusal.message)
        };
        let own = program("identity", Some(4.0), &["price"]).unwrap();
        assert_ne!(own, program("identity", Some(8.0), &["price"]).unwrap());
        program("log", None, &["price"]).unwrap();
        for (link, scale, names, says) in [
            ("identity", None, &["price"][..], "`label_scale`"),
            ("log", Some(4.0), &["price"], "`label_scale`"),
            ("identity", Some(4.0), &["no", "yes"], "2 outputs"),
        ] {
            let refused = program(link, scale, names).unwrap_err();
            assert!(refused.contains(says), "{refused}");
        }
    }

    #[test]
    fn data_beyond_memory_is_refused_by_its_size() {
        let proposal = Proposal {
            active_party: PartyName::new("a").unwrap(),
            config: config(0.1),
            class_names: vec!["no".into(), "yes".into()],
            ids: RecordIds::new((0..100).map(|n| n.to_string())).unwrap(),
        };
        let passive = vec![PartyName::new("p").unwrap()];
        let computing = passive[0].clone();
        let layout = ComputationLayout { passive, computing, calibration: false };
        let refused = Program::new(&proposal, &layout, &[u32::MAX, 1]).unwrap_err();
        assert!(refused.message.contains("100 records"), "{refused}");
        let refused = Program::new(&proposal, &layout, &[1]).unwrap_err();
        assert!(refused.message.contains("`features`"), "{refused}");
    }
}
