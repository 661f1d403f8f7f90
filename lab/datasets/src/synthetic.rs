//! Seeded classification data: the algorithm that scikit-learn documents for `make_classification`
//! (an adaptation of Guyon, *Design of experiments for the NIPS 2003 variable selection benchmark*,
//! 2003), reimplemented from that description. The same parameters and seed give the same data. The
//! numbers differ from scikit-learn's, which has another random generator.

use std::collections::HashSet;

use nalgebra::DMatrix;
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use super::random_streams::{Purpose, generator};

/// The origin of a generated feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Carries the clusters.
    Informative,
    /// A random linear combination of the informative features.
    Redundant,
    /// A copy of an informative or redundant feature.
    Repeated,
    /// Standard normal noise.
    Useless,
}

/// Unchecked parameters of the generator. All fields have the defaults of
/// [`SyntheticParameters::default`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SyntheticFields {
    /// Number of records n.
    pub records: usize,
    /// Number of features d, useless ones included.
    pub features: usize,
    /// Number of features that carry the clusters.
    pub informative: usize,
    /// Number of features that are linear combinations of the informative ones.
    pub redundant: usize,
    /// Number of features that repeat an informative or redundant one.
    pub repeated: usize,
    /// Number of classes k.
    pub classes: usize,
    /// Clusters per class; each has a vertex of the hypercube to itself.
    pub clusters_per_class: usize,
    /// Share of records whose label is drawn anew, uniformly, so that about (k − 1)/k of them are
    /// wrong.
    pub flip_y: f64,
    /// Half the side of the hypercube, in standard deviations of a cluster before its covariance is
    /// drawn.
    pub class_sep: f64,
    /// Added to every feature before scaling; `None` draws one per feature from [−class_sep,
    /// class_sep].
    pub shift: Option<f64>,
    /// Multiplies every feature after shifting; `None` draws one per feature from [1, 100].
    pub scale: Option<f64>,
    /// True if records and features are put in random order. Otherwise features come as
    /// informative, redundant, repeated, useless, and records cluster by cluster.
    pub shuffle: bool,
}

impl Default for SyntheticFields {
    fn default() -> Self {
        Self {
            records: 4000,
            features: 16,
            informative: 9,
            redundant: 3,
            repeated: 1,
            classes: 5,
            clusters_per_class: 1,
            flip_y: 0.01,
            class_sep: 1.4,
            shift: None,
            scale: None,
            shuffle: true,
        }
    }
}

/// Checked parameters of the generator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(try_from = "SyntheticFields", into = "SyntheticFields")]
pub struct SyntheticParameters(SyntheticFields);

/// Errors from checking the parameters of the generator.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SyntheticError {
    /// A parameter out of its range.
    #[error("synthetic data: {field} is {reason}")]
    Field {
        /// The name of the parameter.
        field: &'static str,
        /// The problem with it.
        reason: &'static str,
    },
    /// More informative, redundant and repeated features than features in all.
    #[error(
        "synthetic data: informative + redundant + repeated features are {sum}, more than the {features} features"
    )]
    TooFewFeatures {
        /// The sum of the three.
        sum: usize,
        /// The number of features.
        features: usize,
    },
    /// More clusters than vertices.
    #[error(
        "synthetic data: {clusters} clusters do not fit on the 2^{informative} vertices that {informative} informative features have"
    )]
    TooManyClusters {
        /// Classes times clusters per class.
        clusters: usize,
        /// The number of informative features.
        informative: usize,
    },
}

impl SyntheticParameters {
    /// The largest number of values (records × features) that is generated.
    pub const MAX_VALUES: usize = 200_000_000;

    /// Checks parameters of the generator.
    ///
    /// # Errors
    /// [`SyntheticError`] if a count is 0 or too large, a share is outside [0, 1], a number is not
    /// finite, or the features or vertices do not suffice.
    pub fn new(fields: SyntheticFields) -> Result<Self, SyntheticError> {
        let f = &fields;
        let check = |ok: bool, field, reason| {
            if ok { Ok(()) } else { Err(SyntheticError::Field { field, reason }) }
        };
        check(f.classes >= 2, "classes", "below 2")?;
        check(f.clusters_per_class >= 1, "clusters_per_class", "0")?;
        check(f.informative >= 1, "informative", "0")?;
        check((0.0..=1.0).contains(&f.flip_y), "flip_y", "outside [0, 1]")?;
        check(
            f.class_sep.is_finite() && f.class_sep >= 0.0,
            "class_sep",
            "negative or not finite",
        )?;
        check(f.class_sep <= 1e6, "class_sep", "above 1e6")?;
        check(f.shift.unwrap_or(0.0).abs() <= 1e9, "shift", "beyond ±1e9")?;
        check((1e-9..=1e9).contains(&f.scale.unwrap_or(1.0)), "scale", "outside [1e-9, 1e9]")?;
        check(f.features <= vfl_core::data::schema::MAX_FEATURES, "features", "above 10000")?;
        let fits =
            f.records.checked_mul(f.features).is_some_and(|values| values <= Self::MAX_VALUES);
        check(fits, "records", "too large: records times features is above 200 million")?;
        let sum = f.informative.saturating_add(f.redundant).saturating_add(f.repeated);
        if sum > f.features {
            return Err(SyntheticError::TooFewFeatures { sum, features: f.features });
        }
        let clusters = f.classes.saturating_mul(f.clusters_per_class);
        let vertices = u32::try_from(f.informative)
            .ok()
            .and_then(|n| 1usize.checked_shl(n))
            .unwrap_or(usize::MAX);
        if clusters > vertices {
            return Err(SyntheticError::TooManyClusters { clusters, informative: f.informative });
        }
        check(f.records >= clusters, "records", "below the number of clusters")?;
        Ok(Self(fields))
    }

    /// Returns the checked parameters.
    #[must_use]
    pub fn fields(&self) -> &SyntheticFields {
        &self.0
    }
}

impl TryFrom<SyntheticFields> for SyntheticParameters {
    type Error = SyntheticError;
    fn try_from(fields: SyntheticFields) -> Result<Self, SyntheticError> {
        Self::new(fields)
    }
}

impl From<SyntheticParameters> for SyntheticFields {
    fn from(parameters: SyntheticParameters) -> Self {
        parameters.0
    }
}

/// Generated data, not yet normalised.
#[derive(Clone, PartialEq)]
pub struct Synthetic {
    /// d × n, one record per column.
    pub x: DMatrix<f64>,
    /// The class of each record, from 0.
    pub labels: Vec<u32>,
    /// The origin of each feature.
    pub origins: Vec<Origin>,
}

/// Generates data, O(n · d · informative).
///
/// 1. Each cluster has a distinct vertex of a hypercube of side 2 · `class_sep` centred on the
///    origin; clusters go to classes in turn, records to clusters in equal shares.
/// 2. A record of cluster c is A_c g + vertex, with g standard normal and A_c a matrix of uniform
///    entries in [−1, 1].
/// 3. Redundant features are B times the informative ones, B uniform in [−1, 1]; repeated ones copy
///    features drawn from both; useless ones are standard normal.
/// 4. Labels are redrawn with probability `flip_y`; every feature is shifted, then scaled; the
///    order is shuffled.
#[must_use]
pub fn generate(parameters: &SyntheticParameters, seed: u64) -> Synthetic {
    let f = parameters.fields();
    let rng = &mut generator(seed, Purpose::Synthetic, 0);
    let clusters = f.classes * f.clusters_per_class;
    let mut x = DMatrix::zeros(f.features, f.records);
    let mut labels = Vec::with_capacity(f.records);

    let vertices = distinct_vertices(rng, clusters, f.informative);
    let mut record = 0;
    for (cluster, vertex) in vertices.iter().enumerate() {
        let size = f.records / clusters + usize::from(cluster < f.records % clusters);
        let covariance = uniform(rng, f.informative, f.informative);
        for _ in 0..size {
            let normal =
                nalgebra::DVector::from_fn(f.informative, |_, _| StandardNormal.sample(rng));
            let mut point = &covariance * normal;
            for (value, &up) in point.iter_mut().zip(vertex) {
                *value += if up { f.class_sep } else { -f.class_sep };
            }
            x.view_mut((0, record), (f.informative, 1)).copy_from(&point);
            labels.push((cluster % f.classes) as u32);
            record += 1;
        }
    }

    let combinations = uniform(rng, f.redundant, f.informative);
    let redundant = &combinations * x.rows(0, f.informative);
    x.rows_mut(f.informative, f.redundant).copy_from(&redundant);
    let useful = f.informative + f.redundant;
    for i in 0..f.repeated {
        let source = x.row(rng.random_range(0..useful)).into_owned();
        x.row_mut(useful + i).copy_from(&source);
    }
    for value in x.rows_mut(useful + f.repeated, f.features - useful - f.repeated).iter_mut() {
        *value = StandardNormal.sample(rng);
    }
    for label in &mut labels {
        if rng.random_range(0.0..1.0) < f.flip_y {
            *label = rng.random_range(0..f.classes as u32);
        }
    }
    for mut row in x.row_iter_mut() {
        let shift = f.shift.unwrap_or_else(|| f.class_sep * rng.random_range(-1.0..=1.0));
        let scale = f.scale.unwrap_or_else(|| rng.random_range(1.0..=100.0));
        row.iter_mut().for_each(|v| *v = (*v + shift) * scale);
    }

    let origin = |feature: usize| match feature {
        _ if feature < f.informative => Origin::Informative,
        _ if feature < useful => Origin::Redundant,
        _ if feature < useful + f.repeated => Origin::Repeated,
        _ => Origin::Useless,
    };
    let mut features: Vec<usize> = (0..f.features).collect();
    if f.shuffle {
        let mut records: Vec<usize> = (0..f.records).collect();
        records.shuffle(rng);
        features.shuffle(rng);
        x = DMatrix::from_fn(f.features, f.records, |i, j| x[(features[i], records[j])]);
        labels = records.iter().map(|&r| labels[r]).collect();
    }
    Synthetic { x, labels, origins: features.into_iter().map(origin).collect() }
}

/// Draws `rows × columns` independent uniform numbers in [−1, 1].
fn uniform(rng: &mut ChaCha20Rng, rows: usize, columns: usize) -> DMatrix<f64> {
    DMatrix::from_fn(rows, columns, |_, _| rng.random_range(-1.0..=1.0))
}

/// Draws `count` ≤ 2^`dimensions` distinct vertices uniformly. Rejection is quick while at most
/// half of all vertices are wanted. Beyond that, all vertices are few enough to be listed and
/// shuffled.
fn distinct_vertices(rng: &mut ChaCha20Rng, count: usize, dimensions: usize) -> Vec<Vec<bool>> {
    let bits = |v: usize| (0..dimensions).map(|i| v >> i & 1 == 1).collect();
    if dimensions < 40 && count > 1 << (dimensions - 1) {
        let mut all: Vec<usize> = (0..1 << dimensions).collect();
        all.shuffle(rng);
        return all.into_iter().take(count).map(bits).collect();
    }
    let mut seen = HashSet::new();
    let mut vertices = Vec::with_capacity(count);
    while vertices.len() < count {
        let vertex: Vec<bool> = (0..dimensions).map(|_| rng.random_range(0..2u8) == 1).collect();
        if seen.insert(vertex.clone()) {
            vertices.push(vertex);
        }
    }
    vertices
}
