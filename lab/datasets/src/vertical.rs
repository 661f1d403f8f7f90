//! The division of columns among parties.

use vfl_core::types::{NameError, PartyName};

use super::names::ImageShape;

/// The name in the active party's files, which no passive party may have.
pub const ACTIVE: &str = "active";

/// One passive party and its columns of the data set, in the order of its feature block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassiveColumns {
    /// The party's name.
    pub name: PartyName,
    /// Positions of its columns in the data set, from 0.
    pub columns: Vec<usize>,
}

/// A division of `d_total` columns among one active and any number of passive parties. The active
/// party holds, in ascending order, the columns that no passive party holds, perhaps none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerticalSplit {
    total: usize,
    passive: Vec<PassiveColumns>,
    active: Vec<usize>,
}

/// Errors from dividing columns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerticalSplitError {
    /// No passive party.
    #[error("a vertical split needs at least one passive party")]
    NoPassiveParty,
    /// A passive party without a column.
    #[error("passive party {party} has no column")]
    NoColumns {
        /// The party's name.
        party: PartyName,
    },
    /// A column that does not exist.
    #[error("passive party {party} is given column {column}, the data set has columns 0 to {}", .total.saturating_sub(1))]
    OutOfRange {
        /// The party's name.
        party: PartyName,
        /// The position of the column.
        column: usize,
        /// The number of columns.
        total: usize,
    },
    /// A column given away twice.
    #[error("column {column} is given away twice, the second time to passive party {party}")]
    Overlap {
        /// The second holder of the column.
        party: PartyName,
        /// The position of the column.
        column: usize,
    },
    /// Two parties of one name (letter case apart: the names become file names), or a passive party
    /// called `active`.
    #[error("two parties are called {party}")]
    RepeatedName {
        /// The repeated name.
        party: PartyName,
    },
    /// A window that is empty or wider than the data set, or too narrow for its parties.
    #[error(
        "a window of {width} columns of {total} among {parties} passive parties: its width is at least the number of parties and at most that of the columns"
    )]
    Window {
        /// The width d of the window.
        width: usize,
        /// The number of columns d_t.
        total: usize,
        /// The number of parties that share the window.
        parties: usize,
    },
    /// A party name that is not valid.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl VerticalSplit {
    /// Gives any set of columns to any number of passive parties, and the rest to the active party.
    ///
    /// # Errors
    /// [`VerticalSplitError`] unless there is a passive party, each has a column, no column is
    /// given twice or out of range, and names differ.
    pub fn new(total: usize, passive: Vec<PassiveColumns>) -> Result<Self, VerticalSplitError> {
        if passive.is_empty() {
            return Err(VerticalSplitError::NoPassiveParty);
        }
        let mut taken = vec![false; total];
        let mut names = std::collections::HashSet::from([ACTIVE.to_owned()]);
        for PassiveColumns { name, columns } in &passive {
            let party = || name.clone();
            if !names.insert(name.as_str().to_ascii_lowercase()) {
                return Err(VerticalSplitError::RepeatedName { party: party() });
            }
            if columns.is_empty() {
                return Err(VerticalSplitError::NoColumns { party: party() });
            }
            for &column in columns {
                match taken.get_mut(column) {
                    None => {
                        return Err(VerticalSplitError::OutOfRange {
                            party: party(),
                            column,
                            total,
                        });
                    }
                    Some(true) => {
                        return Err(VerticalSplitError::Overlap { party: party(), column });
                    }
                    Some(free) => *free = true,
                }
            }
        }
        let active = (0..total).filter(|&c| !taken[c]).collect();
        Ok(Self { total, passive, active })
    }

    /// Creates the moving window of R's figures: one passive party, called `passive`, holds the
    /// columns (k0 … k0 + d − 1) mod d_t in that order.
    ///
    /// # Errors
    /// [`VerticalSplitError::Window`] unless 1 ≤ d ≤ d_t.
    pub fn window(k0: usize, d: usize, total: usize) -> Result<Self, VerticalSplitError> {
        Self::shared_window(k0, d, total, &[PartyName::new("passive")?])
    }

    /// Creates the window of [`VerticalSplit::window`], cut into consecutive pieces, one per name,
    /// whose sizes differ by at most one column (the first ones have more).
    ///
    /// # Errors
    /// [`VerticalSplitError::Window`] unless there are between one column per party and d_t
    /// columns; otherwise as [`VerticalSplit::new`].
    pub fn shared_window(
        k0: usize,
        d: usize,
        total: usize,
        names: &[PartyName],
    ) -> Result<Self, VerticalSplitError> {
        let parties = names.len();
        if parties == 0 {
            return Err(VerticalSplitError::NoPassiveParty);
        }
        if d < parties || d > total {
            return Err(VerticalSplitError::Window { width: d, total, parties });
        }
        let window: Vec<usize> = (0..d).map(|i| (k0 % total + i) % total).collect();
        let cut = |i: usize| i * (d / parties) + i.min(d % parties);
        let piece = |(i, name): (usize, &PartyName)| PassiveColumns {
            name: name.clone(),
            columns: window[cut(i)..cut(i + 1)].to_vec(),
        };
        Self::new(total, names.iter().enumerate().map(piece).collect())
    }

    /// Divides images as P does (4.1): columns of pixels, in consecutive pieces whose widths differ
    /// by at most one, the first piece for the active party and one for each name. Each part is an
    /// image of as many channels and rows.
    ///
    /// # Errors
    /// [`VerticalSplitError::Window`] with more parties than columns of pixels; otherwise as
    /// [`VerticalSplit::new`].
    pub fn image_columns(
        shape: ImageShape,
        names: &[PartyName],
    ) -> Result<Self, VerticalSplitError> {
        let parties = names.len() + 1;
        if parties > shape.width {
            return Err(VerticalSplitError::Window {
                width: shape.width,
                total: shape.width,
                parties,
            });
        }
        let cut = |i: usize| i * (shape.width / parties) + i.min(shape.width % parties);
        let piece = |(i, name): (usize, &PartyName)| PassiveColumns {
            name: name.clone(),
            columns: (0..shape.features())
                .filter(|c| (cut(i)..cut(i + 1)).contains(&(c % shape.width)))
                .collect(),
        };
        Self::new(shape.features(), (1..).zip(names).map(piece).collect())
    }

    /// Returns the number of columns divided, d_t.
    #[must_use]
    pub fn total(&self) -> usize {
        self.total
    }

    /// Returns the active party's columns, ascending.
    #[must_use]
    pub fn active(&self) -> &[usize] {
        &self.active
    }

    /// Returns the passive parties in the order given.
    #[must_use]
    pub fn passive(&self) -> &[PassiveColumns] {
        &self.passive
    }
}

/// Returns the names `passive-1`, `passive-2` … of passive parties that have none of their own.
///
/// # Errors
/// [`NameError`] if a number makes no name.
pub fn passive_names(parties: usize) -> Result<Vec<PartyName>, NameError> {
    (1..=parties).map(|i| PartyName::new(format!("passive-{i}"))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn name(n: &str) -> PartyName {
        PartyName::new(n).unwrap()
    }

    fn split(
        total: usize,
        parties: &[(&str, &[usize])],
    ) -> Result<VerticalSplit, VerticalSplitError> {
        let passive = parties
            .iter()
            .map(|(n, c)| PassiveColumns { name: name(n), columns: c.to_vec() })
            .collect();
        VerticalSplit::new(total, passive)
    }

    #[test]
    fn windows_wrap_around() {
        let w = VerticalSplit::window(4, 3, 6).unwrap();
        assert_eq!(
            (w.passive()[0].columns.as_slice(), w.active()),
            ([4, 5, 0].as_slice(), [1, 2, 3].as_slice())
        );
        assert_eq!(VerticalSplit::window(10, 3, 6).unwrap(), w);
        assert_eq!(VerticalSplit::window(2, 6, 6).unwrap().active(), [0; 0]);
        assert!(VerticalSplit::window(usize::MAX, 2, 6).is_ok());
        for (d, total) in [(0, 6), (7, 6), (1, 0), (0, 0)] {
            assert!(matches!(
                VerticalSplit::window(0, d, total),
                Err(VerticalSplitError::Window { .. })
            ));
        }
    }

    #[test]
    fn a_window_is_shared_evenly() {
        let w = VerticalSplit::shared_window(5, 5, 7, &[name("a"), name("b"), name("c")]).unwrap();
        let columns: Vec<_> = w.passive().iter().map(|p| p.columns.clone()).collect();
        assert_eq!(columns, [vec![5, 6], vec![0, 1], vec![2]]);
        assert_eq!(w.active(), [3, 4]);
    }

    #[test]
    fn images_are_cut_by_columns_of_pixels() {
        let shape = ImageShape { channels: 2, height: 2, width: 5 };
        let split = VerticalSplit::image_columns(shape, &[name("a"), name("b")]).unwrap();
        // Rows of five pixels: two, two and one of each.
        assert_eq!(split.active(), [0, 1, 5, 6, 10, 11, 15, 16]);
        let columns: Vec<_> = split.passive().iter().map(|p| p.columns.clone()).collect();
        assert_eq!(columns, [vec![2, 3, 7, 8, 12, 13, 17, 18], vec![4, 9, 14, 19]]);
        let many: Vec<_> = (0..5).map(|i| name(&format!("p{i}"))).collect();
        assert!(matches!(
            VerticalSplit::image_columns(shape, &many),
            Err(VerticalSplitError::Window { .. })
        ));
    }

    #[test]
    fn bad_divisions_are_refused() {
        assert_eq!(split(3, &[]), Err(VerticalSplitError::NoPassiveParty));
        assert_eq!(
            split(3, &[("p", &[])]),
            Err(VerticalSplitError::NoColumns { party: name("p") })
        );
        let out = VerticalSplitError::OutOfRange { party: name("p"), column: 3, total: 3 };
        assert_eq!(split(3, &[("p", &[3])]), Err(out));
        let overlap = VerticalSplitError::Overlap { party: name("q"), column: 1 };
        assert_eq!(split(3, &[("p", &[1]), ("q", &[0, 1])]), Err(overlap));
        assert_eq!(
            split(3, &[("p", &[1]), ("P", &[0])]),
            Err(VerticalSplitError::RepeatedName { party: name("P") })
        );
        assert_eq!(
            split(3, &[("Active", &[1])]),
            Err(VerticalSplitError::RepeatedName { party: name("Active") })
        );
    }

    proptest! {
        #[test]
        fn every_column_has_one_holder(total in 1usize..40, k0 in 0usize..100, d in 1usize..40, parties in 1usize..5) {
            prop_assume!(parties <= d && d <= total);
            let names: Vec<_> = (0..parties).map(|i| name(&format!("p{i}"))).collect();
            let split = VerticalSplit::shared_window(k0, d, total, &names).unwrap();
            let mut all = split.active().to_vec();
            all.extend(split.passive().iter().flat_map(|p| &p.columns));
            all.sort_unstable();
            prop_assert_eq!(all, (0..total).collect::<Vec<_>>());
            prop_assert_eq!(split.active().len(), total - d);
        }
    }
}
