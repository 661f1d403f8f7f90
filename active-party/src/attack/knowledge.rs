//! What the adversary knows of the passive features beyond [0, 1]: other ranges, and values of which there are only a few
//! (R section IX: "sparse values").

/// Why a statement about the features was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum KnowledgeError {
    /// It is about another number of features.
    #[error("{what} are given for {got} features, expected {expected}")]
    Length {
        /// What was given.
        what: &'static str,
        /// How many there are.
        expected: usize,
        /// How many came.
        got: usize,
    },
    /// A range that is not one.
    #[error("the range of feature {feature} is {lower} to {upper}, expected finite numbers in rising order")]
    Range {
        /// Position of the feature.
        feature: usize,
        /// Its least value, as given.
        lower: f64,
        /// Its greatest.
        upper: f64,
    },
    /// Values that a feature cannot take.
    #[error(
        "the levels of feature {feature} are expected to be one or more numbers within its range, {lower} to {upper}"
    )]
    Levels {
        /// Position of the feature.
        feature: usize,
        /// Its least value.
        lower: f64,
        /// Its greatest.
        upper: f64,
    },
    /// A position behind the last feature.
    #[error("feature {got} is named, expected 0 to {} ({features} features)", .features.saturating_sub(1))]
    Position {
        /// What came.
        got: usize,
        /// How many features there are.
        features: usize,
    },
}

/// What is known of d passive features: the range of each, and for some the values they take.
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureKnowledge {
    ranges: Vec<(f64, f64)>,
    /// In rising order, without repeats.
    levels: Vec<Option<Vec<f64>>>,
}

impl FeatureKnowledge {
    /// `ranges` holds (lower, upper) of each feature, lower ≤ upper, both finite; a feature with both the same is known.
    /// `levels` holds, for each feature, the values it takes if they are few, in any order.
    ///
    /// # Errors
    /// [`KnowledgeError`] for a range or levels that cannot be, or if the two differ in length.
    pub fn new(ranges: Vec<(f64, f64)>, mut levels: Vec<Option<Vec<f64>>>) -> Result<Self, KnowledgeError> {
        if levels.len() != ranges.len() {
            return Err(KnowledgeError::Length { what: "levels", expected: ranges.len(), got: levels.len() });
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
        Ok(Self { ranges, levels })
    }

    /// Number of features, d.
    #[must_use]
    pub fn features(&self) -> usize {
        self.ranges.len()
    }

    /// (lower, upper) of each feature.
    #[must_use]
    pub fn ranges(&self) -> &[(f64, f64)] {
        &self.ranges
    }

    /// The values each feature takes, in rising order, where they are known.
    #[must_use]
    pub fn levels(&self) -> &[Option<Vec<f64>>] {
        &self.levels
    }

    /// Refuses another number of features.
    pub(super) fn fits(&self, expected: usize) -> Result<(), KnowledgeError> {
        let got = self.features();
        if expected == got { Ok(()) } else { Err(KnowledgeError::Length { what: "ranges", expected, got }) }
    }

    /// What is known of the features at these positions.
    pub(super) fn select(&self, positions: &[usize]) -> Self {
        let of = |at: &usize| Some((*self.ranges.get(*at)?, self.levels.get(*at)?.clone()));
        let (ranges, levels) = positions.iter().filter_map(of).unzip();
        Self { ranges, levels }
    }

    /// The same in units of each range, (x − lower) / (upper − lower), for the features that are not known already.
    pub(super) fn in_units(&self) -> Result<Self, KnowledgeError> {
        let open = self.ranges.iter().zip(&self.levels).filter(|((lower, upper), _)| lower < upper);
        let unit = |value: f64, (lower, upper): (f64, f64)| ((value - lower) / (upper - lower)).clamp(0.0, 1.0);
        let levels: Vec<_> = open
            .map(|(&range, levels)| levels.as_ref().map(|l| l.iter().map(|&v| unit(v, range)).collect::<Vec<_>>()))
            .collect();
        Self::new(vec![(0.0, 1.0); levels.len()], levels)
    }
}

/// Knowledge as settings state it, before the number of features is at hand.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StatedKnowledge {
    /// Least values: none (0), one for all features, or one for each.
    pub lower: Vec<f64>,
    /// Greatest values: none (1), one for all features, or one for each.
    pub upper: Vec<f64>,
    /// Positions of the features that are at one end of their range or the other; `Some(None)` for all of them.
    pub binary: Option<Option<Vec<usize>>>,
    /// Positions of features with the values they take.
    pub levels: Vec<(usize, Vec<f64>)>,
    /// Try all assignments of two-valued features ([`ExactBinary`](super::ExactBinary)) instead of going to the nearest value ([`Snap`](super::Snap)).
    pub exact: bool,
}

impl StatedKnowledge {
    /// What it says about `features` features.
    ///
    /// # Errors
    /// [`KnowledgeError`] if it is about another number of features, or cannot be.
    pub fn about(&self, features: usize) -> Result<FeatureKnowledge, KnowledgeError> {
        let ends = |what, given: &[f64], default| match given {
            [] => Ok(vec![default; features]),
            [one] => Ok(vec![*one; features]),
            each if each.len() == features => Ok(each.to_vec()),
            each => Err(KnowledgeError::Length { what, expected: features, got: each.len() }),
        };
        let lower = ends("lower ends", &self.lower, 0.0)?;
        let ranges: Vec<_> = lower.into_iter().zip(ends("upper ends", &self.upper, 1.0)?).collect();
        let mut levels = vec![None; features];
        let mut set = |got: usize, values: Vec<f64>| match levels.get_mut(got) {
            Some(levels) => {
                *levels = Some(values);
                Ok(())
            }
            None => Err(KnowledgeError::Position { got, features }),
        };
        let ends_of = |at: usize| ranges.get(at).map_or_else(Vec::new, |&(lower, upper)| vec![lower, upper]);
        match &self.binary {
            None => {}
            Some(None) => (0..features).try_for_each(|at| set(at, ends_of(at)))?,
            Some(Some(positions)) => positions.iter().try_for_each(|&at| set(at, ends_of(at)))?,
        }
        self.levels.iter().try_for_each(|(at, values)| set(*at, values.clone()))?;
        FeatureKnowledge::new(ranges, levels)
    }
}
