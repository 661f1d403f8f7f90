//! What a model is made of: the kind of sub-model and the output width of each party, and how the coordinator combines them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The settings of a kind of sub-model by name, such as the widths of hidden layers. The kind reads and checks them.
pub type Settings = serde_json::Map<String, serde_json::Value>;

/// The kind that is taken where none is named, and the one of every model before there was a choice.
pub const SOFTMAX_REGRESSION: &str = "softmax_regression";
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
    /// A combiner without an implementation.
    #[error("model: combiner `{combiner}` has no implementation in this version; use `sum`")]
    Combiner {
        /// Its name.
        combiner: Combiner,
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
}

/// The values of a [`ModelSpec`] as they stand in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelValues {
    combiner: Combiner,
    active: SubModelSpec,
    passive: Vec<SubModelSpec>,
}

impl TryFrom<ModelValues> for ModelSpec {
    type Error = SpecError;

    fn try_from(v: ModelValues) -> Result<Self, SpecError> {
        Self::new(v.combiner, v.active, v.passive)
    }
}

impl From<ModelSpec> for ModelValues {
    fn from(spec: ModelSpec) -> Self {
        Self { combiner: spec.combiner, active: spec.active, passive: spec.passive }
    }
}

impl ModelSpec {
    /// A model; the passive parties in the order in which their outputs are combined.
    ///
    /// # Errors
    /// [`SpecError::Parties`] without a passive party, or with more than [`MAX_PASSIVE_PARTIES`].
    pub fn new(combiner: Combiner, active: SubModelSpec, passive: Vec<SubModelSpec>) -> Result<Self, SpecError> {
        if !(1..=MAX_PASSIVE_PARTIES).contains(&passive.len()) {
            return Err(SpecError::Parties { got: passive.len() });
        }
        Ok(Self { combiner, active, passive })
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
        Self::new(Combiner::Sum, each.clone(), vec![each; passive])
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
    #[serde(flatten)]
    pub(super) settings: Settings,
}

fn softmax_regression() -> String {
    SOFTMAX_REGRESSION.to_owned()
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self { combiner: Combiner::Sum, kind: softmax_regression(), width: None, settings: Settings::new() }
    }
}

impl From<ModelConfig> for ModelConfigValues {
    fn from(c: ModelConfig) -> Self {
        Self { combiner: c.combiner, kind: c.kind, width: c.width, settings: c.settings }
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

    /// The output width asked for; `None`: one output per class.
    #[must_use]
    pub fn width(&self) -> Option<u32> {
        self.width
    }

    /// The settings of the kind.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The sub-model of one party in a training of `classes` classes.
    ///
    /// # Errors
    /// [`SpecError::SumWidth`] if the combiner adds and the width is not the number of classes.
    pub fn sub_model(&self, classes: u32) -> Result<SubModelSpec, SpecError> {
        let width = self.width.unwrap_or(classes);
        if self.combiner == Combiner::Sum && width != classes {
            return Err(SpecError::SumWidth { party: "each party".to_owned(), got: width, classes });
        }
        SubModelSpec::new(self.kind.clone(), width, self.settings.clone())
    }
}
