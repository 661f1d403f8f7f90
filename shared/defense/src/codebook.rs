//! The nearest of a fixed number of score vectors.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fmt;

use nalgebra::DMatrix;
use vfl_core::types::{ConfidenceScores, ReleasedScores};
use vfl_numerics::arg_max;

use super::definition::{Definition, OwnBound};
use super::order::{each_column, keep_arg_max};
use super::ranking::mean_sorted;
use super::{Contract, Defense, DefenseError, Noise, Output, checked};
use crate::DefenseConfig;
use crate::policy::{DefaultValue, Facts, Parameter, ParameterKind, ReleaseKind};

const NAME: &str = "codebook";
/// Fewest records that a word is the mean of.
const LEAST_RECORDS: usize = 20;
/// Most words of a codebook.
const MOST_WORDS: u32 = 1 << 20;
/// Lower bound of a word's entries in the logarithm of the distance.
const FLOOR: f64 = 1e-12;

pub(super) const FACTS: Facts = Facts {
    name: NAME,
    parameters: &[Parameter {
        name: "size",
        kind: ParameterKind::Whole,
        takes: "at least the number of classes",
        absent: DefaultValue::RequiredPerClass(4.0),
    }],
    examples: |classes| vec![DefenseConfig::Codebook { size: classes.max(32) as u32 }],
    within_bits: |classes, bits| {
        let size = bits.exp2().min(f64::from(MOST_WORDS)).floor();
        (size >= classes as f64).then_some(DefenseConfig::Codebook { size: size as u32 })
    },
    costly: true,
    fitted: true,
    ..Facts::PLAIN
};

pub(super) fn definition(size: u32) -> Definition<'static> {
    Definition {
        leaves: ReleaseKind::Word,
        bits: Box::new(move |_, _| OwnBound::Bits(f64::from(size).log2())),
        ..Definition::at_scores(
            &FACTS,
            Output::Probabilities,
            move || Codebook::check(size, None),
            move |classes, grants| Codebook::fit(size, grants.calibration(NAME)?, classes),
        )
    }
}

/// Releases the word nearest to the scores among those of their predicted class: at most
/// log2(number of words) bits a record, whatever the adversary knows and however often it asks
/// (while the shares are bound).
///
/// The distance is D(c‖w) = Σ c ln(c/w), where entries of words below 1e-12 count as 1e-12; of
/// equally near words the first is released. Numbers that are not a probability vector are taken as
/// they are, negative ones as 0: then too the word is one of the arg max's, so the class stays.
///
/// Words are fitted on calibration scores, without randomness: the records of each predicted class
/// are halved again and again, always the group of largest squared error, along its coordinate of
/// largest variance, where the error falls most, as long as both parts keep 20 records and differ.
/// A word is the mean of its group. A class with fewer than 20 records has one word that is made,
/// not measured: the mean largest score of all calibration records at the class, with the rest
/// shared evenly by the others. Where the records do not support `size` words there are fewer; a
/// note says how many.
#[derive(Clone)]
pub struct Codebook {
    size: u32,
    /// The words (k × words), those of one class side by side.
    words: DMatrix<f64>,
    /// ln max(w, 1e-12).
    logarithms: DMatrix<f64>,
    /// Index of the first word of each class, and the end of the last class.
    starts: Vec<usize>,
    /// Number of classes whose word is made.
    made: usize,
}

/// Withholds the words, which are averages of scores.
impl fmt::Debug for Codebook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Codebook({} classes, {} words withheld)", self.words.nrows(), self.words.ncols())
    }
}

/// Records of one predicted class that share a word.
struct Group {
    class: usize,
    records: Vec<u32>,
    /// Σ ‖c − mean‖².
    error: f64,
    /// Number in the order of creation, which decides between equal errors.
    made: usize,
}

impl PartialEq for Group {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Group {}

impl PartialOrd for Group {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Group {
    fn cmp(&self, other: &Self) -> Ordering {
        self.error.total_cmp(&other.error).then(other.made.cmp(&self.made))
    }
}

fn mean_of(scores: &DMatrix<f64>, records: &[u32]) -> Vec<f64> {
    let mut mean = vec![0.0; scores.nrows()];
    for &record in records {
        mean.iter_mut().zip(scores.column(record as usize).iter()).for_each(|(mean, c)| *mean += c);
    }
    mean.iter_mut().for_each(|mean| *mean /= records.len() as f64);
    mean
}

/// Returns Σ (c − mean)² of each coordinate.
fn errors_of(scores: &DMatrix<f64>, records: &[u32], mean: &[f64]) -> Vec<f64> {
    let mut errors = vec![0.0; mean.len()];
    for &record in records {
        let column = scores.column(record as usize);
        errors
            .iter_mut()
            .zip(column.iter().zip(mean))
            .for_each(|(error, (c, mean))| *error += (c - mean).powi(2));
    }
    errors
}

impl Group {
    fn new(scores: &DMatrix<f64>, class: usize, records: Vec<u32>, made: usize) -> Self {
        let error = errors_of(scores, &records, &mean_of(scores, &records)).iter().sum();
        Self { class, records, error, made }
    }

    /// Splits the group in two that differ and have at least 20 records each, along the first
    /// coordinate, by variance, that allows it.
    fn halves(&mut self, scores: &DMatrix<f64>) -> Option<(Vec<u32>, Vec<u32>)> {
        let n = self.records.len();
        if n < 2 * LEAST_RECORDS {
            return None;
        }
        let errors = errors_of(scores, &self.records, &mean_of(scores, &self.records));
        let mut coordinates: Vec<usize> = (0..errors.len()).filter(|&i| errors[i] > 0.0).collect();
        coordinates.sort_by(|&i, &j| errors[j].total_cmp(&errors[i]));
        for i in coordinates {
            let value = |record: u32| scores[(i, record as usize)];
            self.records.sort_by(|&a, &b| value(a).total_cmp(&value(b)).then(a.cmp(&b)));
            let sum: f64 = self.records.iter().map(|&r| value(r)).sum();
            let (mut lower, mut best) = (0.0, None);
            for at in 1..n {
                lower += value(self.records[at - 1]);
                let room = at >= LEAST_RECORDS && n - at >= LEAST_RECORDS;
                if room && value(self.records[at - 1]) < value(self.records[at]) {
                    // The squared error within the parts is least where this is largest.
                    let gain = lower * lower / at as f64 + (sum - lower).powi(2) / (n - at) as f64;
                    if best.is_none_or(|(most, _)| gain > most) {
                        best = Some((gain, at));
                    }
                }
            }
            if let Some((_, at)) = best {
                return Some((self.records[..at].to_vec(), self.records[at..].to_vec()));
            }
        }
        None
    }
}

impl Codebook {
    pub(super) fn check(size: u32, classes: Option<usize>) -> Result<(), DefenseError> {
        let least = classes.unwrap_or(2);
        let expected = match classes {
            Some(k) => format!("{k} (one for each class) to {MOST_WORDS}"),
            None => format!("at least one for each class, at most {MOST_WORDS}"),
        };
        checked(size as usize >= least && size <= MOST_WORDS, NAME, "size", size, expected)
    }

    /// Fits at most `size` words, at least one for each class, on at least 20 records.
    ///
    /// # Errors
    /// [`DefenseError::Setting`] for fewer words than classes or over 2²⁰; [`DefenseError::Needs`]
    /// for too few records, or scores of another number of classes.
    pub fn fit(
        size: u32,
        calibration: &ConfidenceScores,
        classes: usize,
    ) -> Result<Self, DefenseError> {
        Self::check(size, Some(classes))?;
        let scores = calibration.matrix();
        let (k, n) = scores.shape();
        if n < LEAST_RECORDS || k != classes {
            let what = format!(
                "calibration scores of at least {LEAST_RECORDS} records and {classes} classes; there are {n} records of {k} classes"
            );
            return Err(DefenseError::Needs { defense: NAME, what });
        }
        let mut by_class: Vec<Vec<u32>> = vec![Vec::new(); k];
        for (record, column) in scores.as_slice().chunks_exact(k).enumerate() {
            by_class[arg_max(column)].push(record as u32);
        }
        let made = by_class.iter().filter(|records| records.len() < LEAST_RECORDS).count();
        let mut groups: BinaryHeap<Group> = by_class
            .into_iter()
            .enumerate()
            .filter(|(_, records)| records.len() >= LEAST_RECORDS)
            .map(|(class, records)| Group::new(scores, class, records, class))
            .collect();
        let mut done = Vec::new();
        let mut number = k;
        while made + groups.len() + done.len() < size as usize
            && let Some(mut group) = groups.pop()
        {
            match group.halves(scores) {
                Some((lower, upper)) => {
                    for part in [lower, upper] {
                        groups.push(Group::new(scores, group.class, part, number));
                        number += 1;
                    }
                }
                None => done.push(group),
            }
        }
        done.extend(groups);
        done.sort_by_key(|group| (group.class, group.made));
        Ok(Self::of_groups(size, scores, &done, made))
    }

    fn of_groups(size: u32, scores: &DMatrix<f64>, groups: &[Group], made: usize) -> Self {
        let k = scores.nrows();
        let mut starts = vec![0];
        let mut words = Vec::new();
        // At least 1/k, as is the largest of any k numbers that sum to 1.
        let top = mean_sorted(scores)[0];
        for class in 0..k {
            let of_class = || groups.iter().filter(|group| group.class == class);
            let before = words.len();
            for group in of_class() {
                let mut word = mean_of(scores, &group.records);
                let sum: f64 = word.iter().sum();
                word.iter_mut().for_each(|w| *w /= sum);
                keep_arg_max(class, &mut word);
                words.extend(word);
            }
            if words.len() == before {
                let mut word = vec![(1.0 - top).max(0.0) / (k - 1) as f64; k];
                word[class] = top;
                keep_arg_max(class, &mut word);
                words.extend(word);
            }
            starts.push(words.len() / k);
        }
        let words = DMatrix::from_vec(k, words.len() / k, words);
        let logarithms = words.map(|w| w.max(FLOOR).ln());
        Self { size, words, logarithms, starts, made }
    }

    /// Returns the number of words, at most the requested size.
    #[must_use]
    pub fn size(&self) -> usize {
        self.words.ncols()
    }
}

impl Defense for Codebook {
    fn contract(&self) -> Contract {
        let bits = Some((self.size() as f64).log2());
        let output = Output::Probabilities;
        Contract { output, keeps_arg_max: true, keeps_ranking: false, randomised: false, bits }
    }

    fn apply(
        &self,
        mut scores: DMatrix<f64>,
        _noise: &Noise<'_>,
    ) -> Result<ReleasedScores, DefenseError> {
        let k = scores.nrows();
        if k != self.words.nrows() {
            let what = format!("scores of {} classes; these have {k}", self.words.nrows());
            return Err(DefenseError::Needs { defense: NAME, what });
        }
        each_column(
            scores.as_mut_slice(),
            k,
            || (),
            |(), _, column| {
                let class = arg_max(column);
                column.iter_mut().for_each(|c| *c = c.max(0.0));
                let of_class = self.starts[class]..self.starts[class + 1];
                let mut nearest = (f64::NEG_INFINITY, of_class.start);
                for word in of_class {
                    let logarithms = &self.logarithms.as_slice()[word * k..(word + 1) * k];
                    let likelihood: f64 = column.iter().zip(logarithms).map(|(c, ln)| c * ln).sum();
                    if likelihood > nearest.0 {
                        nearest = (likelihood, word);
                    }
                }
                column.copy_from_slice(&self.words.as_slice()[nearest.1 * k..(nearest.1 + 1) * k]);
            },
        );
        Ok(ReleasedScores::Probabilities(scores))
    }

    fn words(&self) -> Option<&DMatrix<f64>> {
        Some(&self.words)
    }

    fn note(&self) -> Option<String> {
        let words = self.size();
        let mut note = format!("{NAME}: {words} words");
        if words < self.size as usize {
            note.push_str(&format!(
                " of {}: the calibration scores support no more with {LEAST_RECORDS} records each",
                self.size
            ));
        }
        if self.made > 0 {
            note.push_str(&format!(
                "; {} of them made, not measured, for classes predicted fewer than {LEAST_RECORDS} times",
                self.made
            ));
        }
        Some(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{close, random_scores};
    use vfl_core::metrics::kl_divergence;

    fn fit(size: u32, scores: &DMatrix<f64>) -> Codebook {
        Codebook::fit(size, &ConfidenceScores::new(scores.clone()).unwrap(), scores.nrows())
            .unwrap()
    }

    #[test]
    fn two_heaps_have_two_words() {
        let scores = DMatrix::from_fn(2, 60, |i, j| [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]][j % 3][i]);
        let book = fit(3, &scores);
        // Class 1 is never predicted: its word is made of the mean largest score, 2.2 / 3.
        assert_eq!((book.size(), book.made), (3, 1));
        close(book.words.as_slice(), &[0.65, 0.35, 0.9, 0.1, 0.8 / 3.0, 2.2 / 3.0], 1e-12);
        assert!(book.note().unwrap().contains("3 words; 1 of them made"));
        // With 20 records at each of three places there is no fourth word of class 0.
        let book = fit(50, &scores);
        assert_eq!(book.size(), 4);
        assert!(book.note().unwrap().contains("4 words of 50"));
    }

    #[test]
    fn words_are_means_of_twenty_and_keep_their_class() {
        let scores = random_scores(6, 3000, 11);
        for size in [6, 7, 40, 1000] {
            let book = fit(size, &scores);
            assert!(
                book.size() <= size as usize
                    && book.size() * LEAST_RECORDS <= 3000 + book.made * LEAST_RECORDS
            );
            for class in 0..6 {
                for word in book.starts[class]..book.starts[class + 1] {
                    let word = book.words.column(word);
                    assert_eq!(arg_max(word.as_slice()), class);
                    assert!((word.sum() - 1.0).abs() < 1e-12 && word.min() >= 0.0);
                }
            }
            assert_eq!(fit(size, &scores).words, book.words);
        }
    }

    #[test]
    fn the_nearest_word_of_the_class_is_released() {
        let scores = random_scores(4, 2000, 5);
        let book = fit(64, &scores);
        let ReleasedScores::Probabilities(out) =
            book.apply(scores.clone(), &Noise::fresh([0; 32])).unwrap()
        else {
            panic!("kind")
        };
        for (c, p) in scores.column_iter().zip(out.column_iter()) {
            let class = arg_max(c.as_slice());
            let distance = |w: &[f64]| {
                let w: Vec<f64> = w.iter().map(|w| w.max(FLOOR)).collect();
                kl_divergence(c.as_slice(), &w).unwrap()
            };
            let words = (book.starts[class]..book.starts[class + 1])
                .map(|w| distance(book.words.column(w).as_slice()));
            assert!(distance(p.as_slice()) <= words.fold(f64::INFINITY, f64::min) + 1e-12);
        }
    }

    #[test]
    fn sizes_and_calibration_are_checked() {
        let scores = ConfidenceScores::new(random_scores(3, 19, 1)).unwrap();
        assert!(Codebook::fit(2, &scores, 3).unwrap_err().to_string().contains("size"));
        assert!(Codebook::fit(3, &scores, 3).unwrap_err().to_string().contains("20 records"));
        assert!(Codebook::check(1, None).is_err() && Codebook::check(2, None).is_ok());
        assert!(Codebook::check(MOST_WORDS + 1, None).is_err());
    }
}
