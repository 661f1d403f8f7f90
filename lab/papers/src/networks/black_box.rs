//! J figures 11b and 13: perceptrons whose parameters the adversary does not know. It trains a
//! shadow on records that it knows with all features, and attacks through it.

use nalgebra::DMatrix;
use vfl_attack::{
    Architecture as Guess, Descent, KnownModel, NetworkTraining, ShadowBias, ShadowFit, fit_shadow,
};

use super::super::curve_spec::CurveSpec;
use super::super::document::{Check, CheckKind, Document};
use super::super::experiment_model::{ExperimentModel, Purpose, generator};
use super::super::{Figure, Options, ReproduceError};
use super::checks::SplitErrors;
use super::line::{NetworkCurve, Shadow, converged, of_paper};
use super::split::{Architecture, Split, passive_parameters};

impl Shadow {
    fn fit(self) -> ShadowFit {
        if self.printed { ShadowFit::Gradient(Descent::default()) } else { ShadowFit::LeastSquares }
    }
}

/// The curves of figure 11b, with J's settings.
const SHARES: [(&str, &str, f64); 4] = [
    ("shadow_0.1_tau", "shadow_0.1_tau_converged", 0.1),
    ("shadow_0.25_tau", "shadow_0.25_tau_converged", 0.25),
    ("shadow_0.5_tau", "shadow_0.5_tau_converged", 0.5),
    ("shadow_tau", "shadow_tau_converged", 1.0),
];

/// The curves of figure 13, by the number of hidden layers. Two layers are those of the true model.
const GUESSES: [(&str, &str, usize); 4] = [
    ("linear", "linear_converged", 0),
    ("one_layer", "one_layer_converged", 1),
    ("two_layers", "two_layers_converged", 2),
    ("three_layers", "three_layers_converged", 3),
];

/// The bound for what J calls "close" to the white box: the error exceeds it by at most this share
/// of the way to a random guess.
const CLOSE: f64 = 0.1;

/// Returns the attacks of a figure: J's gradient inversion through shadows fitted by divergences,
/// ours through shadows fitted by squared log-ratios, the white box of both, and the guesses.
pub(super) fn lines(figure: Figure, options: &Options) -> Vec<NetworkCurve> {
    let shadows: [(&str, &str, Shadow); 4] = match figure {
        Figure::JFig13 => GUESSES.map(|(printed, converged, layers)| {
            (printed, converged, Shadow { layers, share: 1.0, printed: true })
        }),
        _ => SHARES.map(|(printed, converged, share)| {
            (printed, converged, Shadow { layers: 2, share, printed: true })
        }),
    };
    let line = |wanted, shadow| NetworkCurve { architecture: Architecture::J, wanted, shadow };
    let through = shadows.into_iter().flat_map(|(printed, ours, shadow)| {
        [
            line(of_paper(printed, options), Some(shadow)),
            line(converged(ours, options), Some(Shadow { printed: false, ..shadow })),
        ]
    });
    let others = [
        of_paper("white_box", options),
        converged("white_box_converged", options),
        CurveSpec::new("half"),
        CurveSpec::new("random"),
    ];
    through.chain(others.into_iter().map(|wanted| line(wanted, None))).collect()
}

/// Records that an adversary may know with all features: test records that are not attacked.
pub(super) struct BlackBox {
    /// The records, d_t × m.
    records: DMatrix<f64>,
    /// The number of parameters of the passive party's part, if it held all features.
    parameters: usize,
    classes: usize,
    seed: u64,
}

impl BlackBox {
    /// Draws the records that the largest shadow needs.
    ///
    /// # Errors
    /// [`ReproduceError::NoneLeft`] if too few test records are left.
    pub(super) fn new(
        subject: &ExperimentModel,
        options: &Options,
        shadows: &[Option<Shadow>],
    ) -> Result<Self, ReproduceError> {
        let parameters =
            passive_parameters(Architecture::J, subject.classes(), subject.features())?;
        let (classes, seed) = (subject.classes(), options.seed);
        let mut found = Self { records: DMatrix::zeros(0, 0), parameters, classes, seed };
        let most = shadows.iter().flatten().map(|shadow| found.count(*shadow)).max().unwrap_or(0);
        found.records = subject.left_out(options.records, options.seed, most)?;
        Ok(found)
    }

    /// Returns τ of J (22), with all features passive (section 5.3).
    fn tau(&self) -> f64 {
        self.parameters as f64 / self.classes as f64
    }

    /// Returns the number of records of a shadow.
    fn count(&self, shadow: Shadow) -> usize {
        ((shadow.share * self.tau()).ceil() as usize).max(1)
    }

    /// Fits a shadow in place of the passive party's part of a split. A smaller set of records is a
    /// prefix of a larger one.
    pub(super) fn fit(&self, split: &Split, shadow: Shadow) -> Result<KnownModel, ReproduceError> {
        let (d, k0) = (split.d, split.k0);
        let off = |error| ReproduceError::Attack { curve: "the shadow".into(), d, k0, error };
        let mut rng = generator(self.seed, Purpose::Auxiliary, (d as u64) << 20 | k0 as u64);
        let all = rand::seq::index::sample(
            &mut rng,
            self.records.ncols(),
            self.count(Shadow { share: 1.0, ..shadow }),
        );
        let drawn: Vec<usize> = all.iter().take(self.count(shadow)).collect();
        let (hidden, auxiliary) = split.black_box(&self.records.select_columns(&drawn))?;
        let guess = Guess { hidden: vec![8; shadow.layers], ..Guess::default() };
        let fit = shadow.fit();
        let training = NetworkTraining::of(fit);
        let fitted = fit_shadow(
            &hidden,
            &auxiliary,
            &guess,
            (fit, ShadowBias::Unknown),
            &training,
            &mut rng,
        )
        .map_err(off)?;
        fitted.in_place(&hidden).map_err(off)
    }

    /// Adds the number and source of the records to the document.
    pub(super) fn tell(&self, document: &mut Document, shadows: &[Option<Shadow>]) {
        for (attack, shadow) in document.attacks.iter_mut().zip(shadows) {
            let Some(shadow) = shadow else { continue };
            let guess = Guess { hidden: vec![8; shadow.layers], ..Guess::default() };
            attack.settings.insert("auxiliary_records".into(), self.count(*shadow).to_string());
            attack.settings.insert("shadow".into(), guess.to_string());
            let fit = if shadow.printed { "gradient" } else { "least_squares" };
            attack.settings.insert("shadow_fit".into(), fit.into());
        }
        document.notes.push(format!(
            "τ = {} parameters / {} classes = {:.1} auxiliary records (J (22), with all features passive); they are test records that are \
             not attacked, as J has it, and the smaller shares are the first of the same draw",
            self.parameters,
            self.classes,
            self.tau()
        ));
        let ours = NetworkTraining::of(ShadowFit::LeastSquares);
        let printed = NetworkTraining::of(ShadowFit::Gradient(Descent::default()));
        document.notes.push(format!(
            "shadows: Adam on all records, {} steps from a rate of {} down to a hundredth of it, the best of {} starts by the loss; by \
             divergences with penalty {} for the curves of J's settings, by squared log-ratios with penalty {} for the others. J does not \
             say how many steps its shadows are trained for, nor at which rate",
            ours.steps, ours.learning_rate, ours.starts, printed.l2, ours.l2
        ));
    }
}

/// Figure 11b: more records do not do worse; from a quarter of τ they do as well as the white box;
/// all do better than a random guess.
pub(super) fn by_number(found: &SplitErrors<'_>, document: &Document) -> Vec<Check> {
    let names = |of: &str| SHARES.map(|(name, _, share)| (format!("{name}{of}"), share));
    let mut checks = Vec::new();
    for of in ["", "_converged"] {
        let (names, white) = (names(of), format!("white_box{of}"));
        checks.extend(names.windows(2).filter_map(|pair| {
            let (few, many) = (pair[0].0.as_str(), pair[1].0.as_str());
            let claim = format!(
                "from {few} to {many} the error does not rise (J section 5.3, figure 11b; two standard errors of the difference allowed)"
            );
            found.compare(document, (many, few), claim, |d| d.mean > 2.0 * d.standard_error)
        }));
        checks.extend(names.iter().filter(|(_, share)| *share >= 0.25).filter_map(|(name, _)| {
            let claim = format!(
                "{name}: an error close to that of the white box (J section 5.3, figure 11b; here: at most a tenth of the way to a random \
                 guess)"
            );
            found.close(document, name, &white, claim)
        }));
        checks.extend(names.iter().filter_map(|(name, _)| {
            let claim = format!(
                "{name}: an error smaller than that of a random guess (J section 5.3, figure 11b)"
            );
            found.compare(document, (name, "random"), claim, |d| d.mean >= 0.0)
        }));
    }
    checks
}

/// Figure 13: the true architecture does best, a linear shadow worst; one layer does about as well
/// as two, three do worse.
pub(super) fn by_architecture(found: &SplitErrors<'_>, document: &Document) -> Vec<Check> {
    let mut checks = Vec::new();
    for of in ["", "_converged"] {
        let [linear, one, two, three] = GUESSES.map(|(name, _, _)| format!("{name}{of}"));
        let worst = [&one, &two].into_iter().filter_map(|other| {
            let claim = format!(
                "{linear} has a larger error than {other} (J section 5.3.2, figure 13: \"usually\")"
            );
            found.compare(document, (&linear, other), claim, |d| d.mean <= 0.0)
        });
        checks.extend(worst);
        let best = [&one, &three].into_iter().filter_map(|other| {
            let claim = format!(
                "{two}, the true architecture, has no larger error than {other} (J section 5.3.2, figure 13; two standard errors of the \
                 difference allowed)"
            );
            found.compare(document, (&two, other), claim, |d| d.mean > 2.0 * d.standard_error)
        });
        checks.extend(best);
        let degrade = format!(
            "{three} has a larger error than {two} (J section 5.3.2, figure 13: it \"can degrade\")"
        );
        checks.extend(found.compare(document, (&three, &two), degrade, |d| d.mean <= 0.0));
        let white = format!("white_box{of}");
        let close = format!(
            "{two}: an error close to that of the white box with τ records (J section 5.3; here: at most a tenth of the way to a random \
             guess)"
        );
        checks.extend(found.close(document, &two, &white, close));
    }
    checks
}

impl SplitErrors<'_> {
    /// Checks that the error of `name` exceeds that of `white` by at most [`CLOSE`] of the way to a
    /// random guess.
    fn close(&self, document: &Document, name: &str, white: &str, claim: String) -> Option<Check> {
        let (shadow, white, random) =
            (document.curve(name)?, document.curve(white)?, document.curve("random")?);
        let off = |i: &usize| {
            let way = (random.mean[*i] - white.mean[*i]).abs();
            shadow.mean[*i] - white.mean[*i] > CLOSE * way
        };
        let points = shadow.mean.len();
        let violations: Vec<String> = (0..points)
            .filter(off)
            .map(|i| {
                let (d, a, b) = (document.axis.points[i], shadow.mean[i], white.mean[i]);
                format!("d = {d}: {name} {a:.4}, white box {b:.4}, random {:.4}", random.mean[i])
            })
            .collect();
        Some(Check {
            id: format!("{name}_close_to_white_box"),
            kind: CheckKind::Paper,
            claim,
            holds: violations.is_empty(),
            comparisons: points as u64,
            detail: format!("not so at {} of {} points", violations.len(), points),
            violations,
        })
    }
}
