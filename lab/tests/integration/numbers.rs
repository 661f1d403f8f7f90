//! Models of a number: imported, served over sockets, defended and audited. What is served is the closed form, what gives the
//! features back is one equation an answer, and what does not go with a number is refused by name.

use std::path::Path;

use nalgebra::{DMatrix, DVector};
use tempfile::TempDir;
use tonic::Code;
use vfl_attack::{AttackConfig, Method};
use vfl_auditor::audit;
use vfl_auditor::audit::{Findings, Plan};
use vfl_auditor::report::Outcome;
use vfl_core::data::schema::{FeatureSchema, FeatureSpec, LabelSpec};
use vfl_core::data::table::FeatureTable;
use vfl_core::model::{Link, ParameterFile};
use vfl_core::types::{FeatureBlock, PartyName, RecordIds, ReleasedScores};
use vfl_datasets::PartyTables;
use vfl_defense::{DefenseConfig, Policy};
use vfl_party::computation::release::ServingMode;
use vfl_passive_party::config::{ServingPolicy, TrainingPolicy};
use vfl_protocol::pb;
use vfl_state::{ImportRequest, import_parameters};
use vfl_testbed::deployment::{Deployment, DeploymentSpec, active_name, consent, white_box};
use vfl_transform::TransformConfig;

use super::support::{active_client, config, score};

pub(super) const RECORDS: usize = 240;
/// Features of the active party, and of the passive one: of these the first is whole numbers from 0 to 20.
pub(super) const OWN: usize = 2;
pub(super) const PASSIVE: usize = 2;

/// A deployment of an active and a passive party, with no model yet.
pub(super) struct Here {
    dir: TempDir,
    pub(super) deployment: Deployment,
    /// All features, the active party's first: (OWN + PASSIVE) × RECORDS.
    pub(super) x: DMatrix<f64>,
    pub(super) ids: RecordIds,
}

fn names(passive: bool) -> Vec<String> {
    let (from, to) = if passive { (OWN, OWN + PASSIVE) } else { (0, OWN) };
    (from..to).map(|at| format!("f{at}")).collect()
}

fn tables(x: &DMatrix<f64>, ids: &RecordIds, numbers: Option<&[f64]>) -> PartyTables {
    let table = |passive: bool, label: Option<LabelSpec>| {
        let features = names(passive).into_iter().map(|name| match name.as_str() {
            "f2" => FeatureSpec { step: Some(0.05), ..FeatureSpec::numeric(name, 0.0, 1.0) },
            _ => FeatureSpec::numeric(name, 0.0, 1.0),
        });
        let schema = FeatureSchema::new(features.collect(), label).unwrap();
        let from = if passive { OWN } else { 0 };
        let block = x.rows(from, schema.len()).into_owned();
        FeatureTable::new(schema, ids.clone(), FeatureBlock::new(block).unwrap(), None).unwrap()
    };
    let label = LabelSpec::of_number("price", None);
    PartyTables {
        active: table(false, Some(label)),
        passive: vec![(PartyName::new("passive-1").unwrap(), table(true, None))],
        numbers: numbers.map(|numbers| {
            let label = FeatureSpec::numeric("price", -1000.0, 1000.0);
            let block = numbers.iter().map(|value| label.normalise(*value));
            let block = DMatrix::from_iterator(1, numbers.len(), block);
            let schema = FeatureSchema::new(vec![label], None).unwrap();
            FeatureTable::new(schema, ids.clone(), FeatureBlock::new(block).unwrap(), None).unwrap()
        }),
    }
}

impl Here {
    async fn new(defenses: Vec<DefenseConfig>) -> Self {
        Self::labelled((defenses, ServingMode::Plain), |_| None).await
    }

    /// Starts a deployment whose label has these numbers, of the features of all records.
    pub(super) async fn labelled(
        (defenses, mode): (Vec<DefenseConfig>, ServingMode),
        numbers: impl Fn(&DMatrix<f64>) -> Option<Vec<f64>>,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let x = DMatrix::from_fn(OWN + PASSIVE, RECORDS, |i, j| match i {
            2 => ((7 * j + 3) % 21) as f64 / 20.0,
            _ => ((0.37 * (i + 1) as f64 * (j + 5) as f64).sin() + 1.0) / 2.0,
        });
        let ids = RecordIds::new((0..RECORDS).map(|at| format!("r{at}"))).unwrap();
        let deployment = Deployment::start(DeploymentSpec {
            tables: tables(&x, &ids, numbers(&x).as_deref()),
            state_dir: dir.path().to_owned(),
            defenses,
            release: white_box(),
            training_transform: TransformConfig::None {},
            consent: TrainingPolicy {
                min_records: 100,
                min_batch: 1,
                ..consent(&active_name(), 2)
            },
            audits: true,
            help: Default::default(),
            active_privacy: None,
            alignment: None,
            serving: ServingPolicy { mode, ..Default::default() },
            outputs: None,
            monitoring: Default::default(),
        });
        Self { deployment: deployment.await.unwrap(), dir, x, ids }
    }

    fn import(&self, passive: bool, file: &ParameterFile) {
        let party = if passive { "passive-1" } else { "active" };
        let path = self.dir.path().join(format!("{party}.json"));
        std::fs::write(&path, file.to_json()).unwrap();
        let classes = ["price".to_owned()];
        import_parameters(ImportRequest {
            path: Path::new(&path),
            state_dir: &(&self.deployment.party_dir(party)).into(),
            feature_names: &names(passive),
            encodings: None,
            max_classes: None,
            classes: (!passive).then_some(&classes),
            active_party: &active_name(),
        })
        .unwrap();
    }

    async fn publish(
        &self,
        own: &ParameterFile,
        passive: &ParameterFile,
    ) -> Result<String, tonic::Status> {
        self.import(false, own);
        self.import(true, passive);
        let request = pb::PublishJobRequest { training_ids: None };
        let answer = active_client(&self.deployment).publish(request).await?.into_inner();
        Ok(answer.published.unwrap().model_version)
    }

    /// The released numbers of all records.
    async fn numbers(&self) -> Vec<f64> {
        self.served(&self.ids).await
    }

    /// The released numbers of some records.
    pub(super) async fn served(&self, ids: &RecordIds) -> Vec<f64> {
        let answer = score(&self.deployment, ids).await.unwrap();
        assert_eq!(answer.class_names, ["price"]);
        match vfl_protocol::read_release(answer.release.as_ref(), ids.len(), 1).unwrap() {
            ReleasedScores::Numbers(m) => m.as_slice().to_vec(),
            other => panic!("no numbers: {other:?}"),
        }
    }

    async fn audit(&self, policies: &[&str], attacks: &[Method]) -> Findings {
        let policies: Vec<Policy> = policies.iter().map(|text| text.parse().unwrap()).collect();
        let attacks = attacks.iter().copied().map(AttackConfig::from).collect();
        let plan =
            Plan { aware: true, schema: true, ..Plan::of(self.ids.clone(), policies, attacks, 3) };
        audit::run(&self.deployment.targets(), &plan, |_, _, _| ()).await.unwrap()
    }
}

const WEIGHTS: [f64; OWN + PASSIVE] = [0.7, -0.4, 1.3, 0.0];
const BIAS: f64 = -0.2;

/// The parts of a model with these passive weights.
fn parts(link: Link, scale: f64, passive: [f64; PASSIVE]) -> (ParameterFile, ParameterFile) {
    let part = |weights: &[f64], names, bias: Option<f64>| {
        let weights = DMatrix::from_row_slice(1, weights.len(), weights) * scale;
        let bias = bias.map(|bias| DVector::from_vec(vec![scale * bias]));
        ParameterFile::of_link(link, vec!["price".into()], names, weights, bias).unwrap()
    };
    (part(&WEIGHTS[..OWN], names(false), Some(BIAS)), part(&passive, names(true), None))
}

/// g⁻¹(w x + b), written without the project's own code.
fn closed_form(here: &Here, link: Link, scale: f64, passive: [f64; PASSIVE]) -> Vec<f64> {
    let of_record = |x: &[f64]| {
        let eta =
            BIAS + WEIGHTS[0] * x[0] + WEIGHTS[1] * x[1] + passive[0] * x[2] + passive[1] * x[3];
        let eta = scale * eta;
        match link {
            Link::Identity => eta,
            Link::Log => eta.exp(),
            Link::Logit => eta.exp() / (1.0 + eta.exp()),
            Link::Softmax | Link::OneVsRest => unreachable!(),
        }
    };
    here.x.column_iter().map(|x| of_record(x.as_slice())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_every_link_are_the_closed_form() {
    for (link, scale) in [(Link::Identity, 1e5), (Link::Log, 3.0), (Link::Logit, 2.0)] {
        let here = Here::new(Vec::new()).await;
        let passive = [WEIGHTS[2], 0.9];
        let (own, share) = parts(link, scale, passive);
        here.publish(&own, &share).await.unwrap();
        let off = here
            .numbers()
            .await
            .iter()
            .zip(closed_form(&here, link, scale, passive))
            .map(|(got, want)| (got - want).abs() / (1.0 + want.abs()))
            .fold(0.0, f64::max);
        assert!(off < 1e-13, "{link}: {off:e}");
        // A number has no class, and nothing is trained.
        let refused = here.deployment.train(&config(1), &here.ids, |_| ()).await.unwrap_err();
        assert!(refused.message.contains("the label is a number"), "{refused}");
        here.deployment.stop().await.unwrap();
    }
}

/// Exact numbers are one equation an answer: whole numbers come back, all of them; behind bins they do not, and the bound holds.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_says_what_numbers_give_away() {
    for link in [Link::Identity, Link::Log, Link::Logit] {
        let here = Here::new(Vec::new()).await;
        let scale = 2.0;
        let (own, share) = parts(link, scale, [WEIGHTS[2], 0.0]);
        here.publish(&own, &share).await.unwrap();
        let bins = "bins (lower = -2.0, upper = 12.0, count = 4)";
        let unbound = "rounding (decimals = 2), unbound shares";
        let noisy = "gaussian_noise (sigma = 0.05)";
        let policies = ["none", "rounding (decimals = 2)", bins, noisy, unbound];
        let attacks = [Method::HalfStar, Method::Rcc2, Method::Lattice, Method::GradientInversion];
        let found = here.audit(&policies, &attacks).await;
        let all = |policy: &str| {
            let label = policy.parse::<Policy>().unwrap().to_string();
            found.audits.iter().filter(move |audit| audit.policy.label() == label)
        };
        let of = |policy: &str| all(policy).next().unwrap();
        // Of an attack that ran: the error of the feature that counts.
        let error = |policy: &str, attack: &str| {
            let mut attacks = all(policy).flat_map(|audit| &audit.attacks);
            let attack = attacks.find(|a| a.name == attack)?;
            match &attack.outcome {
                Outcome::Ran { errors, .. } => Some(errors.per_feature[0]),
                Outcome::NotScored { .. } => panic!("{}", attack.name),
                Outcome::NotRun { reason, .. } => {
                    println!("{link}, {policy}: {}: {reason}", attack.name);
                    None
                }
            }
        };
        // One unknown that counts, one equation: the other feature has no weight.
        assert!(error("none", "half_star").unwrap() < 1e-12, "{link}");
        assert!(error("none", "lattice").unwrap() < 1e-12, "{link}");
        assert!(error("none", "gradient_inversion").is_none(), "it reads scores of classes");
        let half = of("none").baselines.half.per_feature[0];
        let rounded = error("rounding (decimals = 2)", "interval").unwrap();
        assert!(rounded < 1e-3, "{link}: {rounded}");
        // Behind unbound shares one release is attacked as ever: a number has no class to move.
        let behind_rounding =
            found.audits.iter().filter(|audit| audit.policy.label().starts_with("rounding"));
        let intervals: Vec<_> =
            behind_rounding.flat_map(|a| &a.attacks).filter(|a| a.name == "interval").collect();
        assert_eq!(intervals.len(), 2, "{link}: {unbound}");
        for attack in intervals {
            let Outcome::Ran { errors, .. } = &attack.outcome else { panic!("{attack:?}") };
            assert!(errors.per_feature[0] < 1e-3, "{link}: {errors:?}");
        }
        let binned = error(bins, "interval").unwrap();
        assert!(binned > 1e-3 && binned <= half * 1.5, "{link}: {binned} {half}");
        assert_eq!(of(bins).utility.bits, Some(2.0));
        let (exact, coarse) = (of("none").utility, of(bins).utility);
        assert_eq!(
            (exact.mean_change, exact.accuracy, exact.arg_max_kept),
            (Some(0.0), None, None)
        );
        assert!(coarse.mean_change.unwrap() > 0.1, "{coarse:?}");
        let noisy = error(noisy, "averaging").unwrap();
        assert!(noisy < 0.5 * half, "{link}: {noisy} {half}");
        here.deployment.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_go_with_a_number_is_named() {
    let here = Here::new(vec![DefenseConfig::ClassLabel { softening: 0.0 }]).await;
    let (own, share) = parts(Link::Identity, 1.0, [1.0, 1.0]);
    // Another link of one of them.
    let (_, other) = parts(Link::Log, 1.0, [1.0, 1.0]);
    let refused = here.publish(&own, &other).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(
        refused.message().contains("link is identity and that of passive party 1 is log"),
        "{refused}"
    );
    // A defense of classes: nothing is put in service that it cannot be applied to.
    let refused = here.publish(&own, &share).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("`class_label` needs scores of classes"), "{refused}");
    assert!(refused.message().contains("bins"), "{refused}");
    here.deployment.stop().await.unwrap();
}
