//! The sample configs parse, and name what they are to name.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::PathBuf;

use vfl_core::data::schema::{FeatureSchema, FeatureSpec};
use vfl_core::data::table::FeatureTable;
use vfl_core::model::TrainingMode;
use vfl_core::types::{FeatureBlock, RecordIds};
use vfl_features::features::Features;
use vfl_features::stores::{DataConfig, HttpConfig};
use vfl_server::config::ConfigFile;

fn example(dir: &str, name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples"))
        .join(dir)
        .join(format!("{name}.toml"))
}

#[test]
fn every_sample_config_parses() {
    for dir in ["local", "compose"] {
        let coordinator =
            ConfigFile::<vfl_coordinator::config::ConfigValues>::read(&example(dir, "coordinator"))
                .unwrap();
        let passive =
            ConfigFile::<vfl_passive_party::config::ConfigValues>::read(&example(dir, "passive-1"))
                .unwrap();
        let active =
            ConfigFile::<vfl_active_party::config::ConfigValues>::read(&example(dir, "active"))
                .unwrap();
        assert_eq!(active.values.passive_parties, coordinator.values.passive_parties);
        assert_eq!(passive.values.listen.port(), 7101);
        assert!(
            coordinator.values.training.allowed
                && coordinator.values.audit.allowed
                && passive.values.audit.allowed
        );
        // The demonstration trusts its auditor, by name.
        assert_eq!(passive.values.audit.mode, vfl_passive_party::config::AuditMode::Trusted);
        passive.values.audit.check().unwrap();
        assert!(active.values.model.is_default(), "the samples say what the default is");
    }
}

/// The second deployment of docker-compose.yml differs from the first in where the ledger and the passive features are, in the addresses
/// of the coordinator and in the metrics; and in the moments, which take features in memory.
#[test]
fn the_second_deployment_is_the_first_with_databases() {
    let table = |name: &str| -> toml::Table {
        toml::from_str(&std::fs::read_to_string(example("compose", name)).unwrap()).unwrap()
    };
    for (name, own) in [
        ("coordinator", ["ledger", "metrics"].as_slice()),
        ("passive-1", &["data", "metrics"]),
        ("active", &["coordinator", "metrics"]),
        ("audit", &["coordinator"]),
    ] {
        let (mut first, mut second) = (table(name), table(&format!("postgres/{name}")));
        for key in own {
            first.remove(*key);
            assert!(second.remove(*key).is_some(), "{name}: {key}");
        }
        if name == "passive-1" {
            assert_eq!(first["audit"].as_table_mut().unwrap().remove("moments"), Some(true.into()));
        }
        assert_eq!(first, second, "{name}");
    }
    let at = |name: &str| example("compose/postgres", name);
    let coordinator = ConfigFile::<vfl_coordinator::config::ConfigValues>::read(&at("coordinator"))
        .unwrap()
        .values;
    let passive = ConfigFile::<vfl_passive_party::config::ConfigValues>::read(&at("passive-1"))
        .unwrap()
        .values;
    let active =
        ConfigFile::<vfl_active_party::config::ConfigValues>::read(&at("active")).unwrap().values;
    ConfigFile::<vfl_auditor::AuditConfig>::read(&at("audit")).unwrap().values.check().unwrap();
    assert_eq!(active.coordinator.address, "coordinator-a:7100, coordinator-b:7100");
    assert_eq!(table("postgres/audit")["coordinator"], table("postgres/active")["coordinator"]);
    assert!(
        coordinator.ledger.shared
            && coordinator.ledger.url.unwrap().contains("sslmode=verify-full")
    );
    assert!(passive.data.postgres.is_some() && passive.data.csv.is_none());
    for (metrics, listen) in [
        (coordinator.metrics, coordinator.listen),
        (passive.metrics, passive.listen),
        (active.metrics, active.listen),
    ] {
        assert_eq!(metrics.listen.unwrap().port(), 9100);
        metrics.check(listen).unwrap();
    }
}

/// A model that this version does not have is refused when the file is read, with the line.
#[test]
fn a_model_that_is_not_there_is_refused_with_its_line() {
    let path = example("local", "active");
    let text = std::fs::read_to_string(&path).unwrap();
    let (kind, combiner) = ("kind = \"softmax_regression\"", "combiner = \"sum\"");
    for (from, to, says) in [
        (combiner, "combiner = \"concat\"", "`concat` does not take `softmax_regression`"),
        (combiner, "combiner = \"mean\"", "expected `sum` or `concat`"),
        (
            kind,
            "kind = \"forest\"",
            "this version knows `softmax_regression`, `one_vs_rest`, `mlp`",
        ),
        (
            kind,
            "kind = \"mlp\"\nhidden = [0]",
            "`hidden` is a list of at most 16 widths from 1 to 4096",
        ),
        (kind, "kind = \"mlp\"\nactivation = \"gelu\"", "`activation` is \"sigmoid\""),
        (
            kind,
            "kind = \"softmax_regression\"\nhidden = [8]",
            "`hidden` is unknown: it has no settings",
        ),
        (combiner, "combiner = \"sum\"\ntop = { hidden = [8] }", "combiner `sum` has no top model"),
        (combiner, "combiner = \"sum\"\nwidth = 0", "`width` is 0, expected 1 to 65536"),
        (combiner, "combiner = \"sum\"\nwidth = 70000", "`width` is 70000"),
    ] {
        assert!(text.contains(from), "{from}");
        let changed = text.replace(from, to);
        let read = ConfigFile::<vfl_active_party::config::ConfigValues>::parse(&path, &changed);
        let said = read.map(drop).unwrap_err().to_string();
        assert!(
            said.contains(says) && said.contains("active.toml") && said.contains("line"),
            "{said}"
        );
    }
}

/// One record in memory.
fn features() -> Features {
    let schema = FeatureSchema::new(vec![FeatureSpec::numeric("f", 0.0, 1.0)], None).unwrap();
    let block = FeatureBlock::new(nalgebra::DMatrix::zeros(1, 1)).unwrap();
    FeatureTable::new(schema, RecordIds::new(["a"]).unwrap(), block, None).unwrap().into()
}

/// A schema of one feature, in a file.
fn schema(dir: &std::path::Path) -> PathBuf {
    let path = dir.join("schema.toml");
    std::fs::write(
        &path,
        "id = \"id\"\n[[features]]\nname = \"f\"\nkind = \"numeric\"\nmin = 0\nmax = 1\n",
    )
    .unwrap();
    path
}

/// The samples' lines on alignments are read when they are no comment, and a bad value is refused with its key.
#[test]
fn alignments_are_read_and_checked() {
    let uncommented = |name: &str| {
        let text = std::fs::read_to_string(example("local", name)).unwrap();
        let (before, table) = text.split_once("\n# [alignment]\n").unwrap();
        let (table, after) = table.split_once("\n\n").unwrap();
        let lines: String =
            table.lines().map(|line| format!("{}\n", line.trim_start_matches("# "))).collect();
        format!("{before}\n[alignment]\n{lines}\n{after}")
    };
    let read = |text: &str| {
        let file = ConfigFile::<vfl_passive_party::config::ConfigValues>::parse(
            &example("local", "passive-1"),
            text,
        );
        file.map(|file| file.values.alignment).map_err(|e| e.to_string())
    };
    let passive = uncommented("passive-1");
    let table = read(&passive).unwrap();
    assert_eq!(table.active_party.as_ref().map(|name| name.as_str()), Some("active"));
    assert!(
        table.allowed && table.max_runs == 1 && table.least_common == 100 && table.out.is_some()
    );
    // The sample names a file that its reader has to write.
    let (dir, features) = (tempfile::tempdir().unwrap(), features());
    let listed = dir.path().join("align.ids");
    let check = |table: vfl_passive_party::config::AlignmentTable| table.check(&features);
    assert!(check(table.clone()).unwrap_err().contains("align.ids"));
    let table = vfl_passive_party::config::AlignmentTable { ids: Some(listed.clone()), ..table };
    for (text, says) in
        [("a\na\n", "position 1 stands in the batch twice"), ("", "holds no record id")]
    {
        std::fs::write(&listed, text).unwrap();
        assert!(check(table.clone()).unwrap_err().contains(says));
    }
    std::fs::write(&listed, "a\nz\n").unwrap();
    check(table.clone()).unwrap();
    // A feature service cannot list its records.
    let http = DataConfig {
        http: Some(HttpConfig::new("http://127.0.0.1:1/x")),
        ..DataConfig::of(schema(dir.path()))
    };
    let http = http.open().unwrap();
    table.check(&http).unwrap();
    let all = vfl_passive_party::config::AlignmentTable { ids: None, ..table };
    check(all.clone()).unwrap();
    let refused = all.check(&http).unwrap_err();
    assert!(refused.contains("needs `ids`") && refused.contains("[data.http]"), "{refused}");
    // It need not, where nobody aligns.
    vfl_passive_party::config::AlignmentTable { allowed: false, ..all }.check(&http).unwrap();
    let passive = passive.replace("ids = \"data/align.ids\"", "");
    let nobody =
        read(&passive.replace("active_party = \"active\"\nmax_runs = 1", "max_runs = 1")).unwrap();
    assert!(check(nobody).unwrap_err().contains("needs `active_party`"));
    let none = read(&passive.replace("max_runs = 1", "max_records = 0")).unwrap();
    assert!(check(none).unwrap_err().contains("`max_records` is 0"));
    assert!(read(&passive.replace("max_runs = 1", "runs = 1")).unwrap_err().contains("`runs`"));
    let active = uncommented("active");
    let file = ConfigFile::<vfl_active_party::config::ConfigValues>::parse(
        &example("local", "active"),
        &active,
    )
    .unwrap();
    let table = file.values.alignment;
    assert!(table.allowed && table.max_runs == 1);
    assert!(table.check(&features).unwrap_err().contains("align.ids"));
    let table = vfl_active_party::config::AlignmentTable { ids: Some(listed), ..table };
    table.check(&features).unwrap();
    // Its operator may name the ids of a run.
    vfl_active_party::config::AlignmentTable { ids: None, ..table }.check(&http).unwrap();
    // Neither aligns by default.
    let plain = std::fs::read_to_string(example("local", "passive-1")).unwrap();
    assert!(!read(&plain).unwrap().allowed);
}

/// The sample's lines on privacy are read when they are no comment, at either party, and a bad value is refused with its key and line.
#[test]
fn privacy_is_read_and_checked() {
    let lines =
        ["[training.privacy]", "clip = 1.0", "noise = 4.0", "delta = 1e-5", "max_epsilon = 10.0"];
    for name in ["passive-1", "active"] {
        let path = example("local", name);
        let mut text = std::fs::read_to_string(&path).unwrap();
        for line in lines {
            assert!(text.contains(&format!("\n# {line}")), "{name}: {line}");
            text = text.replace(&format!("\n# {line}"), &format!("\n{line}"));
        }
        let read = |text: &str| match name {
            "active" => ConfigFile::<vfl_active_party::config::ConfigValues>::parse(&path, text)
                .map(|file| file.values.training.privacy),
            _ => ConfigFile::<vfl_passive_party::config::ConfigValues>::parse(&path, text)
                .map(|file| file.values.training.privacy),
        };
        let privacy = *read(&text).unwrap().unwrap().values();
        assert_eq!(
            (privacy.clip, privacy.noise, privacy.delta, privacy.max_epsilon),
            (1.0, 4.0, 1e-5, Some(10.0))
        );
        for (from, to, says) in [
            ("noise = 4.0", "noise = -1.0", "`noise` in [training.privacy]"),
            ("clip = 1.0", "clip = 0.0", "`clip` in [training.privacy]"),
            ("delta = 1e-5", "delta = 1.0", "`delta` in [training.privacy]"),
            ("max_epsilon = 10.0", "max_epsilon = 0.0", "`max_epsilon` in [training.privacy]"),
            ("max_epsilon = 10.0", "epsilon = 10.0", "`epsilon`"),
            ("noise = 4.0", "", "`noise`"),
        ] {
            let said = read(&text.replace(from, to)).unwrap_err().to_string();
            assert!(said.contains(says) && said.contains("line") && said.contains(name), "{said}");
        }
    }
}

/// A plain training takes a sentence of the passive party, and a table from before there were modes a notice of the active one.
#[test]
fn the_mode_of_trainings_is_read_and_checked() {
    use vfl_passive_party::config::{PLAIN_CONSENT, check_training};
    let passive = example("local", "passive-1");
    let text = std::fs::read_to_string(&passive).unwrap();
    let policy = |text: &str| {
        let file = ConfigFile::<vfl_passive_party::config::ConfigValues>::parse(&passive, text);
        file.unwrap().values.training
    };
    assert_eq!(policy(&text).mode, TrainingMode::Private);
    check_training(&policy(&text)).unwrap();
    let plain = text.replace("# mode = \"plain\"", "mode = \"plain\"");
    let said = check_training(&policy(&plain)).unwrap_err();
    assert!(said.contains(PLAIN_CONSENT), "{said}");
    let consent = "plain_consent = \"";
    let agreed = plain.replace(&format!("# {consent}"), consent);
    check_training(&policy(&agreed)).unwrap();
    let other = agreed.replace("our features", "features");
    assert!(check_training(&policy(&other)).is_err());
    let active = example("local", "active");
    let text = std::fs::read_to_string(&active).unwrap();
    let notice = |text: &str| {
        let file = ConfigFile::<vfl_active_party::config::ConfigValues>::parse(&active, text);
        let values = file.unwrap().values;
        values.training.notice(&values.model)
    };
    assert_eq!(notice(&text), None);
    let before =
        text.replace("[training]\n", "[training]\nbatch_size = 32\nlearning_rate = 0.05\n");
    let said = notice(&before).unwrap();
    assert!(said.contains("`batch_size`, `learning_rate` are not used"), "{said}");
    let chosen = before.replace("[training]\n", "[training]\nmode = \"private\"\n");
    assert_eq!(notice(&chosen), None);
    let network = before.replace("\nkind = \"softmax_regression\"", "\nkind = \"mlp\"");
    let said = notice(&network).unwrap();
    assert!(said.contains("by default: `learning_rate` is not used"), "{said}");
}

/// What an audit cannot do is said before anybody is asked.
#[test]
fn help_that_an_attack_needs_is_named_with_it() {
    let text = std::fs::read_to_string(example("local", "audit")).unwrap();
    let check = |lines: &str, attack: &str| {
        let text = text
            .replace("seed = 7", &format!("seed = 7\n{lines}"))
            .replace("\"rcc1\"", &format!("\"{attack}\""));
        let file = ConfigFile::<vfl_auditor::AuditConfig>::parse(&example("local", "audit"), &text);
        file.map_err(|e| e.to_string()).and_then(|file| file.values.check().map(drop))
    };
    assert_eq!(check("", "rcc1"), Ok(()));
    assert_eq!(check("max_added_risk = 0.1\nmax_exact_share = 1\nmax_exact = 0", "rcc1"), Ok(()));
    assert_eq!(check("features = \"nothing\"\nmax_bits = 4", "rcc1"), Ok(()));
    assert_eq!(check("features = { step = 0.5, groups = \"0-1\" }", "rcc1"), Ok(()));
    assert_eq!(check("auxiliary_ids = \"data/known.ids\"", "shadow_model"), Ok(()));
    let second =
        "[[passive_parties]]\nname = \"passive-2\"\naddress = \"h:1\"\n[[passive_parties]]";
    let two = text
        .replace("[[passive_parties]]", second)
        .replace("seed = 7", "seed = 7\ncolluding = [\"passive-2\"]");
    let file =
        ConfigFile::<vfl_auditor::AuditConfig>::parse(&example("local", "audit"), &two).unwrap();
    assert!(file.values.check().is_ok());
    for (lines, attack, says) in [
        ("", "shadow_model", "`auxiliary_ids`"),
        ("", "shadow_network", "`shadow_network` learns from records"),
        ("", "coalition", "`colluding`"),
        ("colluding = [\"passive-2\"]", "coalition", "`passive-2`"),
        ("colluding = [\"passive-1\"]", "coalition", "nobody is left"),
        ("colluding = [\"a/b\"]", "coalition", "not a valid name"),
        ("max_added_risk = 1.5", "rcc1", "max_added_risk is 1.5; give a number from 0 to 1"),
        ("max_exact_share = nan", "rcc1", "max_exact_share is NaN"),
        ("max_exact = -1", "rcc1", "max_exact is -1"),
        ("max_bits = 0", "rcc1", "max_bits is 0; give a number of bits above 0"),
        ("features = \"all\"", "rcc1", "\"all\" is no word for it; say \"nothing\""),
        ("features = 3", "rcc1", "`features` takes the word \"nothing\" or a table of settings"),
        ("features = { colour = 3 }", "rcc1", "`colour` is nothing that is known of features"),
    ] {
        let refused = check(lines, attack).unwrap_err();
        assert!(refused.contains(says), "{lines}, {attack}: {refused}");
    }
}

/// The active party's own file of what it knows: both keys, features alone.
#[test]
fn known_records_are_read_with_the_schema_of_their_owners() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    vfl_testbed::certs::write(dir.path(), "d.example", 1, &["active-party/active".into()]).unwrap();
    let feature = |name: &str| {
        format!("[[features]]\nname = \"{name}\"\nkind = \"numeric\"\nmin = 0\nmax = 10\n")
    };
    let label = "[label]\ncolumn = \"l\"\nclasses = [\"n\", \"y\"]\n";
    std::fs::write(at("own.toml"), format!("id = \"id\"\n{label}{}", feature("f"))).unwrap();
    std::fs::write(at("own.csv"), "id,f,l\na,1,n\nb,2,y\n").unwrap();
    std::fs::write(at("known.toml"), format!("id = \"id\"\n{}{}", feature("g"), feature("h")))
        .unwrap();
    std::fs::write(at("known.csv"), "id,h,g\nb,5,10\n").unwrap();
    let text = std::fs::read_to_string(example("local", "active")).unwrap();
    let read = |keys: &str| {
        let mut text = text.replace("[audit]", &format!("[audit]\n{keys}"));
        for (from, to) in [
            ("tls/ca.pem", "ca.pem"),
            ("tls/active.pem", "active.pem"),
            ("tls/active.key", "active.key"),
            ("data/active.csv", "own.csv"),
            ("data/active.schema.toml", "own.toml"),
        ] {
            text = text.replace(from, at(to).to_str().unwrap());
        }
        std::fs::write(at("config.toml"), text).unwrap();
        vfl_active_party::config::Settings::read(&at("config.toml")).map(|(_, settings)| settings)
    };
    let path = |key: &str, name: &str| format!("{key} = {:?}\n", at(name));
    assert!(read("").unwrap().known.is_none());
    let known = read(&(path("known_csv", "known.csv") + &path("known_schema", "known.toml")))
        .unwrap()
        .known
        .unwrap();
    assert_eq!(
        known.block().matrix().as_slice(),
        [1.0, 0.5],
        "in the order of the schema, scaled to [0, 1]"
    );
    // In the dialect that `[data]` has for the party's own file.
    std::fs::write(at("comma.csv"), "id;h;g\nb;2,5;10\n").unwrap();
    let comma = path("known_csv", "comma.csv") + &path("known_schema", "known.toml");
    assert!(read(&comma).unwrap_err().to_string().contains("not a number"));
    let text_of = std::fs::read_to_string(at("config.toml")).unwrap();
    let with_comma = text_of.replacen("\n[data]\n", "\n[data]\ndecimal = \",\"\n", 1);
    std::fs::write(at("config.toml"), with_comma).unwrap();
    let read_again = vfl_active_party::config::Settings::read(&at("config.toml")).unwrap();
    let known = read_again.1.known.unwrap();
    assert_eq!(known.block().matrix().as_slice(), [1.0, 0.25]);
    for (keys, says) in [
        (path("known_csv", "known.csv"), "come together"),
        (path("known_csv", "own.csv") + &path("known_schema", "own.toml"), "declares a label"),
        (path("known_csv", "none.csv") + &path("known_schema", "known.toml"), "none.csv"),
    ] {
        let refused = read(&keys).unwrap_err().to_string();
        assert!(refused.contains("[audit]") && refused.contains(says), "{refused}");
    }
}
