//! The types for facts about a defense: its parameters, and the kind of its release.

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
