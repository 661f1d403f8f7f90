//! The messages of attacks that an auditor asks the active party for.

mod wire;

use serde::{Deserialize, Serialize};
use vfl_core::types::{ModelVersion, PartyName, RecordIds};

use super::estimates::EncodedEstimates;
use super::pb::attack_result;

/// A request for attacks on a set of records.
#[derive(Clone)]
pub struct ReconstructionRequest {
    /// The session that answers for the records; empty without one.
    pub session: String,
    /// The version under attack.
    pub version: ModelVersion,
    /// The records under attack.
    pub ids: RecordIds,
    /// The attacks, in the order in which they are to be run.
    pub attacks: Vec<AttackSpec>,
    /// The seed of attacks that draw random numbers.
    pub seed: u64,
    /// The number of times that every record is asked for; 0 means once.
    pub queries: u32,
    /// Records whose passive features the adversary knows.
    pub auxiliary: AuxiliaryIds,
    /// Passive parties that lend the adversary their shares.
    pub colluders: Vec<PartyName>,
}

/// An attack with its settings, as requested.
#[derive(Debug, Clone)]
pub struct AttackSpec {
    /// The name of the attack.
    pub name: String,
    /// The settings; the later of two with the same name counts.
    pub settings: Vec<(String, String)>,
}

impl AttackSpec {
    /// Adds a setting.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl ToString) -> Self {
        self.settings.push((key.to_owned(), value.to_string()));
        self
    }
}

/// Records whose passive features the adversary knows, with the session that answers for them. Both
/// are empty without such records.
#[derive(Clone, Default)]
pub struct AuxiliaryIds {
    /// The ids of the records.
    pub ids: RecordIds,
    /// The session.
    pub session: String,
}

/// An event that the active party reports while it runs attacks.
#[derive(Debug)]
pub enum ReconstructEvent {
    /// A stage begins.
    Progress {
        /// The number of stages that have ended.
        done: u64,
        /// The number of all stages.
        total: u64,
        /// The stage that begins, in words.
        stage: String,
    },
    /// The scores were received.
    Scores {
        /// The number of released rows.
        rows: u64,
        /// The share of rows whose predicted class is the label, if it is reported.
        accuracy: Option<f64>,
    },
    /// An attack has ended.
    Attacked(Box<AttackReport>),
}

/// The result of one attack.
#[derive(Debug)]
pub struct AttackReport {
    /// The name of the attack.
    pub attack: String,
    /// The estimates, or the reason that the attack did not run.
    pub outcome: Result<PartyEstimates, NotRun>,
    /// The most answers about one record that the attack used.
    pub releases: u32,
    /// The questions beyond one honest question a record.
    pub questions: Option<Questions>,
    /// The source of the scores, if they were estimated.
    pub estimated_scores: Option<EstimatedScores>,
    /// The number of records with known passive features that it was given.
    pub auxiliary_records: usize,
    /// Other findings of the attack, in sentences.
    pub remarks: Vec<String>,
}

/// The estimates of an attack that ran.
#[derive(Debug)]
pub struct PartyEstimates {
    /// The origin of the estimates.
    pub origin: Origin,
    /// The rank of the system that was solved, if there was one.
    pub rank: Option<u32>,
    /// The number of its unknowns: features that are not known beforehand.
    pub unknowns: Option<u32>,
    /// Its condition number.
    pub condition_number: Option<f64>,
    /// The number of records whose scores no features in the box give; the nearest scores that some
    /// features give were taken.
    pub nearest_consistent: u64,
    /// The number of records on which the attack stopped at its limit of steps.
    pub step_limit: u64,
    /// The number of records that the attack is certain to have rebuilt exactly, if it can tell.
    pub certain: Option<u32>,
    /// The mean squared difference between the released scores and those at the estimates, if the
    /// adversary can tell: finite and at least 0.
    pub score_mismatch: Option<f64>,
    /// The evidence for an estimator that knows more of the features.
    pub evidence: Evidence,
    /// The estimates of each passive party's features, by the party's name.
    pub blocks: Vec<(String, EncodedEstimates)>,
}

/// The reason that an attack did not run.
#[derive(Debug)]
pub struct NotRun {
    /// The class of the reason.
    pub why: Refused,
    /// The reason in words.
    pub reason: String,
}

/// The questions of an attack beyond one honest question a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Questions {
    /// The same question, repeated.
    Repeated {
        /// The number of questions a record.
        queries: u32,
        /// The fewest different answers about a record.
        distinct: u32,
    },
    /// Questions with logit shares of the attack's own choice.
    Chosen {
        /// The number of questions.
        questions: u64,
        /// The number of rows asked for.
        asked: u64,
        /// The number of rows that were refused.
        refused: u64,
        /// The number of records whose later answers gave more than the first.
        gained: u64,
        /// The number of records asked about.
        records: u64,
    },
}

/// The data that estimated scores come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EstimatedScores {
    /// The number of labelled records that the adversary's model was fitted to.
    pub labelled: u64,
    /// The number of records that were asked about.
    pub seen: u64,
    /// The number of records under attack whose own score was attacked instead.
    pub own_scores: u64,
    /// The number of records under attack.
    pub records: u64,
}

/// Declares an enum of an attack's result and its conversions from and to the generated one. A
/// generated value without a variant here is read as `$default`.
macro_rules! wire_enum {
    ($(#[$about:meta])* $name:ident = $wire:ident, or $default:ident {
        $($(#[$doc:meta])* $variant:ident = $other:ident,)+
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl From<$name> for attack_result::$wire {
            fn from(of: $name) -> Self {
                match of { $($name::$variant => Self::$other,)+ }
            }
        }

        impl From<attack_result::$wire> for $name {
            fn from(of: attack_result::$wire) -> Self {
                let mut all = [$(Self::$variant,)+].into_iter();
                all.find(|known| attack_result::$wire::from(*known) == of).unwrap_or(Self::$default)
            }
        }
    };
}

wire_enum! {
    /// The reasons that an attack does not run.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    Refused = Refused, or Unknown {
        /// The passive parameters are not released.
        ParametersHidden = ParametersHidden,
        /// The adversary lacks something else that the attack needs.
        Missing = Missing,
        /// The attack is not made for this release, this policy or this model.
        Unsuitable = Unsuitable,
        /// The computation would exceed the attack's limits.
        TooLarge = TooLarge,
        /// The coordinator did not answer.
        Unanswered = Unanswered,
        /// The settings do not fit the model.
        Settings = Settings,
        /// A number overflowed a double.
        Numerics = Numerics,
        /// The party that ran it gave no reason.
        Unknown = Unspecified,
    }
}

wire_enum! {
    /// The origin of an attack's estimates.
    Origin = Outcome, or Guess {
        /// A guess that uses no release at all.
        Guess = Guess,
        /// The equations determine every feature.
        Unique = Unique,
        /// Fewer independent equations than unknowns: the solution of least norm.
        LeastNorm = LeastNorm,
        /// Fewer independent equations than unknowns: the solution nearest to 1/2.
        NearestHalf = NearestHalf,
        /// The point of the box that fits the equations best.
        BestFit = BestFit,
        /// A centre of the points of the box that satisfy the equations or bounds.
        Centre = Centre,
        /// The end point of a descent on the scores.
        Descent = Descent,
        /// The records' values, scaled to the range [0, 1].
        Scaled = Scaled,
        /// A point of the posterior of an adversary that knows moments of the features.
        Posterior = Posterior,
        /// A regression on whole records that the adversary knows.
        Regression = Regression,
        /// The solution nearest to the middle, layer by layer of a network.
        LayerByLayer = LayerByLayer,
        /// The point of the features' grid that satisfies the equations, if one was found.
        GridPoint = GridPoint,
    }
}

wire_enum! {
    /// The evidence of the scores about the features.
    Evidence = Evidence, or Nothing {
        /// No evidence.
        Nothing = Nothing,
        /// A x = b' for each record.
        Equations = Equations,
        /// A set for each record.
        Cells = Cells,
        /// Scores with noise of known size.
        NoisyScores = NoisyScores,
    }
}

#[cfg(test)]
mod tests;
