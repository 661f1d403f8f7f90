//! J table 1: the accuracy of softmax regression, which is the document's model, and of J's
//! perceptrons.

use super::document::{Axis, Curve, CurveRole, Document, Measure};
use super::experiment_model::ExperimentModel;
use super::{Figure, Options, ReproduceError, blank, networks};

/// Computes the table. J does not say how the features are split there: the first half of them is
/// the passive party's.
pub(super) fn run(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let total = subject.features();
    let accuracy = networks::accuracy(subject, options, total / 2)?;
    let mut document = blank(Figure::JTable1, subject, options.seed, subject.labels.len());
    document.axis = Axis {
        label: "features of all parties".into(),
        symbol: "d_t".into(),
        points: vec![total],
        determined_up_to: None,
    };
    document.measure = Measure::linear("accuracy on test records");
    for (name, value) in
        [("softmax_accuracy", subject.model.accuracy), ("network_accuracy", accuracy)]
    {
        document.curves.push(Curve {
            name: name.into(),
            role: CurveRole::Measured,
            of: None,
            x: vec![total as f64],
            mean: vec![value],
            standard_error: None,
            spread: None,
        });
    }
    document.notes.push(format!(
        "perceptrons of two hidden layers of 8 at each of two parties, sigmoid, outputs summed; the passive party holds the first {} \
         features; J does not say how it trained them: Adam at 0.01, no penalty, early stopping",
        total / 2
    ));
    Ok(document)
}
