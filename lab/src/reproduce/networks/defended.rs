//! J figures 14 and 15: behind each defense the accuracy of the model, and the accuracy of the attack, J (24), with half of the features
//! passive and the parameters known, on softmax regression and on perceptrons.

use nalgebra::DMatrix;
use vfl_active_party::attack::{AdversaryView, KnownModel, Method, Replacement, Settings};
use vfl_coordinator::defense::{DefenseError, Grants, Noise, Pipeline};
use vfl_shared::metrics::{accuracy, squared_error_by_record};
use vfl_shared::policy::Policy;
use vfl_shared::types::{ConfidenceScores, FeatureBlock, Logits, ReleasedScores};

use super::super::document::{AttackFacts, Axis, Check, CheckKind, Curve, CurveRole, Document, Measure, ModelOrigin};
use super::super::statistics::mean;
use super::super::subject::{Drawn, Purpose, Subject, generator};
use super::super::sweep::{Window, select, starts};
use super::super::trained::scores;
use super::super::workers::{cpu_time, in_order};
use super::super::{Figure, Options, ReproduceError, blank};
use super::split::{Architecture, Split};
use crate::evaluate::EvaluationClassifier;
use crate::progress::Progress;

/// J's defenses, in the order of the points. Entity alignment (PSI) changes neither model nor scores and has no point of its own;
/// training with noise is a matter of `cloison demo --private-trainings`.
const DEFENSES: [&str; 10] = [
    "none",
    "rounding (decimals = 2)",
    "rounding (decimals = 1)",
    "rounding (decimals = 0)",
    "gaussian_noise (sigma = 0.01)",
    "gaussian_noise (sigma = 0.1)",
    "gaussian_noise (sigma = 1.0)",
    "class_label",
    "purifier",
    "purifier (training = \"random\")",
];
/// Places among them.
const NONE: usize = 0;
const NOISE_TENTH: usize = 5;
const NOISE_ONE: usize = 6;
const LABEL: usize = 7;
const PURIFIER: usize = 8;
const PURIFIER_RANDOM: usize = 9;

/// Splits unless told otherwise.
const WINDOWS: usize = 4;
/// Training records whose scores a purifier learns from, and that the evaluation classifier is trained on, at most.
const MOST: usize = 4000;

/// What one split and defense give: accuracy of the model, of the attack, of ½, and the attack's error.
type Found = [f64; 4];
const CURVES: [(&str, CurveRole); 4] = [
    ("accuracy_of_model", CurveRole::Measured),
    ("accuracy_of_attack", CurveRole::Attack),
    ("accuracy_of_half", CurveRole::Guess),
    ("error_of_attack", CurveRole::Attack),
];

/// A model in one split, and what comes of it.
struct Case {
    passive: Vec<usize>,
    known: KnownModel,
    /// What the adversary has of the records under attack.
    y: FeatureBlock,
    /// Scores of the records under attack, of all test records, and of training records (k × n).
    scores: [DMatrix<f64>; 3],
}

impl Case {
    /// Of softmax regression.
    fn linear(subject: &Subject, drawn: &Drawn, own: &DMatrix<f64>, k0: usize) -> Result<Self, ReproduceError> {
        let window = Window::new(subject, k0, subject.features() / 2)?;
        let of = |x: &DMatrix<f64>| scores(&subject.weights, &subject.bias, x);
        let scores = [drawn.scores().clone(), of(subject.test_records())?, of(own)?];
        let y = FeatureBlock::new(select(&drawn.x, &window.active, drawn.records()))?;
        Ok(Self { passive: window.passive, known: window.model, y, scores })
    }

    /// Of perceptrons, trained for this split.
    fn network(
        subject: &Subject,
        drawn: &Drawn,
        records: &(DMatrix<f64>, Vec<u32>),
        k0: usize,
        seed: u64,
    ) -> Result<Self, ReproduceError> {
        let d = subject.features() / 2;
        let split = Split::train(subject, &Architecture::J.training(seed)?, records, k0, d)?;
        let of = |x: &DMatrix<f64>| -> Result<(FeatureBlock, DMatrix<f64>), ReproduceError> {
            let (y, released) = split.served(x)?;
            match released {
                ReleasedScores::Probabilities(scores) => Ok((y, scores)),
                _ => Err(ReproduceError::NothingToRun { notes: "no scores".into() }),
            }
        };
        let (y, attacked) = of(&drawn.x)?;
        let own = records.0.columns(0, records.0.ncols().min(MOST)).into_owned();
        let scores = [attacked, of(subject.test_records())?.1, of(&own)?.1];
        Ok(Self { passive: split.passive, known: split.known, y, scores })
    }
}

/// Computes figure 14 or 15.
pub(in super::super) fn run(figure: Figure, subject: &Subject, options: &Options) -> Result<Document, ReproduceError> {
    let drawn = subject.draw(options.records, options.seed);
    let d = (subject.features() / 2).max(1);
    let starts = starts(subject.features(), options.windows.or(Some(WINDOWS)));
    let records = subject.own_records(options.own_records, options.seed);
    let own = records.0.columns(0, records.0.ncols().min(MOST)).into_owned();
    let labels = &records.1[..own.ncols()];
    let work = |piece: usize| -> Result<(Vec<Found>, std::time::Duration), ReproduceError> {
        let begun = cpu_time();
        let k0 = starts[piece];
        let case = match figure {
            Figure::JFig14 => Case::linear(subject, &drawn, &own, k0)?,
            _ => Case::network(subject, &drawn, &records, k0, options.seed)?,
        };
        let found = behind_each(subject, &drawn, &case, (&own, labels), (d, k0), options)?;
        Ok((found, cpu_time().saturating_sub(begun)))
    };
    let mut found: Vec<Vec<Found>> = Vec::new();
    let mut cpu = std::time::Duration::ZERO;
    let mut progress = Progress::start(figure.as_str(), starts.len() as u64);
    in_order(options.threads, starts.len(), work, |piece, (of, time)| {
        found.push(of);
        cpu += time;
        progress.at(piece as u64 + 1, "");
        Ok(())
    })?;
    progress.done(&format!("{}: {} splits attacked behind {} defenses", figure.as_str(), starts.len(), DEFENSES.len()));

    let mut document = blank(figure, subject, options.seed, drawn.records());
    document.axis = Axis {
        label: "defense, by its number in the notes".into(),
        symbol: "defense".into(),
        points: (1..=DEFENSES.len()).collect(),
        determined_up_to: None,
    };
    document.measure = Measure::linear("accuracy; the attack's error is a mean squared error");
    for (at, (name, role)) in CURVES.into_iter().enumerate() {
        document.curves.push(Curve {
            name: name.into(),
            role,
            of: None,
            x: (1..=DEFENSES.len()).map(|i| i as f64).collect(),
            mean: (0..DEFENSES.len()).map(|i| mean(found.iter().map(|of| of[i][at])).mean).collect(),
            standard_error: Some(
                (0..DEFENSES.len()).map(|i| mean(found.iter().map(|of| of[i][at])).standard_error).collect(),
            ),
            spread: None,
        });
    }
    document.attacks.push(AttackFacts {
        curve: "accuracy_of_attack".into(),
        method: Method::GradientInversion.to_string(),
        settings: [("start".to_owned(), "half".to_owned())].into(),
        records: drawn.records().min(options.inversion_records),
        cpu_seconds: cpu.as_secs_f64(),
    });
    if figure == Figure::JFig15 {
        document.model.origin =
            ModelOrigin::EachSplit { config: Architecture::J.training(options.seed)?.values().clone() };
        document.model.accuracy = document.curves[0].mean[NONE];
    }
    document.checks = checks(&document);
    let numbered = DEFENSES.iter().enumerate().map(|(i, defense)| format!("{}: {defense}", i + 1));
    document.notes.push(format!("defenses: {}", numbered.collect::<Vec<_>>().join("; ")));
    document.notes.push(format!(
        "{d} of {} features are passive, in each of {} windows; gradient inversion with the settings of this program from ½, on {} records; \
         the attack's accuracy is the share of estimates that a linear support vector machine of {} training records gives the class that \
         it gives the truth",
        subject.features(),
        starts.len(),
        drawn.records().min(options.inversion_records),
        own.ncols()
    ));
    document.notes.push(
        "entity alignment (PSI) changes neither the model nor its scores: its point is that of no defense. Training with noise is in \
         `cloison demo --private-trainings`. The black box is in j-fig11a, 11b"
            .into(),
    );
    Ok(document)
}

/// Every defense in one split.
fn behind_each(
    subject: &Subject,
    drawn: &Drawn,
    case: &Case,
    (own, labels): (&DMatrix<f64>, &[u32]),
    (d, k0): (usize, usize),
    options: &Options,
) -> Result<Vec<Found>, ReproduceError> {
    let off = |reason: String| ReproduceError::Failed { what: "the evaluation classifier", d, k0, reason };
    let held_out = select(own, &case.passive, own.ncols());
    let classifier = EvaluationClassifier::train(subject.classes(), &held_out, labels, options.seed);
    let classifier = classifier.map_err(|e| off(e.to_string()))?;
    let n = drawn.records().min(options.inversion_records);
    let truth = select(&drawn.x, &case.passive, n);
    let y = FeatureBlock::new(case.y.matrix().columns(0, n).into_owned())?;
    let calibration = ConfidenceScores::softmax(logits(&case.scores[2])?);
    let settings = Settings::read([("start", "half")])?;
    let mut out = Vec::with_capacity(DEFENSES.len());
    for (place, text) in DEFENSES.into_iter().enumerate() {
        let policy: Policy = text.parse().map_err(|e| off(format!("{e}")))?;
        let failed = |error: DefenseError| ReproduceError::Defense { defense: policy.to_string(), error };
        let grants = Grants { passive_weights: None, calibration: Some(&calibration), seed: [3; 32] };
        let pipeline = Pipeline::build(&policy.defenses, subject.classes(), &grants).map_err(failed)?;
        let release = |scores: &DMatrix<f64>| -> Result<ReleasedScores, ReproduceError> {
            Ok(pipeline.release(logits(scores)?, Noise::fresh([5; 32])).map_err(failed)?.released)
        };
        let of_model = accuracy(&release(&case.scores[1])?.predicted_labels(), &subject.labels)?;
        let released = release(&case.scores[0].columns(0, n).into_owned())?;
        let named = |error| ReproduceError::Attack { curve: "accuracy_of_attack".into(), d, k0, error };
        let view = AdversaryView::new(&case.known, &y, &released, Replacement::default()).map_err(named)?;
        let mut rng = generator(options.seed, Purpose::Attack, (place as u64) << 40 | (d as u64) << 20 | k0 as u64);
        let found = Method::GradientInversion.build(&settings).reconstruct(&view, &mut rng).map_err(named)?.estimates;
        let of_attack = classifier.attack_accuracy(&found, &truth).map_err(|e| off(e.to_string()))?;
        let errors = squared_error_by_record(&found, &truth)?;
        out.push([of_model, of_attack.estimates, of_attack.half, mean(errors.iter().copied()).mean]);
    }
    Ok(out)
}

/// Softmax of the logarithms of scores is the scores.
fn logits(scores: &DMatrix<f64>) -> Result<Logits, ReproduceError> {
    Ok(Logits::new(scores.map(|c| c.max(f64::MIN_POSITIVE).ln()))?)
}

/// What J says of the figures. Where it names no number, ours stands behind "here".
fn checks(document: &Document) -> Vec<Check> {
    let values = |name: &str| document.curve(name).map_or(&[][..], |curve| curve.mean.as_slice());
    let (model, attack) = (values("accuracy_of_model"), values("accuracy_of_attack"));
    let lost = |at: usize| model[NONE] - model[at];
    let told = |at: usize| {
        format!("model {:.4} from {:.4}, attack {:.3} from {:.3}", model[at], model[NONE], attack[at], attack[NONE])
    };
    let check = |claim: &str, holds: bool, detail: String| Check {
        kind: CheckKind::Paper,
        claim: format!("{claim} (J section 6.2)"),
        holds,
        comparisons: 1,
        detail,
        violations: Vec::new(),
    };
    vec![
        check(
            "a label alone reduces the attack's accuracy and not the model's; here: to nine tenths at most",
            attack[LABEL] <= 0.9 * attack[NONE] && lost(LABEL).abs() <= 1e-12,
            told(LABEL),
        ),
        check(
            "noise of 0.1 is a good balance; here: the attack's accuracy falls to nine tenths at most, the model's by two points at most",
            attack[NOISE_TENTH] <= 0.9 * attack[NONE] && lost(NOISE_TENTH) <= 0.02,
            told(NOISE_TENTH),
        ),
        check("noise of 1 costs the model much; here: five points at least", lost(NOISE_ONE) >= 0.05, told(NOISE_ONE)),
        check(
            "a purifier reduces the attack's accuracy at a negligible loss; here: to nine tenths at most, and by one point at most",
            attack[PURIFIER] <= 0.9 * attack[NONE] && lost(PURIFIER) <= 0.01,
            told(PURIFIER),
        ),
        check(
            "a purifier of random vectors does better than one of real scores: a lower accuracy of the attack",
            attack[PURIFIER_RANDOM] < attack[PURIFIER],
            format!(
                "attack {:.3} and {:.3}, model {:.4} and {:.4}",
                attack[PURIFIER_RANDOM], attack[PURIFIER], model[PURIFIER_RANDOM], model[PURIFIER]
            ),
        ),
    ]
}
