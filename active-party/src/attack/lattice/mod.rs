//! The adversary that can count: exact scores of a linear model fix features that lie on a grid.
//!
//! A score that is released as a double tells some 45 to 50 bits in each of k − 1 equations
//! A x = b'. Ages, amounts, pixels and categories lie on a known grid, so that few grid points
//! satisfy the equations, often a single one. `docs/lattice.md` has the method and its limits.

mod axes;
mod decoder;
mod equations;
mod grids;
mod precision;

use nalgebra::DMatrix;
use rand::Rng;
use vfl_shared::policy::Leaves;
use vfl_shared::types::ReleasedScores;

use self::axes::Axes;
use self::decoder::{CoordinateMoments, Decoded, Decoder};
use self::equations::ScoreEquations;
use super::adaptive::{Interval, KnownPolicy, strongest_on_one_release};
use super::entry::{Entry, Group};
use super::{
    AdversaryView, Attack, AttackError, Ended, FeatureKnowledge, HalfStar, Moments, Need, Needs, Point, Posterior,
    Prior, Reconstruction, RecordOutcome, Settings, StatedKnowledge, Status,
};

/// The most coordinates of a grid. Beyond, the reduction takes minutes.
const MOST_COORDINATES: usize = 128;
/// A point that is at least so likely stands for the record; otherwise the mean of all that fit does.
const LIKELY: f64 = 0.5;
/// Estimated parameters miss the scores of the known records by a spread; the others by at most so
/// many of these.
const SPREADS: f64 = 4.0;

/// Decodes records to points of the grid that their features lie on. Records that no point or too
/// many points fit get the estimate of another attack.
#[derive(Debug)]
pub struct Lattice {
    /// The grid, as far as it is known.
    pub knowledge: StatedKnowledge,
    /// What is known of the policy.
    pub policy: KnownPolicy,
    /// Estimates the records that are not decoded.
    pub other: Box<dyn Attack>,
    /// The same for an adversary that knows moments of the features.
    pub informed: Box<dyn Attack>,
    /// Whether it does not run without moments.
    pub needs_moments: bool,
}

/// `lattice`.
pub(super) static LATTICE: Entry = Entry {
    settings: KnownPolicy::SETTINGS,
    informed: true,
    ..Entry::new("lattice", Group::General, |settings| Box::new(Lattice::new(settings, false)))
};

/// `informed_lattice`.
pub(super) static INFORMED_LATTICE: Entry = Entry {
    settings: KnownPolicy::SETTINGS,
    informed: true,
    ..Entry::new("informed_lattice", Group::Informed, |settings| Box::new(Lattice::new(settings, true)))
};

impl Lattice {
    fn new(settings: &Settings, needs_moments: bool) -> Self {
        let (knowledge, policy) = (StatedKnowledge::from(settings), KnownPolicy::from(settings));
        let evidence = || -> Box<dyn Attack> {
            match strongest_on_one_release(settings) {
                Some("interval") => Box::new(Interval { known: policy.clone() }),
                _ => Box::new(HalfStar { clamped: true }),
            }
        };
        let posterior = Posterior { evidence: evidence(), point: Point::Mean, moments: Moments::Joint };
        Self {
            other: knowledge.wrap(evidence()),
            informed: knowledge.wrap(Box::new(posterior)),
            knowledge,
            policy,
            needs_moments,
        }
    }

    /// The released scores and the factor from differences of their logarithms to those of the
    /// logits, where the policy leaves both; `Err` says why it does not.
    fn scores<'a>(&self, view: &AdversaryView<'a>) -> Result<(&'a DMatrix<f64>, f64), String> {
        let scores = match view.released() {
            Ok(ReleasedScores::Probabilities(scores) | ReleasedScores::Numbers(scores)) => scores,
            _ => return Err("no scores were released, which the lattice needs".into()),
        };
        let kept = |leaves| matches!(leaves, Leaves::Everything | Leaves::Scaled | Leaves::Rounded | Leaves::Largest);
        if let Some(defense) = self.policy.policy.defenses.iter().find(|defense| !kept(defense.leaves())) {
            return Err(format!("{} leaves no equation that holds", defense.name()));
        }
        let stretch = self.policy.stretch().ok_or("the logits were changed in a way that is not known")?;
        Ok((scores, stretch))
    }

    /// What is known of the features, on ranges of [0, 1] where none are stated.
    fn known(&self, view: &AdversaryView<'_>) -> Result<FeatureKnowledge, AttackError> {
        Ok(self.knowledge.about(view.target_features())?)
    }

    /// The least half width of a logarithm: parameters that are estimates miss the scores of the
    /// records that are known.
    fn least_width(view: &AdversaryView<'_>, stretch: f64) -> f64 {
        let Some(auxiliary) = view.side_information().auxiliary else { return 0.0 };
        let Ok(known) = AdversaryView::of_auxiliary(view.model(), auxiliary) else { return 0.0 };
        let (Ok(system), Ok(b)) = (known.linear(), known.b_prime()) else { return 0.0 };
        if (stretch - 1.0).abs() > 0.0 {
            return 0.0;
        }
        let residual = system.matrix() * auxiliary.passive().matrix() - b;
        // Half of a difference's width for each of its two logarithms, with degrees of freedom spent.
        let n = residual.ncols() as f64;
        let spent = view.target_features() as f64 + 1.0;
        let mean = residual.norm_squared() / (residual.nrows() as f64 * n);
        let corrected = mean * (n / (n - spent).max(0.25));
        0.5 * SPREADS * corrected.sqrt()
    }

    /// Moments of the coordinates of each record.
    fn moments(
        prior: Option<&Prior>,
        view: &AdversaryView<'_>,
        axes: &Axes,
    ) -> Result<Option<CoordinateMoments>, AttackError> {
        let Some(prior) = prior else { return Ok(None) };
        let (means, covariance) = prior.given(view.active().matrix())?;
        let (means, covariance) = axes.moments(&means, &covariance);
        Ok(Some(CoordinateMoments { means, covariance }))
    }

    /// The other attack's estimates, with the reason in words.
    fn instead(&self, view: &AdversaryView<'_>, rng: &mut dyn Rng, why: String) -> Result<Reconstruction, AttackError> {
        let mut found = self.otherwise(view).reconstruct(view, rng)?;
        found.remarks.push(format!("no record was decoded: {why}"));
        found.certain = vec![false; view.records()];
        Ok(found)
    }

    fn otherwise(&self, view: &AdversaryView<'_>) -> &dyn Attack {
        if view.side_information().prior.is_some() { &*self.informed } else { &*self.other }
    }
}

impl Attack for Lattice {
    fn needs(&self) -> Needs {
        let prior = if self.needs_moments { Need::Yes } else { Need::IfThere };
        Needs { prior, ..Needs::WHITE_BOX }
    }

    /// # Errors
    /// [`AttackError::NeedsParameters`] in the black box, [`AttackError::NotLinear`] for networks,
    /// [`AttackError::Knowledge`] if the grid is of other features, and those of the other attacks.
    fn reconstruct(&self, view: &AdversaryView<'_>, rng: &mut dyn Rng) -> Result<Reconstruction, AttackError> {
        view.weights()?;
        let knowledge = self.known(view)?;
        let (scores, stretch) = match self.scores(view) {
            Ok(scores) => scores,
            Err(why) => return self.instead(view, rng, why),
        };
        let least = Self::least_width(view, stretch);
        let mut remarks = Vec::new();
        let decoded = grids::each(
            &knowledge,
            |axes, tries, records| {
                if axes.coordinates() > MOST_COORDINATES {
                    return Err(format!(
                        "the grid has {} coordinates, at most {MOST_COORDINATES} are decoded",
                        axes.coordinates()
                    ));
                }
                let failed = |e: AttackError| e.to_string();
                let equations = ScoreEquations::new(view, scores, axes, stretch, least).map_err(failed)?;
                let moments = Self::moments(view.side_information().prior, view, axes).map_err(failed)?;
                let decoder = Decoder::new(axes, &equations, moments.as_ref(), tries).map_err(|e| e.to_string())?;
                Ok(match records {
                    None => decoder.decode(view.records()),
                    // A grid with more points than the scores can tell apart makes nothing certain.
                    Some(_) if decoder.is_ambiguous() => Vec::new(),
                    Some(first) => decoder.decode(first.min(view.records())),
                })
            },
            &mut remarks,
        );
        match decoded {
            Ok((axes, decoded)) => self.estimates(view, rng, &axes, &decoded, remarks),
            Err(why) => self.instead(view, rng, why),
        }
    }
}

impl Lattice {
    fn estimates(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
        axes: &Axes,
        decoded: &[Decoded],
        mut remarks: Vec<String>,
    ) -> Result<Reconstruction, AttackError> {
        let point =
            |d: &Decoded| d.t.as_ref().filter(|_| d.certain || d.probability >= LIKELY).map(|t| axes.features(t));
        let of = |d: &Decoded| point(d).or_else(|| d.mean.clone());
        let mut estimates = if decoded.iter().all(|d| of(d).is_some()) {
            DMatrix::zeros(view.target_features(), view.records())
        } else {
            self.otherwise(view).reconstruct(view, rng)?.estimates
        };
        for (mut column, x) in estimates.column_iter_mut().zip(decoded.iter().map(of)) {
            if let Some(x) = x {
                column.copy_from(&x);
            }
        }
        let certain: Vec<bool> = decoded.iter().map(|d| d.certain).collect();
        let count = |of: &dyn Fn(&Decoded) -> bool| decoded.iter().filter(|d| of(d)).count();
        let (sure, likely) = (count(&|d| d.certain), count(&|d| !d.certain && d.probability >= LIKELY));
        remarks.push(format!(
            "of {} records {sure} decode to one grid point for certain, {likely} more likely",
            decoded.len()
        ));
        let outcome = |d: &Decoded| RecordOutcome {
            ended: if d.t.is_some() { Ended::Solved } else { Ended::NearestConsistent },
            iterations: 0,
            objective: if d.misfit.is_finite() { d.misfit } else { 0.0 },
        };
        let outcomes = decoded.iter().map(outcome).collect();
        let solved = Reconstruction::solving(view, estimates, |rank| Status::GridPoint { rank })?;
        Ok(Reconstruction { outcomes, certain, remarks, ..solved })
    }
}
