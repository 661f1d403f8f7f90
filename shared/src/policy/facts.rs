//! In which terms facts about a defense are stated: its parameters, and what it leaves of the scores.

/// A parameter of a defense.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// The name, as in a config file.
    pub name: &'static str,
    /// The type.
    pub kind: ParameterKind,
    /// The range, and for an optional parameter what stands for it: for the help, and for errors.
    pub takes: &'static str,
    /// What stands where it is not given.
    pub absent: Absent,
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// A whole number from 0 to 2³² − 1.
    Whole,
    /// A number.
    Number,
    /// `true` or `false`.
    Truth,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of numbers.
    Numbers,
}

/// What stands where a parameter is not given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Absent {
    /// A default of the defense itself: the parameter is optional everywhere.
    Optional,
    /// A config file, a text and a message must give it. The command line of `coordinator defend` puts this number.
    Required(f64),
    /// As [`Absent::Required`], with this number for each class.
    RequiredPerClass(f64),
}

/// What a defense leaves of the scores, as far as it decides which attack is the strongest on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    /// The scores as they are.
    Everything,
    /// All differences of logits, multiplied by one factor.
    Scaled,
    /// All of the logits but one direction.
    Projected,
    /// The predicted class.
    Label,
    /// The predicted class, or now and then another.
    NoisyLabel,
    /// A word of a codebook.
    Word,
    /// What an autoencoder makes of them.
    Purified,
    /// Order-preserving ciphertexts.
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
    /// None of these. No attack of this project adapts to it, so an audit has no adversary that knows it, and says so.
    Unstudied,
}
