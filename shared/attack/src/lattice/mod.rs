//! The lattice attack: exact scores of a linear model determine features that lie on a grid.
//!
//! A score that is released as a double carries some 45 to 50 bits in each of k − 1 equations A x =
//! b'. Ages, amounts, pixels and categories lie on a known grid, so few grid points satisfy the
//! equations, often a single one. `docs/lattice.md` has the method and its limits.

mod axes;
mod decoder;
mod equations;
mod grids;
mod one_vs_rest;
mod precision;

use nalgebra::DMatrix;
use rand::Rng;
use vfl_core::types::ReleasedScores;
use vfl_defense::DefenseConfig;
use vfl_defense::policy::ReleaseKind;

use self::axes::Axes;
use self::decoder::{CoordinateMoments, DecodedRecord, Decoder};
use self::equations::{InterpretedRelease, ScoreEquations};
use super::adaptive::{Interval, KnownPolicy, strongest_on_one_release};
use super::entry::{Entry, Group};
use super::sizes::same;
use super::{
    AdversaryView, Attack, AttackError, FeatureKnowledge, GradientInversion, HalfStar, Moments,
    Need, Needs, Parameters, Point, Posterior, Prior, Reconstruction, RecordOutcome, Settings,
    StatedKnowledge, Status, Termination,
};

/// The most coordinates of a grid. With more, the reduction takes minutes.
const MOST_COORDINATES: usize = 128;
/// The least probability of a point that stands for its record. Below it, the mean of all points
/// that fit does.
const LIKELY: f64 = 0.5;

/// The attack that decodes records to points of the grid that their features lie on. Records that
/// no point or too many points fit get the estimate of another attack.
#[derive(Debug)]
pub struct Lattice {
    /// The grid, as far as it is known.
    pub knowledge: StatedKnowledge,
    /// The known policy.
    pub policy: KnownPolicy,
    /// The attack on the records that are not decoded.
    pub other: Box<dyn Attack>,
    /// The same if the scores are no softmax of linear outputs.
    pub descent: Box<dyn Attack>,
    /// The same for an adversary that knows moments of the features.
    pub informed: Box<dyn Attack>,
    /// True if it does not run without moments.
    pub needs_moments: bool,
}

pub(super) static LATTICE: Entry = Entry {
    settings: KnownPolicy::SETTINGS,
    ..Entry::new("lattice", Group::General, |settings| Box::new(Lattice::new(settings, false)))
};

pub(super) static INFORMED_LATTICE: Entry = Entry {
    settings: KnownPolicy::SETTINGS,
    ..Entry::new("informed_lattice", Group::Informed, |settings| {
        Box::new(Lattice::new(settings, true))
    })
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
        let posterior =
            Posterior { evidence: evidence(), point: Point::Mean, moments: Moments::Joint };
        Self {
            other: evidence(),
            descent: Box::new(GradientInversion::default()),
            informed: Box::new(posterior),
            knowledge,
            policy,
            needs_moments,
        }
    }

    /// Returns the released scores and how they are read, if the policy leaves equations; otherwise
    /// the reason why not.
    fn reading<'a>(&self, view: &AdversaryView<'a>) -> Result<InterpretedRelease<'a>, String> {
        let scores = match view.released() {
            Ok(ReleasedScores::Probabilities(scores) | ReleasedScores::Numbers(scores)) => scores,
            _ => return Err("no scores were released, which the lattice needs".into()),
        };
        let kept = |leaves| {
            matches!(
                leaves,
                ReleaseKind::Everything
                    | ReleaseKind::Scaled
                    | ReleaseKind::Rounded
                    | ReleaseKind::Largest
            )
        };
        if let Some(defense) =
            self.policy.policy.defenses.iter().find(|defense| !kept(defense.leaves()))
        {
            return Err(format!("{} leaves no equation that holds", defense.name()));
        }
        let stretch =
            self.policy.stretch().ok_or("the logits were changed in a way that is not known")?;
        let decimals = self.policy.policy.defenses.iter().find_map(|defense| match defense {
            DefenseConfig::Rounding { decimals } => i32::try_from(*decimals).ok(),
            _ => None,
        });
        if self.policy.policy.defenses.iter().any(|d| matches!(d, DefenseConfig::Bins { .. })) {
            return Err("bins leave no equation that holds".into());
        }
        Ok(InterpretedRelease { scores, stretch, decimals })
    }

    /// Returns the knowledge of the features in units of their ranges. The register scales the
    /// attack to these, and leaves out features that are the same in all records.
    fn known(&self, view: &AdversaryView<'_>) -> Result<FeatureKnowledge, AttackError> {
        let d = view.target_features();
        let stated = self.knowledge.lower.len().max(self.knowledge.upper.len());
        let known = self.knowledge.about(if stated > 1 { stated } else { d })?.in_units()?;
        known.fits(d)?;
        Ok(known)
    }

    /// Returns the factor by which the equations are wider than their rounding. Estimated
    /// parameters miss the scores of the known records, which shows it.
    fn wider(
        view: &AdversaryView<'_>,
        reading: InterpretedRelease<'_>,
    ) -> Result<f64, AttackError> {
        let Some(auxiliary) = view.side_information().auxiliary else { return Ok(1.0) };
        let (ReleasedScores::Probabilities(scores) | ReleasedScores::Numbers(scores)) =
            auxiliary.released()
        else {
            return Ok(1.0);
        };
        let known = AdversaryView::of_auxiliary(view.model(), auxiliary)?;
        InterpretedRelease { scores, ..reading }.misfit(&known, auxiliary.passive().matrix())
    }

    /// Returns the moments of the coordinates of each record.
    fn moments(
        prior: Option<&Prior>,
        view: &AdversaryView<'_>,
        axes: &Axes,
    ) -> Result<Option<CoordinateMoments>, AttackError> {
        let Some(prior) = prior else { return Ok(None) };
        same("moments", "features", view.target_features(), prior.features())?;
        let (means, covariance) = prior.given(view.active().matrix())?;
        let (means, covariance) = axes.moments(&means, &covariance);
        Ok(Some(CoordinateMoments { means, covariance }))
    }

    /// Returns the other attack's estimates, with the reason in words.
    fn instead(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
        why: String,
    ) -> Result<Reconstruction, AttackError> {
        let mut found = self.otherwise(view, rng)?;
        found.remarks.push(format!("no record was decoded: {why}"));
        found.certain = vec![false; view.records()];
        Ok(found)
    }

    /// Runs the attack on records that are not decoded.
    fn otherwise(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        if view.side_information().prior.is_some() {
            return self.informed.reconstruct(view, rng);
        }
        match self.other.reconstruct(view, rng) {
            Err(AttackError::NotLinear) if view.model().needs_tangents() => {
                self.descent.reconstruct(view, rng)
            }
            found => found,
        }
    }
}

impl Attack for Lattice {
    fn needs(&self) -> Needs {
        let prior = if self.needs_moments { Need::Yes } else { Need::IfThere };
        // One-vs-rest models have no equations of this form, and are decoded all the same.
        Needs { prior, parameters: Parameters::Differentiable, ..Needs::EQUATIONS }
    }

    /// Decodes the records, and runs another attack on the rest.
    ///
    /// # Errors
    /// [`AttackError::NeedsParameters`] in the black box, [`AttackError::NotLinear`] for networks,
    /// [`AttackError::Knowledge`] if the grid is of other features, and those of the other attacks.
    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let tangents = view.model().needs_tangents();
        view.model().output_weights()?;
        let knowledge = self.known(view)?;
        let reading = match self.reading(view) {
            Ok(reading) => reading,
            Err(why) => return self.instead(view, rng, why),
        };
        let wider = if tangents { 1.0 } else { Self::wider(view, reading)? };
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
                let equations = view.model().classes().max(2) - 1;
                if axes.free().len() >= equations {
                    return Err(format!(
                        "{} features are on no grid that is known, and there are {equations} equations",
                        axes.free().len()
                    ));
                }
                let failed = |e: AttackError| e.to_string();
                if tangents {
                    let moments = Self::moments(view.side_information().prior, view, axes);
                    let moments = moments.map_err(failed)?;
                    return one_vs_rest::decode(
                        view,
                        reading,
                        axes,
                        moments.as_ref(),
                        tries,
                        records,
                    );
                }
                let equations = ScoreEquations::new(view, reading, axes, wider).map_err(failed)?;
                let moments =
                    Self::moments(view.side_information().prior, view, axes).map_err(failed)?;
                let decoder = Decoder::new(axes, &equations, moments.as_ref(), tries)
                    .map_err(|e| e.to_string())?;
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
            Ok(decoded) => self.estimates(view, rng, &decoded, remarks),
            Err(why) => self.instead(view, rng, why),
        }
    }
}

impl Lattice {
    fn estimates(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
        decoded: &[DecodedRecord],
        mut remarks: Vec<String>,
    ) -> Result<Reconstruction, AttackError> {
        let point =
            |d: &DecodedRecord| d.point.clone().filter(|_| d.certain || d.probability >= LIKELY);
        let of = |d: &DecodedRecord| point(d).or_else(|| d.mean.clone());
        let (mut estimates, otherwise) = if decoded.iter().all(|d| of(d).is_some()) {
            (DMatrix::zeros(view.target_features(), view.records()), Vec::new())
        } else {
            let otherwise = self.otherwise(view, rng)?;
            (otherwise.estimates, otherwise.outcomes)
        };
        for (mut column, x) in estimates.column_iter_mut().zip(decoded.iter().map(of)) {
            if let Some(x) = x {
                column.copy_from(&x);
            }
        }
        let certain: Vec<bool> = decoded.iter().map(|d| d.certain).collect();
        let count = |of: &dyn Fn(&DecodedRecord) -> bool| decoded.iter().filter(|d| of(d)).count();
        let (sure, likely) =
            (count(&|d| d.certain), count(&|d| !d.certain && d.probability >= LIKELY));
        remarks.push(format!(
            "of {} records {sure} decode to one grid point for certain, {likely} more likely",
            decoded.len()
        ));
        // A record that was not decoded has the other attack's outcome, if there is one.
        let outcome = |(j, d): (usize, &DecodedRecord)| match (of(d).is_some(), otherwise.get(j)) {
            (false, Some(outcome)) => *outcome,
            _ => RecordOutcome {
                ended: Termination::Solved,
                iterations: 0,
                objective: if d.misfit.is_finite() { d.misfit } else { 0.0 },
            },
        };
        let outcomes = decoded.iter().enumerate().map(outcome).collect();
        let solved = match view.model().needs_tangents() {
            true => {
                let rank = view.target_features().min(view.model().classes() - 1);
                Reconstruction::new(estimates, Status::GridPoint { rank })
            }
            false => Reconstruction::solving(view, estimates, |rank| Status::GridPoint { rank })?,
        };
        Ok(Reconstruction { outcomes, certain, remarks, ..solved })
    }
}
