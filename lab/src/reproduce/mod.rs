//! Figures of the papers on real data, computed in this process: exact scores of one logistic model, attacked split by split.
//!
//! [`Document`] is what comes out: JSON is the source, [`render_table`] and [`render_page`] show it.

mod adversary_model;
mod agnostic;
mod blank_document;
mod complement;
mod contender;
mod document;
mod error;
mod figure;
mod heat_map;
mod inversions;
mod moments;
mod names;
mod networks;
mod noise;
mod one_feature;
mod options;
mod page;
mod plot;
mod priors;
mod protocol;
mod retrained;
mod several_sets;
mod shadow;
mod sockets;
mod starts;
mod statistics;
mod subject;
mod sweep;
mod table;
mod theorem2;
mod tradeoff;
mod undo;
mod version;
mod white_box;
mod workers;

use std::path::{Path, PathBuf};

use vfl_shared::files::write_atomic;

use blank_document::blank;
pub use contender::Pairs;
pub use document::{
    AddedRisk, AttackFacts, Axis, Check, Curve, CurveRole, DatasetFacts, Document, HeatMap, Measure, ModelFacts,
    ModelOrigin,
};
pub use error::{ModelFileError, ReproduceError};
pub use figure::Figure;
use names::stem;
pub use options::Options;
pub use page::render_page;
pub use protocol::{Protocol, Training};
pub use several_sets::compare;
pub use subject::{Subject, SubjectSpec};
pub use table::render_table;
pub use version::SCHEMA_VERSION;

/// Computes a figure.
///
/// # Errors
/// [`ReproduceError`]: options that the figure does not take, or an attack that failed.
pub fn run(figure: Figure, subject: &Subject, options: &Options) -> Result<Document, ReproduceError> {
    let fixed = |what, given: bool| {
        if given { Err(ReproduceError::NoChoice { figure: figure.as_str(), what }) } else { Ok(()) }
    };
    use Figure as F;
    let attacks = matches!(figure, F::RFig4 | F::RFig8 | F::RFig9 | F::RFig10 | F::RFig11 | F::RFig13 | F::RFig14)
        || figure.as_str().starts_with('j');
    fixed("attacks", !attacks && !options.attacks.is_empty())?;
    let of_data = figure.training() == Training::None;
    fixed(
        "numbers of passive features",
        (of_data || matches!(figure, F::RFig7 | F::VFig10)) && !options.dimensions.is_empty(),
    )?;
    fixed("windows", (of_data || matches!(figure, F::RFig7 | F::Priors)) && options.windows.is_some())?;
    let document = match figure {
        Figure::RFig4 => white_box::run(subject, options),
        Figure::RFig5 => theorem2::run(subject, options),
        Figure::RFig7 => one_feature::run(subject, options),
        Figure::RFig13 => noise::run(subject, options),
        Figure::RFig14 => starts::run(subject, options),
        Figure::JFig5 => inversions::run(subject, options),
        Figure::JFig7 | Figure::JFig9 | Figure::JFig10 | Figure::JFig11b | Figure::JFig13 => {
            networks::run(figure, subject, options)
        }
        Figure::JFig8 => networks::by_records(subject, options),
        Figure::JFig11a | Figure::JFig12 => shadow::run(figure, subject, options),
        Figure::RFig6 | Figure::VFig2 => moments::run(figure, subject, options),
        Figure::VFig6 => moments::covariance(subject, options),
        Figure::RFig8 | Figure::RFig9 | Figure::RFig10 | Figure::RFig11 => complement::run(figure, subject, options),
        Figure::RFig12 => retrained::run(subject, options),
        Figure::VFig3 | Figure::VFig4 | Figure::VFig5 | Figure::VFig7 => agnostic::run(figure, subject, options),
        Figure::VFig8 => adversary_model::run(subject, options),
        Figure::VFig9 | Figure::VFig10 | Figure::VFig11 | Figure::VFig13 => tradeoff::run(figure, subject, options),
        Figure::VFig12 => tradeoff::by_features(subject, options),
        Figure::Priors => priors::run(subject, options),
    }?;
    if document.curves.is_empty() && document.heat_map.is_none() {
        return Err(ReproduceError::NothingToRun { notes: document.notes.join("; ") });
    }
    Ok(document)
}

/// Writes `FIGURE-DATASET.json` and `.html` into `out`, `FIGURE-DATASET-VARIANT` for
/// another variant than the figure's own. The folder is made if need be; nothing is written unless both can be rendered.
///
/// # Errors
/// [`ReproduceError::Plot`] if the page cannot be drawn, [`ReproduceError::Write`] if a file cannot be written.
pub fn write(document: &Document, out: &Path) -> Result<[PathBuf; 2], ReproduceError> {
    let texts = [("json", document.to_json()?), ("html", render_page(document)?)];
    let stem = stem(document);
    let name = |extension: &str| out.join(format!("{stem}.{extension}"));
    for (extension, text) in &texts {
        let path = name(extension);
        write_atomic(&path, text.as_bytes(), false).map_err(|source| ReproduceError::Write { path, source })?;
    }
    Ok([name("json"), name("html")])
}
