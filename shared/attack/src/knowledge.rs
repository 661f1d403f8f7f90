//! The adversary's knowledge of the passive features beyond [0, 1]: other ranges, values of which
//! there are only a few (R section IX: "sparse values"), and the grids and one-hot groups of a
//! public schema.

use std::ops::Range;

/// Errors from statements about the features.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum KnowledgeError {
    /// The statement is about another number of features.
    #[error("{what} are given for {got} features, expected {expected}")]
    Length {
        /// The quantity that was stated.
        what: &'static str,
        /// The number of features there are.
        expected: usize,
        /// The number of features given.
        got: usize,
    },
    /// A range is not valid.
    #[error(
        "the range of feature {feature} is {lower} to {upper}, expected finite numbers in rising order"
    )]
    Range {
        /// Position of the feature.
        feature: usize,
        /// Its least value, as given.
        lower: f64,
        /// Its greatest value, as given.
        upper: f64,
    },
    /// The levels are not values that the feature can take.
    #[error(
        "the levels of feature {feature} are expected to be one or more numbers within its range, {lower} to {upper}"
    )]
    Levels {
        /// Position of the feature.
        feature: usize,
        /// Its least value.
        lower: f64,
        /// Its greatest value.
        upper: f64,
    },
    /// A step is not valid.
    #[error(
        "the step of feature {feature} is {got}, expected a share of its range: above 0, at most 1, with 1/step a whole number \
         (0 in the setting where it is not known)"
    )]
    Step {
        /// Position of the feature.
        feature: usize,
        /// The step given.
        got: f64,
    },
    /// A width is not valid.
    #[error(
        "the width of feature {feature} is {got}, expected a finite number above 0 (0 in the setting where it is not known)"
    )]
    Width {
        /// Position of the feature.
        feature: usize,
        /// The width given.
        got: f64,
    },
    /// A group has no column, or shares one with another group.
    #[error(
        "group {first}-{last} has no column or shares one with another group: give first-last of each, apart"
    )]
    Group {
        /// Position of its first column.
        first: usize,
        /// Position of its last one.
        last: usize,
    },
    /// A position is behind the last feature.
    #[error("feature {got} is named, expected 0 to {} ({features} features)", .features.saturating_sub(1))]
    Position {
        /// The position given.
        got: usize,
        /// The number of features there are.
        features: usize,
    },
}

/// The knowledge of d passive features: the range of each, for some the values they take or the
/// grid they lie on, and the groups of columns that are one category.
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureKnowledge {
    ranges: Vec<(f64, f64)>,
    /// In rising order, without repeats.
    levels: Vec<Option<Vec<f64>>>,
    steps: Vec<Option<f64>>,
    /// In rising order, apart.
    groups: Vec<Range<usize>>,
    widths: Vec<Option<f64>>,
}

impl FeatureKnowledge {
    /// Creates the knowledge of ranges and levels. `ranges` holds (lower, upper) of each feature,
    /// lower ≤ upper, both finite; a feature with both the same is known. `levels` holds, for each
    /// feature, the values it takes if they are few, in any order.
    ///
    /// # Errors
    /// [`KnowledgeError`] for a range or levels that are not valid, or if the two differ in length.
    pub fn new(
        ranges: Vec<(f64, f64)>,
        mut levels: Vec<Option<Vec<f64>>>,
    ) -> Result<Self, KnowledgeError> {
        if levels.len() != ranges.len() {
            return Err(KnowledgeError::Length {
                what: "levels",
                expected: ranges.len(),
                got: levels.len(),
            });
        }
        for (feature, (&(lower, upper), levels)) in ranges.iter().zip(&mut levels).enumerate() {
            // The width must be finite too: it multiplies weights.
            if !(lower <= upper && (upper - lower).is_finite()) {
                return Err(KnowledgeError::Range { feature, lower, upper });
            }
            if let Some(levels) = levels {
                if levels.is_empty() || !levels.iter().all(|v| (lower..=upper).contains(v)) {
                    return Err(KnowledgeError::Levels { feature, lower, upper });
                }
                levels.sort_by(f64::total_cmp);
                levels.dedup();
            }
        }
        let unknown = vec![None; ranges.len()];
        Ok(Self { ranges, levels, steps: unknown.clone(), groups: Vec::new(), widths: unknown })
    }

    /// Returns the same knowledge with grids. `steps` has, for each feature, the distance of
    /// neighbouring values as a share of its range, in (0, 1] and 1 over a whole number (to 1e-9).
    /// `groups` has the columns of each category, exactly one of which is 1 in a record. `widths`
    /// has the width of each declared range in the units of the feature's owner, above 0, for grids
    /// that have to be found.
    ///
    /// # Errors
    /// [`KnowledgeError`] if `steps` or `widths` are of another number of features, or for a step,
    /// a width or a group that is not valid: columns behind the last feature, no column, or one in
    /// two groups.
    pub fn with_grid(
        self,
        steps: Vec<Option<f64>>,
        mut groups: Vec<Range<usize>>,
        widths: Vec<Option<f64>>,
    ) -> Result<Self, KnowledgeError> {
        let features = self.features();
        for (what, got) in [("steps", steps.len()), ("widths", widths.len())] {
            if got != features {
                return Err(KnowledgeError::Length { what, expected: features, got });
            }
        }
        for (feature, (step, width)) in steps.iter().zip(&widths).enumerate() {
            if let Some(got) = step.filter(|step| !divides_range(*step)) {
                return Err(KnowledgeError::Step { feature, got });
            }
            if let Some(got) = width.filter(|width| !(*width > 0.0 && width.is_finite())) {
                return Err(KnowledgeError::Width { feature, got });
            }
        }
        groups.sort_by_key(|group| group.start);
        let mut free = 0;
        for group in &groups {
            let (first, last) = (group.start, group.end.saturating_sub(1));
            if group.is_empty() || first < free {
                return Err(KnowledgeError::Group { first, last });
            }
            if group.end > features {
                return Err(KnowledgeError::Position { got: last, features });
            }
            free = group.end;
        }
        Ok(Self { steps, groups, widths, ..self })
    }

    /// Returns the number of features, d.
    #[must_use]
    pub fn features(&self) -> usize {
        self.ranges.len()
    }

    /// Returns (lower, upper) of each feature.
    #[must_use]
    pub fn ranges(&self) -> &[(f64, f64)] {
        &self.ranges
    }

    /// Returns the values that each feature takes, in rising order, where they are known.
    #[must_use]
    pub fn levels(&self) -> &[Option<Vec<f64>>] {
        &self.levels
    }

    /// Returns the distance of neighbouring values of each feature as a share of its range, where
    /// it is known.
    #[must_use]
    pub fn steps(&self) -> &[Option<f64>] {
        &self.steps
    }

    /// Returns the columns of each category, in rising order and apart: exactly one column of each
    /// is 1 in a record.
    #[must_use]
    pub fn groups(&self) -> &[Range<usize>] {
        &self.groups
    }

    /// Returns the width of each declared range in the units of the feature's owner, where it is
    /// known.
    #[must_use]
    pub fn widths(&self) -> &[Option<f64>] {
        &self.widths
    }

    /// Checks that the knowledge is about `expected` features.
    pub(super) fn fits(&self, expected: usize) -> Result<(), KnowledgeError> {
        let got = self.features();
        if expected == got {
            Ok(())
        } else {
            Err(KnowledgeError::Length { what: "ranges", expected, got })
        }
    }

    /// Returns the knowledge of the features at these positions. A group is kept only if all its
    /// columns are among them, side by side: without one of them none of the others need be 1.
    pub(super) fn select(&self, positions: &[usize]) -> Self {
        fn at<T: Clone>(all: &[T], positions: &[usize]) -> Vec<T> {
            positions.iter().filter_map(|&at| all.get(at).cloned()).collect()
        }
        let moved = |group: &Range<usize>| {
            let first = positions.iter().position(|&at| at == group.start)?;
            let whole = group
                .clone()
                .zip(first..)
                .all(|(column, place)| positions.get(place) == Some(&column));
            whole.then(|| first..first + group.len())
        };
        let mut groups: Vec<_> = self.groups.iter().filter_map(moved).collect();
        groups.sort_by_key(|group| group.start);
        Self {
            ranges: at(&self.ranges, positions),
            levels: at(&self.levels, positions),
            steps: at(&self.steps, positions),
            groups,
            widths: at(&self.widths, positions),
        }
    }

    /// Returns the same knowledge in units of each range, (x − lower) / (upper − lower), for the
    /// features that are not known already.
    pub(super) fn in_units(&self) -> Result<Self, KnowledgeError> {
        let is_open = |at: &usize| self.ranges.get(*at).is_some_and(|(lower, upper)| lower < upper);
        let open = self.select(&(0..self.features()).filter(is_open).collect::<Vec<_>>());
        let unit = |value: f64, (lower, upper): (f64, f64)| {
            ((value - lower) / (upper - lower)).clamp(0.0, 1.0)
        };
        let in_unit = |(&range, levels): (&(f64, f64), &Option<Vec<f64>>)| {
            levels.as_ref().map(|l| l.iter().map(|&v| unit(v, range)).collect::<Vec<_>>())
        };
        let levels: Vec<_> = open.ranges.iter().zip(&open.levels).map(in_unit).collect();
        Self::new(vec![(0.0, 1.0); levels.len()], levels)?.with_grid(
            open.steps,
            open.groups,
            open.widths,
        )
    }
}

/// Returns true if a step, as a share of the range, fits into it a whole number of times.
fn divides_range(step: f64) -> bool {
    let times = 1.0 / step;
    step > 0.0 && step <= 1.0 && times.is_finite() && (times - times.round()).abs() <= 1e-9 * times
}

/// Knowledge as settings state it, before the number of features is known.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StatedKnowledge {
    /// Least values: none (0), one for all features, or one for each.
    pub lower: Vec<f64>,
    /// Greatest values: none (1), one for all features, or one for each.
    pub upper: Vec<f64>,
    /// Positions of the features that are at one end of their range or the other; `Some(None)` for
    /// all features.
    pub binary: Option<Option<Vec<usize>>>,
    /// Positions of features with the values they take.
    pub levels: Vec<(usize, Vec<f64>)>,
    /// True to try all assignments of two-valued features ([`ExactBinary`](super::ExactBinary))
    /// instead of moving to the nearest value ([`Snap`](super::Snap)).
    pub exact: bool,
    /// Distances of neighbouring values as shares of the ranges: none, one for all features, or one
    /// for each; 0 if unknown.
    pub step: Vec<f64>,
    /// First and last position of the columns of each category.
    pub groups: Vec<(usize, usize)>,
    /// Widths of the declared ranges in their owners' units: none, one for all features, or one for
    /// each; 0 if unknown.
    pub width: Vec<f64>,
}

impl StatedKnowledge {
    /// Returns this knowledge for `features` features.
    ///
    /// # Errors
    /// [`KnowledgeError`] if it is about another number of features, or not valid.
    pub fn about(&self, features: usize) -> Result<FeatureKnowledge, KnowledgeError> {
        let each = |what, given: &[f64], default| match given {
            [] => Ok(vec![default; features]),
            [one] => Ok(vec![*one; features]),
            all if all.len() == features => Ok(all.to_vec()),
            all => Err(KnowledgeError::Length { what, expected: features, got: all.len() }),
        };
        let lower = each("lower ends", &self.lower, 0.0)?;
        let ranges: Vec<_> = lower.into_iter().zip(each("upper ends", &self.upper, 1.0)?).collect();
        let mut levels = vec![None; features];
        let mut set = |got: usize, values: Vec<f64>| match levels.get_mut(got) {
            Some(levels) => {
                *levels = Some(values);
                Ok(())
            }
            None => Err(KnowledgeError::Position { got, features }),
        };
        let ends_of =
            |at: usize| ranges.get(at).map_or_else(Vec::new, |&(lower, upper)| vec![lower, upper]);
        match &self.binary {
            None => {}
            Some(None) => (0..features).try_for_each(|at| set(at, ends_of(at)))?,
            Some(Some(positions)) => positions.iter().try_for_each(|&at| set(at, ends_of(at)))?,
        }
        self.levels.iter().try_for_each(|(at, values)| set(*at, values.clone()))?;
        let known =
            |values: Vec<f64>| values.into_iter().map(|v| (v != 0.0).then_some(v)).collect();
        let steps = known(each("steps", &self.step, 0.0)?);
        let widths = known(each("widths", &self.width, 0.0)?);
        let groups =
            self.groups.iter().map(|&(first, last)| first..last.saturating_add(1)).collect();
        FeatureKnowledge::new(ranges, levels)?.with_grid(steps, groups, widths)
    }

    /// Returns true if it leaves every attack as it is: grids, groups and widths alone are for the
    /// attacks that search them.
    pub(super) fn leaves_attacks(&self) -> bool {
        let searched = Self {
            step: self.step.clone(),
            groups: self.groups.clone(),
            width: self.width.clone(),
            ..Self::default()
        };
        *self == searched
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::single_range_in_vec_init)]
    use super::*;

    fn seven() -> FeatureKnowledge {
        let stated = StatedKnowledge {
            upper: vec![1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 4.0],
            lower: vec![0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
            step: vec![0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 0.25],
            groups: vec![(1, 2), (4, 5)],
            width: vec![2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 8.0],
            ..StatedKnowledge::default()
        };
        stated.about(7).unwrap()
    }

    #[test]
    fn what_is_selected_keeps_its_own_grid_and_whole_groups() {
        let of = seven().select(&[6, 4, 5, 1]);
        assert_eq!(of.steps(), [Some(0.25), Some(1.0), Some(1.0), Some(1.0)]);
        assert_eq!(of.widths(), [Some(8.0), None, None, None]);
        // Of the group 1, 2 one column is left out.
        assert_eq!(of.groups(), [1..3]);
        // Columns in another order are no run of columns.
        assert!(seven().select(&[5, 4]).groups().is_empty());
    }

    #[test]
    fn in_units_of_the_ranges_groups_move_with_their_columns() {
        // Feature 3 is known, and not there.
        let units = seven().in_units().unwrap();
        assert_eq!(units.ranges(), [(0.0, 1.0); 6]);
        assert_eq!(units.groups(), [1..3, 3..5]);
        assert_eq!((units.steps()[5], units.widths()[5]), (Some(0.25), Some(8.0)));
    }
}
