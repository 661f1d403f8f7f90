//! The protocol of the experiments, and the place of training.

/// The paper whose description of the experiments a figure follows if they differ: split,
/// normalisation, regularisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// R and J: the official test part if there is one, satellite normalised part by part, L2 as
    /// stored by R's authors.
    #[default]
    R,
    /// V section III: a fifth of all records for prediction, normalised over all rows, no
    /// regularisation.
    V,
    /// R's figures 8 to 12, from another repository of its authors: a random tenth for prediction
    /// and another left out, normalised over all rows, the L2 stored there, trained to full
    /// convergence (errata R14).
    RTradeoff,
    /// No paper: 70 % of all records for training, normalised over all rows, categories as ordinal
    /// codes, hardly any regularisation.
    Own,
}

/// The place where a model is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Training {
    /// In one place, where scores are computed too.
    #[default]
    InOnePlace,
    /// In one place, to full convergence, with no penalty on the bias.
    Converged,
    /// By three parties over sockets, which then serve the scores of the test records.
    OverSockets,
    /// In one place, once for every split of the features.
    EachSplit,
    /// No training: the figure is of the data alone, and the weights are 0.
    None,
}
