//! J figures 7, 9 and 10: attacks on perceptrons whose parameters are known, by the share of passive features, the number of hidden layers
//! and the activation. Every split is a model of its own; a point is the mean over splits, and its error that of this mean.

mod by_records;
mod split;

pub(super) use by_records::run as by_records;

use self::split::{Architecture, Split};
use super::contender::{Contender, Pairs, Wanted, pick};
use super::document::{AttackFacts, Axis, Check, Curve, Document, ModelOrigin};
use super::statistics::mean;
use super::subject::Subject;
use super::sweep::starts;
use super::workers::{cpu_time, in_order};
use super::{Figure, Options, ReproduceError, blank};
use crate::progress::Progress;

/// Splits of each number of passive features unless told otherwise.
const WINDOWS: usize = 4;

/// Curves of figure 9, of J's settings.
const LAYERS: [&str; 3] = ["one_layer", "two_layers", "three_layers"];

/// What J calls an error "near 0".
const NEAR_ZERO: f64 = 0.01;

/// A line of a figure: on which of its architectures.
struct Line {
    architecture: Architecture,
    wanted: Wanted,
}

/// J's gradient inversion, with what `--gia` says.
fn of_paper(curve: &'static str, given: &Pairs) -> Wanted {
    let given = given.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    Wanted::new("gradient_inversion").called(curve).with([("preset", "j")]).with(given)
}

/// Gradient inversion with the settings of this program, from ½.
fn converged(curve: &'static str) -> Wanted {
    Wanted::new("gradient_inversion").called(curve).with([("start", "half")])
}

/// The attacks of figures 7 and 8: J's two as printed, gradient inversion kept in [0, 1], both with settings of ours, V's
/// way through the layers, and the guesses.
fn attacks(given: &Pairs) -> Vec<Wanted> {
    vec![
        of_paper("gia", given),
        of_paper("gia_projected", given).with([("projected", "true")]),
        converged("gia_converged"),
        Wanted::new("generative_regression").called("grn").with([("generator", "published")]),
        Wanted::new("generative_regression").called("grn_own"),
        Wanted::new("half_star_layerwise"),
        Wanted::new("half"),
        Wanted::new("random"),
    ]
}

fn lines(figure: Figure, options: &Options) -> Vec<Line> {
    let j = Architecture::J;
    let on = |architecture, wanted| Line { architecture, wanted };
    let several = |of: [(Architecture, &'static str, &'static str); 3]| {
        let printed = of.map(|(on_it, curve, _)| on(on_it, of_paper(curve, &options.inversion)));
        let converged = of.map(|(on_it, _, curve)| on(on_it, converged(curve)));
        printed.into_iter().chain(converged).chain([on(j, Wanted::new("half"))]).collect()
    };
    match figure {
        Figure::JFig9 => several([
            (Architecture { layers: 1, ..j }, LAYERS[0], "one_layer_converged"),
            (j, LAYERS[1], "two_layers_converged"),
            (Architecture { layers: 3, ..j }, LAYERS[2], "three_layers_converged"),
        ]),
        Figure::JFig10 => several([
            (Architecture { activation: "relu", ..j }, "relu", "relu_converged"),
            (j, "sigmoid", "sigmoid_converged"),
            (Architecture { activation: "tanh", ..j }, "tanh", "tanh_converged"),
        ]),
        _ => attacks(&options.inversion).into_iter().map(|wanted| on(j, wanted)).collect(),
    }
}

/// The tenths of the features, or the numbers asked for.
fn dimensions(subject: &Subject, options: &Options) -> Result<Vec<usize>, ReproduceError> {
    if !options.dimensions.is_empty() {
        return super::white_box::dimensions(subject, options);
    }
    let total = subject.features();
    let mut tenths: Vec<usize> = (1..=9).map(|tenth| (total * tenth + 5) / 10).filter(|d| *d > 0).collect();
    tenths.dedup();
    Ok(tenths)
}

/// Computes figure 7, 9 or 10.
pub(super) fn run(figure: Figure, subject: &Subject, options: &Options) -> Result<Document, ReproduceError> {
    let drawn = subject.draw(options.records, options.seed);
    let dimensions = dimensions(subject, options)?;
    let lines = lines(figure, options);
    let architectures: Vec<Architecture> = lines.iter().map(|line| line.architecture).collect();
    let wanted = lines.into_iter().map(|line| line.wanted).collect();
    let (contenders, notes) = pick(wanted, &options.attacks, drawn.records())?;
    // Each architecture with its contenders: a model is trained once for all of them.
    let mut groups: Vec<(Architecture, Vec<usize>)> = Vec::new();
    for (at, contender) in contenders.iter().enumerate() {
        let architecture = architectures[contender.place as usize];
        let same = |(a, _): &&mut (Architecture, _)| {
            a.layers == architecture.layers && a.activation == architecture.activation
        };
        match groups.iter_mut().find(same) {
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
        let split = Split::train(subject, &architecture.training(options.seed)?, &records, k0, dimensions[d])?;
        let of = |at: &usize| {
            let begun = cpu_time();
            let errors = split.attack(&contenders[*at], &drawn.x, options.seed, 0)?;
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
    trained(&mut document, Architecture::J, options, &accuracies.concat())?;
    match figure {
        Figure::JFig9 => ["", "_converged"].iter().for_each(|of| {
            let checks = deeper_is_harder(&document, of, &dimensions);
            document.checks.extend(checks);
        }),
        Figure::JFig10 => ["", "_converged"].iter().for_each(|of| {
            let checks = similar(&document, of, &dimensions);
            document.checks.extend(checks);
        }),
        _ => {
            for curve in ["gia", "gia_converged"] {
                let check = near_zero(&document, curve);
                document.checks.extend(check);
            }
            for curve in ["gia", "gia_converged"] {
                let claim = format!("{curve}: below the generative regression network (J section 5.2.2)");
                let check = below(&document, curve, "grn", &claim);
                document.checks.extend(check);
            }
        }
    }
    for ((architecture, _), accuracies) in groups.iter().zip(&accuracies) {
        document.notes.push(format!(
            "hidden layers of 8 units: {}, {}: accuracy {:.4} in the mean over {} splits",
            architecture.layers,
            architecture.activation,
            mean(accuracies.iter().copied()).mean,
            accuracies.len()
        ));
    }
    document.notes.push(format!(
        "{} splits of each number of features, each a model of its own, trained on {} records; the interval is over splits",
        starts.len(),
        records.1.len()
    ));
    document.notes.extend(notes);
    Ok(document)
}

/// Curves (by contender and point, a value for each split) and facts of the attacks.
fn fill(document: &mut Document, contenders: &[Contender], x: &[f64], found: &[Vec<Vec<f64>>], cpu: &[f64]) {
    for ((contender, of_points), cpu) in contenders.iter().zip(found).zip(cpu) {
        let means: Vec<_> = of_points.iter().map(|values| mean(values.iter().copied())).collect();
        document.curves.push(Curve {
            name: contender.curve.into(),
            role: contender.role,
            of: None,
            x: x.to_vec(),
            mean: means.iter().map(|m| m.mean).collect(),
            standard_error: Some(means.iter().map(|m| m.standard_error).collect()),
        });
        document.attacks.push(AttackFacts {
            curve: contender.curve.into(),
            method: contender.method.to_string(),
            settings: contender.given.clone(),
            records: contender.records,
            cpu_seconds: *cpu,
        });
    }
}

/// Says how the models were trained, and how good they are in the mean.
fn trained(
    document: &mut Document,
    architecture: Architecture,
    options: &Options,
    accuracies: &[f64],
) -> Result<(), ReproduceError> {
    let config = architecture.training(options.seed)?.values().clone();
    document.model.origin = ModelOrigin::EachSplit { config };
    document.model.accuracy = mean(accuracies.iter().copied()).mean;
    Ok(())
}

/// With a tenth of the features the error is near 0.
fn near_zero(document: &Document, name: &str) -> Option<Check> {
    let curve = document.curve(name)?;
    let few: Vec<usize> = (0..curve.x.len()).filter(|&i| curve.x[i] <= 0.11).collect();
    let violations: Vec<String> = few
        .iter()
        .filter(|&&i| curve.mean[i] > NEAR_ZERO)
        .map(|&i| format!("d = {}: {:.4}", document.axis.points[i], curve.mean[i]))
        .collect();
    (!few.is_empty()).then(|| Check {
        claim: format!(
            "{name}: with a tenth of the features passive, the error is near 0 (J section 5.2.2; here: at most {NEAR_ZERO})"
        ),
        holds: violations.is_empty(),
        comparisons: few.len() as u64,
        detail: format!("at most {:.4}", few.iter().map(|&i| curve.mean[i]).fold(0.0, f64::max)),
        violations,
    })
}

/// One curve lies below another at every point.
fn below(document: &Document, low: &str, high: &str, claim: &str) -> Option<Check> {
    let (a, b) = (document.curve(low)?, document.curve(high)?);
    let violations: Vec<String> = (0..a.mean.len())
        .filter(|&i| a.mean[i] >= b.mean[i])
        .map(|i| {
            let (point, symbol) = (document.axis.points[i], &document.axis.symbol);
            format!("{symbol} = {point}: {low} {:.4}, {high} {:.4}", a.mean[i], b.mean[i])
        })
        .collect();
    Some(Check {
        claim: claim.into(),
        holds: violations.is_empty(),
        comparisons: a.mean.len() as u64,
        detail: format!("{low} is not below {high} at {} of {} points", violations.len(), a.mean.len()),
        violations,
    })
}

/// The error rises with the number of layers, two errors of the means allowed.
fn deeper_is_harder(document: &Document, of: &str, dimensions: &[usize]) -> Vec<Check> {
    let layers: Vec<&Curve> = LAYERS.iter().filter_map(|name| document.curve(&format!("{name}{of}"))).collect();
    layers
        .windows(2)
        .map(|pair| {
            let violations: Vec<String> = (0..dimensions.len())
                .filter(|&i| pair[1].mean[i] < pair[0].mean[i] - 2.0 * spread(pair[0], pair[1], i))
                .map(|i| format!("d = {}: {:.4}, then {:.4}", dimensions[i], pair[0].mean[i], pair[1].mean[i]))
                .collect();
            Check {
                claim: format!(
                    "from {} to {} the error does not fall (J section 5.2.2, figure 9)",
                    pair[0].name, pair[1].name
                ),
                holds: violations.is_empty(),
                comparisons: dimensions.len() as u64,
                detail: format!(
                    "it falls by more than two standard errors at {} of {} points",
                    violations.len(),
                    dimensions.len()
                ),
                violations,
            }
        })
        .collect()
}

/// Tanh does as sigmoid does and relu no better, two errors of the means allowed.
fn similar(document: &Document, of: &str, dimensions: &[usize]) -> Vec<Check> {
    let Some(sigmoid) = document.curve(&format!("sigmoid{of}")) else { return Vec::new() };
    let others = ["relu", "tanh"].iter().filter_map(|name| Some((*name, document.curve(&format!("{name}{of}"))?)));
    others
        .map(|(name, other)| {
            let violations: Vec<String> = (0..dimensions.len())
                .filter(|&i| {
                    let (away, allowed) = (other.mean[i] - sigmoid.mean[i], 2.0 * spread(other, sigmoid, i));
                    -away > allowed || name == "tanh" && away > allowed
                })
                .map(|i| format!("d = {}: {:.4}, sigmoid {:.4}", dimensions[i], other.mean[i], sigmoid.mean[i]))
                .collect();
            let says = if name == "tanh" { "does as sigmoid does" } else { "errs as much as sigmoid or more" };
            Check {
                claim: format!("{} {says} (J section 5.2.2, figure 10)", other.name),
                holds: violations.is_empty(),
                comparisons: dimensions.len() as u64,
                detail: format!(
                    "not so by more than two standard errors at {} of {} points",
                    violations.len(),
                    dimensions.len()
                ),
                violations,
            }
        })
        .collect()
}

/// The standard error of a difference of two curves at a point.
fn spread(a: &Curve, b: &Curve, point: usize) -> f64 {
    let of = |curve: &Curve| curve.standard_error.as_ref().map_or(0.0, |errors| errors[point]);
    of(a).hypot(of(b))
}
