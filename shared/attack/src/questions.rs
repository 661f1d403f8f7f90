//! Questions to the coordinator: the oracle that answers them, and their statistics.

use nalgebra::DMatrix;

/// The answer about one record.
#[derive(Clone, PartialEq)]
pub enum Answer {
    /// The predicted class.
    Label(u32),
    /// Scores, or other numbers, k entries.
    Scores(Vec<f64>),
    /// Order-preserving ciphertexts, k entries.
    Ciphertexts(Vec<u64>),
    /// No answer: the share was bound to another, or a budget is spent.
    Refused,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Label(_) => "Label(withheld)",
            Self::Scores(_) => "Scores(withheld)",
            Self::Ciphertexts(_) => "Ciphertexts(withheld)",
            Self::Refused => "Refused",
        })
    }
}

/// The error of a question that got no answer at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the coordinator could not be asked: {0}")]
pub struct OracleError(pub String);

/// A coordinator that can be asked with chosen logit shares. Its methods block.
pub trait ShareOracle: Send + Sync + std::fmt::Debug {
    /// Asks about `records` (positions, from 0) with one column of `shares` (k × records, the bias
    /// included) each. Returns one answer each, in order.
    ///
    /// # Errors
    /// [`OracleError`] if the question did not get through as a whole.
    fn ask(&self, records: &[usize], shares: &DMatrix<f64>) -> Result<Vec<Answer>, OracleError>;
}

/// The statistics of several releases of the same records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepeatedQuestions {
    /// The number of releases averaged.
    pub queries: usize,
    /// The number of different answers about the record with the fewest. It is 1 if noise is keyed:
    /// asking again told nothing.
    pub distinct: usize,
}

/// The questions behind an estimate, where there was more than one answer for each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Questions {
    /// The same question, asked again.
    Repeated(RepeatedQuestions),
    /// Questions with logit shares of the adversary's own choice.
    Chosen(ChosenQuestions),
}

/// The statistics of questions with chosen shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChosenQuestions {
    /// The number of questions asked. All records of one question count once.
    pub questions: usize,
    /// The number of rows asked for.
    pub asked: usize,
    /// The number of rows refused.
    pub refused: usize,
    /// The most answers about one record.
    pub most_answers: usize,
    /// The number of records of which more was learnt than from their first answer.
    pub gained: usize,
    /// The number of records asked about.
    pub records: usize,
}
