//! The papers' claims about several data sets together, checked if one run has them all.

use super::document::{Check, CheckKind, Document};
use super::{Figure, adversary_model, moments, priors};

/// A claim that a number of each document is smaller for some data sets than for others.
struct ComparisonClaim {
    id: &'static str,
    claim: &'static str,
    of: fn(&Document) -> Option<f64>,
    smaller: &'static [&'static str],
    larger: &'static [&'static str],
}

fn said(figure: Figure) -> &'static [ComparisonClaim] {
    match figure {
        Figure::RFig6 => &[ComparisonClaim {
            id: "means_near_half",
            claim: "the means of bank, satellite and synthetic are closer to ½ than robot's (R section VIII-E)",
            of: moments::from_half,
            smaller: &["bank", "satellite", "synthetic"],
            larger: &["robot"],
        }],
        Figure::VFig6 => &[
            ComparisonClaim {
                id: "grid_least_correlated",
                claim: "the features of grid are the least correlated (V section VI-A)",
                of: moments::correlation,
                smaller: &["grid"],
                larger: &["bank", "adult", "satellite", "pendigits"],
            },
            ComparisonClaim {
                id: "pendigits_more_diagonal",
                claim: "the covariance of pendigits is more diagonal than those of satellite, bank and adult (V section VI-A)",
                of: moments::correlation,
                smaller: &["pendigits"],
                larger: &["satellite", "bank", "adult"],
            },
        ],
        Figure::VFig8 => &[ComparisonClaim {
            id: "gain_on_grid_and_pendigits",
            claim: "with half of the features active, the joint model gains more over the adversary's on grid and pendigits than on \
                    bank, satellite and adult (V remark 18)",
            of: adversary_model::gain,
            smaller: &["bank", "satellite", "adult"],
            larger: &["grid", "pendigits"],
        }],
        _ => &[],
    }
}

/// Adds to the documents of one run, one per data set, the checks of the papers' claims about them
/// together.
pub fn compare(figure: Figure, documents: &mut [Document]) {
    if figure == Figure::Priors
        && let Some(check) = priors::together(documents)
    {
        documents.iter_mut().for_each(|document| document.checks.push(check.clone()));
    }
    for said in said(figure) {
        let values: Vec<(String, f64)> = documents
            .iter()
            .filter_map(|d| Some((d.dataset.name.clone(), (said.of)(d)?)))
            .collect();
        let among = |names: &'static [&str]| {
            values.iter().filter(|(name, _)| names.contains(&name.as_str()))
        };
        let pairs: Vec<_> =
            among(said.smaller).flat_map(|s| among(said.larger).map(move |l| (s, l))).collect();
        if pairs.is_empty() {
            continue;
        }
        let violations: Vec<String> = pairs
            .iter()
            .filter(|(s, l)| s.1 >= l.1)
            .map(|(s, l)| format!("{} {:.4}, {} {:.4}", s.0, s.1, l.0, l.1))
            .collect();
        let check = Check {
            id: said.id.into(),
            kind: CheckKind::Paper,
            claim: said.claim.into(),
            holds: violations.is_empty(),
            comparisons: pairs.len() as u64,
            detail: values
                .iter()
                .map(|(name, v)| format!("{name} {v:.4}"))
                .collect::<Vec<_>>()
                .join(", "),
            violations,
        };
        documents.iter_mut().for_each(|document| document.checks.push(check.clone()));
    }
}
