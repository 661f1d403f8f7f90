//! Scores the attacks of one request.

use vfl_core::metrics::{AttributeFigures, attributes as of_schema};
use vfl_protocol::reconstruct::{AttackReport, NotRun};
use vfl_protocol::scoring::{ControlKind, ReportedCandidates, ReportedError};
use vfl_protocol::{EncodedEstimates, Refusal, require};

use super::attack_report::status;
use super::joint::{added_risk, joint, together};
use super::scoring::{Party, Scorings};
use crate::report::{AttackResult, AttributeResult, Status};

/// The reasons that an attack that ran has no error of its own.
const NOT_BEST: &str = "ran; only the error of the attack that came out best was asked for, to spend less of the budget";
const A_GUESS: &str =
    "guesses were not scored beside the two baselines, to spend less of the budget";

/// The attacks of one session, scored.
#[derive(Default)]
pub(super) struct AttackRound {
    pub(super) results: Vec<AttackResult>,
    /// The candidates that wait for the scoring: their places in `results`.
    waiting: Vec<(usize, Status)>,
    /// Remarks on clipped estimates.
    pub(super) said: Vec<String>,
    /// The control of the attacks, if any.
    control: Option<ControlEstimates>,
    /// The controls so far, with their figures by attribute from parties without noise.
    controls: Vec<(ControlEstimates, Vec<AttributeResult>)>,
}

/// A control: its name, and its estimates by party.
struct ControlEstimates {
    name: String,
    blocks: Vec<(String, EncodedEstimates)>,
}

/// The name of a control that is composed of the best control of each attribute.
const BEST_CONTROLS: &str = "best control of each attribute";

impl AttackRound {
    /// Takes the estimates of a control. If parties answer without noise, the errors of later
    /// attacks are compared with the control that errs least on each attribute
    /// ([`chosen_by_the_other_half`]), and their counts with the best that any control reached.
    /// With noise both are compared with the first control.
    ///
    /// # Errors
    /// [`Refusal`] if a party does not score, or if its estimates are missing.
    pub(super) async fn compare_with(
        &mut self,
        scorings: &mut Scorings,
        name: String,
        found: AttackReport,
    ) -> Result<(), Refusal> {
        let rebuilt = match found.outcome {
            Ok(rebuilt) => rebuilt,
            Err(NotRun { why, reason }) => {
                self.results.push(AttackResult::not_run(name, why, reason));
                return Ok(());
            }
        };
        let status = status(&rebuilt);
        let given = ControlEstimates { name, blocks: rebuilt.blocks };
        if scorings.frugal() {
            self.control.get_or_insert(given);
            return Ok(());
        }
        let (mut told, mut figures) = (Vec::new(), Vec::new());
        for party in scorings.parties() {
            party.upload(given.of(party)?).await;
            let mut scored =
                party.score(ReportedCandidates::All, ControlKind::ColumnMean, 1).await?;
            let candidate = require("error", scored.errors.pop())?;
            figures.extend(by_attribute(party, candidate.attributes));
            told.push((party.name().to_owned(), candidate.error));
        }
        self.results.push(AttackResult::ran(given.name.clone(), status, joint(&told)));
        self.controls.push((given, figures));
        self.control = Some(chosen_by_the_other_half(&self.controls, scorings)?);
        Ok(())
    }

    /// Takes the estimates of one attack, called `name` in the report, to be scored at once or with
    /// the others.
    ///
    /// # Errors
    /// [`Refusal`] if a party does not score, or if its estimates are missing.
    pub(super) async fn add(
        &mut self,
        scorings: &mut Scorings,
        name: String,
        found: AttackReport,
    ) -> Result<(), Refusal> {
        let mut rebuilt = match found.outcome {
            Ok(rebuilt) => rebuilt,
            Err(NotRun { why, reason }) => {
                self.results.push(AttackResult::not_run(name, why, reason));
                return Ok(());
            }
        };
        let status = status(&rebuilt);
        let frugal = scorings.frugal();
        if frugal && status == Status::Guess {
            self.results.push(AttackResult::not_scored(name, status, A_GUESS));
            return Ok(());
        }
        let (mut told, mut clipped, mut values) = (Vec::new(), 0u64, 0u64);
        let (mut controls, mut gains, mut attributes) = (Vec::new(), Vec::new(), Vec::new());
        for party in scorings.parties() {
            let blocks = &mut rebuilt.blocks;
            let at = blocks.iter().position(|(of, _)| of == party.name());
            let (_, estimates) = at.map(|at| blocks.swap_remove(at)).ok_or_else(|| {
                Refusal::internal(format!("no estimates for passive party `{}` came", party.name()))
            })?;
            values += estimates.values();
            // With noise one control serves all candidates.
            if let Some(control) =
                self.control.as_ref().filter(|_| !frugal || self.waiting.is_empty())
            {
                party.upload_control(control.of(party)?).await;
            }
            party.upload(estimates).await;
            if !frugal {
                // An attack without a control is compared with the mean of each feature, by
                // attribute only.
                let control = if self.control.is_some() {
                    ControlKind::Given
                } else {
                    ControlKind::ColumnMean
                };
                let mut scored = party.score(ReportedCandidates::All, control, 1).await?;
                let candidate = require("error", scored.errors.pop())?;
                gains.push(candidate.gain);
                attributes.extend(by_attribute(party, candidate.attributes));
                controls.extend(scored.control.map(|told| (party.name().to_owned(), told)));
                clipped += scored.clipped.iter().sum::<u64>();
                told.push((party.name().to_owned(), candidate.error));
            }
        }
        let result = if frugal {
            self.waiting.push((self.results.len(), status));
            AttackResult::not_scored(name, status, NOT_BEST)
        } else {
            self.clip(&name, clipped, values);
            self.tell_control(&controls);
            attributes.iter_mut().for_each(|result| beside_best(result, &self.controls));
            let added =
                self.control.as_ref().map(|c| added_risk(&c.name, &told, &controls, &gains));
            AttackResult::ran(name, status, joint(&told))
                .with_added_risk(added)
                .with_attributes(attributes)
        };
        let result = result
            .with_limits(rebuilt.nearest_consistent, rebuilt.step_limit)
            .with_certain(rebuilt.certain.map(u64::from));
        self.results.push(result.with_score_mismatch(rebuilt.score_mismatch));
        Ok(())
    }

    /// Lists the control with its errors before the attacks, once they are known.
    fn tell_control(&mut self, told: &[(String, ReportedError)]) {
        let Some(ControlEstimates { name, .. }) = &self.control else { return };
        if !told.is_empty() && self.results.iter().all(|r| r.name != *name) {
            self.results.insert(0, AttackResult::ran(name.clone(), Status::Guess, joint(told)));
            self.waiting.iter_mut().for_each(|(place, _)| *place += 1);
        }
    }

    fn clip(&mut self, attack: &str, clipped: u64, of: u64) {
        if clipped > 0 {
            let percent = 100.0 * clipped as f64 / of.max(1) as f64;
            let percent =
                if percent < 1.0 { "less than 1 %".into() } else { format!("{percent:.0} %") };
            self.said.push(format!(
                "{attack}: {percent} of the estimates lay outside [0, 1] and were clipped to it"
            ));
        }
    }

    /// Scores the waiting candidates.
    ///
    /// # Errors
    /// [`Refusal`] if a party does not score.
    pub(super) async fn finish(&mut self, scorings: &mut Scorings) -> Result<(), Refusal> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let parts = self.waiting.len().min(2);
        let (mut told, mut controls, mut gains, mut attributes) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let control = if self.control.is_some() { ControlKind::Given } else { ControlKind::None };
        let parts = parts + usize::from(self.control.is_some());
        let mut best = Vec::new();
        let mut clipped = vec![0u64; self.waiting.len()];
        let mut values = 0;
        let records = scorings.records() as u64;
        for party in scorings.parties() {
            let mut scored = party.score(ReportedCandidates::Best, control, parts).await?;
            controls.extend(scored.control.take().map(|told| (party.name().to_owned(), told)));
            values += records * party.features().len() as u64;
            clipped.iter_mut().zip(&scored.clipped).for_each(|(sum, c)| *sum += c);
            let at = scored.best.filter(|best| *best < self.waiting.len());
            best.push(at.ok_or_else(|| {
                Refusal::internal(format!("{} named no best candidate", party.peer()))
            })?);
            let candidate = require("error", scored.errors.pop())?;
            gains.push(candidate.gain);
            attributes.extend(by_attribute(party, candidate.attributes));
            told.push((party.name().to_owned(), candidate.error));
        }
        self.tell_control(&controls);
        widen(&mut attributes, scorings, &told, &controls);
        let added = self.control.as_ref().map(|c| added_risk(&c.name, &told, &controls, &gains));
        let waiting = std::mem::take(&mut self.waiting);
        let all: Vec<String> = waiting
            .iter()
            .filter_map(|(place, _)| self.results.get(*place))
            .map(|r| r.name.clone())
            .collect();
        let names: Vec<String> = best.iter().filter_map(|b| all.get(*b).cloned()).collect();
        for (name, clipped) in all.iter().zip(clipped) {
            self.clip(name, clipped, values);
        }
        let Some(&(place, status)) = best.first().and_then(|b| waiting.get(*b)) else {
            return Ok(());
        };
        if names.iter().all(|n| Some(n) == names.first()) {
            if let (Some(result), Some(name)) =
                (self.results.get_mut(place), names.into_iter().next())
            {
                let ran = AttackResult::ran(name, status, joint(&told));
                let ran = ran
                    .with_limits(result.nearest_consistent, result.step_limit)
                    .with_certain(result.certain);
                let ran = ran.with_score_mismatch(result.score_mismatch).with_added_risk(added);
                *result = ran.with_attributes(attributes);
            }
            return Ok(());
        }
        // Different attacks are best for different parties; an adversary may mix them.
        let mixed: Vec<String> = names
            .iter()
            .zip(&told)
            .map(|(attack, (party, _))| format!("{attack} on {party}"))
            .collect();
        let mixed = AttackResult::ran(mixed.join(", "), status, joint(&told));
        self.results.push(mixed.with_added_risk(added).with_attributes(attributes));
        Ok(())
    }
}

/// Raises each count and share of the control to the best that any control reached on the
/// attribute: the control that errs least may order records worse than another.
fn beside_best(
    result: &mut AttributeResult,
    controls: &[(ControlEstimates, Vec<AttributeResult>)],
) {
    let same = |of: &&AttributeResult| {
        (&of.party, &of.figures.attribute) == (&result.party, &result.figures.attribute)
    };
    let all = controls.iter().flat_map(|(_, figures)| figures);
    let controls: Vec<&AttributeFigures> = all.filter(same).map(|of| &of.figures).collect();
    let best = |of: fn(&AttributeFigures) -> Option<f64>| {
        controls.iter().filter_map(|figures| of(figures)).max_by(f64::total_cmp)
    };
    let raise = |of: &mut f64, best: Option<f64>| *of = best.map_or(*of, |best| best.max(*of));
    let figures = &mut result.figures;
    if let Some(event) = &mut figures.event {
        raise(&mut event.control, best(|of| Some(of.event.as_ref()?.attack)));
    }
    if let Some(auc) = &mut figures.auc {
        raise(&mut auc.control, best(|of| Some(of.auc?.attack)));
    }
    if let Some(top) = &mut figures.top_category {
        raise(&mut top.control, best(|of| Some(of.top_category?.attack)));
    }
    if let Some(within) = &mut figures.within {
        raise(&mut within.share.control, best(|of| Some(of.within?.share.attack)));
    }
    if let Some(exact) = &mut figures.exact {
        raise(&mut exact.control, best(|of| Some(of.exact?.attack)));
    }
}

/// Returns the control that errs least on each attribute. The records in even places choose it for
/// those in odd places, and vice versa. If it were chosen on the records that it is compared on,
/// its error there would be biased low, and so would the added risk of the attacks. The attacks are
/// chosen in the same way. If one control is chosen throughout, the result has its name.
///
/// # Errors
/// [`Refusal`] if estimates are missing.
fn chosen_by_the_other_half(
    controls: &[(ControlEstimates, Vec<AttributeResult>)],
    scorings: &mut Scorings,
) -> Result<ControlEstimates, Refusal> {
    let mut used: Vec<usize> = Vec::new();
    let mut blocks = Vec::new();
    for party in scorings.parties() {
        let estimates =
            controls.iter().map(|(given, _)| given.of(party)).collect::<Result<Vec<_>, _>>()?;
        // A feature that does not vary is no attribute; any control has it right.
        let mut chosen = [0, 1].map(|_| vec![0; party.features().len()]);
        for attribute in of_schema(party.features()) {
            for (half, chosen) in chosen.iter_mut().enumerate() {
                let best = best_on(&attribute.name, party.name(), controls, 1 - half);
                for column in &attribute.columns {
                    chosen[*column] = best;
                }
                used.push(best);
            }
        }
        let cells = EncodedEstimates::of_cells(&estimates.iter().collect::<Vec<_>>(), &chosen);
        let missing = || {
            Refusal::internal(format!("estimates of controls differ in shape for {}", party.peer()))
        };
        blocks.push((party.name().to_owned(), cells.ok_or_else(missing)?));
    }
    used.sort_unstable();
    used.dedup();
    let one = if let [only] = used[..] { controls.get(only) } else { None };
    Ok(ControlEstimates {
        name: one.map_or_else(|| BEST_CONTROLS.to_owned(), |(given, _)| given.name.clone()),
        blocks,
    })
}

/// Returns the place of the control that removes most of the error of the column mean on one half
/// of the records; the first of equals. If there are too few records for halves, all records are
/// used.
fn best_on(
    attribute: &str,
    party: &str,
    controls: &[(ControlEstimates, Vec<AttributeResult>)],
    half: usize,
) -> usize {
    let removed = |figures: &[AttributeResult]| {
        let of = figures.iter().find(|of| of.party == party && of.figures.attribute == attribute);
        let removed = of.and_then(|of| of.figures.removed)?;
        removed.halves.map_or(removed.value, |halves| halves.get(half).map(|half| half.value))
    };
    let key = |at: usize| {
        controls.get(at).and_then(|(_, figures)| removed(figures)).unwrap_or(f64::NEG_INFINITY)
    };
    (0..controls.len()).rev().max_by(|a, b| key(*a).total_cmp(&key(*b))).unwrap_or(0)
}

/// Widens the intervals of parties with noise, which hold jointly over each party's own attributes,
/// so that they hold jointly over the attributes of all parties.
fn widen(
    attributes: &mut [AttributeResult],
    scorings: &mut Scorings,
    told: &[(String, ReportedError)],
    controls: &[(String, ReportedError)],
) {
    let schemas: Vec<_> =
        scorings.parties().iter().map(|p| (p.name().to_owned(), of_schema(p.features()))).collect();
    if schemas.len() < 2 {
        return;
    }
    let all: usize = schemas.iter().map(|(_, attributes)| attributes.len()).sum();
    for (party, schema) in &schemas {
        let of = |errors: &[(String, ReportedError)]| {
            errors.iter().find(|(name, _)| name == party).map(|(_, e)| e.clone())
        };
        let (Some(attack), Some(control)) = (of(told), of(controls)) else { continue };
        for result in attributes.iter_mut().filter(|result| result.party == *party) {
            let attribute =
                schema.iter().find(|attribute| attribute.name == result.figures.attribute);
            if let Some(figures) =
                attribute.and_then(|attribute| together(attribute, &attack, &control, all))
            {
                result.figures = figures;
            }
        }
    }
}

/// Converts a party's figures by attribute to results of the report.
fn by_attribute(
    party: &Party,
    told: Vec<AttributeFigures>,
) -> impl Iterator<Item = AttributeResult> {
    told.into_iter().map(|figures| AttributeResult { party: party.name().to_owned(), figures })
}

impl ControlEstimates {
    /// Returns the estimates of a party's features.
    fn of(&self, party: &Party) -> Result<EncodedEstimates, Refusal> {
        let estimates = self
            .blocks
            .iter()
            .find(|(of, _)| of == party.name())
            .map(|(_, estimates)| estimates.clone());
        let missing = || {
            Refusal::internal(format!(
                "no estimates of {} for passive party `{}` came",
                self.name,
                party.name()
            ))
        };
        estimates.ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::DMatrix;
    use vfl_core::data::schema::FeatureSpec;

    /// The control with the least error need not have the best count: an attack's count is compared
    /// with the best count of any control.
    #[test]
    fn counts_stand_beside_the_best_control() {
        let truth = DMatrix::from_fn(1, 100, |_, j| f64::from(u8::from(j < 20)));
        let attribute = &of_schema(&[FeatureSpec::numeric("late", 0.0, 1.0)])[0];
        let flat = DMatrix::from_element(1, 100, 0.2);
        let sharp = truth.map(|v| 0.5 + 0.4 * v);
        let of = |attack: &DMatrix<f64>, control: &DMatrix<f64>| AttributeResult {
            party: "p".into(),
            figures: AttributeFigures::of(attribute, &truth, attack, control),
        };
        let mut attacked = of(&sharp, &flat);
        let before = attacked.figures.event.clone().unwrap();
        assert!(before.attack == 10.0 && before.control < 3.0, "{before:?}");
        let elsewhere = AttributeResult { party: "q".into(), ..of(&sharp, &flat) };
        let controls = |figures: Vec<AttributeResult>| {
            figures
                .into_iter()
                .map(|of| (ControlEstimates { name: "c".into(), blocks: Vec::new() }, vec![of]))
                .collect::<Vec<_>>()
        };
        beside_best(&mut attacked, &controls(vec![of(&flat, &flat), elsewhere]));
        assert_eq!(attacked.figures.event, Some(before), "another party's control is no control");
        beside_best(&mut attacked, &controls(vec![of(&flat, &flat), of(&sharp, &flat)]));
        let figures = attacked.figures;
        assert_eq!((figures.event.unwrap().control, figures.auc.unwrap().control), (10.0, 1.0));
    }

    /// Each half of the records uses the control that errs least on the other half.
    #[test]
    fn a_control_is_chosen_by_the_records_of_the_other_half() {
        let truth = DMatrix::from_fn(1, 200, |_, j| (j as f64 * 0.618).fract());
        let attribute = &of_schema(&[FeatureSpec::numeric("x", 0.0, 1.0)])[0];
        let flat = DMatrix::from_element(1, 200, 0.5);
        // Close to the truth in even places, or in odd ones.
        let close =
            |parity: usize| {
                DMatrix::from_fn(1, 200, |_, j| {
                    if j % 2 == parity { 0.9 * truth[j] } else { 1.0 - truth[j] }
                })
            };
        let of = |estimates: &DMatrix<f64>| AttributeResult {
            party: "p".into(),
            figures: AttributeFigures::of(attribute, &truth, estimates, &flat),
        };
        let controls: Vec<_> = [&flat, &close(0), &close(1)]
            .map(|estimates| {
                (ControlEstimates { name: "c".into(), blocks: Vec::new() }, vec![of(estimates)])
            })
            .into();
        assert_eq!([0, 1].map(|half| best_on("x", "p", &controls, half)), [1, 2]);
        assert_eq!(
            best_on("x", "q", &controls, 0),
            0,
            "of what nothing is told the first is taken"
        );
    }
}
