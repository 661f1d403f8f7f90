//! Tests of a paper's sentences on the curves of a document.

use serde::Deserialize;

use crate::Document;

/// The test of a claim on a document.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Test {
    /// `curve` ≤ `factor` · `than` at a share of the points.
    Below {
        /// The curve that must be below.
        curve: String,
        /// The curve to compare with.
        than: String,
        /// The factor; 1 unless given.
        #[serde(default = "one")]
        factor: f64,
        /// The share of the points; all unless given.
        #[serde(default = "one")]
        share: f64,
        /// The first axis point that counts.
        from: Option<usize>,
        /// The last axis point that counts.
        to: Option<usize>,
    },
    /// |`curve` − `than`| ≤ `within` · `than` at a share of the points.
    Near {
        /// The curve that must be near.
        curve: String,
        /// The curve to compare with.
        than: String,
        /// The largest relative difference.
        within: f64,
        /// The share of the points; all unless given.
        #[serde(default = "one")]
        share: f64,
        /// The first axis point that counts.
        from: Option<usize>,
        /// The last axis point that counts.
        to: Option<usize>,
    },
    /// `curve` ≤ `value` at a share of the points.
    AtMost {
        /// The bounded curve.
        curve: String,
        /// The upper bound.
        value: f64,
        /// The share of the points; all unless given.
        #[serde(default = "one")]
        share: f64,
        /// The first axis point that counts.
        from: Option<usize>,
        /// The last axis point that counts.
        to: Option<usize>,
    },
    /// `curve` ≥ `value` at a share of the points.
    AtLeast {
        /// The bounded curve.
        curve: String,
        /// The lower bound.
        value: f64,
        /// The share of the points; all unless given.
        #[serde(default = "one")]
        share: f64,
        /// The first axis point that counts.
        from: Option<usize>,
        /// The last axis point that counts.
        to: Option<usize>,
    },
    /// `curve` rises from point to point.
    Rises {
        /// The curve that must rise.
        curve: String,
        /// The relative fall that is tolerated.
        #[serde(default)]
        slack: f64,
        /// The first axis point that counts.
        from: Option<usize>,
        /// The last axis point that counts.
        to: Option<usize>,
    },
    /// `curve` falls from point to point.
    Falls {
        /// The curve that must fall.
        curve: String,
        /// The relative rise that is tolerated.
        #[serde(default)]
        slack: f64,
        /// The first axis point that counts.
        from: Option<usize>,
        /// The last axis point that counts.
        to: Option<usize>,
    },
    /// The mean over points of `curve` / `than` is in [`low`, `high`].
    Ratio {
        /// The curve in the numerator.
        curve: String,
        /// The curve in the denominator.
        than: String,
        /// The lower end of the range.
        low: f64,
        /// The upper end of the range.
        high: f64,
        /// The first axis point that counts.
        from: Option<usize>,
        /// The last axis point that counts.
        to: Option<usize>,
    },
    /// A check of the document.
    Check {
        /// The id of the check.
        id: String,
    },
    /// The claim cannot be tested here.
    None {
        /// The reason, or what a test would need.
        why: String,
    },
}

fn one() -> f64 {
    1.0
}

/// The result of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestOutcome {
    /// The claim holds.
    Holds(String),
    /// It does not.
    Fails(String),
    /// The document has nothing to test it on.
    Untested(String),
}

/// The points of one or two curves: axis point, value, value of the other.
struct Points(Vec<(usize, f64, f64)>);

impl Points {
    /// Returns the points of `curve`, and of `than` if named, between two axis points.
    fn of(
        document: &Document,
        curve: &str,
        than: Option<&str>,
        from: Option<usize>,
        to: Option<usize>,
    ) -> Result<Self, TestOutcome> {
        let points = &document.axis.points;
        let values = |name: &str| {
            let curve = document.curve(name).filter(|curve| curve.mean.len() == points.len());
            curve.map(|curve| curve.mean.as_slice()).ok_or_else(|| {
                TestOutcome::Untested(format!(
                    "the document has no curve `{name}` with a value at each point of its axis"
                ))
            })
        };
        let (curve, than) = (values(curve)?, than.map(values).transpose()?);
        let counted =
            |point: usize| from.is_none_or(|from| from <= point) && to.is_none_or(|to| point <= to);
        let all = points.iter().enumerate().filter(|(_, point)| counted(**point));
        let found: Vec<_> = all
            .map(|(i, &point)| (point, curve[i], than.map_or(f64::NAN, |than| than[i])))
            .collect();
        if found.is_empty() {
            return Err(TestOutcome::Untested(
                "no point of this run is in the range of the claim".into(),
            ));
        }
        Ok(Self(found))
    }

    /// Checks that a share of the points is right, and lists those that are not.
    fn mostly(&self, symbol: &str, share: f64, right: impl Fn(f64, f64) -> bool) -> TestOutcome {
        let wrong: Vec<String> = self
            .0
            .iter()
            .filter(|(_, a, b)| !right(*a, *b))
            .map(|(point, a, b)| match b.is_nan() {
                true => format!("{symbol} = {point}: {a:.3e}"),
                false => format!("{symbol} = {point}: {a:.3e} against {b:.3e}"),
            })
            .collect();
        let n = self.0.len();
        let text = format!("{} of {n} points", n - wrong.len());
        if (n - wrong.len()) as f64 >= share * n as f64 - 1e-9 {
            TestOutcome::Holds(text)
        } else {
            let shown: Vec<String> = wrong.iter().take(4).cloned().collect();
            let more = if wrong.len() > 4 { "; …" } else { "" };
            TestOutcome::Fails(format!("{text}; not at {}{more}", shown.join("; ")))
        }
    }
}

impl Test {
    /// Tests a document.
    #[must_use]
    pub fn on(&self, document: &Document) -> TestOutcome {
        match self.found(document) {
            Ok(found) | Err(found) => found,
        }
    }

    /// Describes the test in a few words; empty if the document's check or the reason describes it.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Below { curve, than, factor, .. } if *factor == 1.0 => {
                format!("{curve} at most {than}")
            }
            Self::Below { curve, than, factor, .. } => {
                format!("{curve} at most {factor} times {than}")
            }
            Self::Near { curve, than, within, .. } => {
                format!("{curve} within {:.0} % of {than}", 100.0 * within)
            }
            Self::AtMost { curve, value, .. } => format!("{curve} at most {value}"),
            Self::AtLeast { curve, value, .. } => format!("{curve} at least {value}"),
            Self::Rises { curve, .. } => format!("{curve} rises"),
            Self::Falls { curve, .. } => format!("{curve} falls"),
            Self::Ratio { curve, than, .. } => format!("{curve} over {than}"),
            Self::Check { .. } | Self::None { .. } => String::new(),
        }
    }

    /// Returns the curves that the test uses.
    #[must_use]
    pub fn curves(&self) -> Vec<&str> {
        match self {
            Self::Below { curve, than, .. }
            | Self::Near { curve, than, .. }
            | Self::Ratio { curve, than, .. } => {
                vec![curve, than]
            }
            Self::AtMost { curve, .. }
            | Self::AtLeast { curve, .. }
            | Self::Rises { curve, .. }
            | Self::Falls { curve, .. } => {
                vec![curve]
            }
            Self::Check { .. } | Self::None { .. } => Vec::new(),
        }
    }

    fn found(&self, document: &Document) -> Result<TestOutcome, TestOutcome> {
        let symbol = &document.axis.symbol;
        Ok(match self {
            Self::Below { curve, than, factor, share, from, to } => {
                Points::of(document, curve, Some(than), *from, *to)?.mostly(
                    symbol,
                    *share,
                    |a, b| a <= factor * b + EQUAL,
                )
            }
            Self::Near { curve, than, within, share, from, to } => {
                Points::of(document, curve, Some(than), *from, *to)?.mostly(
                    symbol,
                    *share,
                    |a, b| (a - b).abs() <= within * b.abs() + EQUAL,
                )
            }
            Self::AtMost { curve, value, share, from, to } => {
                Points::of(document, curve, None, *from, *to)?
                    .mostly(symbol, *share, |a, _| a <= *value)
            }
            Self::AtLeast { curve, value, share, from, to } => {
                Points::of(document, curve, None, *from, *to)?
                    .mostly(symbol, *share, |a, _| a >= *value)
            }
            Self::Rises { curve, slack, from, to } => {
                steps(&Points::of(document, curve, None, *from, *to)?, symbol, |a, b| {
                    b >= a * (1.0 - slack) - EQUAL
                })
            }
            Self::Falls { curve, slack, from, to } => {
                steps(&Points::of(document, curve, None, *from, *to)?, symbol, |a, b| {
                    b <= a * (1.0 + slack) + EQUAL
                })
            }
            Self::Ratio { curve, than, low, high, from, to } => {
                let Points(points) = Points::of(document, curve, Some(than), *from, *to)?;
                let mean = points.iter().map(|(_, a, b)| a / b).sum::<f64>() / points.len() as f64;
                let text = format!(
                    "ratio {mean:.3}, asked for {low} to {high}, mean of {} points",
                    points.len()
                );
                if (*low..=*high).contains(&mean) {
                    TestOutcome::Holds(text)
                } else {
                    TestOutcome::Fails(text)
                }
            }
            Self::Check { id } => match document.checks.iter().find(|check| check.id == *id) {
                None => TestOutcome::Untested(format!("the document has no check `{id}`")),
                Some(check) if check.holds => TestOutcome::Holds(check.detail.clone()),
                Some(check) => TestOutcome::Fails(check.detail.clone()),
            },
            Self::None { why } => TestOutcome::Untested(why.clone()),
        })
    }
}

/// The tolerance for round-off of solvers, as in the sweeps.
const EQUAL: f64 = 1e-9;

/// Checks that each step goes in the right direction.
fn steps(Points(points): &Points, symbol: &str, right: impl Fn(f64, f64) -> bool) -> TestOutcome {
    if points.len() < 2 {
        return TestOutcome::Untested("one point of this run is in the range of the claim".into());
    }
    let wrong = points.windows(2).filter(|pair| !right(pair[0].1, pair[1].1));
    let wrong: Vec<String> = wrong
        .map(|pair| {
            format!(
                "{symbol} = {} to {}: {:.3e} to {:.3e}",
                pair[0].0, pair[1].0, pair[0].1, pair[1].1
            )
        })
        .collect();
    let n = points.len() - 1;
    match wrong.is_empty() {
        true => TestOutcome::Holds(format!("{n} steps")),
        false => TestOutcome::Fails(format!(
            "{} of {n} steps; not {}",
            n - wrong.len(),
            wrong[..wrong.len().min(4)].join("; ")
        )),
    }
}
