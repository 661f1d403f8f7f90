//! PRIVEE-DP and PRIVEE-DP++ (P algorithm 1): every score times 1 + u σ, with a larger u for a
//! better rank.
//!
//! The matrix A of the paper is the identity plus a multiple of 1 1ᵀ (or its negative), so that A c
//! costs one sum; the rest of the cost is sorting the scores, O(k log k). P says O(k) and its code
//! builds a dense k × k matrix (errata P5).

use nalgebra::DMatrix;
use rand::RngExt;
use vfl_core::types::ReleasedScores;

use super::definition::Definition;
use super::gaussian::{AS_PUBLISHED, DELTA, check_gaussian, gaussian_scale};
use super::order::{Order, each_column, lifted};
use super::{Contract, Defense, DefenseError, MAX_SCALE, Noise, Output, checked};
use crate::DefenseConfig;
use crate::policy::{
    Facts, Parameter, ParameterKind, ReleaseKind, Template, default_delta,
    default_privee_sensitivity,
};

const SENSITIVITY: Parameter =
    Parameter::optional("sensitivity", ParameterKind::Number, "above 0; default 0.1");
const TEMPLATE: Parameter = Parameter::optional(
    "template",
    ParameterKind::Word(&["identity", "householder", "fisip"]),
    "the matrix perturbed; default identity",
);

pub(super) const DP: Facts = Facts {
    name: "privee_dp",
    parameters: &[
        Parameter::optional("sigma", ParameterKind::Number, "at least 0, in place of epsilon"),
        Parameter::optional("epsilon", ParameterKind::Number, "above 0; default 0.1"),
        DELTA,
        SENSITIVITY,
        TEMPLATE,
        AS_PUBLISHED,
    ],
    examples: |_| {
        let of = |(sigma, epsilon)| DefenseConfig::PriveeDp {
            sigma,
            epsilon,
            delta: default_delta(),
            sensitivity: default_privee_sensitivity(),
            template: Template::Householder,
            as_published: false,
        };
        [(None, Some(0.1)), (Some(48.0), None)].map(of).into()
    },
    ..Facts::PLAIN
};

pub(super) const DP_PLUS_PLUS: Facts = Facts {
    name: "privee_dp_plus_plus",
    parameters: &[
        Parameter::optional(
            "sigma",
            ParameterKind::Numbers,
            "one value for each class or two ends, not falling, in place of epsilon",
        ),
        Parameter::optional(
            "epsilon",
            ParameterKind::Numbers,
            "likewise, not rising; default 0.1,0.05",
        ),
        DELTA,
        SENSITIVITY,
        TEMPLATE,
        AS_PUBLISHED,
    ],
    examples: |_| {
        vec![DefenseConfig::PriveeDpPlusPlus {
            sigma: Vec::new(),
            epsilon: Vec::new(),
            delta: default_delta(),
            sensitivity: default_privee_sensitivity(),
            template: Template::Householder,
            as_published: false,
        }]
    },
    ..Facts::PLAIN
};

/// Defines a PRIVEE defense.
///
/// There is no finite bound of bits: on [0, ε] a score c is released as c (1 + uσ) up to a known
/// shift, u uniform in an interval of length 1/k, so that the density at r is at least k/(σ c) for
/// some c in [r/(1 + σ), r], at least k/(σ r): its integral over r from 0 diverges.
pub(super) fn definition<'a>(facts: &'static Facts, config: &'a DefenseConfig) -> Definition<'a> {
    Definition {
        leaves: ReleaseKind::OrderNoised,
        bits: Definition::unbounded(
            "PRIVEE's noise is proportional to the score and vanishes with it, so that \
             Σ_r max_x P(r | x) diverges",
        ),
        draws: true,
        ..Definition::at_scores(
            facts,
            Output::Numbers,
            || check(config, None),
            |classes, _| Privee::new(config, classes),
        )
    }
}

impl DefenseConfig {
    /// Returns the standard deviations, or scales, of the noise of a PRIVEE defense from the
    /// smallest score to the largest; empty for others. One value for `privee_dp`; k values, or two
    /// ends, for `privee_dp_plus_plus`.
    #[must_use]
    pub fn privee_scales(&self) -> Vec<f64> {
        match self {
            Self::PriveeDp { sigma, epsilon, delta, sensitivity, .. } => {
                vec![sigma.unwrap_or_else(|| {
                    gaussian_scale(epsilon.unwrap_or(0.1), *delta, *sensitivity)
                })]
            }
            Self::PriveeDpPlusPlus { sigma, epsilon, delta, sensitivity, .. }
                if sigma.is_empty() =>
            {
                let epsilon: &[f64] = if epsilon.is_empty() { &[0.1, 0.05] } else { epsilon };
                epsilon.iter().map(|e| gaussian_scale(*e, *delta, *sensitivity)).collect()
            }
            Self::PriveeDpPlusPlus { sigma, .. } => sigma.clone(),
            _ => Vec::new(),
        }
    }
}

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
            // The authors' code draws DP++ from [0, 1] (errata P5).
            span: if as_published && !plus { 3.0 } else { 1.0 },
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
mod tests;
