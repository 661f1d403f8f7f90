//! Attacks of an adversary that knows moments. Another attack derives evidence from the scores,
//! which is combined with the Gaussian of these moments.

use nalgebra::{DMatrix, DVector};
use rand::Rng;
use rayon::prelude::*;
use vfl_core::types::ReleasedScores;
use vfl_numerics::{
    ActiveSet, BoxSolution, ConfinedGaussian, FactoredCovariance, GaussianSystem, NearestOutcome,
    PseudoInverse,
};

use super::mixture::log_determinant;
use super::moments_setting::MOMENTS;
use super::noisy_posterior::{self, FeaturePrior, LinearRelease};
use super::tangent::{Descents, Tangent, check_features, through_network};
use super::{Moments, Point};
use crate::cells::{Noise, confine};
use crate::second_order::{self, Fit, FittedPoint, FittedRecord, Starts};
use crate::{
    AdversaryView, AnySetting, Attack, AttackError, Base, BaseChoice, Cells, Entry, Equations,
    Evidence, Fits, Group, Need, Needs, Parameters, Reconstruction, RecordOutcome, Settings,
    Status, Termination,
};

/// The most points that have a record's scores, beside the mean, to begin at.
const LIKELY_STARTS: usize = 4;

/// An attack that combines the evidence of another attack with the prior of the view.
#[derive(Debug)]
pub struct Posterior {
    /// The attack that gives the evidence.
    pub evidence: Box<dyn Attack>,
    /// The point that is the estimate.
    pub point: Point,
    /// The moments that it uses.
    pub moments: Moments,
}

/// The Gaussian of the features of records through networks.
struct KnownFeatures<'a> {
    means: &'a DMatrix<f64>,
    /// The means in the box, d × n.
    clipped: DMatrix<f64>,
    /// The inverse of the covariance.
    metric: DMatrix<f64>,
    /// L of the covariance L Lᵀ.
    factor: DMatrix<f64>,
    /// The projector on the directions in which features vary.
    varying: DMatrix<f64>,
}

impl<'a> KnownFeatures<'a> {
    fn new(means: &'a DMatrix<f64>, covariance: &DMatrix<f64>) -> Result<Self, AttackError> {
        let metric = PseudoInverse::new(covariance)?.matrix;
        Ok(Self {
            means,
            clipped: means.map(|v| v.clamp(0.0, 1.0)),
            varying: covariance * &metric,
            factor: FactoredCovariance::new(covariance)?.factor().clone(),
            metric,
        })
    }

    /// Returns the squared distance of a point to the mean, in deviations.
    fn distance(&self, record: usize, x: &DVector<f64>) -> f64 {
        let away = x - self.means.column(record);
        away.dot(&(&self.metric * &away))
    }

    /// Returns the points that starts around the means lead to.
    fn points(
        &self,
        view: &AdversaryView<'_>,
        fits: &[Fit],
        rng: &mut dyn Rng,
    ) -> Result<Vec<Vec<FittedPoint>>, AttackError> {
        let starts = Starts { centre: &self.clipped, factor: Some(&self.factor) };
        second_order::points(view, fits, &starts, rng)
    }

    /// Returns the likeliest of a record's points that `counts`, apart from each other, without the
    /// directions in which no feature varies.
    fn starts(
        &self,
        record: usize,
        points: &[FittedPoint],
        counts: impl Fn(&FittedPoint) -> bool,
    ) -> Vec<DVector<f64>> {
        let mut likely: Vec<_> = points
            .iter()
            .filter(|point| counts(point))
            .map(|point| (self.distance(record, &point.x), &point.x))
            .collect();
        likely.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut starts: Vec<DVector<f64>> = Vec::new();
        for (_, x) in likely {
            let mean = self.means.column(record);
            let within = (mean + &self.varying * (x - mean)).map(|v| v.clamp(0.0, 1.0));
            let is_new = starts.iter().all(|other| (other - &within).amax() > 1e-3);
            if is_new && starts.len() < LIKELY_STARTS {
                starts.push(within);
            }
        }
        starts
    }
}

/// The evidence of the strongest attack on the known policy, or the equations of undefended scores.
const EVIDENCE: Base = Base { name: evidence, chosen: BaseChoice::Evidence, unclipped: false };

fn evidence(settings: &Settings) -> &'static str {
    crate::adaptive::strongest_on_one_release(settings).unwrap_or("half_star")
}

static SETTINGS: [&dyn AnySetting; 1] = [&MOMENTS];

const fn entry(
    name: &'static str,
    build: fn(&Settings, Box<dyn Attack>) -> Box<dyn Attack>,
) -> Entry {
    // The register scales ranges to [0, 1], and the prior with them.
    Entry {
        informed: false,
        settings: &SETTINGS,
        ..Entry::upon(name, Group::Informed, EVIDENCE, build)
    }
}

pub(crate) static CONDITIONAL_MEAN: Entry = entry("conditional_mean", |settings, evidence| {
    Box::new(Posterior { evidence, point: Point::Unconfined, moments: settings.into() })
});

pub(crate) static GAUSSIAN: Entry = entry("gaussian", |settings, evidence| {
    Box::new(Posterior { evidence, point: Point::Likeliest, moments: settings.into() })
});

pub(crate) static POSTERIOR_MEAN: Entry = entry("posterior_mean", |settings, evidence| {
    Box::new(Posterior { evidence, point: Point::Mean, moments: settings.into() })
});

impl Attack for Posterior {
    fn needs(&self) -> Needs {
        let evidence = self.evidence.needs();
        // For networks the equations are those of tangents.
        let parameters = match evidence.parameters {
            Parameters::Hidden => Parameters::Hidden,
            Parameters::Linear | Parameters::Differentiable => Parameters::Differentiable,
        };
        Needs { prior: Need::Yes, parameters, ..evidence }
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let prior = self.moments.of(view)?;
        let (means, covariance) = prior.given(view.active().matrix())?;
        let tangents = view.model().needs_tangents();
        let found = match self.evidence.reconstruct(view, rng) {
            // Orders of outputs are evidence under every link of classes.
            Err(
                AttackError::NotLinear | AttackError::Policy { .. } | AttackError::Steps { .. },
            ) if tangents => {
                let fits = second_order::as_exact(&view.scores()?);
                return self.through_network(view, &fits, (&means, &covariance), rng);
            }
            found => found?,
        };
        let (estimates, outcomes) = match &found.evidence {
            Evidence::Nothing => return Err(AttackError::NoEvidence),
            Evidence::Equations(equations) => {
                self.under_equations(equations, &means, &covariance)?
            }
            Evidence::Cells(cells) => self.by_record(&means, |record, mean, work| {
                self.in_cell(cells, record, mean, &covariance, work)
            })?,
            Evidence::NoisyScores(scores) => {
                let metric = PseudoInverse::new(&covariance)?.matrix;
                self.by_record(&means, |record, mean, work| {
                    let prior = FeaturePrior { mean, covariance: &covariance, metric: &metric };
                    let mut release = LinearRelease::new(scores, record);
                    Ok(noisy_posterior::estimate(&mut release, &prior, [], self.point, work))
                })?
            }
            Evidence::Fits(fits) if fits.are_exact() => {
                return self.through_network(view, &fits.0, (&means, &covariance), rng);
            }
            Evidence::Fits(Fits(fits)) => {
                check_features(means.nrows())?;
                let known = KnownFeatures::new(&means, &covariance)?;
                let points = known.points(view, fits, rng)?;
                let model = view.differentiable()?;
                let sizes = (means.nrows(), view.model().classes());
                self.by_record(&means, |record, mean, work| {
                    let mut release = FittedRecord::new(&*model, (record, &fits[record]), sizes);
                    let prior =
                        FeaturePrior { mean, covariance: &covariance, metric: &known.metric };
                    let starts = known.starts(record, &points[record], |_| true);
                    Ok(noisy_posterior::estimate(&mut release, &prior, starts, self.point, work))
                })?
            }
        };
        if tangents {
            let status = Status::Posterior { rank: means.nrows().min(view.model().classes() - 1) };
            return Ok(Reconstruction { estimates, status, outcomes, ..found });
        }
        let solved = view.linear()?.solved(&estimates, view.b_prime()?);
        let rank = solved.rank;
        let status = if solved.nullity == 0 { Status::Unique } else { Status::Posterior { rank } };
        Ok(Reconstruction { estimates, status, solved: Some(solved), outcomes, ..found })
    }
}

impl Posterior {
    /// Reconstructs from tangents: from the means, and from the likeliest points that have the
    /// scores. These are taken for exact.
    fn through_network(
        &self,
        view: &AdversaryView<'_>,
        fits: &[Fit],
        (means, covariance): (&DMatrix<f64>, &DMatrix<f64>),
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        if let released @ ReleasedScores::Labels { .. } = view.released()? {
            return Err(AttackError::unfit("a posterior along tangents", "scores", released));
        }
        check_features(means.nrows())?;
        let factored = FactoredCovariance::new(covariance)?;
        let known = KnownFeatures::new(means, covariance)?;
        let points = match second_order::check_work(view) {
            Ok(()) => known.points(view, fits, rng)?,
            Err(_) => vec![Vec::new(); view.records()],
        };
        let starts = |record: usize| {
            let mean = known.clipped.column(record).into_owned();
            let found = known.starts(record, &points[record], |point| point.solved);
            std::iter::once(mean).chain(found).collect()
        };
        let cost = |record: usize, x: &DVector<f64>, tangent: &Tangent| {
            known.distance(record, x) + log_determinant(&tangent.slopes, covariance, 0.0)
        };
        let distance = |record: usize, x: &DVector<f64>, _: &Tangent| known.distance(record, x);
        let solve = |record: usize, tangent: &Tangent| {
            let system = GaussianSystem::under(&tangent.slopes, &factored)?;
            let mean = means.columns(record, 1).into_owned();
            let (x, _) = self.solve(&system, &mean, &tangent.right);
            Ok(x.column(0).into_owned())
        };
        let mixes = self.point == Point::Mean;
        let descents = Descents {
            starts: &starts,
            solve: &solve,
            cost: if mixes { &cost } else { &distance },
            mixes,
        };
        let (estimates, outcomes) = through_network(view, fits, &descents)?;
        let rank = view.target_features().min(view.model().classes() - 1);
        Ok(Reconstruction {
            outcomes,
            ..Reconstruction::new(estimates, Status::Posterior { rank })
        })
    }

    fn under_equations(
        &self,
        Equations { a, b_prime }: &Equations,
        means: &DMatrix<f64>,
        covariance: &DMatrix<f64>,
    ) -> Result<(DMatrix<f64>, Vec<RecordOutcome>), AttackError> {
        Ok(self.solve(&GaussianSystem::new(a, covariance)?, means, b_prime))
    }

    fn solve(
        &self,
        system: &GaussianSystem,
        means: &DMatrix<f64>,
        right: &DMatrix<f64>,
    ) -> (DMatrix<f64>, Vec<RecordOutcome>) {
        let BoxSolution { x, outcomes } = match self.point {
            Point::Unconfined => return (system.conditional_mean(means, right), Vec::new()),
            Point::Likeliest => system.likeliest_in_box(means, right),
            Point::Mean => system.posterior_mean(means, right),
        };
        (x, outcomes.iter().map(RecordOutcome::from).collect())
    }

    /// Runs `one` on every record, with working memory for each thread.
    fn by_record(
        &self,
        means: &DMatrix<f64>,
        one: impl Fn(
            usize,
            DVector<f64>,
            &mut ActiveSet,
        ) -> Result<(DVector<f64>, Termination), AttackError>
        + Sync,
    ) -> Result<(DMatrix<f64>, Vec<RecordOutcome>), AttackError> {
        let found: Vec<_> = (0..means.ncols())
            .into_par_iter()
            .map_init(ActiveSet::default, |work, record| {
                one(record, means.column(record).into_owned(), work)
            })
            .collect::<Result<_, _>>()?;
        let mut estimates = means.clone();
        let mut outcomes = Vec::with_capacity(found.len());
        for (mut column, (x, ended)) in estimates.column_iter_mut().zip(found) {
            for (to, x) in column.iter_mut().zip(x.iter()) {
                *to = x.clamp(0.0, 1.0);
            }
            outcomes.push(RecordOutcome { ended, iterations: 0, objective: 0.0 });
        }
        Ok((estimates, outcomes))
    }

    /// Estimates one record from the posterior in its cell. Only the bounds count: the likelihood
    /// in a cell assumes uniform features, and the prior knows better. (On satellite, with rounding
    /// to two decimals, it made the attack worse than its control.)
    fn in_cell(
        &self,
        cells: &Cells,
        record: usize,
        mean: DVector<f64>,
        covariance: &DMatrix<f64>,
        work: &mut ActiveSet,
    ) -> Result<(DVector<f64>, Termination), AttackError> {
        if self.point == Point::Unconfined {
            let (attack, expected) = ("conditional_mean", "equations or noisy scores");
            return Err(AttackError::Unfit { attack, expected, got: "bounds" });
        }
        let d = mean.len();
        let set = cells.polytope(record);
        let mut confined = ConfinedGaussian::new(mean, covariance.clone());
        cells.observe(record, &mut confined);
        if set.unknowns() > d {
            // The length of the noise may be anything in its range.
            let (least, most) = set.bounds().nth(d).map_or((0.0, 0.0), |(_, ends)| ends);
            let width = if most.is_finite() {
                most - least
            } else {
                1e3 / Noise::SCALE * (1.0 + least.abs())
            };
            confined = confined.with_unknown(least + 0.5 * width, width);
        }
        confine(&mut confined, &set);
        let Some((likeliest, ended)) = confined.likeliest(work) else {
            return Err(AttackError::NotFinite { what: "the covariance of the features" });
        };
        let ended = match ended {
            NearestOutcome::Found => Termination::Solved,
            NearestOutcome::Empty => Termination::NearestConsistent,
            NearestOutcome::StepLimit => Termination::StepLimit,
        };
        let mut x = likeliest;
        if self.point == Point::Mean && ended == Termination::Solved {
            let found = confined.mean();
            if found.converged && set.misfit(found.x.as_slice()) < 1e-3 {
                x = found.x;
            }
        }
        Ok((x.rows(0, d).into_owned(), ended))
    }
}
