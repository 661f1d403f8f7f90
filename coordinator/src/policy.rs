//! Policies prepared for a model: the inputs that some defenses are fitted on are fetched, and the
//! key of their noise is derived.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use futures_util::future::try_join_all;
use nalgebra::DMatrix;
use rand::Rng;
use vfl_core::metrics::{MetricError, UtilityTotals};
use vfl_core::types::{ConfidenceScores, Logits, ModelVersion, RecordIds, ReleasedScores};
use vfl_defense::policy::{Leakage, NoiseMode, ReleaseKind};
use vfl_defense::{
    Contract, DefenseConfig, Grants, Noise, NoiseKey, NoiseSecret, NumberOutput, NumberPipeline,
    Pipeline, PipelineOutput, Policy,
};
use vfl_protocol::{Refusal, RefusalKind};

use crate::client::PassiveParty;
use crate::config::ServingPolicy;
use crate::registry::{PublishedModel, Registry};

/// The purpose that a policy is prepared for. Each has noise of its own: the live service and the
/// sessions of audits bind a record's share separately, and one noise under two shares would reveal
/// the noise itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The live service.
    Service,
    /// The sessions of audits, all of them alike.
    Audit,
}

/// A policy, ready to be applied to the scores of one model.
#[derive(Debug)]
pub struct ReadyPolicy {
    /// The policy that was asked for.
    pub policy: Policy,
    text: String,
    pipeline: ReadyPipeline,
    key: NoiseKey,
    leakage: Leakage,
}

/// The defenses of a policy, for scores of classes or for a number.
#[derive(Debug)]
enum ReadyPipeline {
    Scores(Pipeline),
    Numbers(NumberPipeline),
}

/// The outputs that a policy is applied to, which stay at the coordinator.
#[derive(Debug, Clone)]
pub enum UndefendedOutputs {
    /// Scores of classes.
    Scores(ConfidenceScores),
    /// Numbers, 1 × n.
    Numbers(DMatrix<f64>),
}

impl UndefendedOutputs {
    /// Measures the cost of a release in place of it.
    ///
    /// # Errors
    /// [`MetricError`] for a release of another shape.
    pub fn cost(&self, released: &ReleasedScores) -> Result<UtilityTotals, MetricError> {
        match self {
            Self::Scores(scores) => UtilityTotals::of(scores, released),
            Self::Numbers(numbers) => UtilityTotals::of_numbers(numbers, released),
        }
    }

    /// Returns that of the records at `positions`. A selection of valid scores is valid.
    #[must_use]
    pub fn select(&self, positions: &[usize]) -> Option<Self> {
        Some(match self {
            Self::Scores(scores) => {
                Self::Scores(ConfidenceScores::new(scores.matrix().select_columns(positions)).ok()?)
            }
            Self::Numbers(numbers) => Self::Numbers(numbers.select_columns(positions)),
        })
    }
}

/// A release beside the outputs that it stands for.
#[derive(Debug)]
pub struct DefenseOutcome {
    /// The outputs before the policy.
    pub undefended: UndefendedOutputs,
    /// The release, which leaves.
    pub released: ReleasedScores,
}

impl ReadyPolicy {
    /// Creates a policy that needs nothing fetched, with a known key.
    #[cfg(test)]
    pub(crate) fn unkeyed(policy: &Policy, classes: usize) -> Self {
        let pipeline = Pipeline::build(&policy.defenses, classes, &Grants::default()).unwrap();
        let (key, leakage) = (NoiseKey::new([0; 32]), policy.leakage(classes));
        let pipeline = ReadyPipeline::Scores(pipeline);
        Self { policy: policy.clone(), text: policy.to_string(), pipeline, key, leakage }
    }

    /// Returns `true` if a defense takes microseconds a score.
    #[must_use]
    pub fn costly(&self) -> bool {
        self.policy.defenses.iter().any(|defense| defense.facts().costly)
    }

    /// Returns the most bits that all answers about a record tell; `None` where no finite bound
    /// holds.
    #[must_use]
    pub fn bits(&self) -> Option<f64> {
        let bits = self.leakage.bits()?;
        // With fresh noise the pipeline's bound is that of one answer.
        let of_words = self.contract().bits.filter(|_| self.policy.noise == NoiseMode::Keyed);
        Some(of_words.map_or(bits, |words| bits.min(words)))
    }

    /// Returns the text of the policy.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the promises of the policy as a whole.
    #[must_use]
    pub fn contract(&self) -> Contract {
        match &self.pipeline {
            ReadyPipeline::Scores(pipeline) => pipeline.contract(),
            ReadyPipeline::Numbers(pipeline) => pipeline.contract(),
        }
    }

    /// Returns what users should know of the defenses, one line each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        match &self.pipeline {
            ReadyPipeline::Scores(pipeline) => pipeline.notes(),
            ReadyPipeline::Numbers(pipeline) => pipeline.notes(),
        }
    }

    /// Returns the words of a codebook (k × words), if the last defense is one.
    #[must_use]
    pub fn words(&self) -> Option<&DMatrix<f64>> {
        match &self.pipeline {
            ReadyPipeline::Scores(pipeline) => pipeline.words(),
            ReadyPipeline::Numbers(_) => None,
        }
    }

    /// Applies the policy to the logits of the records `ids`, and keeps what it is applied to.
    ///
    /// # Errors
    /// INTERNAL where a defense does not apply to these records.
    pub fn release(&self, logits: Logits, ids: &RecordIds) -> Result<DefenseOutcome, Refusal> {
        let noise = self.noise(ids);
        let defended = match &self.pipeline {
            ReadyPipeline::Scores(pipeline) => {
                pipeline.release(logits, noise).map(|PipelineOutput { scores, released }| {
                    DefenseOutcome { undefended: UndefendedOutputs::Scores(scores), released }
                })
            }
            ReadyPipeline::Numbers(pipeline) => {
                pipeline.release(logits, noise).map(|NumberOutput { numbers, released }| {
                    DefenseOutcome { undefended: UndefendedOutputs::Numbers(numbers), released }
                })
            }
        };
        defended.map_err(|e| Refusal::internal(e.to_string()))
    }

    /// Applies the policy to the logits of the records `ids`.
    ///
    /// # Errors
    /// As [`ReadyPolicy::release`].
    pub fn release_alone(
        &self,
        logits: Logits,
        ids: &RecordIds,
    ) -> Result<ReleasedScores, Refusal> {
        match &self.pipeline {
            ReadyPipeline::Scores(pipeline) => pipeline
                .release_alone(logits, self.noise(ids))
                .map_err(|e| Refusal::internal(e.to_string())),
            ReadyPipeline::Numbers(_) => Ok(self.release(logits, ids)?.released),
        }
    }

    fn noise<'a>(&'a self, ids: &'a RecordIds) -> Noise<'a> {
        match self.policy.noise {
            NoiseMode::Keyed => Noise::keyed(&self.key, ids),
            NoiseMode::Fresh => {
                let mut seed = [0; 32];
                rand::rng().fill_bytes(&mut seed);
                Noise::fresh(seed)
            }
        }
    }
}

/// Returns the name of the first defense of a policy that is fitted on scores of the model's
/// training.
pub(crate) fn fitted_defense(policy: &Policy) -> Option<&'static str> {
    policy.defenses.iter().find(|defense| defense.fitted()).map(DefenseConfig::name)
}

/// The policies of a coordinator: prepares them for a model, and keeps the live one.
pub struct Policies {
    live: Policy,
    serving: ServingPolicy,
    secret: NoiseSecret,
    registry: Arc<Registry>,
    passive: Vec<Arc<PassiveParty>>,
    ready: RwLock<Option<(ModelVersion, Arc<ReadyPolicy>)>>,
    turn: tokio::sync::Mutex<()>,
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policies(live: {})", self.live)
    }
}

impl Policies {
    /// Creates the policies of a coordinator whose live service has the policy `live`, which must
    /// keep to the limits of `serving`.
    #[must_use]
    pub fn new(
        live: Policy,
        serving: ServingPolicy,
        secret: NoiseSecret,
        registry: Arc<Registry>,
        passive: Vec<Arc<PassiveParty>>,
    ) -> Self {
        Self {
            live,
            serving,
            secret,
            registry,
            passive,
            ready: RwLock::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the policy of the live service.
    #[must_use]
    pub fn live(&self) -> &Policy {
        &self.live
    }

    /// Returns the live policy for a model, prepared on first use.
    ///
    /// # Errors
    /// As [`Policies::prepare`]; FAILED_PRECONDITION where it tells more bits than `max_bits` or
    /// the budget of bits allow.
    pub async fn live_for(&self, model: &PublishedModel) -> Result<Arc<ReadyPolicy>, Refusal> {
        let version = &model.manifest.version;
        if let Some((of, ready)) = &*self.ready.read().unwrap_or_else(PoisonError::into_inner)
            && of == version
        {
            return Ok(ready.clone());
        }
        // One request prepares it, the others wait.
        let _turn = self.turn.lock().await;
        if let Some((of, ready)) = &*self.ready.read().unwrap_or_else(PoisonError::into_inner)
            && of == version
        {
            return Ok(ready.clone());
        }
        self.serving.check_bits(&self.live, model.classes()).map_err(Refusal::precondition)?;
        let ready = self.prepare(model, &self.live, Purpose::Service).await.map_err(|refusal| {
            match refusal.kind {
                // The caller is not at fault.
                RefusalKind::InvalidArgument => {
                    let message = format!(
                        "the coordinator's [defense] does not fit the model in service: {refusal}"
                    );
                    Refusal::new(RefusalKind::FailedPrecondition, message)
                }
                _ => refusal,
            }
        })?;
        let passive: u32 = model.manifest.passive_parties.iter().map(|party| party.features).sum();
        let exact =
            self.live.defenses.iter().all(|defense| defense.leaves() == ReleaseKind::Everything);
        let linear = model
            .manifest
            .model()
            .is_ok_and(|spec| spec.is_softmax_regression(model.classes() as u32));
        if model.link.is_numeric() && exact && passive == 1 {
            tracing::warn!(
                "warning: exact numbers and one passive feature: differences of the numbers alone give back a feature that is a whole \
                 number, without any parameter or known record (docs/lattice.md)"
            );
        }
        if linear && exact && (passive as usize) < model.classes() {
            tracing::warn!(
                "warning: exact scores of {} classes and {passive} passive features: differences of the scores alone give back features that \
                 are whole numbers, without any parameter or known record (docs/lattice.md)",
                model.classes()
            );
        }
        let ready = Arc::new(ready);
        *self.ready.write().unwrap_or_else(PoisonError::into_inner) =
            Some((version.clone(), ready.clone()));
        Ok(ready)
    }

    /// Prepares a policy for a model: asks the passive parties for their parameters if a defense
    /// needs them, reads the calibration scores of the model's training if one is fitted on them.
    ///
    /// # Errors
    /// FAILED_PRECONDITION naming what a defense lacks; PERMISSION_DENIED where a passive party
    /// does not grant its parameters to the coordinator; INVALID_ARGUMENT for parameters that do
    /// not fit the model.
    pub async fn prepare(
        &self,
        model: &PublishedModel,
        policy: &Policy,
        purpose: Purpose,
    ) -> Result<ReadyPolicy, Refusal> {
        let version = &model.manifest.version;
        if model.link.is_numeric() {
            // Before anything is fetched for a defense that does not apply.
            NumberPipeline::build(&policy.defenses, model.link)
                .map_err(|e| Refusal::invalid(format!("policy `{policy}`: {e}")))?;
        }
        let weights = match policy.defenses.iter().find(|defense| defense.needs_passive_weights()) {
            Some(defense) => {
                Some(self.passive_weights(defense.name(), version, model.classes()).await?)
            }
            None => None,
        };
        let calibration = if let Some(fitted) = fitted_defense(policy) {
            let registry = self.registry.clone();
            let manifest = model.manifest.clone();
            let read = tokio::task::spawn_blocking(move || registry.calibration(&manifest)).await;
            let scores =
                read.map_err(|_| Refusal::internal("reading the calibration scores failed"))?;
            let scores = scores.map_err(|e| Refusal::internal(e.to_string()))?;
            Some(scores.ok_or_else(|| {
                let mend = match model.manifest.training {
                    Some(_) => "train it again with this version",
                    None => "it was imported, not trained here: take another defense, or train it here",
                };
                Refusal::precondition(format!(
                    "the model in service has no calibration scores, which `{fitted}` is fitted on; {mend}"
                ))
            })?)
        } else {
            None
        };
        // The text names every parameter: another parameter gives other noise.
        let text = policy.to_string();
        // Not the version: the active party can change that at will, by renaming a class.
        let service = self.secret.key(&model.passive_fingerprint, &text);
        // Defenses are fitted alike for both purposes, so that an audit is of the codebook in
        // service.
        let (defenses, classes, seed) =
            (policy.defenses.clone(), model.classes(), service.training_seed());
        let key = match purpose {
            Purpose::Service => service,
            Purpose::Audit => {
                self.secret.key(&model.passive_fingerprint, &format!("audit: {text}"))
            }
        };
        let link = model.link;
        let build = move || {
            if link.is_numeric() {
                return NumberPipeline::build(&defenses, link).map(ReadyPipeline::Numbers);
            }
            let grants = Grants {
                passive_weights: weights.as_ref(),
                calibration: calibration.as_ref(),
                seed,
            };
            Pipeline::build(&defenses, classes, &grants).map(ReadyPipeline::Scores)
        };
        // A codebook takes a while to fit, and a purifier to train.
        let built = tokio::task::spawn_blocking(build)
            .await
            .map_err(|_| Refusal::internal("fitting a defense failed"))?;
        let pipeline = built.map_err(|e| {
            let shown: String = text.chars().take(120).collect();
            Refusal::invalid(format!("policy `{shown}`: {e}"))
        })?;
        let leakage = policy.leakage(model.classes());
        Ok(ReadyPolicy { policy: policy.clone(), text, pipeline, key, leakage })
    }

    /// Returns W_pas of all passive parties side by side, in the order of summation; `defense`
    /// needs it.
    async fn passive_weights(
        &self,
        defense: &str,
        version: &ModelVersion,
        classes: usize,
    ) -> Result<DMatrix<f64>, Refusal> {
        let blocks = try_join_all(
            self.passive.iter().map(|party| party.release_parameters(version, classes)),
        )
        .await;
        let blocks = blocks.map_err(|refusal| match refusal.kind {
            RefusalKind::PermissionDenied => {
                let message = format!("`{defense}` needs the passive parameters: {refusal}");
                Refusal::new(RefusalKind::PermissionDenied, message)
            }
            _ => refusal,
        })?;
        let features = blocks.iter().map(DMatrix::ncols).sum();
        let mut all = DMatrix::zeros(classes, features);
        let mut from = 0;
        for block in blocks {
            all.columns_mut(from, block.ncols()).copy_from(&block);
            from += block.ncols();
        }
        Ok(all)
    }
}
