//! Figures of the papers on real data, computed in this process: exact scores of one logistic model, attacked split by split.
//!
//! [`Document`] is what comes out: JSON is the source, [`render_table`] and [`render_page`] show it.

mod contender;
mod document;
mod error;
mod noise;
mod one_feature;
mod page;
mod plot;
mod shadow;
mod starts;
mod statistics;
mod subject;
mod sweep;
mod table;
mod theorem2;
mod white_box;
mod workers;

use std::path::{Path, PathBuf};

use vfl_shared::data::DatasetName;
use vfl_shared::files::write_atomic;

pub use contender::Pairs;
pub use document::{
    AttackFacts, Axis, Check, Curve, CurveRole, DatasetFacts, Document, ModelFacts, ModelOrigin, SCHEMA_VERSION,
};
pub use error::{ModelFileError, ReproduceError};
pub use page::render_page;
pub use subject::{Subject, SubjectSpec};
pub use table::render_table;

/// A figure that can be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Errors of ten attacks by the number of passive features.
    RFig4,
    /// Theorem 2.
    RFig5,
    /// One feature in the black box.
    RFig7,
    /// Noise at the logits, and labels: error by divergence.
    RFig13,
    /// Starts of gradient inversion.
    RFig14,
    /// Shadow models.
    JFig11a,
}

impl Figure {
    /// All figures.
    pub const ALL: [Self; 6] = [Self::RFig4, Self::RFig5, Self::RFig7, Self::RFig13, Self::RFig14, Self::JFig11a];

    /// The name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RFig4 => "r-fig4",
            Self::RFig5 => "r-fig5",
            Self::RFig7 => "r-fig7",
            Self::RFig13 => "r-fig13",
            Self::RFig14 => "r-fig14",
            Self::JFig11a => "j-fig11a",
        }
    }

    /// What it shows.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::RFig4 => "Error of the attacks by share of passive features",
            Self::RFig5 => "Theorem 2: errors in closed form, and their bounds",
            Self::RFig7 => "One feature in the black box, by number of predictions",
            Self::RFig13 => "Schemes that keep the class: error by divergence of the scores",
            Self::RFig14 => "Gradient inversion from zero, from ½ and from a random point",
            Self::JFig11a => "Black box with auxiliary records: error by how many there are",
        }
    }

    /// Where it is: paper, figure, section.
    #[must_use]
    pub fn source(self) -> &'static str {
        match self {
            Self::RFig4 => "R (Rassouli, Varasteh, Gündüz), figure 4, section VIII-A",
            Self::RFig5 => "R (Rassouli, Varasteh, Gündüz), figure 5, section VIII-B; theorem 2, (50) to (52)",
            Self::RFig7 => "R (Rassouli, Varasteh, Gündüz), figure 7, section VIII-C; section VI",
            Self::RFig13 => "R (Rassouli, Varasteh, Gündüz), figure 13, sections VII-B and VIII-D",
            Self::RFig14 => "R (Rassouli, Varasteh, Gündüz), figure 14, section VIII-E",
            Self::JFig11a => "J (Jiang, Zhou, Grossklags), figure 11a, sections 4.3.2 and 5.3",
        }
    }

    /// The data sets it is computed on; the first unless another is asked for.
    #[must_use]
    pub fn datasets(self) -> &'static [DatasetName] {
        use DatasetName::{Bank, Robot, Satellite, Synthetic};
        match self {
            Self::RFig4 | Self::RFig5 | Self::RFig13 | Self::RFig14 => &[Satellite, Robot, Bank, Synthetic],
            Self::RFig7 => &[Bank],
            Self::JFig11a => &[Robot, Bank],
        }
    }

    /// Says whether it is computed on this data set.
    ///
    /// # Errors
    /// [`ReproduceError::Dataset`] if it is not.
    pub fn on(self, dataset: DatasetName) -> Result<DatasetName, ReproduceError> {
        let expected = self.datasets();
        let refused = ReproduceError::Dataset { figure: self.as_str(), got: dataset, expected };
        if expected.contains(&dataset) { Ok(dataset) } else { Err(refused) }
    }
}

/// How to compute a figure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Test records attacked in every split; all of them if `None`.
    pub records: Option<usize>,
    /// Records that gradient inversion, which is slow, attacks in every split at most.
    pub inversion_records: usize,
    /// Settings of gradient inversion over the figure's own.
    pub inversion: Pairs,
    /// Curves to compute; none named: all.
    pub attacks: Vec<String>,
    /// Numbers of passive features; none named: all of the figure.
    pub dimensions: Vec<usize>,
    /// Seed of draws and of attacks.
    pub seed: u64,
    /// Threads at work; no figure depends on it.
    pub threads: usize,
}

impl Default for Options {
    /// R's 1000 records and 100 for gradient inversion, everything in the figure, on all cores.
    fn default() -> Self {
        Self {
            records: Some(1000),
            inversion_records: 100,
            inversion: Pairs::new(),
            attacks: Vec::new(),
            dimensions: Vec::new(),
            seed: 7,
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        }
    }
}

/// Computes a figure.
///
/// # Errors
/// [`ReproduceError`]: options that the figure does not take, or an attack that failed.
pub fn run(figure: Figure, subject: &Subject, options: &Options) -> Result<Document, ReproduceError> {
    let fixed = |what, given: bool| {
        if given { Err(ReproduceError::NoChoice { figure: figure.as_str(), what }) } else { Ok(()) }
    };
    fixed("attacks", matches!(figure, Figure::RFig5 | Figure::RFig7) && !options.attacks.is_empty())?;
    fixed("numbers of passive features", figure == Figure::RFig7 && !options.dimensions.is_empty())?;
    let document = match figure {
        Figure::RFig4 => white_box::run(subject, options),
        Figure::RFig5 => theorem2::run(subject, options),
        Figure::RFig7 => one_feature::run(subject, options),
        Figure::RFig13 => noise::run(subject, options),
        Figure::RFig14 => starts::run(subject, options),
        Figure::JFig11a => shadow::run(subject, options),
    }?;
    if document.attacks.is_empty() {
        return Err(ReproduceError::NothingToRun { notes: document.notes.join("; ") });
    }
    Ok(document)
}

/// A document with the facts in, and no curve yet.
fn blank(figure: Figure, subject: &Subject, seed: u64, records: usize) -> Document {
    Document {
        schema_version: SCHEMA_VERSION,
        figure: figure.as_str().into(),
        title: figure.title().into(),
        source: figure.source().into(),
        program: concat!("cloison ", env!("CARGO_PKG_VERSION")).into(),
        dataset: subject.dataset.clone(),
        model: subject.model.clone(),
        seed,
        records,
        axis: Axis { label: String::new(), symbol: String::new(), points: Vec::new(), determined_up_to: None },
        attacks: Vec::new(),
        curves: Vec::new(),
        checks: Vec::new(),
        notes: Vec::new(),
    }
}

/// Writes `FIGURE-DATASET.json` and `.html` into `out`, which is made if need be; nothing unless both can be rendered.
///
/// # Errors
/// [`ReproduceError::Plot`] if the page cannot be drawn, [`ReproduceError::Write`] if a file cannot be written.
pub fn write(document: &Document, out: &Path) -> Result<[PathBuf; 2], ReproduceError> {
    let texts = [("json", document.to_json()?), ("html", render_page(document)?)];
    let name = |extension: &str| out.join(format!("{}-{}.{extension}", document.figure, document.dataset.name));
    for (extension, text) in &texts {
        let path = name(extension);
        write_atomic(&path, text.as_bytes(), false).map_err(|source| ReproduceError::Write { path, source })?;
    }
    Ok([name("json"), name("html")])
}
