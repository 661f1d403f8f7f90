//! Golden vectors, data sets and models as the tests want them.

use std::sync::OnceLock;

use nalgebra::{DMatrix, DVector};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use serde::Deserialize;
use vfl_attack::{AdversaryView, KnownModel, Method, Reconstruction, Replacement, Settings};
use vfl_core::data::normalise::Normalisation;
use vfl_core::types::{ConfidenceScores, FeatureBlock, Logits, ReleasedScores};
use vfl_datasets as data;
use vfl_datasets::{DatasetName, DatasetSpec, Part, VerticalSplit};
pub(crate) use vfl_testing::golden;

/// A matrix from its rows; `columns` settles the width where there is no row.
pub(crate) fn matrix(rows: &[Vec<f64>]) -> DMatrix<f64> {
    let columns = rows.first().map_or(0, Vec::len);
    assert!(rows.iter().all(|r| r.len() == columns), "rows of one length");
    DMatrix::from_fn(rows.len(), columns, |i, j| rows[i][j])
}

/// One column.
pub(crate) fn column(values: &[f64]) -> DMatrix<f64> {
    DMatrix::from_column_slice(values.len(), 1, values)
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Rows {
    w: Vec<Vec<f64>>,
    #[serde(rename = "b")]
    bias: Vec<f64>,
    x: Vec<Vec<f64>>,
    #[serde(rename = "y")]
    labels: Vec<u32>,
    #[serde(rename = "rows")]
    rows: Vec<usize>,
    #[serde(rename = "test_row_in_file")]
    test_row_in_file: Option<Vec<usize>>,
}

/// A published model with the whole test set it was attacked on.
pub(crate) struct Published {
    /// k × d_t.
    pub(crate) w: DMatrix<f64>,
    /// k.
    pub(crate) bias: DVector<f64>,
    /// d_t × n, in [0, 1].
    pub(crate) x: DMatrix<f64>,
    /// One per record.
    pub(crate) labels: Vec<u32>,
}

/// Satellite: the official test part, normalised by its own ranges.
pub(crate) fn satellite() -> &'static Published {
    static MODEL: OnceLock<Published> = OnceLock::new();
    MODEL.get_or_init(|| load(DatasetName::Satellite, Normalisation::PerPart))
}

/// Robot: the authors' own draw of test rows, normalised over all rows.
pub(crate) fn robot() -> &'static Published {
    static MODEL: OnceLock<Published> = OnceLock::new();
    MODEL.get_or_init(|| load(DatasetName::Robot, Normalisation::AllRows))
}

/// The data come through the project's own loaders; 200 rows that the golden vectors give are compared with them first.
fn load(name: DatasetName, normalisation: Normalisation) -> Published {
    let rows: Rows = golden(&format!("model_{name}_rows.json"));
    let spec = DatasetSpec { normalisation, ..DatasetSpec::new(name, None, 1) };
    let set = data::load(&spec).unwrap_or_else(|e| panic!("data set {name}: {e}"));
    let test: Vec<usize> = rows.test_row_in_file.unwrap_or_else(|| {
        let parts = set.parts().expect("official parts");
        (0..set.records()).filter(|&r| parts[r] == Part::Test).collect()
    });
    let published = Published {
        w: matrix(&rows.w),
        bias: DVector::from_vec(rows.bias),
        x: set.x().select_columns(&test),
        labels: test.iter().map(|&r| set.labels()[r]).collect(),
    };
    let given = matrix(&rows.x).transpose();
    assert!(
        (published.x.select_columns(&rows.rows) - given).amax() < 1e-15,
        "{name}: features differ"
    );
    let labels: Vec<u32> = rows.rows.iter().map(|&r| published.labels[r]).collect();
    assert_eq!(labels, rows.labels, "{name}: labels differ");
    published
}

impl Published {
    /// Confidence scores of all records.
    pub(crate) fn scores(&self) -> ConfidenceScores {
        scores(&self.w, &self.bias, &self.x)
    }

    /// The window (k0, d): passive columns of W and X, and the active ones.
    pub(crate) fn window(&self, k0: usize, d: usize) -> Window {
        let split = VerticalSplit::window(k0, d, self.w.ncols()).unwrap();
        let (passive, active) = (&split.passive()[0].columns, split.active());
        let (w_act, w_pas) = (self.w.select_columns(active), self.w.select_columns(passive));
        Window {
            model: KnownModel::white_box(w_act, self.bias.clone(), w_pas).unwrap(),
            active: FeatureBlock::new(self.x.select_rows(active)).unwrap(),
            truth: self.x.select_rows(passive),
        }
    }
}

/// One split of a published model.
pub(crate) struct Window {
    pub(crate) model: KnownModel,
    pub(crate) active: FeatureBlock,
    pub(crate) truth: DMatrix<f64>,
}

impl Window {
    /// The adversary's view of a release, scores of 0 replaced by the default.
    pub(crate) fn view<'a>(&'a self, released: &'a ReleasedScores) -> AdversaryView<'a> {
        AdversaryView::new(&self.model, &self.active, released, Replacement::default()).unwrap()
    }
}

/// softmax(W X + b).
pub(crate) fn scores(w: &DMatrix<f64>, bias: &DVector<f64>, x: &DMatrix<f64>) -> ConfidenceScores {
    let mut logits = w * x;
    for mut z in logits.column_iter_mut() {
        z += bias;
    }
    ConfidenceScores::softmax(Logits::new(logits).unwrap())
}

/// Scores as they are.
pub(crate) fn undefended(scores: &ConfidenceScores) -> ReleasedScores {
    ReleasedScores::Probabilities(scores.matrix().clone())
}

/// Runs an attack that draws no numbers.
pub(crate) fn run(method: Method, view: &AdversaryView) -> Reconstruction {
    method
        .build(&Settings::default())
        .reconstruct(view, &mut ChaCha20Rng::seed_from_u64(0))
        .unwrap()
}
