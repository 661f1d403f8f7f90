//! The tensors of an answer.

use nalgebra::DMatrix;
use vfl_core::types::{ReleasedScores, RowStatus};
use vfl_protocol::{MAX_MESSAGE_BYTES, Refusal};

use super::elements::join;
use crate::predict::Prediction;

/// The most bytes around the tensors of an answer: names, shapes, the request id.
const AROUND: u64 = 4096;
/// The bound of ciphertexts. A double holds every integer below it exactly.
const EXACT: u64 = 1 << 53;

/// A tensor that a client can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// FP64 [n, classes]. NaN, in all classes, if no score is released: any other number could be
    /// taken for one.
    Scores,
    /// BYTES [n]: the class with the largest released score, or the released label. Empty if
    /// nothing is released: no class has an empty name. Empty for a number, which has no class.
    Label,
    /// BYTES [n]: the status of each record, `ok` if it was scored.
    RowStatus,
    /// BYTES [classes], in the order of the scores.
    ClassNames,
}

impl Output {
    /// All outputs, in the order of an answer.
    pub(super) const ALL: [Self; 4] =
        [Self::Scores, Self::Label, Self::RowStatus, Self::ClassNames];

    /// Returns the name on the wire.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Scores => "scores",
            Self::Label => "label",
            Self::RowStatus => "row_status",
            Self::ClassNames => "class_names",
        }
    }

    /// Returns the type of the elements.
    pub(super) fn datatype(self) -> &'static str {
        match self {
            Self::Scores => "FP64",
            Self::Label | Self::RowStatus | Self::ClassNames => "BYTES",
        }
    }

    /// Returns the shape for so many records and classes.
    pub(super) fn shape(self, records: i64, classes: usize) -> Vec<i64> {
        match self {
            Self::Scores => vec![records, classes as i64],
            Self::Label | Self::RowStatus => vec![records],
            Self::ClassNames => vec![classes as i64],
        }
    }

    /// Returns the most bytes that the tensor takes for so many records.
    fn bytes(self, records: usize, classes: &[String]) -> u64 {
        let longest =
            |texts: &mut dyn Iterator<Item = usize>| 4 + texts.max().unwrap_or_default() as u64;
        let (n, k) = (records as u64, classes.len() as u64);
        match self {
            Self::Scores => n.saturating_mul(k).saturating_mul(8),
            Self::Label => n.saturating_mul(longest(&mut classes.iter().map(String::len))),
            Self::RowStatus => n.saturating_mul(longest(
                &mut RowStatus::ALL.iter().map(|status| status.as_str().len()),
            )),
            Self::ClassNames => classes.iter().map(|name| 4 + name.len() as u64).sum(),
        }
    }

    /// Returns the bytes of the tensor, row by row, little-endian.
    ///
    /// # Errors
    /// INTERNAL for a ciphertext that no double holds exactly.
    pub(super) fn tensor(self, scored: &Prediction) -> Result<Vec<u8>, Refusal> {
        let classes = &scored.class_names;
        let named = classes.get(1..).is_some_and(|others| !others.is_empty());
        let text =
            |class: u32| classes.get(class as usize).filter(|_| named).map_or("", String::as_str);
        Ok(match self {
            Self::Scores => scores(scored, classes.len())?,
            Self::Label => {
                let mut labels = scored.released.predicted_labels().into_iter();
                let label = |status: &RowStatus| match status.is_scored() {
                    true => labels.next().map_or("", text),
                    false => "",
                };
                join(scored.status.iter().map(label))
            }
            Self::RowStatus => join(scored.status.iter().map(|status| status.as_str())),
            Self::ClassNames => join(classes.iter().map(String::as_str)),
        })
    }
}

/// Refuses a request whose answer would be larger than a message, before anything is asked or
/// spent.
///
/// # Errors
/// INVALID_ARGUMENT if the answer may be too large.
pub(super) fn check_room(
    outputs: &[Output],
    records: usize,
    classes: &[String],
) -> Result<(), Refusal> {
    let bytes = outputs
        .iter()
        .fold(AROUND, |sum, output| sum.saturating_add(output.bytes(records, classes)));
    if bytes <= MAX_MESSAGE_BYTES as u64 {
        return Ok(());
    }
    Err(Refusal::invalid(format!(
        "the answer may have {bytes} bytes, a message takes {MAX_MESSAGE_BYTES}; ask for fewer records or fewer outputs"
    )))
}

/// Returns the kind of a release in a word.
pub(super) fn kind(released: &ReleasedScores) -> &'static str {
    match released {
        ReleasedScores::Probabilities(_) => "probabilities",
        ReleasedScores::Numbers(_) => "numbers",
        ReleasedScores::Labels { .. } => "labels",
        ReleasedScores::Ciphertexts(_) => "ciphertexts",
    }
}

fn scores(scored: &Prediction, classes: usize) -> Result<Vec<u8>, Refusal> {
    let exact = |c: u64| {
        let fault =
            "the coordinator released a ciphertext of more than 53 bits, which no double holds";
        if c < EXACT { Ok(c as f64) } else { Err(Refusal::internal(fault)) }
    };
    match &scored.released {
        ReleasedScores::Probabilities(m) | ReleasedScores::Numbers(m) => {
            rows(scored, classes, m, Ok)
        }
        ReleasedScores::Ciphertexts(m) => rows(scored, classes, m, exact),
        // A label is not a score, and a 1 among zeros would look like one.
        ReleasedScores::Labels { .. } => {
            rows(scored, classes, &DMatrix::<f64>::from_element(classes, 0, 0.0), Ok)
        }
    }
}

/// Returns a row for each record. It is NaN if `released` (k × n) has no score of the record.
fn rows<T: nalgebra::Scalar + Copy>(
    scored: &Prediction,
    classes: usize,
    released: &DMatrix<T>,
    number: impl Fn(T) -> Result<f64, Refusal>,
) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::with_capacity(8 * scored.status.len() * classes);
    let mut columns = released.column_iter();
    for status in &scored.status {
        let column = if status.is_scored() { columns.next() } else { None };
        match column {
            Some(column) => {
                for at in 0..classes {
                    bytes.extend_from_slice(&number(column[at])?.to_le_bytes());
                }
            }
            None => (0..classes).for_each(|_| bytes.extend_from_slice(&f64::NAN.to_le_bytes())),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfl_core::types::ModelVersion;

    fn doubles(bytes: &[u8]) -> Vec<f64> {
        bytes.as_chunks().0.iter().map(|chunk| f64::from_le_bytes(*chunk)).collect()
    }

    fn answer(classes: &[&str], status: Vec<RowStatus>, released: ReleasedScores) -> Prediction {
        let class_names = classes.iter().map(|name| (*name).to_owned()).collect();
        let version = Some(ModelVersion::new("m-1").unwrap());
        Prediction { version, class_names, status, released }
    }

    fn of(classes: &[&str], released: ReleasedScores) -> Prediction {
        let (trained, missing) = (RowStatus::TrainingRecord, RowStatus::NotFound);
        answer(classes, vec![RowStatus::Ok, trained, RowStatus::Fallback, missing], released)
    }

    #[test]
    fn a_record_without_a_score_has_none() {
        let m = DMatrix::from_column_slice(2, 2, &[0.25, 0.75, 0.5, 0.5]);
        let scored = of(&["no", "yes"], ReleasedScores::Probabilities(m));
        let scores = doubles(&Output::Scores.tensor(&scored).unwrap());
        assert_eq!((&scores[..2], &scores[4..6]), (&[0.25, 0.75][..], &[0.5, 0.5][..]));
        assert!(scores[2..4].iter().chain(&scores[6..]).all(|score| score.is_nan()));
        assert_eq!(Output::Label.tensor(&scored).unwrap(), join(["yes", "", "no", ""]));
        let status = Output::RowStatus.tensor(&scored).unwrap();
        assert_eq!(status, join(["ok", "training_record", "fallback", "not_found"]));
        assert_eq!(Output::ClassNames.tensor(&scored).unwrap(), join(["no", "yes"]));
    }

    #[test]
    fn labels_are_no_scores() {
        let released = ReleasedScores::Labels { classes: 2, labels: vec![1, 0] };
        let scored = of(&["no", "yes"], released);
        let scores = doubles(&Output::Scores.tensor(&scored).unwrap());
        assert!(scores.len() == 8 && scores.iter().all(|score| score.is_nan()));
        assert_eq!(Output::Label.tensor(&scored).unwrap(), join(["yes", "", "no", ""]));
    }

    #[test]
    fn a_number_has_no_class() {
        let numbers = DMatrix::from_column_slice(1, 2, &[-3.5, 7.0]);
        let scored = of(&["price"], ReleasedScores::Numbers(numbers));
        let numbers = doubles(&Output::Scores.tensor(&scored).unwrap());
        assert_eq!((numbers[0], numbers[2]), (-3.5, 7.0));
        assert!(numbers[1].is_nan() && numbers[3].is_nan());
        assert_eq!(Output::Label.tensor(&scored).unwrap(), join(["", "", "", ""]));
    }

    #[test]
    fn ciphertexts_are_exact_or_refused() {
        let with = |c: u64| {
            of(
                &["no", "yes"],
                ReleasedScores::Ciphertexts(DMatrix::from_column_slice(2, 2, &[c, 1, 2, 3])),
            )
        };
        let scores = doubles(&Output::Scores.tensor(&with(EXACT - 1)).unwrap());
        assert_eq!(scores[0] as u64, EXACT - 1);
        assert!(Output::Scores.tensor(&with(EXACT)).is_err());
    }

    /// The bound is of what can come, to the byte.
    #[test]
    fn room_is_what_the_tensors_take() {
        let (classes, n) = (["a", "longer"], 3);
        let none = ReleasedScores::Labels { classes: 2, labels: Vec::new() };
        let scored = answer(&classes, vec![RowStatus::ModelBudgetSpent; n], none);
        for output in [Output::Scores, Output::RowStatus, Output::ClassNames] {
            let tensor = output.tensor(&scored).unwrap();
            assert_eq!(tensor.len() as u64, output.bytes(n, &scored.class_names), "{output:?}");
        }
        let released = ReleasedScores::Labels { classes: 2, labels: vec![1; n] };
        let scored = answer(&classes, vec![RowStatus::Ok; n], released);
        let labels = Output::Label.tensor(&scored).unwrap();
        assert_eq!(labels.len() as u64, Output::Label.bytes(n, &scored.class_names));
        let classes = vec!["c".to_owned(); 33];
        assert!(check_room(&[Output::Scores], 1000, &classes).is_ok());
        assert!(check_room(&[Output::Scores], 65_536, &classes).is_err());
        assert!(check_room(&[Output::Label], 65_536, &classes).is_ok());
    }
}
