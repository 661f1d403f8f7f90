//! Data sets of the lab: the public sets, a seeded generator, encodings, vertical splits, and
//! models that all parties train on them in one process.
//!
//! A deployment reads its own part with
//! [`FeatureTable::from_csv`](vfl_core::data::table::FeatureTable::from_csv). The lab reads or
//! generates a whole [`Dataset`] with [`load`] and deals it out with [`partition::divide`] or
//! [`partition::partition`].

pub mod dataset;
pub mod encode;
pub mod evaluate;
mod images;
mod included_sets;
mod loaders;
pub mod local_training;
mod names;
mod own_tables;
pub mod partition;
pub mod private_training;
mod random_streams;
mod raw_dataset;
pub mod set_facts;
mod sources;
pub mod split;
mod split_columns;
pub mod synthetic;
mod variant;
pub mod vertical;

use std::path::PathBuf;

pub use dataset::{DataError, Dataset};
pub use encode::{Encoding, MeanOver};
use nalgebra::DMatrix;
pub use names::{DatasetName, ImageShape, UnknownDataset};
pub use partition::{PartitionFiles, PartyFiles, PartyTables};
pub use split::{Part, Split, SplitError, SplitSpec};
pub use split_columns::vertical_split;
pub use synthetic::{SyntheticFields, SyntheticParameters};
pub use variant::{UnknownVariant, Variant};
pub use vertical::{PassiveColumns, VerticalSplit, VerticalSplitError, passive_names};
use vfl_core::data::Decimals;
use vfl_core::data::normalise::Normalisation;
use vfl_core::data::schema::{FeatureKind, check_name};
use vfl_core::types::RecordIds;

use encode::{RawColumn, RawValues, encode};
use raw_dataset::RawDataset;

/// The data set to load, with its encoding, normalisation and split.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetSpec {
    /// The name of the data set.
    pub name: DatasetName,
    /// The directory of the public sets. The synthetic set and the included ones need none.
    pub data_dir: Option<PathBuf>,
    /// The encoding of categorical columns.
    pub encoding: Encoding,
    /// The variant, which says which columns are used.
    pub variant: Variant,
    /// The rows that minima and maxima are taken over.
    pub normalisation: Normalisation,
    /// Shares of training, validation and test.
    pub split: SplitSpec,
    /// Seed of the generator and of the split.
    pub seed: u64,
    /// Parameters of the generator; ignored for the public sets.
    pub synthetic: SyntheticParameters,
}

impl DatasetSpec {
    /// Creates a specification with all defaults: the set's default variant, ordinal encoding,
    /// ranges over all rows, and a split of 80/10/10 or the official test part.
    #[must_use]
    pub fn new(name: DatasetName, data_dir: Option<PathBuf>, seed: u64) -> Self {
        Self {
            name,
            data_dir,
            encoding: Encoding::default(),
            variant: name.default_variant(),
            normalisation: Normalisation::default(),
            split: SplitSpec::default(),
            seed,
            synthetic: SyntheticParameters::default(),
        }
    }
}

/// Loads or generates a data set: read, split, encode, normalise. The same specification and files
/// give the same data.
///
/// # Errors
/// [`DataError`]; a missing file's error names the set, the file, the directory and the remedy.
pub fn load(spec: &DatasetSpec) -> Result<Dataset, DataError> {
    spec.name.check_variant(spec.variant)?;
    let raw = match (spec.name, &spec.data_dir) {
        (DatasetName::Synthetic, _) => synthetic_columns(spec),
        (dataset, None) if !dataset.is_included() => {
            return Err(DataError::NoDirectory { dataset });
        }
        (_, directory) => loaders::read(spec.name, directory.as_deref(), spec.variant)?,
    };
    let records = raw.labels.len();
    let split = spec.split.split(records, raw.parts.as_deref(), spec.seed)?;
    let (mut features, mut x) = encode(&raw.columns, &raw.labels, &split.train, spec.encoding)?;

    // The range of a pixel is known in advance.
    let ranges = match spec.name.image() {
        Some(shape) => vec![(0.0, images::MOST); shape.features()],
        None => vfl_core::data::normalise::ranges(&x, 0..records),
    };
    let steps = steps(spec, &x);
    match (spec.normalisation, &raw.parts) {
        _ if spec.name.image().is_some() => {
            vfl_core::data::normalise::apply(&mut x, 0..records, &ranges)
        }
        (Normalisation::AllRows, _) => {
            vfl_core::data::normalise::apply(&mut x, 0..records, &ranges)
        }
        (Normalisation::PerPart, None) => return Err(DataError::NoParts { dataset: spec.name }),
        (Normalisation::PerPart, Some(parts)) => {
            for part in [Part::Train, Part::Test] {
                let of_part = (0..records).filter(|&r| parts[r] == part);
                let ranges = vfl_core::data::normalise::ranges(&x, of_part.clone());
                vfl_core::data::normalise::apply(&mut x, of_part, &ranges);
            }
        }
    }
    for (row, (feature, ((min, max), step))) in
        features.iter_mut().zip(ranges.into_iter().zip(steps)).enumerate()
    {
        check_name("feature", &feature.name)?;
        (feature.min, feature.max) = (min, max);
        // A feature declared binary must also be binary after normalisation.
        if feature.kind == FeatureKind::Binary && !x.row(row).iter().all(|&v| v == 0.0 || v == 1.0)
        {
            feature.kind = FeatureKind::Numeric;
        }
        if feature.kind != FeatureKind::Binary && max > min {
            *feature = feature.clone().with_step(step);
        }
    }
    let ids = RecordIds::new((0..records).map(|r| format!("{}-{r:06}", spec.name)))?;
    let RawDataset { columns, labels, class_names, parts } = raw;
    let (name, columns) = (spec.name.to_string(), columns.len());
    Ok(Dataset {
        name,
        variant: spec.variant,
        columns,
        ids,
        features,
        x,
        labels,
        numbers: None,
        class_names,
        parts,
        split,
        owners: None,
    })
}

/// Returns the step of each feature's values; `None` if they lie on no grid, or if the parts of the
/// set are normalised separately.
fn steps(spec: &DatasetSpec, x: &DMatrix<f64>) -> Vec<Option<f64>> {
    match spec.normalisation {
        Normalisation::PerPart => vec![None; x.nrows()],
        // Pixels are whole numbers.
        Normalisation::AllRows if spec.name.image().is_some() => vec![Some(1.0); x.nrows()],
        Normalisation::AllRows => {
            x.row_iter().map(|row| Decimals::step_of(row.iter().copied())).collect()
        }
    }
}

fn synthetic_columns(spec: &DatasetSpec) -> RawDataset {
    let data = synthetic::generate(&spec.synthetic, spec.seed);
    let columns = data.x.row_iter().enumerate().map(|(i, row)| RawColumn {
        name: format!("f{i:02}"),
        values: RawValues::Numbers(FeatureKind::Numeric, row.iter().copied().collect()),
    });
    let class_names = (0..spec.synthetic.fields().classes).map(|c| format!("class{c}")).collect();
    RawDataset { columns: columns.collect(), labels: data.labels, class_names, parts: None }
}
