//! Specifications of models: the kind of sub-model and the output width of each party, and the
//! combiner at the coordinator.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Link;

/// The settings of a kind of sub-model by name, such as the widths of hidden layers. The kind reads
/// and checks them.
pub type Settings = serde_json::Map<String, serde_json::Value>;

/// The default kind, which every model had before there was a choice.
pub const SOFTMAX_REGRESSION: &str = "softmax_regression";
/// The kind of models of a number, with a [`Link`](super::Link).
pub const GENERALIZED_LINEAR: &str = "generalized_linear";
/// The kind of models of one class against the rest each, which are imported.
pub const ONE_VS_REST: &str = "one_vs_rest";
/// The kind of every top model.
pub const TOP_KIND: &str = "mlp";
/// The default output width of a party under `concat`: that of P (4.1).
pub const EMBEDDING_WIDTH: u32 = 64;
/// The largest output width of a party: that of the largest number of classes.
pub const MAX_WIDTH: u32 = 65_536;
/// The largest number of passive parties of a model.
pub const MAX_PASSIVE_PARTIES: usize = 64;
/// The longest text of settings, in bytes.
pub const MAX_SETTINGS_BYTES: usize = 4096;

/// Errors from checking the configuration of a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A kind that is not in the register.
    #[error("model: `kind` is `{kind}`, this version knows {known}")]
    Kind {
        /// The kind that was given.
        kind: String,
        /// The kinds that are known.
        known: String,
    },
    /// A kind that is not a valid name.
    #[error("model: `kind` is 1 to 64 of a-z, 0-9 and _")]
    KindName,
    /// A kind whose parameters are read as parts of a sum.
    #[error(
        "model: combiner `concat` does not take `{kind}`, whose parameters are read as parts of a sum of logits; use `mlp`, with \
         `hidden = []` for a linear map"
    )]
    ConcatKind {
        /// The kind of sub-model.
        kind: String,
    },
    /// A top model that is not valid.
    #[error("model: `top`: {reason}")]
    Top {
        /// The problem and its fix.
        reason: String,
    },
    /// An output width out of range.
    #[error("model: `width` is {got}, expected 1 to {MAX_WIDTH}")]
    Width {
        /// The width that was given.
        got: u32,
    },
    /// A width that the combiner cannot take.
    #[error(
        "model: combiner `sum` adds logit shares, so that each party has one output per class: {classes}, and {party} has \
         `width` {got}; leave `width` out"
    )]
    SumWidth {
        /// The party, in words.
        party: String,
        /// The width that was given.
        got: u32,
        /// Number of classes.
        classes: u32,
    },
    /// Settings that the kind does not take.
    #[error("model: settings of `{kind}`: {reason}")]
    Settings {
        /// The kind of sub-model.
        kind: String,
        /// The problem and its fix.
        reason: String,
    },
    /// Sub-models of different links.
    #[error(
        "model: the active party's link is {active} and that of passive party {at} is {passive}; all parties import parts of one \
         model"
    )]
    Links {
        /// The active party's link.
        active: Link,
        /// The other link.
        passive: Link,
        /// The place of the passive party, from 1.
        at: usize,
    },
    /// Settings that are too long or not a table.
    #[error("model: the settings of a kind are a table of at most {MAX_SETTINGS_BYTES} bytes")]
    SettingsForm,
    /// No passive party, or too many.
    #[error("model: {got} passive parties, expected 1 to {MAX_PASSIVE_PARTIES}")]
    Parties {
        /// The number that was given.
        got: usize,
    },
    /// Parameters that do not fit this kind.
    #[error("parameters of `{kind}`: {reason}")]
    Parameters {
        /// The kind of sub-model.
        kind: String,
        /// The problem, in words.
        reason: String,
    },
}

/// The way in which the coordinator computes logits from the parties' outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Combiner {
    /// Outputs are logit shares, and are added.
    #[default]
    Sum,
    /// Outputs are concatenated, and a top model at the coordinator computes logits from them.
    Concat,
}

impl Combiner {
    /// Returns the name of the combiner.
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

/// The values of a [`SubModelSpec`] in a file.
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
    /// Creates the sub-model of a kind with `width` outputs per record.
    /// [`kinds::find`](super::kinds::find) and [`SubModelSpec::check`] check that the kind is known
    /// and takes these settings: a file of another version is read before it is refused.
    ///
    /// # Errors
    /// [`SpecError`] for a width out of range, a kind that is not a valid name, or settings that
    /// are too long.
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

    /// Creates softmax regression of `classes` classes, at least 1.
    #[must_use]
    pub fn softmax_regression(classes: u32) -> Self {
        let width = classes.clamp(1, MAX_WIDTH);
        Self { kind: SOFTMAX_REGRESSION.to_owned(), width, settings: Settings::new() }
    }

    /// Creates the linear model of a link: of `classes` classes, or that of a number.
    #[must_use]
    pub fn linear(link: Link, classes: u32) -> Self {
        if !link.is_numeric() {
            let kind = if link == Link::OneVsRest { ONE_VS_REST } else { SOFTMAX_REGRESSION };
            return Self { kind: kind.to_owned(), ..Self::softmax_regression(classes) };
        }
        let settings = Settings::from_iter([("link".to_owned(), link.as_str().into())]);
        Self { kind: GENERALIZED_LINEAR.to_owned(), width: 1, settings }
    }

    /// Returns the kind's name.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the number of outputs per record.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Returns the kind's settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the settings as JSON; empty if there are none.
    #[must_use]
    pub fn settings_text(&self) -> String {
        match self.settings.is_empty() {
            true => String::new(),
            // A map of JSON values: serialisation cannot fail.
            false => serde_json::to_string(&self.settings).unwrap_or_default(),
        }
    }

    /// Reads the text that [`SubModelSpec::settings_text`] returns.
    ///
    /// # Errors
    /// [`SpecError::SettingsForm`].
    pub fn parse_settings(text: &str) -> Result<Settings, SpecError> {
        match text.len() {
            0 => Ok(Settings::new()),
            1..=MAX_SETTINGS_BYTES => {
                serde_json::from_str(text).map_err(|_| SpecError::SettingsForm)
            }
            _ => Err(SpecError::SettingsForm),
        }
    }
}

/// A whole model: the sub-models of the parties, and the combiner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ModelValues", into = "ModelValues")]
pub struct ModelSpec {
    combiner: Combiner,
    active: SubModelSpec,
    passive: Vec<SubModelSpec>,
    /// The top model, for combiner `concat` alone.
    top: Option<SubModelSpec>,
}

/// The values of a [`ModelSpec`] in a file.
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
    /// Creates a model. `passive` are in the order in which their outputs are combined; `top` is
    /// the top model of combiner `concat`.
    ///
    /// # Errors
    /// [`SpecError::Parties`] without a passive party, or with more than [`MAX_PASSIVE_PARTIES`];
    /// [`SpecError::Top`] if a needed top model is missing or one is given where none is needed.
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

    /// Creates softmax regression of `classes` classes at an active and `passive` passive parties,
    /// summed.
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

    /// Returns the way in which outputs are combined.
    #[must_use]
    pub fn combiner(&self) -> Combiner {
        self.combiner
    }

    /// Returns the active party's sub-model.
    #[must_use]
    pub fn active(&self) -> &SubModelSpec {
        &self.active
    }

    /// Returns the passive parties' sub-models, in the order in which their outputs are combined.
    #[must_use]
    pub fn passive(&self) -> &[SubModelSpec] {
        &self.passive
    }

    /// Returns the coordinator's top model, with one output per class; combiner `concat` alone has
    /// one.
    #[must_use]
    pub fn top(&self) -> Option<&SubModelSpec> {
        self.top.as_ref()
    }

    /// Returns the output widths, the active party's first.
    #[must_use]
    pub fn widths(&self) -> Vec<usize> {
        std::iter::once(&self.active).chain(&self.passive).map(|spec| spec.width as usize).collect()
    }

    /// Returns true for softmax regression of `classes` classes, summed, which every model was
    /// before there was a choice.
    #[must_use]
    pub fn is_softmax_regression(&self, classes: u32) -> bool {
        let plain = SubModelSpec::softmax_regression(classes);
        self.combiner == Combiner::Sum
            && self.active == plain
            && self.passive.iter().all(|spec| *spec == plain)
    }
}

/// `[model]`: the model that the active party asks the parties of a training to train.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ModelConfigValues", into = "ModelConfigValues")]
pub struct ModelConfig {
    pub(super) combiner: Combiner,
    pub(super) kind: String,
    pub(super) width: Option<u32>,
    pub(super) settings: Settings,
    pub(super) top: Option<Settings>,
}

/// The values of a [`ModelConfig`] in a file; keys beside these are settings of the kind.
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
        Self {
            combiner: Combiner::Sum,
            kind: softmax_regression(),
            width: None,
            settings: Settings::new(),
            top: None,
        }
    }
}

impl From<ModelConfig> for ModelConfigValues {
    fn from(c: ModelConfig) -> Self {
        Self {
            combiner: c.combiner,
            kind: c.kind,
            width: c.width,
            settings: c.settings,
            top: c.top,
        }
    }
}

impl ModelConfig {
    /// Returns true for the default configuration.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the way in which outputs are combined.
    #[must_use]
    pub fn combiner(&self) -> Combiner {
        self.combiner
    }

    /// Returns the kind of sub-model.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the configured output width. `None` stands for one output per class, and under
    /// `concat` for [`EMBEDDING_WIDTH`].
    #[must_use]
    pub fn width(&self) -> Option<u32> {
        self.width
    }

    /// Returns the settings of the kind.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the configured settings of the top model. `None` stands for those of
    /// [`ModelConfig::model`].
    #[must_use]
    pub fn top(&self) -> Option<&Settings> {
        self.top.as_ref()
    }

    /// Returns the link of the model.
    ///
    /// # Errors
    /// [`SpecError::Settings`] for settings that the kind does not take.
    pub fn link(&self) -> Result<Link, SpecError> {
        SubModelSpec::new(self.kind.clone(), 1, self.settings.clone())?.link()
    }

    /// Creates the sub-model of one party in a training of `classes` classes.
    ///
    /// # Errors
    /// [`SpecError::SumWidth`] if the combiner adds and the width is not the number of classes.
    pub fn sub_model(&self, classes: u32) -> Result<SubModelSpec, SpecError> {
        let width = match self.combiner {
            Combiner::Sum => self.width.unwrap_or(classes),
            Combiner::Concat => self.width.unwrap_or(EMBEDDING_WIDTH),
        };
        if self.combiner == Combiner::Sum && width != classes {
            return Err(SpecError::SumWidth {
                party: "each party".to_owned(),
                got: width,
                classes,
            });
        }
        SubModelSpec::new(self.kind.clone(), width, self.settings.clone())
    }

    /// Creates the whole model from these sub-models. Settings of the top model that are not
    /// configured are the paper's: embeddings → classes with one passive party, embeddings → 256
    /// relu → classes with more (P 4.1).
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

/// Checks that there is a top model under `concat`, and only there.
pub(super) fn check_top(combiner: Combiner, there: bool) -> Result<(), SpecError> {
    match (combiner, there) {
        (Combiner::Sum, true) => Err(SpecError::Top {
            reason: "combiner `sum` has no top model; leave `top` out, or use `concat`".to_owned(),
        }),
        (Combiner::Concat, false) => {
            Err(SpecError::Top { reason: "combiner `concat` needs a top model".to_owned() })
        }
        _ => Ok(()),
    }
}
