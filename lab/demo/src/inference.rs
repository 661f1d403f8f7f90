//! Membership, labels and properties as rows of a report: runs the experiments of `cloison
//! membership`, `labels` and `properties` on the data, the split, the training and the policies of
//! a demonstration.

use clap::ValueEnum;
use vfl_auditor::report::{Generated, Inference, InferredProperty, Report};
use vfl_studies::labels::LabelsPlan;
use vfl_studies::membership::MembershipPlan;
use vfl_studies::properties::{Group, PropertiesPlan};
use vfl_studies::{Estimate, Listener, Study, SubjectSpec, labels, membership, properties};

use crate::DemoPlan;

/// The records and models of the membership experiment. With so many records, one in a thousand of
/// the non-members is at least one record.
const MEMBERSHIP: (usize, usize) = (2000, 64);
/// The records, known labels of each class, epochs and trainings of the labels experiment.
const LABELS: (usize, usize, [u32; 2], usize) = (2000, 5, [1, 20], 10);
/// The records of a training set, the shadow models and the target models of the properties
/// experiment.
const PROPERTIES: (usize, usize, usize) = (250, 300, 150);
/// The epochs of each training in that experiment, and the tilt between its training sets.
const PROPERTIES_TRAINING: (u32, f64) = (50, 1.0);

/// A kind of inference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Membership in the training set, from released scores.
    Membership,
    /// The labels of the training records, by a passive party, from what it receives in training.
    Labels,
    /// The mean of the first passive feature over the training records, from released parameters.
    Properties,
}

impl Kind {
    /// Returns the name on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Membership => "membership",
            Self::Labels => "labels",
            Self::Properties => "properties",
        }
    }
}

/// The experiments that were checked.
pub struct Inferences {
    kinds: Vec<Kind>,
    prepared: Vec<PreparedStudy>,
}

/// A study that was checked.
struct PreparedStudy {
    trainings: usize,
    measure: Box<Measure>,
}

/// A function that runs a study, and returns the rows of its report.
type Measure = dyn Fn(&Listener<'_>) -> anyhow::Result<Vec<Inference>> + Send;

impl PreparedStudy {
    fn new<S: Study + Send + 'static>(study: S, rows: fn(&S::Report) -> Vec<Inference>) -> Self {
        let trainings = study.parts();
        Self {
            trainings,
            measure: Box::new(move |tell: &Listener<'_>| Ok(rows(&study.run(tell)?))),
        }
    }
}

impl Inferences {
    /// Checks that each kind can be measured with the plan of a demonstration. A kind that is named
    /// twice is measured once.
    ///
    /// # Errors
    /// The kind that cannot be measured, and the reason.
    pub fn prepare(plan: &DemoPlan, kinds: &[Kind]) -> anyhow::Result<Self> {
        let mut named: Vec<Kind> = Vec::new();
        for kind in kinds {
            if !named.contains(kind) {
                named.push(*kind);
            }
        }
        let prepared = named.iter().map(|kind| {
            prepare(plan, *kind)
                .map_err(|e| e.context(format!("--inference {} cannot be measured", kind.as_str())))
        });
        Ok(Self { prepared: prepared.collect::<anyhow::Result<_>>()?, kinds: named })
    }

    /// Returns the number of trainings.
    #[must_use]
    pub fn trainings(&self) -> usize {
        self.prepared.iter().map(|study| study.trainings).sum()
    }

    /// Measures all kinds, and writes the rows into the report, its command and its configuration.
    /// Calls `tell` after each training.
    ///
    /// # Errors
    /// If a training diverges.
    pub fn measure(&self, report: &mut Report, tell: &Listener<'_>) -> anyhow::Result<()> {
        if self.kinds.is_empty() {
            return Ok(());
        }
        for prepared in &self.prepared {
            report.inferences.extend((prepared.measure)(tell)?);
        }
        let names: Vec<&str> = self.kinds.iter().map(|kind| kind.as_str()).collect();
        report.command.push_str(&format!(" --inference {}", names.join(",")));
        let mut config = report.generated.config.clone();
        if let Some(settings) = config.as_object_mut() {
            settings.insert("inference".into(), names.into());
        }
        report.generated = Generated::new(config);
        Ok(())
    }
}

fn prepare(plan: &DemoPlan, kind: Kind) -> anyhow::Result<PreparedStudy> {
    let DemoPlan {
        data,
        first_column,
        passive_features,
        passive_parties,
        training,
        privacy,
        seed,
        policies,
        transform,
        ..
    } = plan.clone();
    let subject = SubjectSpec { data, first_column, passive_features, passive_parties };
    Ok(match kind {
        Kind::Membership => {
            let (records, models) = MEMBERSHIP;
            let plan =
                MembershipPlan { subject, training, privacy, records, models, policies, seed };
            PreparedStudy::new(membership::Experiment::prepare(&plan)?, of_members)
        }
        Kind::Labels => {
            let (records, known, epochs, trainings) = LABELS;
            let training = training.values().clone();
            let models = vec![training.model.clone()];
            let epochs = epochs.to_vec();
            let plan = LabelsPlan {
                subject,
                models,
                training,
                privacy,
                records,
                known,
                epochs,
                trainings,
                seed,
            };
            PreparedStudy::new(labels::Experiment::prepare(&plan)?, of_labels)
        }
        Kind::Properties => {
            let (records, shadows, targets) = PROPERTIES;
            let (epochs, tilt) = PROPERTIES_TRAINING;
            let training = vfl_core::model::TrainingValues {
                epochs,
                validation_share: 0.0,
                ..training.values().clone()
            };
            let plan = PropertiesPlan {
                training: training.try_into()?,
                feature: 0,
                group: Group::All,
                records,
                shadows,
                targets,
                tilt,
                transforms: vec![transform],
                seed,
            };
            PreparedStudy::new(properties::Experiment::prepare(&subject, &plan)?, of_properties)
        }
    })
}

/// Returns a row per policy and rate, for the stronger of the two attacks.
fn of_members(report: &membership::MembershipReport) -> Vec<Inference> {
    let rows = report.policies.iter().flat_map(|row| {
        let (ratio, threshold) = (&row.likelihood_ratio, &row.threshold);
        let (attack, figures) = match threshold.tpr_at_1_percent.mean > ratio.tpr_at_1_percent.mean
        {
            true => ("threshold", threshold),
            false => ("likelihood_ratio", ratio),
        };
        let one = |of: InferredProperty, estimate: Estimate, without: f64| Inference {
            of,
            against: row.policy.clone(),
            attack: attack.to_owned(),
            value: estimate.mean,
            low: estimate.low(),
            high: estimate.high(),
            without,
            verdict: figures.verdict.as_str().to_owned(),
        };
        let guessing = &report.guessing;
        let often = one(
            InferredProperty::Members1Percent,
            figures.tpr_at_1_percent,
            guessing.tpr_at_1_percent,
        );
        let seldom = figures.tpr_at_0_1_percent.zip(guessing.tpr_at_0_1_percent);
        [
            Some(often),
            seldom
                .map(|(figure, guessed)| one(InferredProperty::Members01Percent, figure, guessed)),
        ]
    });
    rows.flatten().collect()
}

fn of_labels(report: &labels::LabelsReport) -> Vec<Inference> {
    let models = report.models.iter();
    let rows = models.flat_map(|model| {
        model.attacks.iter().map(|row| {
            let accuracy = &row.right.accuracy;
            Inference {
                of: InferredProperty::Labels,
                against: format!("{} after {}", model.model, epochs(row.epochs)),
                attack: row.attack.as_str().to_owned(),
                value: accuracy.mean,
                low: accuracy.low(),
                high: accuracy.high(),
                without: accuracy.mean - row.added.accuracy.mean,
                verdict: row.verdict.as_str().to_owned(),
            }
        })
    });
    rows.collect()
}

fn epochs(n: u32) -> String {
    if n == 1 { "1 epoch".into() } else { format!("{n} epochs") }
}

fn of_properties(report: &properties::PropertiesReport) -> Vec<Inference> {
    let control = report
        .adversaries
        .iter()
        .find(|row| row.added.is_none())
        .map_or(0.0, |row| row.explained.value);
    let rows = report.adversaries.iter().filter_map(|row| {
        row.verdict.map(|verdict| Inference {
            of: InferredProperty::FeatureMean,
            against: row.sees.clone(),
            attack: "kernel_ridge".to_owned(),
            value: row.explained.value,
            low: row.explained.low,
            high: row.explained.high,
            without: control,
            verdict: verdict.as_str().to_owned(),
        })
    });
    rows.collect()
}
