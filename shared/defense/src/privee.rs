//! PRIVEE-DP and PRIVEE-DP++ (P algorithm 1): every score times 1 + u σ, with a larger u for a
//! better rank.
//!
//! The matrix A of the paper is the identity plus a multiple of 1 1ᵀ (or its negative), so that A c
//! costs one sum; the rest of the cost is sorting the scores, O(k log k). P says O(k) and its code
//! builds a dense k × k matrix (errata P5).

use nalgebra::DMatrix;
use rand::RngExt;
use vfl_core::types::ReleasedScores;

use super::gaussian::check_gaussian;
use super::order::{Order, each_column, lifted};
use super::{Contract, Defense, DefenseError, MAX_SCALE, Noise, Output, checked};
use crate::DefenseConfig;
use crate::policy::Template;

/// p = A c + u ⊙ σ ⊙ c, where the entry of rank r (1 is the largest; ties: the lowest index) has u
/// from [(k − r)/k, (k + 1 − r)/k).
///
/// Ranks and scales are those of the corrected algorithm: true ranks, not a sorting permutation
/// (errata P3), and σ by rank, the smallest σ for the smallest score (errata P4: lemma 4.4 needs
/// that). With the templates `identity` and `householder` the order then stays; where round-off
/// would make distinct scores equal, one unit in the last place is added. `fisip` reverses the
/// order before noise is added and promises nothing.
///
/// The release is not a probability vector and may be negative. σ from ε is only a scale: no
/// differential privacy follows (P section 6.5, errata P6), and whoever knows the formula gets the
/// scores back closely.
#[derive(Debug, Clone)]
pub struct Privee {
    name: &'static str,
    scales: Scales,
    /// A = `sign` I + `shift` / k 1 1ᵀ.
    sign: f64,
    shift: f64,
    /// u lies in [0, span).
    span: f64,
    /// True for one draw, by rank, for all records, as published.
    one_draw: bool,
    keeps_order: bool,
}

/// The scales σ, best rank first.
#[derive(Debug, Clone)]
enum Scales {
    Same(f64),
    ByRank(Vec<f64>),
}

impl Scales {
    fn at(&self, rank: usize) -> f64 {
        match self {
            Self::Same(sigma) => *sigma,
            Self::ByRank(sigma) => sigma[rank],
        }
    }
}

/// Checks the parameters of a PRIVEE defense; the number of scales is checked only with a number of
/// classes.
pub(super) fn check(config: &DefenseConfig, classes: Option<usize>) -> Result<(), DefenseError> {
    let name = config.name();
    match config {
        DefenseConfig::PriveeDp { sigma, epsilon, delta, sensitivity, .. } => {
            check_gaussian(name, &[epsilon.unwrap_or(0.1)], *delta, *sensitivity)?;
            if let Some(sigma) = *sigma {
                checked((0.0..=MAX_SCALE).contains(&sigma), name, "sigma", sigma, "0 to 1e12")?;
                if let Some(epsilon) = epsilon {
                    return Err(both(name, epsilon));
                }
            }
        }
        DefenseConfig::PriveeDpPlusPlus { sigma, epsilon, delta, sensitivity, .. } => {
            check_gaussian(name, epsilon, *delta, *sensitivity)?;
            check_list(
                name,
                "sigma",
                sigma,
                |a, b| a <= b,
                "not falling, from the smallest score to the largest",
                classes,
            )?;
            let order = "not rising, from the smallest score to the largest";
            check_list(name, "epsilon", epsilon, |a, b| a >= b, order, classes)?;
            if let Some(&bad) = sigma.iter().find(|s| !(0.0..=MAX_SCALE).contains(*s)) {
                return Err(DefenseError::setting(name, "sigma", bad, "values from 0 to 1e12"));
            }
            if !sigma.is_empty() && !epsilon.is_empty() {
                return Err(both(name, &epsilon[0]));
            }
        }
        _ => {}
    }
    let most = config.privee_scales().into_iter().fold(0.0, f64::max);
    checked(
        most <= MAX_SCALE,
        name,
        "sensitivity",
        format!("one for a scale of {most:e}"),
        "one for a scale of at most 1e12",
    )
}

fn both(name: &'static str, epsilon: &f64) -> DefenseError {
    DefenseError::setting(
        name,
        "epsilon",
        epsilon,
        "nothing where `sigma` is given: σ follows from one of them",
    )
}

fn check_list(
    name: &'static str,
    setting: &'static str,
    values: &[f64],
    in_order: impl Fn(f64, f64) -> bool,
    order: &str,
    classes: Option<usize>,
) -> Result<(), DefenseError> {
    let n = values.len();
    if n == 1 || classes.is_some_and(|k| n > 2 && n != k) {
        let k = classes.map_or_else(|| "k".to_owned(), |k| k.to_string());
        let got = format!("a list of {n}");
        return Err(DefenseError::setting(
            name,
            setting,
            got,
            format!("two values, or {k}: one for each class"),
        ));
    }
    match values.windows(2).find(|pair| !in_order(pair[0], pair[1])) {
        Some(pair) => Err(DefenseError::setting(
            name,
            setting,
            format!("{} before {}", pair[0], pair[1]),
            order,
        )),
        None => Ok(()),
    }
}

impl Privee {
    /// Creates the defense of a `privee_dp` or `privee_dp_plus_plus` config, for `classes` classes.
    ///
    /// # Errors
    /// [`DefenseError::Setting`] naming a parameter out of range.
    pub fn new(config: &DefenseConfig, classes: usize) -> Result<Self, DefenseError> {
        check(config, Some(classes))?;
        let name = config.name();
        let (template, as_published, plus) = match config {
            DefenseConfig::PriveeDp { template, as_published, .. } => {
                (*template, *as_published, false)
            }
            DefenseConfig::PriveeDpPlusPlus { template, as_published, .. } => {
                (*template, *as_published, true)
            }
            _ => {
                return Err(DefenseError::Needs {
                    defense: name,
                    what: "to be a PRIVEE defense".into(),
                });
            }
        };
        let given = config.privee_scales();
        let scales = match given.as_slice() {
            &[sigma] => Scales::Same(sigma),
            &[least, most] => {
                let step = |at: usize| at as f64 / (classes - 1).max(1) as f64;
                Scales::ByRank(
                    (0..classes).rev().map(|at| least + step(at) * (most - least)).collect(),
                )
            }
            all => Scales::ByRank(all.iter().rev().copied().collect()),
        };
        let scales = match scales {
            Scales::ByRank(mut sigma) if as_published => {
                sigma.reverse();
                Scales::ByRank(sigma)
            }
            scales => scales,
        };
        let (sign, shift) = match template {
            Template::Identity => (1.0, 0.0),
            Template::Householder => (1.0, -2.0),
            Template::Fisip => (-1.0, 2.0),
        };
        Ok(Self {
            name,
            scales,
            sign,
            shift,
            span: if as_published { 3.0 } else { 1.0 },
            one_draw: as_published,
            keeps_order: template != Template::Fisip && !(plus && as_published),
        })
    }

    /// Perturbs one column. `order` is that of the column; `u` in [0, 1) has an entry for each
    /// class, or for each rank.
    fn perturb(&self, order: &Order, u: &[f64], column: &mut [f64]) {
        let k = column.len() as f64;
        let shift =
            if self.shift == 0.0 { 0.0 } else { self.shift / k * column.iter().sum::<f64>() };
        let part = self.span / k;
        let mut below = None;
        // The worst rank first: its part of [0, span) is the lowest.
        for (from_below, at) in order.best_first().rev().enumerate() {
            let rank = column.len() - 1 - from_below;
            let u = (from_below as f64 + if self.one_draw { u[rank] } else { u[at] }) * part;
            let c = column[at];
            let mut p = c * (self.sign + u * self.scales.at(rank)) + shift;
            if self.keeps_order {
                p = lifted(below, c, p);
                below = Some((c, p));
            }
            column[at] = p;
        }
    }
}

impl Defense for Privee {
    fn contract(&self) -> Contract {
        let randomised = match &self.scales {
            Scales::Same(sigma) => *sigma > 0.0,
            Scales::ByRank(sigma) => sigma.iter().any(|s| *s > 0.0),
        };
        let kept = self.keeps_order;
        Contract {
            output: Output::Numbers,
            keeps_arg_max: kept,
            keeps_ranking: kept,
            randomised,
            bits: None,
        }
    }

    fn apply(
        &self,
        mut scores: DMatrix<f64>,
        noise: &Noise<'_>,
    ) -> Result<ReleasedScores, DefenseError> {
        let k = scores.nrows();
        if let Scales::ByRank(sigma) = &self.scales
            && sigma.len() != k
        {
            let what = format!("scores of {} classes; these have {k}", sigma.len());
            return Err(DefenseError::Needs { defense: self.name, what });
        }
        let shared: Vec<f64> = match self.one_draw {
            true => noise.shared().random_iter().take(k).collect(),
            false => Vec::new(),
        };
        let scratch = || (Order::default(), Vec::with_capacity(k));
        each_column(scores.as_mut_slice(), k, scratch, |(order, u), record, column| {
            order.sort(column);
            if self.one_draw {
                return self.perturb(order, &shared, column);
            }
            u.clear();
            u.extend(noise.record(record).random_iter::<f64>().take(k));
            self.perturb(order, u, column);
        });
        Ok(ReleasedScores::Numbers(scores))
    }

    fn note(&self) -> Option<String> {
        let mut note = format!(
            "{}: a scale from epsilon is no differential privacy, and is not claimed",
            self.name
        );
        if self.one_draw {
            note.push_str("; as published, one draw serves every record: one known score vector undoes all others");
        }
        Some(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{close, golden, number, numbers};
    use proptest::prelude::*;

    fn plus(sigma: &[f64], template: Template, as_published: bool) -> DefenseConfig {
        let (epsilon, delta, sensitivity) = (Vec::new(), 1e-5, 0.1);
        DefenseConfig::PriveeDpPlusPlus {
            sigma: sigma.to_vec(),
            epsilon,
            delta,
            sensitivity,
            template,
            as_published,
        }
    }

    fn dp(sigma: f64, template: Template, as_published: bool) -> DefenseConfig {
        let (sigma, epsilon, delta, sensitivity) = (Some(sigma), None, 1e-5, 0.1);
        DefenseConfig::PriveeDp { sigma, epsilon, delta, sensitivity, template, as_published }
    }

    fn perturbed(config: &DefenseConfig, c: &[f64], u: &[f64]) -> Vec<f64> {
        let defense = Privee::new(config, c.len()).unwrap();
        let mut order = Order::default();
        order.sort(c);
        let mut p = c.to_vec();
        defense.perturb(&order, u, &mut p);
        p
    }

    #[test]
    fn perturbation_matches_the_golden_vectors() {
        let file = golden("score_defences.json");
        let cases = file["privee"].as_array().unwrap();
        assert!(cases.len() >= 20);
        for case in cases {
            let template: Template = serde_json::from_value(case["template"].clone()).unwrap();
            let config = match case["variant"].as_str().unwrap() {
                "DP" => dp(number(&case["sigma"]), template, false),
                _ => plus(&numbers(&case["sigma_by_rank_ascending_score"]), template, false),
            };
            let (c, u) = (numbers(&case["c"]), numbers(&case["u01"]));
            close(&perturbed(&config, &c, &u), &numbers(&case["p"]), 1e-12);
        }
        let ranks = file["rank"].as_array().unwrap();
        assert!(!ranks.is_empty());
        for case in ranks
            .iter()
            .map(|case| (&case["c"], &case["rank_descending"]))
            .chain(cases.iter().map(|c| (&c["c"], &c["rank"])))
        {
            let mut order = Order::default();
            order.sort(&numbers(case.0));
            let expected = numbers(case.1);
            for (rank, at) in order.best_first().enumerate() {
                assert_eq!(expected[at], (rank + 1) as f64);
            }
        }
    }

    #[test]
    fn published_scales_fall_with_the_rank() {
        // u = 0.5 in every part of [0, 3]: 3 (r + ½) / 3 for ranks from below; scales 2 (smallest
        // score) to 1.
        let p =
            perturbed(&plus(&[1.0, 2.0], Template::Identity, true), &[0.5, 0.2, 0.3], &[0.5; 3]);
        close(&p, &[0.5 * 3.5, 0.2 * 2.0, 0.3 * 3.25], 1e-15);
    }

    #[test]
    fn lists_are_checked() {
        let refused = |config: DefenseConfig, part: &str| {
            let error = Privee::new(&config, 4).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        refused(plus(&[1.0], Template::Identity, false), "a list of 1");
        refused(plus(&[1.0, 2.0, 3.0], Template::Identity, false), "a list of 3");
        refused(plus(&[2.0, 1.0], Template::Identity, false), "2 before 1");
        refused(plus(&[0.0, f64::NAN], Template::Identity, false), "NaN");
        refused(plus(&[-1.0, 1.0], Template::Identity, false), "-1");
        refused(dp(f64::INFINITY, Template::Identity, false), "inf");
        assert!(check(&plus(&[1.0, 2.0, 3.0], Template::Identity, false), None).is_ok());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// P (8) as it is printed: a dense matrix with true ranks by counting.
        #[test]
        fn a_dense_matrix_is_the_oracle(
            raw in prop::collection::vec((prop_oneof![0.0f64..1.0, Just(0.0), Just(0.25)], 0.0f64..1.0), 2..30),
            ends in (0.0f64..5.0, 0.0f64..5.0),
            kind in 0usize..6,
        ) {
            let (c, u): (Vec<f64>, Vec<f64>) = raw.into_iter().unzip();
            let k = c.len();
            let template = [Template::Identity, Template::Householder, Template::Fisip][kind % 3];
            let (least, most) = (ends.0.min(ends.1), ends.0.max(ends.1));
            let config = if kind < 3 { dp(most, template, false) } else { plus(&[least, most], template, false) };
            let rank = |i: usize| 1 + (0..k).filter(|&j| c[j] > c[i] || c[j] == c[i] && j < i).count();
            let matrix = DMatrix::from_fn(k, k, |i, j| {
                let ones = 2.0 / k as f64;
                let a = match template {
                    Template::Identity => f64::from(i == j),
                    Template::Householder => f64::from(i == j) - ones,
                    Template::Fisip => ones - f64::from(i == j),
                };
                let from_below = (k - rank(i)) as f64;
                let sigma = if kind < 3 { most } else { least + from_below / (k - 1) as f64 * (most - least) };
                a + if i == j { (from_below + u[i]) / k as f64 * sigma } else { 0.0 }
            });
            let expected = matrix * DMatrix::from_column_slice(k, 1, &c);
            close(&perturbed(&config, &c, &u), expected.as_slice(), 1e-12);
        }
    }
}
