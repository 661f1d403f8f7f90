//! `[training]`: the rules for trainings, and the transform of this party's features.

use serde::Deserialize;
use vfl_core::model::privacy::PrivacyConfig;
use vfl_core::model::{Combiner, EMBEDDING_WIDTH, SOFTMAX_REGRESSION, TrainingMode, kinds};
use vfl_core::types::PartyName;
use vfl_transform::TransformConfig;

/// The sentence by which an operator consents to plain trainings.
pub const PLAIN_CONSENT: &str =
    "a plain training gives the active party our features of every training record";

/// The `[training]` table: the rules for trainings, and the transform of this party's features.
///
/// A training uses this party's records for a model that others ask for, so nothing is allowed by
/// default.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainingPolicy {
    /// The map of this party's features before a model is trained on them, and before every
    /// prediction (R section VII-A). It needs no trained parameters and is made once for the life
    /// of the state directory. Default none.
    pub transform: TransformConfig,
    /// True if this party takes part in trainings. Default false.
    pub allowed: bool,
    /// The least private way of computing that it takes part in. Default `"private"`. `"plain"`
    /// takes `plain_consent`.
    pub mode: TrainingMode,
    /// The consent to plain trainings: [`PLAIN_CONSENT`], word for word. Default none.
    pub plain_consent: Option<String>,
    /// Another passive party that may compute on shares of this party's features, with the active
    /// party and the coordinator: no two of these three join hands. Default none: this party
    /// computes itself.
    pub computing_party: Option<PartyName>,
    /// True if the coordinator may have logit shares of up to 10 000 records of a private training,
    /// with the parameters that are published: as much as serving these records would tell it.
    /// Default false.
    pub calibration: bool,
    /// The active party it trains for, by the name in its certificate. No default: needed if
    /// training is allowed.
    pub active_party: Option<PartyName>,
    /// The kinds of sub-models it trains. Default: softmax regression alone. There is no measure of
    /// what a training of another kind reveals to the active party.
    pub kinds: Vec<String>,
    /// The combiners that the coordinator may use. Default: `sum` alone. Under `concat` the
    /// coordinator sees an embedding of each record in place of a logit share, mostly with more
    /// numbers.
    pub combiners: Vec<Combiner>,
    /// The largest width of an embedding, under `concat`. Default 64.
    pub max_width: u32,
    /// The source of the first parameters, for kinds that draw them. Default `"private"`.
    pub start: StartFrom,
    /// The classes, in the order of the model. Default: any, up to `max_classes`.
    pub class_names: Vec<String>,
    /// The most classes of a model. With more classes than features, a single step shows a record
    /// exactly. Default 2.
    pub max_classes: u32,
    /// The fewest records of a training. Default 1000.
    pub min_records: u32,
    /// The fewest records of a batch, and of the records set aside for validation. Default 64.
    pub min_batch: u32,
    /// The largest step size of Adam. Default 0.1.
    pub max_learning_rate: f64,
    /// The most passes over the records: each shows them once more. Default 200.
    pub max_epochs: u32,
    /// The largest weight of the penalty. Default 0.1.
    pub max_l2: f64,
    /// The most trainings in a day, with those that were refused because of records that are not
    /// held here. Default 4.
    pub max_per_day: u32,
    /// The most trainings over the life of the state directory, with and without a model. Default
    /// 20.
    pub max_total: u32,
    /// Differential privacy of this party's parameters: see
    /// [`privacy`](vfl_core::model::privacy). Default none.
    pub privacy: Option<PrivacyConfig>,
}

/// The source of the first parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartFrom {
    /// Random bytes of this party's own, new for each training. From a known start, the first step
    /// would show the active party k − 1 equations of a record's features, and other ones in every
    /// training.
    #[default]
    Private,
    /// The seed of the training, which the active party chooses: the same seed gives the same
    /// model.
    Seed,
}

impl Default for TrainingPolicy {
    fn default() -> Self {
        Self {
            transform: TransformConfig::None {},
            allowed: false,
            mode: TrainingMode::Private,
            plain_consent: None,
            computing_party: None,
            calibration: false,
            active_party: None,
            kinds: vec![SOFTMAX_REGRESSION.to_owned()],
            combiners: vec![Combiner::Sum],
            max_width: EMBEDDING_WIDTH,
            start: StartFrom::Private,
            class_names: Vec::new(),
            max_classes: 2,
            min_records: 1000,
            min_batch: 64,
            max_learning_rate: 0.1,
            max_epochs: 200,
            max_l2: 0.1,
            max_per_day: 4,
            max_total: 20,
            privacy: None,
        }
    }
}

/// Checks the rules for trainings.
///
/// # Errors
/// A message that says what is wrong and how to mend it.
pub fn check_training(policy: &TrainingPolicy) -> Result<(), String> {
    if policy.allowed && policy.active_party.is_none() {
        return Err(
            "`allowed = true` needs `active_party`, the name of the one active party it is for"
                .into(),
        );
    }
    if policy.mode == TrainingMode::Plain && policy.plain_consent.as_deref() != Some(PLAIN_CONSENT)
    {
        return Err(format!(
            "`mode = \"plain\"` gives away what the private mode keeps; whoever accepts that writes beside it:\n\
             plain_consent = \"{PLAIN_CONSENT}\""
        ));
    }
    for kind in &policy.kinds {
        kinds::find(kind).map_err(|e| format!("`kinds` in [training]: {e}"))?;
    }
    if policy.class_names.len() == 1 {
        return Err("`class_names` lists all classes of the model, at least two".into());
    }
    for (name, value) in
        [("max_learning_rate", policy.max_learning_rate), ("max_l2", policy.max_l2)]
    {
        if !(value.is_finite() && value >= 0.0) {
            return Err(format!("`{name}` must be finite and at least 0"));
        }
    }
    Ok(())
}
