//! Events of an attribute, and how many of the records named for an event have it.

use nalgebra::DMatrix;
use serde::{Deserialize, Serialize};

use super::ranks::Distribution;
use super::schema::{Attribute, AttributeKind};

/// An event whose natural frequencies are reported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// A binary attribute has its rarer value.
    Rarer {
        /// The value, in the units of the source.
        value: f64,
    },
    /// A number is not the value that more than half of the records share.
    NotUsual {
        /// The shared value, in the units of the source.
        value: f64,
    },
    /// A number is in the top decile.
    TopDecile {
        /// The smallest number of the decile, in the units of the source.
        from: f64,
    },
    /// The rarest category that at least 1 % of the records have.
    Category {
        /// The column of the category.
        column: String,
    },
}

/// Natural frequencies: of the records that an adversary would name for an event, those that have
/// it.
///
/// If equal estimates straddle the last place, the expected number under a random order of them
/// counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventFigures {
    /// The event that records are named for.
    pub event: Event,
    /// The number of records named: a tenth of all, at least 1.
    pub named: u64,
    /// The number of records that have the event, out of all.
    pub having: u64,
    /// The number of records named by the attack that have it, in [0, named].
    pub attack: f64,
    /// The number of records named by the control that have it.
    pub control: f64,
}

/// An event on the scored records: which of them have it, and the order in which estimates name
/// records for it.
pub(super) struct ScoredEvent {
    pub(super) event: Event,
    pub(super) has: Vec<bool>,
    order: Order,
}

/// The order in which estimates of a column name records.
enum Order {
    /// Higher estimates come first.
    Rising(usize),
    /// Lower estimates come first.
    Falling(usize),
    /// Estimates further from this value come first.
    From(usize, f64),
}

impl ScoredEvent {
    /// Returns the event of an attribute whose truth is d × n; `None` if all records have it, or
    /// none.
    pub(super) fn of(attribute: &Attribute, truth: &DMatrix<f64>) -> Option<Self> {
        let asked = match &attribute.kind {
            AttributeKind::Categories(names) => Self::category(attribute, names, truth)?,
            AttributeKind::Binary => Self::rarer(attribute, truth)?,
            AttributeKind::Numbers => Self::number(attribute, truth)?,
        };
        (asked.has.contains(&true) && asked.has.contains(&false)).then_some(asked)
    }

    fn rarer(attribute: &Attribute, truth: &DMatrix<f64>) -> Option<Self> {
        let column = *attribute.columns.first()?;
        let ones: Vec<bool> = truth.row(column).iter().map(|x| *x > 0.5).collect();
        let rare = 2 * ones.iter().filter(|one| **one).count() <= ones.len();
        Some(Self {
            event: Event::Rarer { value: attribute.in_units(f64::from(u8::from(rare))) },
            has: ones.into_iter().map(|one| one == rare).collect(),
            order: if rare { Order::Rising(column) } else { Order::Falling(column) },
        })
    }

    fn number(attribute: &Attribute, truth: &DMatrix<f64>) -> Option<Self> {
        let column = *attribute.columns.first()?;
        let x: Vec<f64> = truth.row(column).iter().copied().collect();
        let distribution = Distribution::of(&x);
        let (usual, times) = distribution.mode();
        if 2 * times > x.len() {
            let (below, above) = (x.iter().any(|x| *x < usual), x.iter().any(|x| *x > usual));
            return Some(Self {
                event: Event::NotUsual { value: attribute.in_units(usual) },
                has: x.iter().map(|x| *x != usual).collect(),
                order: match (below, above) {
                    (true, true) => Order::From(column, usual),
                    (true, false) => Order::Falling(column),
                    (false, _) => Order::Rising(column),
                },
            });
        }
        let tenth = (x.len() / 10).max(1);
        let from = *distribution.sorted().get(x.len().checked_sub(tenth)?)?;
        Some(Self {
            event: Event::TopDecile { from: attribute.in_units(from) },
            has: x.iter().map(|x| *x >= from).collect(),
            order: Order::Rising(column),
        })
    }

    fn category(attribute: &Attribute, names: &[String], truth: &DMatrix<f64>) -> Option<Self> {
        let least = truth.ncols().div_ceil(100).max(1);
        let times = |column: usize| truth.row(column).iter().filter(|x| **x > 0.5).count();
        let columns = attribute
            .columns
            .iter()
            .copied()
            .zip(names)
            .map(|(column, name)| (column, name, times(column)));
        let (column, name, _) =
            columns.filter(|(_, _, times)| *times >= least).min_by_key(|(_, _, times)| *times)?;
        Some(Self {
            event: Event::Category { column: name.clone() },
            has: truth.row(column).iter().map(|x| *x > 0.5).collect(),
            order: Order::Rising(column),
        })
    }

    /// Computes the score of each record for the event by estimates, d × n.
    pub(super) fn scores(&self, estimates: &DMatrix<f64>) -> Vec<f64> {
        match self.order {
            Order::Rising(column) => estimates.row(column).iter().copied().collect(),
            Order::Falling(column) => estimates.row(column).iter().map(|e| -e).collect(),
            Order::From(column, usual) => {
                estimates.row(column).iter().map(|e| (e - usual).abs()).collect()
            }
        }
    }

    /// Returns the number of records to name: a tenth, at least 1.
    pub(super) fn named(&self) -> usize {
        (self.has.len() / 10).max(1)
    }

    /// Returns how many of the `named` records with the highest scores have the event. For ties at
    /// the last place, this is the expected number.
    pub(super) fn right(&self, scores: &[f64]) -> f64 {
        let mut order: Vec<(f64, bool)> =
            scores.iter().copied().zip(self.has.iter().copied()).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (mut left, mut right) = (self.named(), 0.0);
        for tied in order.chunk_by(|a, b| a.0 == b.0) {
            let have = tied.iter().filter(|(_, has)| *has).count() as f64;
            let taken = left.min(tied.len());
            right += have * taken as f64 / tied.len() as f64;
            left -= taken;
            if left == 0 {
                break;
            }
        }
        right
    }
}
