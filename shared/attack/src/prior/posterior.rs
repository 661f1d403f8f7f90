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

use super::moments_setting::MOMENTS;
use super::noisy_posterior::{self, FeaturePrior, LinearRelease};
use super::tangent::through_network;
use super::{Moments, Point};
use crate::cells::{Noise, confine};
use crate::second_order::{self, FittedRecord};
use crate::{
    AdversaryView, AnySetting, Attack, AttackError, Base, BaseChoice, Cells, Entry, Equations,
    Evidence, Fits, Group, Need, Needs, Parameters, Reconstruction, RecordOutcome, Settings,
    Status, Termination,
};

/// The most points that have a record's scores, beside the mean, to begin at.
const LIKELY_STARTS: usize = 2;

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
            Err(AttackError::NotLinear) if tangents => {
                return self.through_network(view, &means, &covariance, rng);
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
                return self.through_network(view, &means, &covariance, rng);
            }
            Evidence::Fits(Fits(fits)) => {
                let metric = PseudoInverse::new(&covariance)?.matrix;
                let model = view.differentiable()?;
                let sizes = (means.nrows(), view.model().classes());
                self.by_record(&means, |record, mean, work| {
                    let mut release = FittedRecord::new(&*model, (record, &fits[record]), sizes);
                    let prior = FeaturePrior { mean, covariance: &covariance, metric: &metric };
                    let start = found.estimates.column(record).into_owned();
                    Ok(noisy_posterior::estimate(&mut release, &prior, [start], self.point, work))
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
        means: &DMatrix<f64>,
        covariance: &DMatrix<f64>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        if let released @ ReleasedScores::Labels { .. } = view.released()? {
            return Err(AttackError::unfit("a posterior along tangents", "scores", released));
        }
        let factored = FactoredCovariance::new(covariance)?;
        let clipped = means.map(|v| v.clamp(0.0, 1.0));
        let metric = PseudoInverse::new(covariance)?.matrix;
        let distance = |record: usize, x: &DVector<f64>| {
            let away = x - means.column(record);
            away.dot(&(&metric * &away))
        };
        let points = match second_order::exact_fits(&view.scores()?) {
            Some(fits) if second_order::check_work(view).is_ok() => {
                second_order::points(view, &fits, &clipped, rng)?
            }
            _ => vec![Vec::new(); view.records()],
        };
        let starts = |record: usize| {
            let solved = points[record].iter().filter(|point| point.solved);
            let mut solved: Vec<_> =
                solved.map(|point| (distance(record, &point.x), &point.x)).collect();
            solved.sort_by(|a, b| a.0.total_cmp(&b.0));
            let likely = solved.into_iter().take(LIKELY_STARTS).map(|(_, x)| x.clone());
            std::iter::once(clipped.column(record).into_owned()).chain(likely).collect()
        };
        let (estimates, outcomes) = through_network(view, starts, distance, |record, tangent| {
            let system = GaussianSystem::under(&tangent.slopes, &factored)?;
            let mean = means.columns(record, 1).into_owned();
            let (x, _) = self.solve(&system, &mean, &tangent.right);
            Ok(x.column(0).into_owned())
        })?;
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
