//! What a model is made of: the kind of sub-model and the output width of each party, and how the coordinator combines them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The settings of a kind of sub-model by name, such as the widths of hidden layers. The kind reads and checks them.
pub type Settings = serde_json::Map<String, serde_json::Value>;

/// The kind that is taken where none is named, and the one of every model before there was a choice.
pub const SOFTMAX_REGRESSION: &str = "softmax_regression";
/// The kind of every top model.
pub const TOP_KIND: &str = "mlp";
/// The output width of a party under `concat` where none is named: that of P (4.1).
pub const EMBEDDING_WIDTH: u32 = 64;
/// The largest output width of a party: that of the largest number of classes.
pub const MAX_WIDTH: u32 = 65_536;
/// The most passive parties of a model.
pub const MAX_PASSIVE_PARTIES: usize = 64;
/// The longest text of settings, in bytes.
pub const MAX_SETTINGS_BYTES: usize = 4096;

/// Why a model was refused when its configuration was checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A kind that is not in the register.
    #[error("model: `kind` is `{kind}`, this version knows {known}")]
    Kind {
        /// The kind, as far as it is a name.
        kind: String,
        /// All that there are.
        known: String,
    },
    /// A kind that is no name.
    #[error("model: `kind` is 1 to 64 of a-z, 0-9 and _")]
    KindName,
    /// A kind whose parameters are read as parts of a sum.
    #[error(
        "model: combiner `concat` does not take `{kind}`, whose parameters are read as parts of a sum of logits; use `mlp`, with \
         `hidden = []` for a linear map"
    )]
    ConcatKind {
        /// The kind.
        kind: String,
    },
    /// A top model that cannot be one.
    #[error("model: `top`: {reason}")]
    Top {
        /// What is wrong and how to mend it.
        reason: String,
    },
    /// An output width out of range.
    #[error("model: `width` is {got}, expected 1 to {MAX_WIDTH}")]
    Width {
        /// What came.
        got: u32,
    },
    /// A width that the combiner cannot take.
    #[error(
        "model: combiner `sum` adds logit shares, so that each party has one output per class: {classes}, and {party} has \
         `width` {got}; leave `width` out"
    )]
    SumWidth {
        /// Whose, in words.
        party: String,
        /// What came.
        got: u32,
        /// Number of classes.
        classes: u32,
    },
    /// Settings that the kind does not take.
    #[error("model: settings of `{kind}`: {reason}")]
    Settings {
        /// The kind.
        kind: String,
        /// What is wrong and how to mend it.
        reason: String,
    },
    /// Settings that are too long or no table.
    #[error("model: the settings of a kind are a table of at most {MAX_SETTINGS_BYTES} bytes")]
    SettingsForm,
    /// No passive party, or too many.
    #[error("model: {got} passive parties, expected 1 to {MAX_PASSIVE_PARTIES}")]
    Parties {
        /// What came.
        got: usize,
    },
    /// Parameters that are not of this kind.
    #[error("parameters of `{kind}`: {reason}")]
    Parameters {
        /// The kind.
        kind: String,
        /// What is wrong.
        reason: String,
    },
}

/// How the coordinator makes logits of the parties' outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Combiner {
    /// Outputs are logit shares, and are added.
    #[default]
    Sum,
    /// Outputs are put side by side, and a top model at the coordinator makes logits of them.
    Concat,
}

impl Combiner {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Concat => "concat",
        }
    }
}

impl fmt::Display for Combiner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The sub-model of one party.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SubModelValues", into = "SubModelValues")]
pub struct SubModelSpec {
    pub(super) kind: String,
    pub(super) width: u32,
    pub(super) settings: Settings,
}

/// The values of a [`SubModelSpec`] as they stand in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SubModelValues {
    kind: String,
    width: u32,
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    settings: Settings,
}

impl TryFrom<SubModelValues> for SubModelSpec {
    type Error = SpecError;

    fn try_from(v: SubModelValues) -> Result<Self, SpecError> {
        Self::new(v.kind, v.width, v.settings)
    }
}

impl From<SubModelSpec> for SubModelValues {
    fn from(spec: SubModelSpec) -> Self {
        Self { kind: spec.kind, width: spec.width, settings: spec.settings }
    }
}

impl SubModelSpec {
    /// A sub-model of a kind with `width` outputs per record. Whether the kind is known and takes these settings is for
    /// [`kinds::find`](super::kinds::find) and [`SubModelSpec::check`]: a file of another version is read before it is refused.
    ///
    /// # Errors
    /// [`SpecError`] for a width out of range, a kind that is no name, or settings that are too long.
    pub fn new(kind: impl Into<String>, width: u32, settings: Settings) -> Result<Self, SpecError> {
        let kind = kind.into();
        if !(1..=MAX_WIDTH).contains(&width) {
            return Err(SpecError::Width { got: width });
        }
        let named = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        if !(1..=64).contains(&kind.len()) || !kind.bytes().all(named) {
            return Err(SpecError::KindName);
        }
        let spec = Self { kind, width, settings };
        if spec.settings_text().len() > MAX_SETTINGS_BYTES {
            return Err(SpecError::SettingsForm);
        }
        Ok(spec)
    }

    /// Softmax regression of `classes` classes, at least 1.
    #[must_use]
    pub fn softmax_regression(classes: u32) -> Self {
        let width = classes.clamp(1, MAX_WIDTH);
        Self { kind: SOFTMAX_REGRESSION.to_owned(), width, settings: Settings::new() }
    }

    /// The kind's name.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Outputs per record.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// The kind's settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The settings as JSON; empty if there are none.
    #[must_use]
    pub fn settings_text(&self) -> String {
        match self.settings.is_empty() {
            true => String::new(),
            // A map of JSON values: serialisation cannot fail.
            false => serde_json::to_string(&self.settings).unwrap_or_default(),
        }
    }

    /// Reads what [`SubModelSpec::settings_text`] gives.
    ///
    /// # Errors
    /// [`SpecError::SettingsForm`].
    pub fn parse_settings(text: &str) -> Result<Settings, SpecError> {
        match text.len() {
            0 => Ok(Settings::new()),
            1..=MAX_SETTINGS_BYTES => serde_json::from_str(text).map_err(|_| SpecError::SettingsForm),
            _ => Err(SpecError::SettingsForm),
        }
    }
}

/// A whole model: what each party holds, and how the coordinator combines it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ModelValues", into = "ModelValues")]
pub struct ModelSpec {
    combiner: Combiner,
    active: SubModelSpec,
    passive: Vec<SubModelSpec>,
    /// Of combiner `concat` alone.
    top: Option<SubModelSpec>,
}

/// The values of a [`ModelSpec`] as they stand in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelValues {
    combiner: Combiner,
    active: SubModelSpec,
    passive: Vec<SubModelSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    top: Option<SubModelSpec>,
}

impl TryFrom<ModelValues> for ModelSpec {
    type Error = SpecError;

    fn try_from(v: ModelValues) -> Result<Self, SpecError> {
        Self::new(v.combiner, v.active, v.passive, v.top)
    }
}

impl From<ModelSpec> for ModelValues {
    fn from(spec: ModelSpec) -> Self {
        Self { combiner: spec.combiner, active: spec.active, passive: spec.passive, top: spec.top }
    }
}

impl ModelSpec {
    /// A model; the passive parties in the order in which their outputs are combined, and the top model of combiner `concat`.
    ///
    /// # Errors
    /// [`SpecError::Parties`] without a passive party, or with more than [`MAX_PASSIVE_PARTIES`]; [`SpecError::Top`] unless there is a
    /// top model exactly where one is needed.
    pub fn new(
        combiner: Combiner,
        active: SubModelSpec,
        passive: Vec<SubModelSpec>,
        top: Option<SubModelSpec>,
    ) -> Result<Self, SpecError> {
        if !(1..=MAX_PASSIVE_PARTIES).contains(&passive.len()) {
            return Err(SpecError::Parties { got: passive.len() });
        }
        check_top(combiner, top.is_some())?;
        Ok(Self { combiner, active, passive, top })
    }

    /// Softmax regression of `classes` classes at an active and `passive` passive parties, summed.
    ///
    /// # Errors
    /// [`SpecError::Parties`].
    pub fn softmax_regression(classes: u32, passive: usize) -> Result<Self, SpecError> {
        if passive > MAX_PASSIVE_PARTIES {
            return Err(SpecError::Parties { got: passive });
        }
        let each = SubModelSpec::softmax_regression(classes);
        Self::new(Combiner::Sum, each.clone(), vec![each; passive], None)
    }

    /// How outputs are combined.
    #[must_use]
    pub fn combiner(&self) -> Combiner {
        self.combiner
    }

    /// The active party's sub-model.
    #[must_use]
    pub fn active(&self) -> &SubModelSpec {
        &self.active
    }

    /// Those of the passive parties, in the order in which their outputs are combined.
    #[must_use]
    pub fn passive(&self) -> &[SubModelSpec] {
        &self.passive
    }

    /// The coordinator's top model, with one output per class; combiner `concat` alone has one.
    #[must_use]
    pub fn top(&self) -> Option<&SubModelSpec> {
        self.top.as_ref()
    }

    /// Output widths, the active party's first.
    #[must_use]
    pub fn widths(&self) -> Vec<usize> {
        std::iter::once(&self.active).chain(&self.passive).map(|spec| spec.width as usize).collect()
    }

    /// Whether this is softmax regression of `classes` classes, summed: every model before there was a choice.
    #[must_use]
    pub fn is_softmax_regression(&self, classes: u32) -> bool {
        let plain = SubModelSpec::softmax_regression(classes);
        self.combiner == Combiner::Sum && self.active == plain && self.passive.iter().all(|spec| *spec == plain)
    }
}

/// `[model]`: what the active party asks the parties of a training to train.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ModelConfigValues", into = "ModelConfigValues")]
pub struct ModelConfig {
    pub(super) combiner: Combiner,
    pub(super) kind: String,
    pub(super) width: Option<u32>,
    pub(super) settings: Settings,
    pub(super) top: Option<Settings>,
}

/// The values of a [`ModelConfig`] as they stand in a file; keys beside these are settings of the kind.
#[derive(Serialize, Deserialize)]
pub(super) struct ModelConfigValues {
    #[serde(default)]
    pub(super) combiner: Combiner,
    #[serde(default = "softmax_regression")]
    pub(super) kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) width: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) top: Option<Settings>,
    #[serde(flatten)]
    pub(super) settings: Settings,
}

fn softmax_regression() -> String {
    SOFTMAX_REGRESSION.to_owned()
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self { combiner: Combiner::Sum, kind: softmax_regression(), width: None, settings: Settings::new(), top: None }
    }
}

impl From<ModelConfig> for ModelConfigValues {
    fn from(c: ModelConfig) -> Self {
        Self { combiner: c.combiner, kind: c.kind, width: c.width, settings: c.settings, top: c.top }
    }
}

impl ModelConfig {
    /// Whether this is what is taken where nothing is said.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// How outputs are combined.
    #[must_use]
    pub fn combiner(&self) -> Combiner {
        self.combiner
    }

    /// The kind of sub-model.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The output width asked for; `None`: one output per class, under `concat` [`EMBEDDING_WIDTH`].
    #[must_use]
    pub fn width(&self) -> Option<u32> {
        self.width
    }

    /// The settings of the kind.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The settings of the top model asked for; `None`: those of [`ModelConfig::model`].
    #[must_use]
    pub fn top(&self) -> Option<&Settings> {
        self.top.as_ref()
    }

    /// The sub-model of one party in a training of `classes` classes.
    ///
    /// # Errors
    /// [`SpecError::SumWidth`] if the combiner adds and the width is not the number of classes.
    pub fn sub_model(&self, classes: u32) -> Result<SubModelSpec, SpecError> {
        let width = match self.combiner {
            Combiner::Sum => self.width.unwrap_or(classes),
            Combiner::Concat => self.width.unwrap_or(EMBEDDING_WIDTH),
        };
        if self.combiner == Combiner::Sum && width != classes {
            return Err(SpecError::SumWidth { party: "each party".to_owned(), got: width, classes });
        }
        SubModelSpec::new(self.kind.clone(), width, self.settings.clone())
    }

    /// The whole model, of these sub-models. A top model of which nothing is said is the paper's: embeddings → classes with one
    /// passive party, embeddings → 256 relu → classes with more (P 4.1).
    ///
    /// # Errors
    /// As [`ModelSpec::new`].
    pub fn model(
        &self,
        classes: u32,
        active: SubModelSpec,
        passive: Vec<SubModelSpec>,
    ) -> Result<ModelSpec, SpecError> {
        let top = match self.combiner {
            Combiner::Sum => None,
            Combiner::Concat => {
                let hidden: &[u32] = if passive.len() == 1 { &[] } else { &[256] };
                let mut settings = Settings::new();
                settings.insert("hidden".to_owned(), hidden.into());
                settings.insert("activation".to_owned(), "relu".into());
                settings.extend(self.top.clone().unwrap_or_default());
                Some(SubModelSpec::new(TOP_KIND, classes, settings)?)
            }
        };
        ModelSpec::new(self.combiner, active, passive, top)
    }
}

/// There is a top model under `concat`, and nowhere else.
pub(super) fn check_top(combiner: Combiner, there: bool) -> Result<(), SpecError> {
    match (combiner, there) {
        (Combiner::Sum, true) => Err(SpecError::Top {
            reason: "combiner `sum` has no top model; leave `top` out, or use `concat`".to_owned(),
        }),
        (Combiner::Concat, false) => Err(SpecError::Top { reason: "combiner `concat` needs a top model".to_owned() }),
        _ => Ok(()),
    }
}
