//! Whose account of the experiments is followed, and where models are trained.

/// Which paper's account of the experiments a figure follows where they differ: split, normalisation, regularisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// R and J: the official test part where there is one, satellite normalised part by part, L2 as stored by R's authors.
    #[default]
    R,
    /// V section III: a fifth of all records for prediction, normalised over all rows, no regularisation.
    V,
    /// R's figures 8 to 12, of another repository of its authors: a random tenth for prediction and another left out, normalised over
    /// all rows, the L2 stored there, trained to full convergence (errata R14).
    RTradeoff,
    /// Of no paper: 70 % of all records for training, normalised over all rows, categories as ordinal codes, next to no
    /// regularisation.
    Own,
}

/// Where a model is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Training {
    /// In one place; scores are computed there.
    #[default]
    InOnePlace,
    /// In one place, to full convergence, the bias free.
    Converged,
    /// By three parties over sockets, which then serve the scores of the test records.
    OverSockets,
    /// In one place, anew for every split of the features.
    EachSplit,
    /// Nowhere: the figure is of the data alone, and the weights are 0.
    None,
}
