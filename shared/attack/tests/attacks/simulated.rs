//! Defenses as the adversary reads them, written plainly, and rows of published models to try them on. The coordinator's own
//! are not reachable from here.

use nalgebra::{DMatrix, DVector};
use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};
use serde::Deserialize;
use vfl_attack::{AdversaryView, KnownModel, Replacement};
use vfl_core::types::{ConfidenceScores, FeatureBlock, Logits, ReleasedScores};
use vfl_numerics::{PseudoInverse, arg_max, row_differences};

use crate::fixture::{golden, matrix};

/// A split of a model with records.
pub(crate) struct World {
    pub(crate) w_pas: DMatrix<f64>,
    pub(crate) model: KnownModel,
    pub(crate) active: FeatureBlock,
    pub(crate) truth: DMatrix<f64>,
    /// k × n.
    pub(crate) logits: DMatrix<f64>,
}

impl World {
    /// The first `d` features are the passive ones.
    pub(crate) fn new(w: &DMatrix<f64>, bias: &DVector<f64>, x: &DMatrix<f64>, d: usize) -> Self {
        let rest = w.ncols() - d;
        let mut logits = w * x;
        logits.column_iter_mut().for_each(|mut z| z += bias);
        let w_pas = w.columns(0, d).into_owned();
        let w_act = w.columns(d, rest).into_owned();
        Self {
            model: KnownModel::white_box(w_act, bias.clone(), w_pas.clone()).unwrap(),
            active: FeatureBlock::new(x.rows(d, rest).into_owned()).unwrap(),
            truth: x.rows(0, d).into_owned(),
            w_pas,
            logits,
        }
    }

    /// 200 rows of a golden model.
    pub(crate) fn golden(name: &str, d: usize) -> Self {
        #[derive(Deserialize)]
        struct Rows {
            #[serde(rename = "W")]
            w: Vec<Vec<f64>>,
            b: Vec<f64>,
            #[serde(rename = "X")]
            x: Vec<Vec<f64>>,
        }
        let rows: Rows = golden(&format!("model_{name}_rows.json"));
        Self::new(&matrix(&rows.w), &DVector::from_vec(rows.b), &matrix(&rows.x).transpose(), d)
    }

    pub(crate) fn scores(&self) -> DMatrix<f64> {
        softmax(&self.logits)
    }

    pub(crate) fn view<'a>(&'a self, released: &'a ReleasedScores) -> AdversaryView<'a> {
        self.view_with(released, 1e-12)
    }

    /// A view whose scores of 0 are replaced by `floor`.
    pub(crate) fn view_with<'a>(
        &'a self,
        released: &'a ReleasedScores,
        floor: f64,
    ) -> AdversaryView<'a> {
        AdversaryView::new(&self.model, &self.active, released, Replacement::new(floor).unwrap())
            .unwrap()
    }
}

pub(crate) fn softmax(logits: &DMatrix<f64>) -> DMatrix<f64> {
    ConfidenceScores::softmax(Logits::new(logits.clone()).unwrap()).into_matrix()
}

pub(crate) fn rounding(c: &DMatrix<f64>, decimals: u32) -> ReleasedScores {
    let scale = 10f64.powi(decimals as i32);
    ReleasedScores::Numbers(c.map(|v| (v * scale).round_ties_even() / scale))
}

pub(crate) fn top_k(c: &DMatrix<f64>, kept: usize, renormalised: bool) -> ReleasedScores {
    let mut m = c.clone();
    for mut column in m.column_iter_mut() {
        let ranks = ranks(column.as_slice());
        for (v, rank) in column.iter_mut().zip(ranks) {
            if rank + kept < c.nrows() {
                *v = 0.0;
            }
        }
        if renormalised {
            let sum = column.sum();
            column /= sum;
        }
    }
    if renormalised { ReleasedScores::Probabilities(m) } else { ReleasedScores::Numbers(m) }
}

pub(crate) fn label(c: &DMatrix<f64>) -> ReleasedScores {
    let labels = c.column_iter().map(|c| arg_max(c.as_slice()) as u32).collect();
    ReleasedScores::Labels { classes: c.nrows(), labels }
}

/// Ranks from 0 for the smallest; of equals the lowest index is the better.
pub(crate) fn ranks(c: &[f64]) -> Vec<usize> {
    (0..c.len())
        .map(|j| (0..c.len()).filter(|&i| c[i] < c[j] || (c[i] == c[j] && i > j)).count())
        .collect()
}

/// p = c + u σ c (− 2/k), σ by rank from the smallest score.
pub(crate) fn privee(
    c: &DMatrix<f64>,
    sigma: &[f64],
    householder: bool,
    rng: &mut impl Rng,
) -> ReleasedScores {
    let k = c.nrows();
    let offset = if householder { 2.0 / k as f64 } else { 0.0 };
    let mut p = c.clone();
    for mut column in p.column_iter_mut() {
        let ranks = ranks(column.as_slice());
        for (v, rank) in column.iter_mut().zip(ranks) {
            let u = (rank as f64 + rng.random::<f64>()) / k as f64;
            *v = *v + u * sigma[rank] * *v - offset;
        }
    }
    ReleasedScores::Numbers(p)
}

/// p = 2/k − c + u σ c.
pub(crate) fn fisip(c: &DMatrix<f64>, sigma: f64, rng: &mut impl Rng) -> ReleasedScores {
    let k = c.nrows();
    let ReleasedScores::Numbers(p) = privee(c, &vec![sigma; k], false, rng) else { unreachable!() };
    ReleasedScores::Numbers(DMatrix::from_fn(k, c.ncols(), |i, j| {
        2.0 / k as f64 - 2.0 * c[(i, j)] + p[(i, j)]
    }))
}

/// One vector dealt out by rank.
pub(crate) fn ranking(c: &DMatrix<f64>) -> ReleasedScores {
    let k = c.nrows();
    let mut m = c.clone();
    let total = (k * (k + 1) / 2) as f64;
    for mut column in m.column_iter_mut() {
        let ranks = ranks(column.as_slice());
        column.iter_mut().zip(ranks).for_each(|(v, rank)| *v = (rank + 1) as f64 / total);
    }
    ReleasedScores::Probabilities(m)
}

pub(crate) fn encrypted(c: &DMatrix<f64>) -> ReleasedScores {
    ReleasedScores::Ciphertexts(c.map(|v| (v * 1e15) as u64 + 7))
}

/// The nearest (by relative entropy) of words that are means of records, per arg max.
pub(crate) fn codebook(c: &DMatrix<f64>, words_per_class: usize) -> ReleasedScores {
    let k = c.nrows();
    let mut words: Vec<Vec<f64>> = Vec::new();
    for class in 0..k {
        let mut of: Vec<usize> =
            (0..c.ncols()).filter(|&r| arg_max(c.column(r).as_slice()) == class).collect();
        of.sort_by(|&a, &b| c[(class, a)].total_cmp(&c[(class, b)]));
        for part in of.chunks(of.len().div_ceil(words_per_class).max(1)) {
            words.push(
                (0..k)
                    .map(|j| part.iter().map(|&r| c[(j, r)]).sum::<f64>() / part.len() as f64)
                    .collect(),
            );
        }
    }
    let mut m = c.clone();
    for mut column in m.column_iter_mut() {
        let top = arg_max(column.as_slice());
        let likeness = |w: &[f64]| {
            w.iter().zip(column.iter()).map(|(w, c)| c * w.max(1e-12).ln()).sum::<f64>()
        };
        let own = words.iter().filter(|w| arg_max(w) == top);
        let best = own.max_by(|a, b| likeness(a).total_cmp(&likeness(b))).unwrap().clone();
        column.copy_from_slice(&best);
    }
    ReleasedScores::Probabilities(m)
}

pub(crate) fn gaussian(c: &DMatrix<f64>, sigma: f64, rng: &mut impl Rng) -> ReleasedScores {
    let noise = |v: f64, rng: &mut _| -> f64 {
        let z: f64 = StandardNormal.sample(rng);
        v + sigma * z
    };
    ReleasedScores::Numbers(c.map(|v| noise(v, rng)))
}

/// v₁ of R (92) to (94), by power iteration.
pub(crate) fn worst_direction(w_pas: &DMatrix<f64>) -> Vec<f64> {
    let k = w_pas.nrows();
    let inverse = PseudoInverse::new(&row_differences(w_pas)).unwrap().matrix;
    let j = DMatrix::from_fn(k - 1, k, |r, c| if c == r { -1.0 } else { f64::from(c == r + 1) });
    let b = inverse * j;
    let gram = b.transpose() * b;
    let mut v = DVector::from_fn(k, |i, _| 1.0 + i as f64 * 0.37);
    for _ in 0..20_000 {
        v = (&gram * &v).normalize();
    }
    let largest = v.iter().fold(0.0f64, |m, x| if x.abs() > m.abs() { *x } else { m });
    (v * largest.signum()).as_slice().to_vec()
}

/// Logits behind scheme 1 or 2 of R section VII-B.
pub(crate) fn noisy_logits(world: &World, scheme: u32, alpha: f64) -> DMatrix<f64> {
    let v = worst_direction(&world.w_pas);
    let most = v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut z = world.logits.clone();
    for mut column in z.column_iter_mut() {
        let top = arg_max(column.as_slice());
        if scheme == 1 {
            let n: Vec<f64> = (0..v.len()).map(|i| if i == top { most } else { v[i] }).collect();
            let norm = n.iter().map(|n| n * n).sum::<f64>().sqrt();
            column.iter_mut().zip(&n).for_each(|(z, n)| *z += alpha.sqrt() * n / norm);
        } else {
            column.iter_mut().zip(&v).for_each(|(z, n)| *z += alpha.sqrt() * n);
            column[top] = column.max();
        }
    }
    z
}
