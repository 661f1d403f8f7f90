//! J figures 14 and 15: the accuracy of the model and of the attack, J (24), under each defense,
//! with half of the features passive, on softmax regression and on perceptrons. In the white box
//! the parameters are known; in the black box the adversary fits a shadow to τ records that it
//! knows with all features, and to their released scores.

use nalgebra::DMatrix;
use vfl_attack::{AdversaryView, KnownModel, Method, Replacement, Settings};
use vfl_core::metrics::{accuracy, squared_error_by_record};
use vfl_core::types::{ConfidenceScores, FeatureBlock, Logits, ReleasedScores};
use vfl_datasets::evaluate::EvaluationClassifier;
use vfl_defense::{DefenseError, Grants, Noise, Pipeline, Policy};
use vfl_present::progress::Progress;

use super::super::document::{AttackFacts, Axis, Curve, CurveRole, Document, Measure, ModelOrigin};
use super::super::experiment_model::{ExperimentModel, Purpose, generator};
use super::super::statistics::mean;
use super::super::sweep::{select, starts};
use super::super::workers::{cpu_time, in_order};
use super::super::{Figure, Options, ReproduceError, blank};
use super::cases::{AttackedModel, SharedData};
use super::defense_checks::checks;
use super::private;
use super::split::Architecture;

/// J's defenses at the scores, in the order of the points; trainings with noise follow them. Entity
/// alignment (PSI) changes neither model nor scores and has no point of its own.
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
/// The number of all points.
const POINTS: usize = DEFENSES.len() + private::EPSILONS.len();
/// The index of the undefended model.
const NONE: usize = 0;

/// The default number of splits.
const WINDOWS: usize = 4;

/// The results of one split and defense: accuracy of the model, of the attack, of ½, and the
/// attack's error; accuracy and error in the black box.
type DefenseFigures = [f64; 6];
const CURVES: [(&str, CurveRole); 6] = [
    ("accuracy_of_model", CurveRole::Measured),
    ("accuracy_of_attack", CurveRole::Attack),
    ("accuracy_of_half", CurveRole::Guess),
    ("error_of_attack", CurveRole::Attack),
    ("accuracy_of_attack_black_box", CurveRole::Attack),
    ("error_of_attack_black_box", CurveRole::Attack),
];

/// Computes figure 14 or 15.
pub(in super::super) fn run(
    figure: Figure,
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let drawn = subject.draw(options.records, options.seed);
    let common = SharedData::new(figure, subject, &drawn, options)?;
    let d = common.d;
    let starts = starts(subject.features(), options.windows.or(Some(WINDOWS)));
    let work =
        |piece: usize| -> Result<(Vec<DefenseFigures>, std::time::Duration), ReproduceError> {
            let begun = cpu_time();
            let found = behind_each(&common, starts[piece], options)?;
            Ok((found, cpu_time().saturating_sub(begun)))
        };
    let mut found: Vec<Vec<DefenseFigures>> = Vec::new();
    let mut cpu = std::time::Duration::ZERO;
    let mut progress = Progress::start(figure.as_str(), starts.len() as u64);
    in_order(options.threads, starts.len(), work, |piece, (of, time)| {
        found.push(of);
        cpu += time;
        progress.at(piece as u64 + 1, "");
        Ok(())
    })?;
    progress.done(&format!(
        "{}: {} splits attacked behind {} defenses",
        figure.as_str(),
        starts.len(),
        POINTS
    ));

    let mut document = blank(figure, subject, options.seed, drawn.records());
    document.axis = Axis {
        label: "defense, by its number in the notes".into(),
        symbol: "defense".into(),
        points: (1..=POINTS).collect(),
        determined_up_to: None,
    };
    document.measure = Measure::linear("accuracy; the attack's error is a mean squared error");
    for (at, (name, role)) in CURVES.into_iter().enumerate() {
        document.curves.push(Curve {
            name: name.into(),
            role,
            of: None,
            x: (1..=POINTS).map(|i| i as f64).collect(),
            mean: (0..POINTS).map(|i| mean(found.iter().map(|of| of[i][at])).mean).collect(),
            standard_error: Some(
                (0..POINTS)
                    .map(|i| mean(found.iter().map(|of| of[i][at])).standard_error)
                    .collect(),
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
        let training = Architecture::J.training(options.seed, subject.classes())?;
        document.model.origin = ModelOrigin::EachSplit { config: training.config.values().clone() };
        document.model.accuracy = document.curves[0].mean[NONE];
    }
    document.checks = checks(&document);
    let trainings = private::EPSILONS
        .iter()
        .map(|epsilon| format!("training with noise (epsilon = {epsilon})"));
    let names = DEFENSES.iter().map(|defense| (*defense).to_owned()).chain(trainings);
    let numbered = names.enumerate().map(|(i, name)| format!("{}: {name}", i + 1));
    document.notes.push(format!("defenses: {}", numbered.collect::<Vec<_>>().join("; ")));
    document.notes.push(format!(
        "{d} of {} features are passive, in each of {} windows; gradient inversion with the settings of this program from ½, on {} records; \
         the attack's accuracy is the share of estimates that a linear support vector machine of {} training records gives the class that \
         it gives the truth",
        subject.features(),
        starts.len(),
        drawn.records().min(options.inversion_records),
        common.own.ncols()
    ));
    document.notes.push(
        "entity alignment (PSI) changes neither the model nor its scores: its point is that of no defense".into(),
    );
    document.notes.push(private::told(common.private_records()));
    document.notes.push(format!(
        "black box: a shadow of the true architecture is fitted to τ = {} test records that are not attacked, with all features, and to what \
         the defense released of them: by squared log-ratios, where a score has no logarithm by divergences; then the same attack goes \
         through it",
        common.tau
    ));
    Ok(document)
}

/// Computes every point in one split.
fn behind_each(
    common: &SharedData<'_>,
    k0: usize,
    options: &Options,
) -> Result<Vec<DefenseFigures>, ReproduceError> {
    let (subject, d) = (common.subject, common.d);
    let off = |reason: String| ReproduceError::Failed {
        what: "the evaluation classifier",
        d,
        k0,
        reason,
    };
    let case = AttackedModel::plain(common, k0)?;
    let held_out = select(&common.own, &case.passive, common.own.ncols());
    let labels = &common.records.1[..common.own.ncols()];
    let classifier =
        EvaluationClassifier::train(subject.classes(), &held_out, labels, options.seed);
    let classifier = classifier.map_err(|e| off(e.to_string()))?;
    let mut out = Vec::with_capacity(POINTS);
    for (place, text) in DEFENSES.into_iter().enumerate() {
        out.push(behind(common, &case, &classifier, (text, place), k0, options)?);
    }
    for (place, epsilon) in private::EPSILONS.into_iter().enumerate() {
        let case = AttackedModel::private(common, k0, epsilon)?;
        out.push(behind(
            common,
            &case,
            &classifier,
            (DEFENSES[NONE], DEFENSES.len() + place),
            k0,
            options,
        )?);
    }
    Ok(out)
}

/// Attacks a model under one defense.
fn behind(
    common: &SharedData<'_>,
    case: &AttackedModel,
    classifier: &EvaluationClassifier,
    (text, place): (&str, usize),
    k0: usize,
    options: &Options,
) -> Result<DefenseFigures, ReproduceError> {
    let (subject, d) = (common.subject, common.d);
    let off = |reason: String| ReproduceError::Failed {
        what: "the evaluation classifier",
        d,
        k0,
        reason,
    };
    let n = common.drawn.records().min(options.inversion_records);
    let truth = select(&common.drawn.x, &case.passive, n);
    let y = FeatureBlock::new(case.y.matrix().columns(0, n).into_owned())?;
    let calibration = ConfidenceScores::softmax(logits(&case.scores[2])?);
    let policy: Policy = text.parse().map_err(|e| off(format!("{e}")))?;
    let failed =
        |error: DefenseError| ReproduceError::Defense { defense: policy.to_string(), error };
    let grants = Grants { passive_weights: None, calibration: Some(&calibration), seed: [3; 32] };
    let pipeline = Pipeline::build(&policy.defenses, subject.classes(), &grants).map_err(failed)?;
    let release = |scores: &DMatrix<f64>, noise: u8| -> Result<ReleasedScores, ReproduceError> {
        Ok(pipeline.release(logits(scores)?, Noise::fresh([noise; 32])).map_err(failed)?.released)
    };
    let of_model = accuracy(&release(&case.scores[1], 5)?.predicted_labels(), &subject.labels)?;
    let released = release(&case.scores[0].columns(0, n).into_owned(), 5)?;
    let settings = Settings::read([("start", "half")])?;
    let item = (place as u64) << 40 | (d as u64) << 20 | k0 as u64;
    let attack = |model: &KnownModel, curve: &str| -> Result<[f64; 3], ReproduceError> {
        let named = |error| ReproduceError::Attack { curve: curve.to_owned(), d, k0, error };
        let view =
            AdversaryView::new(model, &y, &released, Replacement::default()).map_err(named)?;
        let mut rng = generator(options.seed, Purpose::Attack, item);
        let found = Method::GradientInversion
            .build(&settings)
            .reconstruct(&view, &mut rng)
            .map_err(named)?
            .estimates;
        let of_attack =
            classifier.attack_accuracy(&found, &truth).map_err(|e| off(e.to_string()))?;
        let errors = squared_error_by_record(&found, &truth)?;
        Ok([of_attack.estimates, of_attack.half, mean(errors.iter().copied()).mean])
    };
    let [known, half, error] = attack(case.known(), CURVES[1].0)?;
    let named = |error| ReproduceError::Attack { curve: CURVES[4].0.to_owned(), d, k0, error };
    // The stream of random numbers differs from that of the auxiliary records.
    let mut rng = generator(options.seed, Purpose::Auxiliary, 1 << 55 | item);
    let shadow =
        case.black_box.shadow(release(&case.black_box.scores, 6)?, &mut rng).map_err(named)?;
    let [guessed, _, guessed_error] = attack(&shadow, CURVES[4].0)?;
    Ok([of_model, known, half, error, guessed, guessed_error])
}

/// Returns the logarithms of scores: their softmax is the scores.
fn logits(scores: &DMatrix<f64>) -> Result<Logits, ReproduceError> {
    Ok(Logits::new(scores.map(|c| c.max(f64::MIN_POSITIVE).ln()))?)
}
