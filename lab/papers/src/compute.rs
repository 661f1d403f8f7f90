//! Computes a figure, and writes its files.

use std::path::{Path, PathBuf};

use vfl_state::files::write_atomic;

use super::document::Document;
use super::error::ReproduceError;
use super::experiment_model::ExperimentModel;
use super::figure::Figure;
use super::names::stem;
use super::options::Options;
use super::page::render_page;
use super::protocol::Training;
use super::{
    adversary_model, agnostic, by_feature, complement, complement_retraining, counts, inversions,
    lattice, moments, networks, noise, one_feature, priors, privee, shadow, starts, table1,
    theorem2, tradeoff, white_box,
};

/// Computes a figure.
///
/// # Errors
/// [`ReproduceError`]: options that the figure does not take, or an attack that failed.
pub fn run(
    figure: Figure,
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let fixed = |what, given: bool| {
        if given { Err(ReproduceError::NoChoice { figure: figure.as_str(), what }) } else { Ok(()) }
    };
    use Figure as F;
    let attacks = matches!(
        figure,
        F::Lattice | F::RFig4 | F::RFig8 | F::RFig9 | F::RFig10 | F::RFig11 | F::RFig13 | F::RFig14
    ) || figure.as_str().starts_with('j')
        && !matches!(figure, F::JTable1 | F::JFig14 | F::JFig15);
    fixed("attacks", !attacks && !options.attacks.is_empty())?;
    let of_data = figure.training() == Training::None;
    fixed(
        "numbers of passive features",
        (of_data || matches!(figure, F::RFig7 | F::VFig10 | F::JTable1 | F::JFig14 | F::JFig15))
            && !options.dimensions.is_empty(),
    )?;
    fixed(
        "windows",
        (of_data
            || matches!(
                figure,
                F::RFig7
                    | F::Priors
                    | F::Lattice
                    | F::JTable1
                    | F::PTables
                    | F::PTable10
                    | F::PTable11And12
            ))
            && options.windows.is_some(),
    )?;
    let document = match figure {
        Figure::RFig4 => white_box::run(subject, options),
        Figure::RFig5 => theorem2::run(subject, options),
        Figure::RFig7 => one_feature::run(subject, options),
        Figure::RFig13 => noise::run(subject, options),
        Figure::RFig14 => starts::run(subject, options),
        Figure::JFig5 => inversions::run(subject, options),
        Figure::JFig6 => by_feature::run(subject, options),
        Figure::JFig7 | Figure::JFig9 | Figure::JFig10 | Figure::JFig11b | Figure::JFig13 => {
            networks::run(figure, subject, options)
        }
        Figure::JFig8 => networks::by_records(subject, options),
        Figure::JFig11a | Figure::JFig12 => shadow::run(figure, subject, options),
        Figure::RFig6 | Figure::VFig2 => moments::run(figure, subject, options),
        Figure::VFig6 => moments::covariance(subject, options),
        Figure::RFig8 | Figure::RFig9 | Figure::RFig10 | Figure::RFig11 => {
            complement::run(figure, subject, options)
        }
        Figure::RFig12 => complement_retraining::run(subject, options),
        Figure::VFig3 | Figure::VFig4 | Figure::VFig5 | Figure::VFig7 => {
            agnostic::run(figure, subject, options)
        }
        Figure::VFig8 => adversary_model::run(subject, options),
        Figure::VFig9 | Figure::VFig10 | Figure::VFig11 | Figure::VFig13 => {
            tradeoff::run(figure, subject, options)
        }
        Figure::VFig12 => tradeoff::by_features(subject, options),
        Figure::VTable1 => counts::run(subject, options),
        Figure::Priors => priors::run(subject, options),
        Figure::Lattice => lattice::run(subject, options),
        Figure::JTable1 => table1::run(subject, options),
        Figure::JFig14 | Figure::JFig15 => networks::defended(figure, subject, options),
        Figure::PTables => privee::run(subject, options),
        Figure::PTable9 => privee::times(subject, options),
        Figure::PTable10 => privee::by_epsilon(subject, options),
        Figure::PTable11And12 => privee::by_parties(subject, options),
    }?;
    if document.curves.is_empty() && document.heat_map.is_none() {
        return Err(ReproduceError::NothingToRun { notes: document.notes.join("; ") });
    }
    Ok(document)
}

/// Writes `FIGURE-DATASET.json` and `.html` into `out`, or `FIGURE-DATASET-VARIANT` for another
/// variant than the figure's own. Creates the folder if needed; writes nothing unless both can be
/// rendered.
///
/// # Errors
/// [`ReproduceError::Plot`] if the page cannot be drawn, [`ReproduceError::Write`] if a file cannot
/// be written.
pub fn write(document: &Document, out: &Path) -> Result<[PathBuf; 2], ReproduceError> {
    let texts = [("json", document.to_json()?), ("html", render_page(document)?)];
    let stem = stem(document);
    let name = |extension: &str| out.join(format!("{stem}.{extension}"));
    for (extension, text) in &texts {
        let path = name(extension);
        write_atomic(&path, text.as_bytes(), false)
            .map_err(|source| ReproduceError::Write { path, source })?;
    }
    Ok([name("json"), name("html")])
}
