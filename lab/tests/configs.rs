//! The sample configs parse, and name what they are to name.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::PathBuf;

use vfl_shared::config::ConfigFile;

fn example(dir: &str, name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples")).join(dir).join(format!("{name}.toml"))
}

#[test]
fn every_sample_config_parses() {
    for dir in ["local", "compose"] {
        let coordinator =
            ConfigFile::<vfl_coordinator::config::ConfigValues>::read(&example(dir, "coordinator")).unwrap();
        let passive = ConfigFile::<vfl_passive_party::config::ConfigValues>::read(&example(dir, "passive-1")).unwrap();
        let active = ConfigFile::<vfl_active_party::config::ConfigValues>::read(&example(dir, "active")).unwrap();
        assert_eq!(active.values.passive_parties, coordinator.values.passive_parties);
        assert_eq!(passive.values.listen.port(), 7101);
        assert!(
            coordinator.values.training.allowed && coordinator.values.audit.allowed && passive.values.audit.allowed
        );
        // The demonstration trusts its auditor, by name.
        assert_eq!(passive.values.audit.mode, vfl_passive_party::config::AuditMode::Trusted);
        passive.values.audit.check().unwrap();
        assert!(active.values.model.is_default(), "the samples say what the default is");
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
        (kind, "kind = \"forest\"", "this version knows `softmax_regression`, `mlp`"),
        (kind, "kind = \"mlp\"\nhidden = [0]", "`hidden` is a list of at most 16 widths from 1 to 4096"),
        (kind, "kind = \"mlp\"\nactivation = \"gelu\"", "`activation` is \"sigmoid\""),
        (kind, "kind = \"softmax_regression\"\nhidden = [8]", "`hidden` is unknown: it has no settings"),
        (combiner, "combiner = \"sum\"\ntop = { hidden = [8] }", "combiner `sum` has no top model"),
        (combiner, "combiner = \"sum\"\nwidth = 0", "`width` is 0, expected 1 to 65536"),
        (combiner, "combiner = \"sum\"\nwidth = 70000", "`width` is 70000"),
    ] {
        assert!(text.contains(from), "{from}");
        let changed = text.replace(from, to);
        let read = ConfigFile::<vfl_active_party::config::ConfigValues>::parse(&path, &changed);
        let said = read.map(drop).unwrap_err().to_string();
        assert!(said.contains(says) && said.contains("active.toml") && said.contains("line"), "{said}");
    }
}

/// The sample's lines on privacy are read when they are no comment, at either party, and a bad value is refused with its key and line.
#[test]
fn privacy_is_read_and_checked() {
    let lines = ["[training.privacy]", "clip = 1.0", "noise = 4.0", "delta = 1e-5", "max_epsilon = 10.0"];
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
        assert_eq!((privacy.clip, privacy.noise, privacy.delta, privacy.max_epsilon), (1.0, 4.0, 1e-5, Some(10.0)));
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

/// What an audit cannot do is said before anybody is asked.
#[test]
fn help_that_an_attack_needs_is_named_with_it() {
    let text = std::fs::read_to_string(example("local", "audit")).unwrap();
    let check = |lines: &str, attack: &str| {
        let text =
            text.replace("seed = 7", &format!("seed = 7\n{lines}")).replace("\"rcc1\"", &format!("\"{attack}\""));
        let file = ConfigFile::<vfl_lab::cli::AuditConfig>::parse(&example("local", "audit"), &text);
        file.map_err(|e| e.to_string()).and_then(|file| file.values.check().map(drop))
    };
    assert_eq!(check("", "rcc1"), Ok(()));
    assert_eq!(check("max_added_risk = 0.1\nmax_exact_share = 1", "rcc1"), Ok(()));
    assert_eq!(check("auxiliary_ids = \"data/known.ids\"", "shadow_model"), Ok(()));
    let second = "[[passive_parties]]\nname = \"passive-2\"\naddress = \"h:1\"\n[[passive_parties]]";
    let two = text.replace("[[passive_parties]]", second).replace("seed = 7", "seed = 7\ncolluding = [\"passive-2\"]");
    let file = ConfigFile::<vfl_lab::cli::AuditConfig>::parse(&example("local", "audit"), &two).unwrap();
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
    vfl_lab::certs::write(dir.path(), "d.example", 1, &["active-party/active".into()]).unwrap();
    let feature = |name: &str| format!("[[features]]\nname = \"{name}\"\nkind = \"numeric\"\nmin = 0\nmax = 10\n");
    let label = "[label]\ncolumn = \"l\"\nclasses = [\"n\", \"y\"]\n";
    std::fs::write(at("own.toml"), format!("id = \"id\"\n{label}{}", feature("f"))).unwrap();
    std::fs::write(at("own.csv"), "id,f,l\na,1,n\nb,2,y\n").unwrap();
    std::fs::write(at("known.toml"), format!("id = \"id\"\n{}{}", feature("g"), feature("h"))).unwrap();
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
    let known = read(&(path("known_csv", "known.csv") + &path("known_schema", "known.toml"))).unwrap().known.unwrap();
    assert_eq!(known.block().matrix().as_slice(), [1.0, 0.5], "in the order of the schema, scaled to [0, 1]");
    for (keys, says) in [
        (path("known_csv", "known.csv"), "come together"),
        (path("known_csv", "own.csv") + &path("known_schema", "own.toml"), "declares a label"),
        (path("known_csv", "none.csv") + &path("known_schema", "known.toml"), "none.csv"),
    ] {
        let refused = read(&keys).unwrap_err().to_string();
        assert!(refused.contains("[audit]") && refused.contains(says), "{refused}");
    }
}
