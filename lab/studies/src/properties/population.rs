//! Records, groups of them, and training sets with more or less of the property.

use std::fmt;
use std::str::FromStr;

use rand::RngExt;
use rand_chacha::ChaCha20Rng;
use vfl_core::types::FeatureBlock;

use crate::subject::Subject;

/// Returns the block and the row of a passive feature, counted from 0 over all passive parties. The
/// active party's block is the first.
pub(super) fn place_of(blocks: &[FeatureBlock], mut feature: usize) -> Option<(usize, usize)> {
    for (place, block) in blocks.iter().enumerate().skip(1) {
        if feature < block.features() {
            return Some((place, feature));
        }
        feature -= block.features();
    }
    None
}

/// The group of training records that a property is measured over. The active party knows its
/// members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// All training records.
    All,
    /// The records of a class, by its index from 0.
    Class(u32),
    /// The records whose active feature at this index, from 0, is above its median in the
    /// population.
    Above(usize),
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => write!(f, "all"),
            Self::Class(class) => write!(f, "class={class}"),
            Self::Above(feature) => write!(f, "above={feature}"),
        }
    }
}

impl FromStr for Group {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("`{text}` is not a group: write `all`, `class=2` or `above=5`");
        match text.split_once('=') {
            None if text == "all" => Ok(Self::All),
            Some(("class", number)) => number.parse().map(Self::Class).map_err(|_| refused()),
            Some(("above", number)) => number.parse().map(Self::Above).map_err(|_| refused()),
            _ => Err(refused()),
        }
    }
}

impl Group {
    /// Returns true for each record that belongs to the group.
    pub(super) fn members(self, subject: &Subject) -> Vec<bool> {
        match self {
            Self::All => vec![true; subject.labels.len()],
            Self::Class(class) => subject.labels.iter().map(|label| *label == class).collect(),
            Self::Above(feature) => {
                let Some(active) =
                    subject.blocks.first().filter(|active| feature < active.features())
                else {
                    return vec![false; subject.labels.len()];
                };
                let row = active.matrix().row(feature);
                let mut sorted: Vec<f64> = row.iter().copied().collect();
                sorted.sort_by(f64::total_cmp);
                let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
                row.iter().map(|value| *value > median).collect()
            }
        }
    }
}

/// A rule to draw training sets from a pool of records.
pub(super) struct Draw<'a> {
    /// The records to draw from.
    pub(super) pool: &'a [usize],
    /// The standardised feature of all records of the population; 0 outside of the group.
    pub(super) standard: &'a [f64],
    /// The number of records of a training set.
    pub(super) size: usize,
    /// The strongest tilt.
    pub(super) tilt: f64,
}

impl Draw<'_> {
    /// Draws a training set without repetition: records are taken with weights exp(t z), z the
    /// standardised feature of a record of the group, t uniform between −tilt and tilt (weighted
    /// sampling of Efraimidis and Spirakis 2006). The records are in increasing order.
    pub(super) fn records(&self, rng: &mut ChaCha20Rng) -> Vec<usize> {
        let tilt = self.tilt * (2.0 * rng.random::<f64>() - 1.0);
        let mut keys: Vec<(f64, usize)> = self
            .pool
            .iter()
            .map(|&record| {
                // Takes the largest u^(1/w), as the least −ln u / w.
                let uniform: f64 = 1.0 - rng.random::<f64>();
                (-uniform.ln() * (-tilt * self.standard[record]).exp(), record)
            })
            .collect();
        keys.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut drawn: Vec<usize> =
            keys.into_iter().take(self.size).map(|(_, record)| record).collect();
        drawn.sort_unstable();
        drawn
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use nalgebra::DMatrix;
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn groups_are_read_as_they_are_written() {
        for text in ["all", "class=2", "above=5"] {
            assert_eq!(text.parse::<Group>().unwrap().to_string(), text);
        }
        for text in ["", "class", "class=x", "below=1", "all=1"] {
            assert!(text.parse::<Group>().unwrap_err().contains("class=2"), "{text}");
        }
    }

    #[test]
    fn groups_are_of_what_the_active_party_knows() {
        let block = |matrix| FeatureBlock::new(matrix).unwrap();
        let subject = Subject {
            set: None,
            class_names: vec!["0".into(), "1".into()],
            blocks: vec![
                block(DMatrix::from_row_slice(1, 5, &[0.1, 0.5, 0.3, 0.9, 0.2])),
                block(DMatrix::zeros(1, 5)),
            ],
            labels: vec![0, 1, 1, 0, 1],
        };
        assert_eq!(Group::All.members(&subject), [true; 5]);
        assert_eq!(Group::Class(1).members(&subject), [false, true, true, false, true]);
        assert_eq!(Group::Above(0).members(&subject), [false, true, false, true, false]);
        assert_eq!(Group::Above(1).members(&subject), [false; 5]);
    }

    #[test]
    fn passive_features_are_counted_over_the_parties() {
        let block = |features| FeatureBlock::new(DMatrix::zeros(features, 1)).unwrap();
        let blocks = [2, 1, 3].map(block);
        let places = [0, 1, 3, 4].map(|feature| place_of(&blocks, feature));
        assert_eq!(places, [Some((1, 0)), Some((2, 0)), Some((2, 2)), None]);
    }

    /// Two values of a feature, one drawn with e² times the weight: in a large pool the share of
    /// the larger one is e² / (1 + e²).
    #[test]
    fn a_tilt_moves_the_mean_of_the_feature() {
        let pool: Vec<usize> = (0..40_000).collect();
        let standard: Vec<f64> =
            pool.iter().map(|record| if record % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let share = |seed: u64, tilt: f64| {
            let draw = Draw { pool: &pool, standard: &standard, size: 2000, tilt };
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            let t = tilt * (2.0 * ChaCha20Rng::seed_from_u64(seed).random::<f64>() - 1.0);
            let records = draw.records(&mut rng);
            assert!(records.windows(2).all(|pair| pair[0] < pair[1]), "each record once");
            let above = records.iter().filter(|record| *record % 2 == 0).count();
            (t, above as f64 / records.len() as f64)
        };
        for seed in 0..6 {
            let (t, found) = share(seed, 1.0);
            let expected = (2.0 * t).exp() / (1.0 + (2.0 * t).exp());
            // Drawing without repetition from a pool of 40 000 moves it by about 1 %.
            assert!((found - expected).abs() < 0.04, "{t} {found} {expected}");
            assert!((share(seed, 0.0).1 - 0.5).abs() < 0.04);
        }
    }
}
