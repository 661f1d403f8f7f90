//! J figures 7, 9 and 10: attacks on perceptrons whose parameters are known, by the share of
//! passive features, the number of hidden layers and the activation. Figures 11b and 13: attacks on
//! perceptrons whose parameters are not known. Every split has its own model; a point is the mean
//! over splits, with the standard error of this mean.

mod beyond;
mod black_box;
mod by_records;
mod cases;
mod checks;
mod defense_checks;
mod defenses;
mod line;
mod private;
mod split;

pub(super) use by_records::run as by_records;
pub(super) use defenses::run as defended;

use vfl_present::progress::Progress;

use self::beyond::InformedPrior;
use self::black_box::BlackBox;
use self::checks::{LAYERS, SplitErrors};
use self::line::{NetworkCurve, Shadow, by_recipe, converged, of_paper, second_order};
use self::split::{Architecture, Split};
use super::curve_spec::{CurveRun, CurveSpec, pick};
use super::document::{Axis, Document, ModelOrigin};
use super::experiment_model::ExperimentModel;
use super::recipe::Recipe;
use super::statistics::{Mean, deviation, mean};
use super::sweep::starts;
use super::workers::{cpu_time, in_order};
use super::{Figure, Options, ReproduceError, blank};

/// The default number of splits for each number of passive features.
const WINDOWS: usize = 4;

/// The ends of the curves' names: J's settings, ours, and J's recipe.
const READINGS: [&str; 3] = ["", "_converged", "_recipe"];

/// Returns the attacks of figures 7 and 8: J's two as printed, gradient inversion kept in [0, 1],
/// both with our settings and by second order, V's way through the layers, and the guesses.
fn attacks(options: &Options) -> Vec<CurveSpec> {
    vec![
        of_paper("gia", options),
        of_paper("gia_projected", options).with([("projected", "true")]),
        converged("gia_converged", options),
        CurveSpec::new("generative_regression").called("grn").with([("generator", "published")]),
        CurveSpec::new("generative_regression").called("grn_own"),
        CurveSpec::new("half_star_layerwise"),
        CurveSpec::new("half"),
        CurveSpec::new("random"),
        second_order("second_order", options),
    ]
    .into_iter()
    .chain(beyond::lines())
    .collect()
}

fn lines(figure: Figure, options: &Options) -> Vec<NetworkCurve> {
    let j = Architecture::J;
    let on = |architecture, wanted| NetworkCurve { architecture, wanted, shadow: None };
    let several = |of: [(Architecture, [&'static str; 3]); 3]| {
        let printed = of.map(|(on_it, [curve, ..])| on(on_it, of_paper(curve, options)));
        let converged = of.map(|(on_it, [_, curve, _])| on(on_it, converged(curve, options)));
        let recipe =
            of.map(|(on_it, [.., curve])| on(on_it.by_recipe(), by_recipe(curve, options)));
        let guesses = [on(j, CurveSpec::new("half")), on(j, CurveSpec::new("random"))];
        printed.into_iter().chain(converged).chain(guesses).chain(recipe).collect()
    };
    let mut lines: Vec<NetworkCurve> = match figure {
        Figure::JFig9 => several([
            (
                Architecture { layers: 1, ..j },
                [LAYERS[0], "one_layer_converged", "one_layer_recipe"],
            ),
            (j, [LAYERS[1], "two_layers_converged", "two_layers_recipe"]),
            (
                Architecture { layers: 3, ..j },
                [LAYERS[2], "three_layers_converged", "three_layers_recipe"],
            ),
        ]),
        Figure::JFig10 => several([
            (Architecture { activation: "relu", ..j }, ["relu", "relu_converged", "relu_recipe"]),
            (j, ["sigmoid", "sigmoid_converged", "sigmoid_recipe"]),
            (Architecture { activation: "tanh", ..j }, ["tanh", "tanh_converged", "tanh_recipe"]),
        ]),
        Figure::JFig11b | Figure::JFig13 => black_box::lines(figure, options),
        _ => {
            let recipe = [
                by_recipe("gia_recipe", options),
                CurveSpec::new("generative_regression")
                    .called("grn_recipe")
                    .with([("generator", "published")]),
                second_order("second_order_recipe", options),
            ];
            let recipe = recipe.map(|wanted| on(j.by_recipe(), wanted));
            return attacks(options).into_iter().map(|w| on(j, w)).chain(recipe).collect();
        }
    };
    lines.extend(beyond::lines().map(|wanted| on(j, wanted)));
    lines
}

/// Computes figure 7, 9, 10, 11b or 13.
pub(super) fn run(
    figure: Figure,
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let drawn = subject.draw(options.records, options.seed);
    let dimensions = super::white_box::tenths(subject, options)?;
    let lines = lines(figure, options);
    let architectures: Vec<Architecture> = lines.iter().map(|line| line.architecture).collect();
    let (wanted, shadows): (Vec<_>, Vec<_>) =
        lines.into_iter().map(|line| (line.wanted, line.shadow)).unzip();
    let (contenders, notes) = pick(wanted, &options.attacks, drawn.records())?;
    let shadows: Vec<Option<Shadow>> =
        contenders.iter().map(|c| shadows[c.place as usize]).collect();
    let black_box = match shadows.iter().any(Option::is_some) {
        true => Some(BlackBox::new(subject, options, &shadows)?),
        false => None,
    };
    // Each architecture with its contenders, so that a model is trained once for all of them.
    let mut groups: Vec<(Architecture, Vec<usize>)> = Vec::new();
    for (at, contender) in contenders.iter().enumerate() {
        let architecture = architectures[contender.place as usize];
        match groups.iter_mut().find(|(a, _)| *a == architecture) {
            Some((_, members)) => members.push(at),
            None => groups.push((architecture, vec![at])),
        }
    }
    let starts = starts(subject.features(), options.windows.or(Some(WINDOWS)));
    let records = subject.own_records(options.own_records, options.seed);
    let pieces: Vec<(usize, usize, usize)> = (0..dimensions.len())
        .flat_map(|d| (0..groups.len()).map(move |group| (d, group)))
        .flat_map(|(d, group)| starts.iter().map(move |&k0| (d, group, k0)))
        .collect();
    let work = |piece: usize| -> Result<(f64, Vec<(f64, f64)>), ReproduceError> {
        let (d, group, k0) = pieces[piece];
        let (architecture, members) = &groups[group];
        let split = Split::train(
            subject,
            &architecture.training(options.seed, subject.classes())?,
            &records,
            k0,
            dimensions[d],
        )?;
        let informed = match members.iter().any(|at| contenders[*at].informed) {
            true => Some(InformedPrior::of(subject, &split)?),
            false => None,
        };
        let of = |at: &usize| {
            let begun = cpu_time();
            let shadow = match (&black_box, shadows[*at]) {
                (Some(black_box), Some(shadow)) => Some(black_box.fit(&split, shadow)?),
                _ => None,
            };
            let model = shadow.as_ref().unwrap_or(&split.known);
            let contender = &contenders[*at];
            let errors = match informed.as_ref().filter(|_| contender.informed) {
                Some(informed) => informed.attack(&split, contender, &drawn.x, options.seed)?,
                None => split.attack(model, contender, &drawn.x, options.seed, 0)?,
            };
            Ok((mean(errors.iter().copied()).mean, cpu_time().saturating_sub(begun).as_secs_f64()))
        };
        Ok((split.accuracy, members.iter().map(of).collect::<Result<_, ReproduceError>>()?))
    };
    let mut found = vec![vec![Vec::new(); dimensions.len()]; contenders.len()];
    let mut cpu = vec![0.0; contenders.len()];
    let mut accuracies = vec![Vec::new(); groups.len()];
    let mut progress = Progress::start(figure.as_str(), pieces.len() as u64);
    in_order(options.threads, pieces.len(), work, |piece, (accuracy, errors)| {
        let (d, group, _) = pieces[piece];
        accuracies[group].push(accuracy);
        for (&at, (error, seconds)) in groups[group].1.iter().zip(errors) {
            found[at][d].push(error);
            cpu[at] += seconds;
        }
        progress.at(piece as u64 + 1, &format!("d = {}", dimensions[d]));
        Ok(())
    })?;
    progress.done(&format!("{}: {} models trained and attacked", figure.as_str(), pieces.len()));

    let mut document = blank(figure, subject, options.seed, drawn.records());
    let total = subject.features() as f64;
    document.axis = Axis { determined_up_to: None, ..super::white_box::axis(subject, &dimensions) };
    let x: Vec<f64> = dimensions.iter().map(|d| *d as f64 / total).collect();
    fill(&mut document, &contenders, &x, &found, &cpu);
    // The document's model is that of our training, or of the recipe if no curve has ours.
    let recipe = match groups.iter().all(|(a, _)| a.recipe == Recipe::J) {
        true => Recipe::J,
        false => Recipe::Own,
    };
    let of_recipe = groups.iter().zip(&accuracies).filter(|((a, _), _)| a.recipe == recipe);
    let of_recipe: Vec<f64> = of_recipe.flat_map(|(_, all)| all.iter().copied()).collect();
    trained(&mut document, Architecture { recipe, ..Architecture::J }, options, &of_recipe)?;
    let found = SplitErrors { contenders: &contenders, errors: &found };
    document.checks = match figure {
        Figure::JFig9 => READINGS.iter().flat_map(|of| found.by_depth(&document, of)).collect(),
        Figure::JFig10 => {
            READINGS.iter().flat_map(|of| found.by_activation(&document, of)).collect()
        }
        Figure::JFig11b => black_box::by_number(&found, &document),
        Figure::JFig13 => black_box::by_architecture(&found, &document),
        _ => checks::seventh(&document, subject.features()),
    };
    for ((architecture, _), accuracies) in groups.iter().zip(&accuracies) {
        document.notes.push(format!(
            "hidden layers of 8 units: {}, {}, {}: accuracy {:.4} in the mean over {} splits",
            architecture.layers,
            architecture.activation,
            match architecture.recipe {
                Recipe::Own => "Adam at 0.01 with early stopping",
                Recipe::J if subject.classes() == 2 => {
                    "Adam at 0.001 for 50 epochs, a sigmoid for each class (_recipe)"
                }
                Recipe::J => "Adam at 0.001 for 50 epochs (_recipe)",
            },
            mean(accuracies.iter().copied()).mean,
            accuracies.len()
        ));
    }
    document.notes.push(format!(
        "{} splits of each number of features, each a model of its own, trained on {} records; the interval is over splits",
        starts.len(),
        records.1.len()
    ));
    if let Some(black_box) = &black_box {
        black_box.tell(&mut document, &shadows);
    }
    if contenders.iter().any(|contender| contender.informed) {
        document.notes.push(beyond::NOTE.to_owned());
    }
    document.notes.extend(notes);
    Ok(document)
}

/// Returns the accuracy of J's perceptrons on the test records, with the first `d` columns passive.
pub(super) fn accuracy(
    subject: &ExperimentModel,
    options: &Options,
    d: usize,
) -> Result<f64, ReproduceError> {
    let records = subject.own_records(options.own_records, options.seed);
    let training = Architecture::J.training(options.seed, subject.classes())?;
    Ok(Split::train(subject, &training, &records, 0, d)?.accuracy)
}

/// Adds the curves (by contender and point, a value for each split) and the facts of the attacks.
fn fill(
    document: &mut Document,
    contenders: &[CurveRun],
    x: &[f64],
    found: &[Vec<Vec<f64>>],
    cpu: &[f64],
) {
    for ((contender, of_points), cpu) in contenders.iter().zip(found).zip(cpu) {
        let means: Vec<Mean> =
            of_points.iter().map(|values| mean(values.iter().copied())).collect();
        super::white_box::put(document, contender, x, &means, *cpu);
        if let Some(curve) = document.curves.last_mut() {
            curve.spread = Some(of_points.iter().map(|values| deviation(values)).collect());
        }
    }
}

/// Records the training settings and the mean accuracy of the models.
fn trained(
    document: &mut Document,
    architecture: Architecture,
    options: &Options,
    accuracies: &[f64],
) -> Result<(), ReproduceError> {
    let training = architecture.training(options.seed, document.dataset.classes)?;
    let config = training.config.values().clone();
    document.model.origin = ModelOrigin::EachSplit { config };
    document.model.accuracy = mean(accuracies.iter().copied()).mean;
    Ok(())
}
