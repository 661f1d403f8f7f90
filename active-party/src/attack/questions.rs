//! Questions to the coordinator: what asks them, and what is said of them afterwards.

use nalgebra::DMatrix;

/// What came back for one record.
#[derive(Clone, PartialEq)]
pub enum Answer {
    /// The predicted class.
    Label(u32),
    /// A vector of k numbers.
    Scores(Vec<f64>),
    /// Order-preserving ciphertexts.
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

/// Why no answer came at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the coordinator could not be asked: {0}")]
pub struct OracleError(pub String);

/// A coordinator that can be asked with chosen logit shares. Blocking.
pub trait ShareOracle: Send + Sync + std::fmt::Debug {
    /// Asks for `records` (positions, from 0) with one column of `shares` (k × records, the bias included) each; one answer
    /// each, in order.
    ///
    /// # Errors
    /// [`OracleError`] if the question did not get through as a whole.
    fn ask(&self, records: &[usize], shares: &DMatrix<f64>) -> Result<Vec<Answer>, OracleError>;
}

/// What several releases of the same records showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Averaged {
    /// Releases averaged.
    pub queries: usize,
    /// Different answers of the record that had fewest. 1 where noise is keyed: asking again told nothing.
    pub distinct: usize,
}

/// The questions behind an estimate, where there was more than one answer for each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Questions {
    /// The same question, asked again.
    Repeated(Averaged),
    /// Questions with logit shares of the adversary's own choice.
    Chosen(ChosenQuestions),
}

/// What questions with chosen shares brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChosenQuestions {
    /// Questions asked, all records of one question counting once.
    pub questions: usize,
    /// Rows asked for.
    pub asked: usize,
    /// Rows refused.
    pub refused: usize,
    /// Answers about the record that had most.
    pub most_answers: usize,
    /// Records of which more was learnt than from their first answer.
    pub gained: usize,
    /// Records asked about.
    pub records: usize,
}
