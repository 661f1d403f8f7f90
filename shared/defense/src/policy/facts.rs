//! The types for facts about a defense: its name, its parameters, and the kind of its release.

use super::config::DefenseConfig;

/// The facts that are the same for every setting of a defense. Each defense states them once.
#[derive(Debug)]
pub struct Facts {
    /// The name, as in a config file.
    pub name: &'static str,
    /// The parameters, in the order of the help.
    pub parameters: &'static [Parameter],
    /// Sensible settings for a model of this many classes (at least 2; 1 stands for a number), with
    /// parameters of the papers if they name some. The demo audits them all; tests and fuzz seeds
    /// are made of them.
    pub examples: fn(classes: usize) -> Vec<DefenseConfig>,
    /// The setting for a number of classes that reveals the most and yet at most this many bits of
    /// a record; `None` if there is none, or no bound. Never called with NaN.
    pub within_bits: fn(classes: usize, bits: f64) -> Option<DefenseConfig>,
    /// True if it changes logits, before the link function. Otherwise it changes scores.
    pub at_logits: bool,
    /// True if it takes microseconds a score, so that it must not run on a thread that serves
    /// connections.
    pub costly: bool,
    /// True if it may be fitted on undefended scores of the model's training, which an imported
    /// model does not have. [`DefenseConfig::fitted`] decides it for given settings.
    pub fitted: bool,
}

impl Facts {
    /// A defense of the scores without parameters that is not costly and not fitted, and has no
    /// bound of bits.
    pub(crate) const PLAIN: Self = Self {
        name: "",
        parameters: &[],
        examples: |_| Vec::new(),
        within_bits: |_, _| None,
        at_logits: false,
        costly: false,
        fitted: false,
    };

    /// Returns the parameter of this name.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// Returns the names of the parameters, separated by commas, or `none`.
    #[must_use]
    pub fn parameter_names(&self) -> String {
        match self.parameters {
            [] => "none".to_owned(),
            all => all.iter().map(|parameter| parameter.name).collect::<Vec<_>>().join(", "),
        }
    }
}

/// A parameter of a defense.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// The name, as in a config file.
    pub name: &'static str,
    /// The type of its values.
    pub kind: ParameterKind,
    /// The range, and the default of an optional parameter, for the help and for errors.
    pub takes: &'static str,
    /// The value that is used if it is not given.
    pub absent: DefaultValue,
}

impl Parameter {
    /// Creates a parameter that has a default of its own.
    pub(crate) const fn optional(
        name: &'static str,
        kind: ParameterKind,
        takes: &'static str,
    ) -> Self {
        Self { name, kind, takes, absent: DefaultValue::Optional }
    }

    /// Creates a parameter that must be given, for which the command line puts `default`.
    pub(crate) const fn required(
        name: &'static str,
        kind: ParameterKind,
        takes: &'static str,
        default: f64,
    ) -> Self {
        Self { name, kind, takes, absent: DefaultValue::Required(default) }
    }
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// A whole number from 0 to 2³² − 1.
    Whole,
    /// A number, whole or not.
    Number,
    /// `true` or `false`.
    Truth,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of numbers.
    Numbers,
}

/// The value that is used if a parameter is not given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DefaultValue {
    /// A default of the defense itself: the parameter is optional everywhere.
    Optional,
    /// A config file, a text and a message must give it. The command line of `coordinator defend`
    /// uses this number.
    Required(f64),
    /// As [`DefaultValue::Required`], with this number for each class.
    RequiredPerClass(f64),
}

/// The kind of a defense's release, as far as it determines the strongest attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseKind {
    /// The scores as they are.
    Everything,
    /// All differences of logits, multiplied by one factor.
    Scaled,
    /// All of the logits but one direction.
    Projected,
    /// The predicted class.
    Label,
    /// The predicted class, or sometimes another.
    NoisyLabel,
    /// A word of a codebook.
    Word,
    /// The output of an autoencoder.
    Purified,
    /// Order-preserving ciphertexts of the scores.
    Ciphertexts,
    /// The order of the scores.
    Order,
    /// Each score to some decimals.
    Rounded,
    /// The largest scores as they are.
    Largest,
    /// Scores with noise that is independent of their order.
    Noised,
    /// Scores with noise that keeps their order.
    OrderNoised,
    /// None of these. No attack of this project adapts to it, so an audit has no adversary that
    /// knows it, and says so.
    Unstudied,
}
