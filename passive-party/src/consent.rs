//! This party's consent to trainings: the rules of `[training]`, and the journal of trainings.
//!
//! An active party that trains learns the scores of the training records at every step, and from
//! these, with a few records that it knows, their features (SECURITY.md). The rules below limit
//! this route; they do not close it.

use std::collections::HashSet;
use std::sync::Arc;

use rand::TryRng;
use rand::rngs::SysRng;
use vfl_core::clock::now;
use vfl_core::model::contract::{InitialSeed, Kind};
use vfl_core::model::privacy::PrivacyConfig;
use vfl_core::model::{Combiner, EMBEDDING_WIDTH, Schedule, TrainingMode, kinds};
use vfl_core::types::{ModelVersion, PartyName};
use vfl_party::training::TrainingGate;
use vfl_protocol::{Refusal, RefusalKind};
use vfl_state::journal::{Counts, Journal, JournalError, Proposal, Terms};
use vfl_state::state_dir::StateDir;
use vfl_transform::TransformConfig;

use crate::config::{StartFrom, TrainingPolicy};

/// The most values of a batch on its way through a model: 512 MiB.
const MAX_BATCH_VALUES: u64 = 1 << 26;

/// The rules for trainings, and the journal.
#[derive(Debug)]
pub struct Consent {
    policy: TrainingPolicy,
    /// The setting of this party that only allows linear sub-models, if there is one.
    linear_only: Option<&'static str>,
    /// The number of this party's features.
    features: usize,
    journal: Journal,
}

fn refused(message: String) -> Refusal {
    Refusal::new(
        RefusalKind::PermissionDenied,
        format!("this passive party does not take part: {message}"),
    )
}

fn not_written(error: &JournalError) -> Refusal {
    tracing::error!(%error, "a training cannot be written down, so it does not go on");
    let message = "the training cannot be written down, so it does not go on; the passive party's log says why";
    Refusal::own_state(error.away(), message)
}

/// Errors from beginning a training.
enum BeginTrainingError {
    Refused(Refusal),
    Journal(JournalError),
}

impl From<JournalError> for BeginTrainingError {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

impl Consent {
    /// Opens the journal of a state directory.
    ///
    /// # Errors
    /// [`JournalError`] naming the file that cannot be read or is damaged.
    pub fn open(
        state_dir: &StateDir,
        policy: TrainingPolicy,
        features: usize,
    ) -> Result<Arc<Self>, JournalError> {
        let linear_only = linear_only(&policy);
        let journal = Journal::open(state_dir.below("trainings"))?;
        Ok(Arc::new(Self { policy, linear_only, features, journal }))
    }

    /// Returns true if trainings are allowed.
    #[must_use]
    pub fn allowed(&self) -> bool {
        self.policy.allowed
    }

    /// Returns the differential privacy of this party's parameters.
    #[must_use]
    pub fn privacy(&self) -> Option<PrivacyConfig> {
        self.policy.privacy
    }

    /// Returns the journal of trainings.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Checks the rules that do not depend on other trainings, in the order in which an operator
    /// would state them.
    fn check(&self, terms: &Terms<'_>) -> Result<(), Refusal> {
        let p = &self.policy;
        if !p.allowed {
            return Err(refused(
                "training is not allowed; its operator may set `allowed = true` in [training], or import parameters that \
                 were trained elsewhere"
                    .into(),
            ));
        }
        if p.active_party.as_ref() != Some(terms.active_party) {
            let asks = terms.active_party;
            return Err(refused(format!("`active_party` in [training] does not name `{asks}`")));
        }
        let classes = terms.class_names.len();
        if !p.class_names.is_empty() && p.class_names != terms.class_names {
            return Err(refused(
                "`class_names` in [training] are not the classes of this training".into(),
            ));
        }
        if p.class_names.is_empty() && classes > p.max_classes as usize {
            return Err(refused(format!(
                "{classes} classes, `max_classes` in [training] is {}",
                p.max_classes
            )));
        }
        let v = terms.config.values();
        let kind = kinds::find(v.model.kind()).map_err(|e| refused(e.to_string()))?;
        if !p.kinds.iter().any(|allowed| allowed == kind.name()) {
            let message = format!(
                "`kinds` in [training] does not name `{}`: it is {}",
                kind.name(),
                p.kinds.join(", ")
            );
            return Err(refused(message));
        }
        let within = |what: &str, got: f64, most: f64| {
            if got <= most {
                return Ok(());
            }
            Err(refused(format!("`{what}` is {got}, `max_{what}` in [training] is {most}")))
        };
        let combiner = v.model.combiner();
        if !p.combiners.contains(&combiner) {
            return Err(refused(format!("`combiners` in [training] does not name `{combiner}`")));
        }
        if combiner == Combiner::Concat {
            let width = v.model.width().unwrap_or(EMBEDDING_WIDTH);
            within("width", f64::from(width), f64::from(p.max_width))?;
        }
        check_linear(self.linear_only, kind)?;
        let private = v.mode == TrainingMode::Private;
        if !private && p.mode == TrainingMode::Private {
            return Err(refused(
                "this training is plain, which would give the active party every feature, and `mode` in [training] is \
                 `private` here: set `mode = \"private\"` in the active party's [training]"
                    .into(),
            ));
        }
        if !private {
            within("learning_rate", v.learning_rate, p.max_learning_rate)?;
        }
        within("l2", v.l2, p.max_l2)?;
        within("epochs", f64::from(v.epochs), f64::from(p.max_epochs))?;
        let records = terms.records;
        if records < p.min_records as usize {
            return Err(refused(format!(
                "{records} records, `min_records` in [training] is {}",
                p.min_records
            )));
        }
        let schedule = Schedule::new(terms.config, records);
        let least = p.min_batch as usize;
        // A private training has one batch: all.
        let got = if private { schedule.training().len() } else { schedule.smallest_batch() };
        if got < least {
            return Err(refused(format!(
                "batches of {got} records, `min_batch` in [training] is {least}"
            )));
        }
        let validation = schedule.validation().len();
        let spec = v
            .model
            .sub_model(u32::try_from(classes).unwrap_or(u32::MAX))
            .map_err(|e| refused(e.to_string()))?;
        let batch = Schedule::largest_batch(terms.config).min(records);
        let each = [
            (batch, kind.values(&spec, self.features)),
            (validation, kind.values_looked_at(&spec, self.features)),
        ];
        // A private training checks its size as a whole.
        let each = if private { Default::default() } else { each };
        let all = each.map(|(records, each)| ((records as u64).saturating_mul(each), records));
        let (values, largest) = all.into_iter().max().unwrap_or_default();
        if values > MAX_BATCH_VALUES {
            return Err(refused(format!(
                "a batch or validation set of {largest} records would take {values} values on its way through the model, \
                 {MAX_BATCH_VALUES} at most; make batches, the validation share or the model smaller"
            )));
        }
        if validation != 0 && validation < least {
            return Err(refused(format!(
                "{validation} validation records, `min_batch` in [training] is {least}: their mean loss would tell too much \
                 of each"
            )));
        }
        Ok(())
    }

    /// Checks the number of trainings.
    fn check_counts(&self, Counts { today, ever }: Counts) -> Result<(), Refusal> {
        let p = &self.policy;
        if today >= u64::from(p.max_per_day) {
            return Err(spent(format!(
                "{today} trainings in a day, `max_per_day` in [training] is {}",
                p.max_per_day
            )));
        }
        if ever >= u64::from(p.max_total) {
            return Err(spent(format!(
                "{ever} trainings so far, `max_total` in [training] is {}",
                p.max_total
            )));
        }
        Ok(())
    }
}

/// Returns the setting that only allows linear sub-models: a transform is of features that meet
/// weights. A release needs no rule: under a transform, nothing of a network is released.
fn linear_only(policy: &TrainingPolicy) -> Option<&'static str> {
    (policy.transform != (TransformConfig::None {})).then_some("`transform` in [training]")
}

/// Refuses a sub-model that does not go with this party's settings.
fn check_linear(setting: Option<&str>, kind: &dyn Kind) -> Result<(), Refusal> {
    match setting {
        Some(setting) if !kind.linear() => {
            let kind = kind.name();
            Err(refused(format!("{setting} takes linear models alone, and `{kind}` is none")))
        }
        _ => Ok(()),
    }
}

fn spent(message: String) -> Refusal {
    Refusal::new(
        RefusalKind::ResourceExhausted,
        format!("this passive party does not take part: {message}"),
    )
}

impl TrainingGate for Consent {
    fn agree(&self, other: Option<&PartyName>, calibration: bool) -> Result<(), Refusal> {
        if calibration && !self.policy.calibration {
            return Err(refused(
                "the coordinator asks for logit shares of training records (`calibration` in its [training]), to which \
                 `calibration = true` in [training] here would consent"
                    .into(),
            ));
        }
        match other {
            Some(other) if self.policy.computing_party.as_ref() != Some(other) => {
                Err(refused(format!(
                    "`{other}` is to compute on shares of its features, and `computing_party` in [training] does not name it"
                )))
            }
            _ => Ok(()),
        }
    }

    fn propose(&self, terms: &Terms<'_>) -> Result<(), Refusal> {
        let allowed = || {
            self.check(terms)?;
            self.journal.refresh().map_err(|e| not_written(&e))?;
            self.check_counts(self.journal.counts(now()))
        };
        allowed().inspect_err(|refusal| {
            tracing::warn!(active_party = %terms.active_party, reason = %refusal, "training refused");
        })
    }

    fn start(&self) -> Result<Option<InitialSeed>, Refusal> {
        match self.policy.start {
            StartFrom::Seed => Ok(None),
            StartFrom::Private => {
                let mut start = InitialSeed::default();
                SysRng.try_fill_bytes(&mut start).map_err(|_| {
                    Refusal::internal(
                        "the operating system gives no random numbers, so no training begins",
                    )
                })?;
                Ok(Some(start))
            }
        }
    }

    fn records_missing(&self, proposal: &Proposal) -> Result<(), Refusal> {
        self.journal.refuse(&proposal.active_party, now()).map_err(|e| not_written(&e))
    }

    fn begin(&self, proposal: &Proposal) -> Result<u64, Refusal> {
        self.check(&proposal.terms())?;
        // Two trainings that were admitted together must not both be the last one allowed.
        let begun = self.journal.begin_if(proposal, now(), |counts| {
            self.check_counts(counts).map_err(BeginTrainingError::Refused)
        });
        let number = begun.map_err(|error| match error {
            BeginTrainingError::Refused(refusal) => refusal,
            BeginTrainingError::Journal(error) => not_written(&error),
        })?;
        let records = proposal.ids.len();
        tracing::info!(active_party = %proposal.active_party, records, number, "a training begins and is written down");
        Ok(number)
    }

    fn batch(&self, positions: &[u32]) -> Result<(), Refusal> {
        let distinct: HashSet<u32> = positions.iter().copied().collect();
        let (least, got) = (self.policy.min_batch as usize, distinct.len());
        if got < least {
            return Err(refused(format!(
                "a batch of {got} distinct records, `min_batch` in [training] is {least}"
            )));
        }
        if got < positions.len() {
            return Err(Refusal::invalid("`batch` names a record twice"));
        }
        Ok(())
    }

    fn reach(&self, number: u64, step: u64) -> Result<(), Refusal> {
        self.journal.reach(number, step).map_err(|e| not_written(&e))
    }

    fn end(&self, number: u64, steps: u64, published: Option<&ModelVersion>) {
        if let Err(error) = self.journal.end(number, steps, published, now()) {
            tracing::error!(%error, number, "the end of a training cannot be written down");
        }
    }
}

#[cfg(test)]
mod tests {
    use vfl_core::model::contract::SubModelOrigin;
    use vfl_core::model::{Parameters, SubModel};
    use vfl_core::model::{Settings, SpecError, SubModelSpec, TrainingConfig};

    use super::*;

    /// A kind that is not linear.
    struct Other;

    impl Kind for Other {
        fn name(&self) -> &'static str {
            "other"
        }

        fn check(&self, _: &Settings) -> Result<(), String> {
            Ok(())
        }

        fn start(&self, _: &SubModelOrigin) -> Result<Box<dyn SubModel>, SpecError> {
            Err(SpecError::KindName)
        }

        fn restore(&self, _: &Parameters) -> Result<Box<dyn SubModel>, SpecError> {
            Err(SpecError::KindName)
        }

        fn largest_output(&self, _: &TrainingConfig, _: &SubModelSpec, _: u32, _: u64) -> f64 {
            f64::INFINITY
        }
    }

    /// A transform of features that meet weights is refused for a model without weights, before any
    /// training.
    #[test]
    fn settings_about_weights_take_linear_models_alone() {
        let transformed =
            TrainingPolicy { transform: TransformConfig::Negate {}, ..Default::default() };
        let setting = linear_only(&transformed);
        check_linear(setting, kinds::find("softmax_regression").unwrap()).unwrap();
        let refused = check_linear(setting, &Other).unwrap_err();
        assert_eq!(refused.kind, RefusalKind::PermissionDenied);
        assert!(
            refused.message.contains("`transform` in [training]")
                && refused.message.contains("`other`"),
            "{refused}"
        );
        check_linear(linear_only(&TrainingPolicy::default()), &Other).unwrap();
    }
}
