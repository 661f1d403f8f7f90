//! Writes the inputs that fuzzing starts from, small and valid, one directory a target: `cargo run -p vfl-fuzz-targets --example seeds --
//! DIR`. A new message, config key or case gets a seed here; what the fuzzer makes of them is in `fuzz/corpus`.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::{Path, PathBuf};

use prost::Message;
use vfl_defense::DefenseConfig;
use vfl_fuzz_targets::MESSAGES;
use vfl_protocol::pb;

type Seed = (&'static str, String, Vec<u8>);

fn main() {
    let dir = PathBuf::from(std::env::args_os().nth(1).expect("the directory to write to"));
    let mut seeds = messages();
    seeds.extend(configs());
    seeds.extend(schemas_and_csv());
    seeds.extend(cases());
    seeds.extend(defended());
    for (target, name, content) in &seeds {
        let dir = dir.join(target);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(format!("seed-{name}")), content).unwrap();
    }
    println!("{} seeds", seeds.len());
}

fn message<M: Message>(name: &str, message: &M) -> Seed {
    let at = MESSAGES
        .iter()
        .position(|(known, _)| *known == name)
        .unwrap_or_else(|| panic!("no message {name}"));
    let mut content = vec![at as u8];
    message.encode(&mut content).unwrap();
    ("messages", format!("{name}-{}", content.len()), content)
}

fn matrix(rows: u32, columns: u32, values: &[f64]) -> pb::Matrix {
    pb::Matrix {
        rows,
        columns,
        values: values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>().into(),
    }
}

fn messages() -> Vec<Seed> {
    // Every message, empty.
    let empty = |(at, (name, _)): (usize, &(&str, _))| {
        ("messages", format!("{name}-empty"), vec![at as u8])
    };
    let mut seeds: Vec<Seed> = MESSAGES.iter().enumerate().map(empty).collect();
    let ids = || Some(pb::RecordIds::new("abcd-1é", vec![1, 3, 8]));
    let shares = || Some(matrix(3, 2, &[0.5, -0.5, 1.0, 2.0, -3.0, 0.25]));
    let scores = matrix(2, 2, &[0.25, 0.75, 1.0, 0.0]);
    let policy = pb::Policy {
        defenses: [
            "temperature (temperature = 2.0)",
            "privee_dp_plus_plus (sigma = [0.1, 0.2])",
            "codebook (size = 8)",
        ]
        .iter()
        .map(|text| pb::Defense::from(&text.parse::<DefenseConfig>().unwrap()))
        .collect(),
        fresh_noise: true,
        unbound_shares: true,
    };
    let config = pb::TrainingConfig {
        epochs: 3,
        batch_size: 8,
        learning_rate: 0.1,
        l2: 1e-4,
        validation_share: 0.25,
        patience: 2,
        seed: 7,
        model: None,
        shuffle_block: 0,
        private: false,
        label_scale: None,
    };
    let privacy = pb::Privacy { clip: 1.0, noise: 4.0, epsilon: 8.5, delta: 1e-5, steps: 10 };
    let class_names = || vec!["no".to_owned(), "yes".into()];
    for facts in DefenseConfig::ALL {
        for (at, example) in (facts.examples)(4).iter().enumerate() {
            let policy = pb::Policy { defenses: vec![example.into()], ..Default::default() };
            seeds.push(message("Policy", &policy));
            seeds.last_mut().unwrap().1 = format!("Policy-{}-{at}", facts.name);
        }
    }
    seeds.extend([
        message("RecordIds", &ids().unwrap()),
        message("Matrix", &scores),
        message("TrainingConfig", &config),
        message("Privacy", &privacy),
        message("ShareStored", &pb::ShareStored { digest: "0".repeat(64), privacy: Some(privacy) }),
        message(
            "TrainingConfig",
            &pb::TrainingConfig { model: Some(model_config()), ..config.clone() },
        ),
        message("ModelConfig", &model_config()),
        message("ModelSpec", &model()),
        message("Defense", &pb::Defense::from(&DefenseConfig::Rounding { decimals: 2 })),
        message(
            "Release",
            &pb::Release { kind: Some(pb::release::Kind::Probabilities(scores.clone())) },
        ),
        message(
            "Release",
            &pb::Release {
                kind: Some(pb::release::Kind::Labels(pb::Labels {
                    classes: 3,
                    labels: vec![0, 2],
                })),
            },
        ),
        message(
            "Release",
            &pb::Release {
                kind: Some(pb::release::Kind::Ciphertexts(pb::Ciphertexts {
                    rows: 1,
                    columns: 2,
                    values: vec![7; 16].into(),
                })),
            },
        ),
        message(
            "PredictRequest",
            &pb::PredictRequest {
                model_version: "m-0123abcd".into(),
                ids: ids(),
                logit_shares: shares(),
                request_id: "r/1".into(),
                ..Default::default()
            },
        ),
        message(
            "PredictResponse",
            &pb::PredictResponse {
                model_version: "m-0123abcd".into(),
                row_status: vec![1, 2, 6],
                release: Some(pb::Release {
                    kind: Some(pb::release::Kind::Numbers(scores.clone())),
                }),
            },
        ),
        message(
            "ComputeLogitsResponse",
            &pb::ComputeLogitsResponse {
                row_status: vec![1, 1, 1],
                logit_shares: shares(),
                question: 3,
                ..Default::default()
            },
        ),
        message(
            "ComputeLogitsResponse",
            &pb::ComputeLogitsResponse {
                question: 4,
                refused: Some(pb::ShareRefusal {
                    code: 14,
                    message: "the feature store does not answer".into(),
                }),
                ..Default::default()
            },
        ),
        message(
            "OpenAuditRequest",
            &pb::OpenAuditRequest {
                model_version: "m-1".into(),
                policy: Some(policy),
                ids: ids(),
                active_party: "active".into(),
            },
        ),
        message(
            "TrainingReply",
            &pb::TrainingReply {
                reply: Some(pb::training_reply::Reply::Start(pb::TrainingStart {
                    config: Some(config),
                    class_names: class_names(),
                    record_count: 4,
                })),
            },
        ),
        message(
            "TrainingCommand",
            &pb::TrainingCommand {
                command: Some(pb::training_command::Command::Step(pb::TrainingStep {
                    step: 2,
                    gradient: shares(),
                    batch: vec![0, 3],
                    evaluation: true,
                    checkpoint: true,
                    restore: true,
                })),
            },
        ),
        message(
            "ReconstructRequest",
            &pb::ReconstructRequest {
                audit_session: "0".repeat(32),
                model_version: "m-1".into(),
                ids: ids(),
                attacks: [
                    ("half_star", "zero_floor", "0.01"),
                    ("agnostic", "base", "rcc2"),
                    ("interval", "policy", "ranking"),
                ]
                .map(|(name, key, value)| pb::AttackSpec {
                    name: name.into(),
                    settings: vec![pb::attack_spec::Setting {
                        key: key.into(),
                        value: value.into(),
                    }],
                })
                .into(),
                seed: 1,
                queries: 3,
                auxiliary_ids: Some(pb::RecordIds::new("known", vec![5])),
                auxiliary_session: "1".repeat(32),
                colluders: vec!["passive-2".into()],
            },
        ),
        message(
            "ReleaseParametersResponse",
            &pb::ReleaseParametersResponse {
                weights: shares(),
                feature_names: class_names(),
                kind: 2,
                bias_shift: vec![0.5, 1.0, -1.0],
                of_weights: transform("selective (features = [0])"),
                of_features: transform("permute"),
                interpretability: Some(0.5),
                sub_model: Vec::new(),
            },
        ),
        message(
            "ReleaseParametersResponse",
            &pb::ReleaseParametersResponse {
                kind: 1,
                sub_model: shown_model(),
                ..Default::default()
            },
        ),
        message(
            "ReleaseTopModelRequest",
            &pb::ReleaseTopModelRequest { model_version: "m-0123abcd".into() },
        ),
        message(
            "ReleaseTopModelResponse",
            &pb::ReleaseTopModelResponse { top_model: shown_model() },
        ),
        message(
            "ShownParameters",
            &pb::ShownParameters {
                granted: true,
                transformed: true,
                of_weights: transform(
                    "stiefel (epsilon = 0.1, case = \"ii\", penalty = 2.0, starts = 4)",
                ),
                interpretability: Some(0.098),
                ..Default::default()
            },
        ),
        message(
            "DescribeFeaturesResponse",
            &pb::DescribeFeaturesResponse {
                party: "passive-1".into(),
                features: vec![pb::describe_features_response::Feature {
                    name: "age".into(),
                    kind: "numeric".into(),
                    min: 17.0,
                    max: 98.0,
                    step: Some(1.0),
                    group: Some("job".into()),
                    tolerance: Some(5.0),
                    scale: Some(pb::describe_features_response::Scale {
                        function: "box_cox".into(),
                        numbers: vec![0.5],
                    }),
                }],
            },
        ),
    ]);
    seeds.extend(scorings());
    seeds.extend(publishing());
    seeds
}

/// A small perceptron as it is shown.
fn shown_model() -> Vec<u8> {
    let spec = vfl_fuzz_targets::shown_spec();
    let origin = vfl_core::model::contract::SubModelOrigin {
        spec,
        features: 2,
        active: false,
        start: vfl_core::model::contract::start_of(1),
    };
    let model = vfl_core::model::kinds::start(&origin).unwrap();
    vfl_protocol::ShownModel::of(&*model, &["a".into(), "b".into()]).unwrap().to_wire()
}

fn transform(text: &str) -> Option<pb::Transform> {
    let config: vfl_transform::TransformConfig = text.parse().unwrap();
    Some((&config).into())
}

/// The messages of scorings, noised and trusted.
fn scorings() -> Vec<Seed> {
    use pb::evaluate_reconstruction_request::Message::{Estimates, Ids, Score};
    let ids = || pb::RecordIds::new("abcd-1é", vec![1, 3, 8]);
    let estimates = |control: bool| pb::Estimates {
        rows: Some(matrix(3, 2, &[0.5; 6])),
        more: !control,
        control,
    };
    let metrics = vec!["values_within".to_owned(), "correlation".into()];
    let score = pb::Score {
        told: 2,
        by_feature: true,
        control: 3,
        rho: Some(0.01),
        metrics,
        moments: false,
        by_attribute: true,
    };
    let request = |message, version: &str| pb::EvaluateReconstructionRequest {
        message: Some(message),
        model_version: version.into(),
    };
    let figure =
        pb::MetricFigure { metric: "values_within".into(), value: Some(0.5), sigma: Some(0.01) };
    let error = || {
        Some(pb::ReconstructionError {
            mse: 0.125,
            mse_by_feature: vec![0.0, 0.25],
            sigma: Some(0.01),
            sigma_by_feature: Some(0.02),
            metrics: vec![figure.clone()],
        })
    };
    let halves = pb::Halves { first: 0.5, second: 0.25 };
    let gain =
        pb::Gain { value: Some(0.5), low: Some(-0.25), high: Some(0.75), halves: Some(halves) };
    let scored = pb::Scored {
        best: Some(1),
        errors: vec![pb::scored::Candidate {
            candidate: 1,
            error: error(),
            gain: Some(gain),
            attributes: Vec::new(),
        }],
        control: error(),
        clipped: vec![0, 3],
        rho_spent: Some(0.01),
        rho_left: Some(0.0769),
        scorings_left: 0,
    };
    vec![
        message("EvaluateReconstructionRequest", &request(Ids(ids()), "m-0123abcd")),
        message("EvaluateReconstructionRequest", &request(Estimates(estimates(false)), "")),
        message("EvaluateReconstructionRequest", &request(Score(score.clone()), "")),
        message("Estimates", &estimates(true)),
        message("Score", &score),
        message("Score", &pb::Score { told: 1, control: 2, ..Default::default() }),
        message("Gain", &gain),
        message("MetricFigure", &figure),
        message("Scored", &scored),
    ]
}

/// The messages of publishing parameters that were trained elsewhere.
fn publishing() -> Vec<Seed> {
    let class_names = || vec!["no".to_owned(), "yes".into()];
    let digest = || "0123456789abcdef".repeat(4);
    let start = pb::PublishStart {
        class_names: class_names(),
        features: 7,
        digest: digest(),
        training_id_count: 3,
        sub_model: model().active,
    };
    let share = pb::PublishShare { model_version: "m-0123abcd".into(), digest: digest() };
    let staged = pb::PublishStagedRequest {
        active_party: "active".into(),
        class_names: class_names(),
        model_version: "m-0123abcd".into(),
        digest: digest(),
    };
    vec![
        message(
            "PublishReply",
            &pb::PublishReply { reply: Some(pb::publish_reply::Reply::Start(start)) },
        ),
        message(
            "PublishCommand",
            &pb::PublishCommand { command: Some(pb::publish_command::Command::Publish(share)) },
        ),
        message(
            "DescribeStagedResponse",
            &pb::DescribeStagedResponse {
                digest: digest(),
                features: 5,
                sub_model: model().active,
            },
        ),
        message("PublishStagedRequest", &staged),
        message(
            "LendSharesRequest",
            &pb::LendSharesRequest {
                model_version: "m-0123abcd".into(),
                ids: Some(pb::RecordIds::new("ab", vec![1, 2])),
            },
        ),
        message(
            "LendSharesResponse",
            &pb::LendSharesResponse { logit_shares: Some(matrix(2, 2, &[0.5, -0.5, 1.0, 2.0])) },
        ),
    ]
}

/// The example configurations, and what they leave to the defaults.
fn configs() -> Vec<Seed> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let read = |path: &str| std::fs::read_to_string(examples.join(path)).unwrap();
    let seed = |letter: char, name: &str, text: &str| {
        // Comments teach a fuzzer nothing.
        let lines =
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let text: String = lines.map(|line| format!("{line}\n")).collect();
        ("config", format!("{letter}-{name}"), format!("{letter}{text}").into_bytes())
    };
    let mut seeds = Vec::new();
    for place in ["local", "compose"] {
        for (letter, file) in
            [('c', "coordinator"), ('p', "passive-1"), ('a', "active"), ('u', "audit")]
        {
            seeds.push(seed(letter, place, &read(&format!("{place}/{file}.toml"))));
        }
    }
    let tls = "[tls]\nca = \"a\"\ncertificate = \"b\"\nkey = \"c\"\n";
    let head = format!("listen = \"[::1]:7100\"\nstate_dir = \"s\"\n{tls}");
    let peers = "[[passive_parties]]\nname = \"p\"\naddress = \"h:1\"\n";
    let ledger =
        "[ledger]\nurl = \"postgres://u:hunter2@db.example/ledger\"\nrequest_memory_h = 5\n";
    let budget = "[budget]\nrecords = 10\nqueries_per_record = 2\nrows_per_minute = 100\n";
    for (at, defenses) in [
        "[[defense]]\nname = \"temperature\"\ntemperature = 2.5\n[[defense]]\nname = \"rounding\"\ndecimals = 2\n",
        "[defense]\nname = \"privee_dp_plus_plus\"\nepsilon = [0.1, 0.05]\ntemplate = \"householder\"\nas_published = true\n",
        "[defense]\nname = \"dp_gaussian\"\nepsilon = 0.5\ndelta = 1e-6\nsensitivity = 1.0\n",
        "[defense]\nname = \"logit_noise\"\nscheme = 3\nalpha = 0.5\n",
        "[defense]\nname = \"codebook\"\nsize = 64\n",
        "[defense]\nname = \"top_k\"\nk = 2\n",
        "[defense]\nname = \"class_label\"\nsoftening = 0.01\n",
        "[defense]\nname = \"order_preserving_encryption\"\n",
    ]
    .into_iter()
    .enumerate()
    {
        seeds.push(seed('c', &format!("defense-{at}"), &format!("{head}{peers}{ledger}{budget}{defenses}")));
    }
    let data = "[data]\ncsv = \"x.csv\"\nschema = \"x.toml\"\n";
    for (at, release) in [
        "to_active_party = { transformed = { name = \"stiefel\", epsilon = 0.1, case = \"ii\", penalty = 2.0, starts = 4 } }\n",
        "to_active_party = { transformed = { name = \"selective\", features = [0, 2] } }\ndisclosed = false\n",
        "to_active_party = { transformed = { name = \"binary\", epsilon = 0.1, randomised = true } }\n",
        "to_active_party = { transformed = { name = \"single_feature\", epsilon = 0.1 } }\nto_coordinator = \"true_parameters\"\n",
    ]
    .into_iter()
    .enumerate()
    {
        let training = "[training]\ntransform = { name = \"permute\" }\nallowed = true\nactive_party = \"a\"\nclass_names = [\"n\", \"y\"]\n";
        let text = format!("{head}{data}[release]\n{release}{training}[audit]\nallowed = true\nmax_scorings = 9\n[collusion]\nwith = [\"a\"]\nids = \"i\"\n");
        seeds.push(seed('p', &format!("release-{at}"), &text));
    }
    let audit = read("local/audit.toml").replace(
        "seed = 7",
        "seed = 7\nauxiliary_ids = \"k\"\ncolluding = [\"passive-2\"]\npolicies = [\"temperature (temperature = 2.0) then rounding (decimals = 1), fresh noise\"]\naware = false\nqueries = 2",
    );
    seeds.push(seed('u', "policies", &audit));
    seeds
}

fn schemas_and_csv() -> Vec<Seed> {
    let full = "id = \"customer\"\n[label]\ncolumn = \"outcome\"\nclasses = [\"no\", \"yes\"]\n\
        [[features]]\nname = \"age\"\nkind = \"numeric\"\nmin = 17\nmax = 98.5\nclamp = true\n\
        [[features]]\nname = \"phone\"\nkind = \"binary\"\n\
        [[features]]\nname = \"degree\"\nkind = \"ordinal\"\ncategories = [\"none\", \"school\"]\n\
        [[features]]\nname = \"job\"\nkind = \"categorical\"\ncategories = [\"clerk\", \"un,known\", \"\"]\n";
    let plain = "id = \"id\"\n[[features]]\nname = \"x\"\nkind = \"numeric\"\nmin = -1.5\nmax = 1e3\n\
        [[features]]\nname = \"y\"\nkind = \"ordinal\"\nmin = 0\nmax = 3\ngroup = \"g\"\n\
        [[features]]\nname = \"z\"\nkind = \"binary\"\nmin = 2\nmax = 2\n";
    let labels = "id = \"id\"\n[label]\ncolumn = \"y\"\nclasses = [\"a\", \"b\", \"c\"]\n";
    let of = |schema: &str, csv: &str| [schema.as_bytes(), &[0], csv.as_bytes()].concat();
    vec![
        ("schema", "full".into(), full.into()),
        ("schema", "plain".into(), plain.into()),
        ("schema", "labels".into(), labels.into()),
        (
            "csv",
            "full".into(),
            of(
                full,
                "customer,age,job,outcome,phone,degree\nr1,20.5,clerk,no,1,none\n\"r,2\",120,\"un,known\",yes,0,school\n",
            ),
        ),
        (
            "csv",
            "plain".into(),
            of(
                plain,
                "\u{feff}z,y,x,id\r\n2,1,0.12345678,r1\r\n\r\n2,3,-1.5e0,\"r \"\"2\"\"\"\r\n",
            ),
        ),
        ("csv", "labels".into(), of(labels, "id,y\na,a\nb,c\n c,b\n")),
        ("csv", "wrong".into(), of(plain, "id,x,y,z\nr1,1234.56789,0,2\n")),
    ]
}

fn cases() -> Vec<Seed> {
    let case = |letter: u8, choice: u8, text: &str, set: &str| {
        let mut content = vec![letter, choice];
        content.extend(text.as_bytes());
        if !set.is_empty() {
            content.push(0);
            content.extend(set.as_bytes());
        }
        content
    };
    let narrow = r#"{"schema":1,"kind":"attack","w_act":[[0.5],[-0.5],[0.25]],"w_pas":[[1,2],[0,1],[-1.5,0.5]],"b":[0,0.1,-0.1],"records":[{"id":"r1","y_act":[0.3],"c":[0.5,0.3,0.2]},{"id":"r2","y_act":[0.9],"c":[0.12345678,0.07654322,0.8]}]}"#;
    let wide = r#"{"schema":1,"kind":"attack","w_act":[[],[]],"w_pas":[[1,2,-0.5,0.25],[0,1,0.75,-2]],"b":[0,0.1],"records":[{"id":"r1","y_act":[],"c":[0.625,0.375]},{"id":"r2","y_act":[],"c":[1,0]}],"truth":0,"expected":{}}"#;
    let one = r#"{"schema":1,"kind":"attack","w_act":[[0.5],[-0.5]],"w_pas":[[1],[-1]],"b":[0,0],"records":[{"id":"r1","y_act":[0.3],"c":[0.625,0.375]},{"id":"r2","y_act":[0.4],"c":[0.25,0.75]}]}"#;
    let own = r#"{"schema":1,"kind":"attack","w_act":[[0.5],[-0.5]],"w_pas":[[1,2],[0,1]],"b":[0,0],"training":[{"y_act":[0.2],"label":0},{"id":1,"y_act":[0.9],"label":1}],"observed":[{"y_act":[0.4],"c":[0.5,0.5]}],"auxiliary":[{"y_act":[0.2],"x_pas":[0.1,0.9],"c":[0.75,0.25]},{"y_act":[0.3],"x_pas":[0.4,0.2],"c":[0.5,0.5]}],"records":[{"id":"r1","y_act":[0.3],"c":[0.75,0.25]}]}"#;
    let mut seeds = Vec::new();
    for choice in 0..21 {
        for (name, text) in [("narrow", narrow), ("wide", wide), ("one", one), ("own", own)] {
            seeds.push((
                "case_files",
                format!("attack-{name}-{choice:02}"),
                case(b'a', choice, text, ""),
            ));
        }
    }
    for (at, (choice, set)) in [
        (5, "zero_floor=0.01\nlower=0,0.1\nupper=1,0.9\nbinary=0"),
        (5, "binary=all\ndiscrete=exact"),
        (6, "levels=0:0/0.5/1,1:0/1\ndiscrete=snap"),
        (13, "policy=rounding (decimals = 1)\ncentre=analytic"),
        (14, "policy=ranking\ncentre=posterior"),
        (15, "policy=class_label\ncentre=likely"),
        (16, "policy=codebook (size = 4)"),
        (17, "policy=logit_noise (scheme = 1, alpha = 1.0)\nsigma_known=false"),
        (18, "policy=gaussian_noise (sigma = 0.1)\naveraged=3"),
        (19, "column_means=0.4,0.1\nbase=half_star"),
        (20, "alpha=1\nbeta=0.5\nl2=0.01\nout_of_range=half\nobserved=1\nbase=rcc2"),
        (11, "loss=rkl\nstart=half\nprojected=false\nlearning_rate=0.1\nstop_loss=0.001\niterate=best\nsteps=20"),
    ]
    .into_iter()
    .enumerate()
    {
        let text = if choice > 18 { own } else { narrow };
        seeds.push(("case_files", format!("attack-set-{at:02}"), case(b'a', choice, text, set)));
    }
    for kind in ["1", "2", "3", "+-", "-+"] {
        let text = format!(
            r#"{{"schema":1,"kind":"one_feature","case":"{kind}","v":[0.5,1.25,-0.75,2]}}"#
        );
        seeds.push((
            "case_files",
            format!("one-feature-{}", kind.replace('+', "p")),
            case(b'a', 0, &text, ""),
        ));
    }
    let shadow = r#"{"schema":1,"kind":"shadow_model","w_act":[[0.5],[-0.5]],"b":[0,0.25],"auxiliary":[{"id":"a","y_act":[0.2],"x_pas":[0.1,0.9],"c":[0.75,0.25]},{"id":"b","y_act":[0.3],"x_pas":[0.4,0.2],"c":[0.5,0.5]},{"id":"c","y_act":[0.8],"x_pas":[0.7,0.6],"c":[0.25,0.75]}]}"#;
    for (at, set) in ["", "shadow_fit=gradient\nshadow_bias=unknown", "shadow_bias=unknown"]
        .into_iter()
        .enumerate()
    {
        seeds.push(("case_files", format!("shadow-{at}"), case(b'a', 0, shadow, set)));
    }
    let transform = |rest: &str| {
        format!(
            r#"{{"schema":1,"kind":"transform","w_pas":[[0.5,1,-1],[0,2,0.25]],"x_pas":[[0.2,0.9,0.5],[0.4,0.1,0.75],[0,1,0.125]]{rest}}}"#
        )
    };
    for choice in 1..=10 {
        seeds.push((
            "case_files",
            format!("transform-{choice:02}"),
            case(b't', choice, &transform(""), if choice == 5 { "features=0,2" } else { "" }),
        ));
    }
    let stiefel = transform(
        r#","transform":"stiefel","case":"ii","settings":{"epsilon":0.1,"penalty":2.0,"randomised":true}"#,
    );
    seeds.push(("case_files", "transform-stiefel".into(), case(b't', 0, &stiefel, "epsilon=0.05")));
    let single = r#"{"schema":1,"kind":"transform","transform":"single_feature","w_pas":[[0.5],[0],[1.5]],"settings":{"epsilon":0.01}}"#;
    seeds.push(("case_files", "transform-single".into(), case(b't', 0, single, "")));
    let assess = r#"{"schema":1,"kind":"assess","w_pas":[[0.5,1],[0,2],[1,-1]],"x_pas":[[0.2,0.9],[0.4,0.1],[0.5,0.75]]}"#;
    seeds.push(("case_files", "assess".into(), case(b's', 0, assess, "")));
    seeds.push(("case_files", "assess-before".into(), case(b's', 4, assess, "")));
    let untrained =
        r#"{"schema":1,"kind":"assess","classes":3,"x_pas":[[0.2,0.9,1.5]],"expected":null}"#;
    seeds.push(("case_files", "assess-untrained".into(), case(b's', 0, untrained, "")));
    let parameters = r#"{"schema":1,"class_names":["no","yes"],"feature_names":["age","job=clerk","x"],"weights":[[-0.8,0.12345678,1],[0.8,-0.1,2e-3]],"bias":[0.3,-0.3]}"#;
    seeds.push(("case_files", "parameters".into(), case(b'p', 0, parameters, "")));
    seeds.push((
        "case_files",
        "parameters-nan".into(),
        case(b'p', 0, &parameters.replace("-0.1", "NaN"), ""),
    ));
    seeds.push((
        "case_files",
        "parameters-passive".into(),
        case(b'p', 0, &parameters.replace(",\"bias\":[0.3,-0.3]", ""), ""),
    ));
    for (name, file) in [
        ("network-mlp", &include_bytes!("../../../shared/core/tests/pytorch/mlp.safetensors")[..]),
        ("network-mlp-32", include_bytes!("../../../shared/core/tests/pytorch/mlp_32.safetensors")),
        ("network-linear", include_bytes!("../../../shared/core/tests/pytorch/linear.safetensors")),
    ] {
        seeds.push(("case_files", name.into(), [b"n\0", file].concat()));
    }
    seeds
}

fn defended() -> Vec<Seed> {
    let rows: String = (0..24)
        .map(|i| {
            let a = f64::from(i * 7 % 24) / 32.0;
            format!("r{i},{a},{},0.25\n", 0.75 - a)
        })
        .collect();
    let few = "id,low,\"mid, or\",high\na,0.5,0.25,0.25\nb,0.125,0.875,0\n\"c,d\",0.3333333,0.3333333,0.3333334\n";
    let many = format!("id,low,mid,high\n{rows}");
    let case = r#"{"schema":1,"kind":"assess","w_pas":[[1,2],[-0.5,0.1],[0,1]],"x_pas":[[0,1]]}"#;
    let labels = "id,label\na,low\nb,high\n\"c,d\",low\n";
    let mut seeds: Vec<Seed> = Vec::new();
    for name in DefenseConfig::NAMES {
        let scores = if matches!(name, "ranking" | "codebook") { many.as_str() } else { few };
        let content = ["d\0", scores, "\0", name, "\0\0", case].concat();
        seeds.push(("case_files", format!("defend-{name}"), content.into_bytes()));
    }
    let text = "temperature (temperature = 2.0) then rounding (decimals = 1), fresh noise";
    let content = ["d\x02", few, "\0", text, "\0zero_floor=1e-9\0\0", labels].concat();
    seeds.push(("case_files", "defend-text".into(), content.into_bytes()));
    let content =
        ["d\0", few, "\0privee_dp_plus_plus\nrounding\0sigma=1,2,3\ntemplate=fisip\ndecimals=3\0"]
            .concat();
    seeds.push(("case_files", "defend-settings".into(), content.into_bytes()));
    seeds
}

fn model_config() -> pb::ModelConfig {
    pb::ModelConfig {
        combiner: pb::Combiner::Sum as i32,
        kind: "softmax_regression".into(),
        width: Some(2),
        settings: String::new(),
        top: None,
    }
}

fn model() -> pb::ModelSpec {
    let sub_model = |width| pb::SubModel {
        kind: "softmax_regression".into(),
        width,
        settings: "{\"a\":[1]}".into(),
    };
    pb::ModelSpec {
        combiner: pb::Combiner::Concat as i32,
        active: Some(sub_model(2)),
        passive: vec![sub_model(7), sub_model(1)],
        top: Some(pb::SubModel {
            kind: "mlp".into(),
            width: 3,
            settings: "{\"hidden\":[4]}".into(),
        }),
    }
}
