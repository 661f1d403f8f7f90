//! Cards: every one is whole, what they hold cannot be changed unnoticed, and computing them can be stopped and shared out.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use vfl_core::hex;
use vfl_papers::cards::{
    Card, Plan, R_CURVES, RunSummary, Shelf, Test, TestOutcome, Verdict, judge, make, published,
    read_folder, shelf, summary,
};
use vfl_papers::{Check, CheckKind, Curve, CurveRole, Document, ReproduceError};
use vfl_present::result_cache::{Shard, StoreUrl};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../papers/cards")
}

#[test]
fn every_file_is_a_card_of_a_paper() {
    let Shelf { papers, cards } = shelf().unwrap();
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let names: BTreeSet<String> = files
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .filter(|name| name != "papers")
        .collect();
    assert_eq!(cards.iter().map(|card| card.id.clone()).collect::<BTreeSet<_>>(), names);
    let letters: Vec<String> = papers.into_iter().map(|paper| paper.letter).collect();
    for card in &cards {
        assert!(
            letters.contains(&card.paper) && card.id.starts_with(&card.paper.to_lowercase()),
            "{}",
            card.id
        );
        for named in &card.published {
            let curve = published(&card.id, named).unwrap();
            assert!(
                !curve.values.is_empty()
                    && (curve.points.len() == curve.values.len() || curve.points.is_empty())
            );
        }
        assert!(card.options(true).is_ok() && card.options(false).is_ok(), "{}", card.id);
    }
    // The figures and tables of the issue's list, R 4 to 14, J's and V's figures, P's tables.
    for (paper, items) in [("R", 4..=14), ("J", 5..=15), ("V", 2..=13)] {
        for n in items {
            let item = format!("figure {n}");
            let there = |card: &&Card| {
                card.paper == paper && card.item.trim_end_matches(char::is_alphabetic) == item
            };
            assert!(cards.iter().any(|card| there(&card)), "{paper}, {item}");
        }
    }
    for n in 1..=12 {
        assert!(
            cards.iter().any(|card| card.paper == "P" && card.item == format!("table {n}")),
            "P, table {n}"
        );
    }
}

/// What was published, and the words of the papers, stand as they were typed. A change is made here too, with a reason in its commit.
#[test]
fn published_values_and_quotes_are_unchanged() {
    assert_eq!(hex(Sha256::digest(R_CURVES)), R_CURVES_SHA256);
    let mut typed = Sha256::new();
    for card in shelf().unwrap().cards {
        for named in card.published.iter().filter(|named| named.source.is_some()) {
            typed.update(format!(
                "{} {} {:?} {:?}\n",
                card.id, named.curve, named.points, named.values
            ));
        }
        for claim in &card.claim {
            typed.update(format!("{} {} {}\n", card.id, claim.quote, claim.place));
        }
    }
    assert_eq!(hex(typed.finalize()), TYPED_SHA256);
}

const R_CURVES_SHA256: &str = "7cad2e866e8cb44e15dcdb7171b9f9c790e99aa22652f3fc35f2464a5f24ba99";
const TYPED_SHA256: &str = "8d1149e092389fff94c1b6ade01a1c83981481621ace02c45a916623faca48d3";

/// The page in `docs/results` is what the cards and the documents beside it give: no verdict, value or label was changed by hand.
#[test]
fn the_page_is_what_its_documents_give() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
    let shelf = shelf().unwrap();
    let documents: Vec<Option<Document>> =
        shelf.cards.iter().map(|card| kept(&results, &card.id)).collect();
    let there = documents.iter().flatten().count();
    assert!(there >= 150, "{there} documents in {}", results.display());
    for document in documents.iter().flatten() {
        let ids: BTreeSet<&str> = document.checks.iter().map(|check| check.id.as_str()).collect();
        assert_eq!(ids.len(), document.checks.len(), "{}: {ids:?}", document.figure);
    }
    let made = summary(&shelf, &documents, false).unwrap();
    for (name, text) in
        [("index.html", &made.html), ("README.md", &made.markdown), ("results.json", &made.json)]
    {
        let on_disk = std::fs::read_to_string(results.join(name)).unwrap();
        assert!(
            on_disk == *text,
            "docs/results/{name} is not what `cloison reproduce --all` makes of the documents there"
        );
    }
    // Every curve that a card names is there, and whoever is not reproduced says why.
    assert_eq!(made.wrong, Vec::<String>::new());
}

/// The document kept for a card.
fn kept(results: &Path, id: &str) -> Option<Document> {
    let text = std::fs::read_to_string(results.join("cards").join(format!("{id}.json"))).ok()?;
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    Some(Document::from_json(&value["document"].take().to_string()).unwrap())
}

const SMALL: &str = r#"
paper = "R"
item = "figure 4"
title = "On generated data"
figure = "r-fig4"
dataset = "synthetic"
setup = "Of no paper."

[full]
records = 40
windows = 2
dimensions = [1, 4]
attacks = ["half_star", "half", "random"]

[[published]]
curve = "half_star"
source = "nowhere"
points = [1, 4]
values = [0.0, 1000.0]

[[claim]]
quote = "it is better"
where = "nowhere"
test = { kind = "below", curve = "half_star", than = "half" }
"#;

fn small_cards(folder: &Path) {
    for (name, text) in [
        ("r-one", SMALL.to_owned()),
        ("r-two", SMALL.replace("dimensions = [1, 4]", "dimensions = [2]")),
        (
            "r-three",
            SMALL.replace("\"r-fig4\"", "\"r-fig6\"").split("[full]").next().unwrap().to_owned(),
        ),
    ] {
        std::fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    }
}

/// Two tables of one computation are not computed by two parts.
#[test]
fn cards_of_one_computation_are_of_one_part() {
    let temporary = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("r-a", SMALL.to_owned()),
        ("r-b", SMALL.to_owned()),
        ("r-c", SMALL.replace("dimensions = [1, 4]", "dimensions = [2]")),
    ] {
        std::fs::write(temporary.path().join(format!("{name}.toml")), text).unwrap();
    }
    let shelf = read_folder(temporary.path()).unwrap();
    let computed = |part| {
        let shard = Some(Shard { part, of: 2 });
        let out = temporary.path().join("out");
        let plan = Plan {
            out,
            data_dir: None,
            quick: false,
            seed: 7,
            threads: 1,
            shard,
            store: None,
            parties: None,
        };
        let made = make(&shelf.cards, &plan).unwrap();
        let mut names: Vec<String> = made.computed.into_iter().map(|(name, _)| name).collect();
        names.sort();
        names
    };
    assert_eq!(computed(1), ["r-a", "r-b"]);
    assert_eq!(computed(2), ["r-c"]);
}

/// What one run makes, parts make together, and so does a run that was stopped in the middle of a file.
#[test]
fn parts_and_stopped_runs_end_with_the_same_bytes() {
    let temporary = tempfile::tempdir().unwrap();
    let at = |name: &str| temporary.path().join(name);
    std::fs::create_dir(at("cards")).unwrap();
    small_cards(&at("cards"));
    let shelf = read_folder(&at("cards")).unwrap();
    let cards = &shelf.cards;
    assert_eq!(cards.len(), 3);
    let plan = |out: &str, shard, threads| Plan {
        out: at(out),
        data_dir: None,
        quick: false,
        seed: 7,
        threads,
        shard,
        store: None,
        parties: None,
    };
    let pages = |made: &RunSummary| {
        let summary = summary(&shelf, &made.documents, false).unwrap();
        (summary.html, summary.markdown, summary.json)
    };
    let whole = make(cards, &plan("whole", None, 2)).unwrap();
    assert_eq!((whole.computed.len(), whole.kept, whole.failed.len()), (3, 0, 0));

    for part in 1..=2 {
        let made = make(cards, &plan("parts", Some(Shard { part, of: 2 }), 1)).unwrap();
        assert!(!made.computed.is_empty());
    }
    let merged = make(cards, &plan("parts", None, 1)).unwrap();
    assert_eq!((merged.computed.len(), merged.kept), (0, 3));
    assert!(pages(&merged) == pages(&whole));

    let file = at("whole").join("cards/r-one.json");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let again = make(cards, &plan("whole", None, 2)).unwrap();
    assert_eq!((again.computed.len(), again.kept), (1, 2));
    assert!(std::fs::read(&file).unwrap() == bytes && pages(&again) == pages(&whole));

    // Other settings are another card.
    let quick = make(cards, &Plan { seed: 8, ..plan("whole", None, 2) }).unwrap();
    assert_eq!(quick.computed.len(), 3);
}

/// The names and contents of all files under a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(
                    path.strip_prefix(folder).unwrap().to_owned(),
                    std::fs::read(path).unwrap(),
                );
            }
        }
    }
    found
}

/// Small cards in a folder, and plans with a store beside folders that parts do not share.
struct WithStore {
    temporary: tempfile::TempDir,
    cards: Vec<Card>,
}

impl WithStore {
    fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("given");
        std::fs::create_dir(&folder).unwrap();
        small_cards(&folder);
        // Of one computation with r-one.
        std::fs::write(folder.join("r-four.toml"), SMALL).unwrap();
        let cards = read_folder(&folder).unwrap().cards;
        Self { temporary, cards }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.temporary.path().join(name)
    }

    fn make(
        &self,
        out: &str,
        shard: Option<Shard>,
        store: Option<&str>,
    ) -> Result<RunSummary, ReproduceError> {
        let store = store.map(|name| StoreUrl::Folder(self.at(name)));
        let plan = Plan {
            out: self.at(out),
            data_dir: None,
            quick: false,
            seed: 7,
            threads: 1,
            shard,
            store,
            parties: None,
        };
        make(&self.cards, &plan)
    }
}

/// How many cards were computed, were in the folder, came from the store, and could not be put.
fn counts(made: &RunSummary) -> [usize; 4] {
    assert!(made.failed.is_empty(), "{:?}", made.failed);
    [made.computed.len(), made.kept, made.fetched, made.unstored]
}

/// Parts with a folder each and one store make the files of one process, and nothing is computed twice.
#[test]
fn parts_without_a_common_folder_meet_in_a_store() {
    let with = WithStore::new();
    assert_eq!(counts(&with.make("whole", None, None).unwrap()), [4, 0, 0, 0]);
    let mut computed = 0;
    for part in 1..=2 {
        let made =
            with.make(&format!("part-{part}"), Some(Shard { part, of: 2 }), Some("store")).unwrap();
        assert_eq!(made.unstored, 0);
        computed += made.computed.len();
    }
    assert_eq!(computed, 4);
    let store = files(&with.at("store"));
    // Two cards share an object.
    let objects = |folder: &str| store.keys().filter(|path| path.starts_with(folder)).count();
    assert_eq!((objects("cards"), objects("models")), (3, files(&with.at("whole/models")).len()));
    for (path, content) in store.iter().filter(|(path, _)| path.starts_with("cards")) {
        let document: serde_json::Value = serde_json::from_slice(content).unwrap();
        assert_eq!(path.file_stem().unwrap().to_str(), document["key"].as_str());
    }
    let merged = with.make("merged", None, Some("store")).unwrap();
    assert_eq!((counts(&merged), merged.elsewhere), ([0, 0, 4, 0], 0));
    assert!(files(&with.at("merged/cards")) == files(&with.at("whole/cards")));
    // The merge changes nothing in the store, and what it took is a file now.
    assert!(files(&with.at("store")) == store);
    assert_eq!(counts(&with.make("merged", None, Some("store")).unwrap()), [0, 4, 0, 0]);
}

/// A part that was stopped, and lost its folder, goes on after what it put. Whatever else is in the place of an object is computed again
/// and replaced.
#[test]
fn damaged_and_foreign_objects_are_mended() {
    let with = WithStore::new();
    with.make("whole", None, Some("store")).unwrap();
    let sound = files(&with.at("store"));
    let cards: Vec<&PathBuf> = sound.keys().filter(|path| path.starts_with("cards")).collect();
    let models: Vec<&PathBuf> = sound.keys().filter(|path| path.starts_with("models")).collect();
    let place = |path: &Path| with.at("store").join(path);
    let [cut, foreign, empty] = cards[..] else { panic!("{cards:?}") };
    std::fs::write(place(cut), &sound[cut][..sound[cut].len() / 2]).unwrap();
    std::fs::write(place(foreign), &sound[empty]).unwrap();
    std::fs::write(place(empty), "").unwrap();
    for model in &models {
        std::fs::write(place(model), "{}").unwrap();
    }
    assert_eq!(counts(&with.make("second", None, Some("store")).unwrap()), [4, 0, 0, 0]);
    assert!(files(&with.at("store")) == sound);
    assert!(files(&with.at("second")) == files(&with.at("whole")));

    // Stopped: of the cards one object is there.
    std::fs::remove_file(place(cut)).unwrap();
    std::fs::remove_file(place(foreign)).unwrap();
    let made = with.make("third", None, Some("store")).unwrap();
    assert_eq!(made.computed.len() + made.fetched, 4);
    assert!(made.fetched > 0 && !made.computed.is_empty());
    assert!(
        files(&with.at("store")) == sound
            && files(&with.at("third/cards")) == files(&with.at("whole/cards"))
    );

    // What a folder has and the store lacks, or has in another length, is put without computing.
    std::fs::remove_file(place(cut)).unwrap();
    std::fs::write(place(empty), "").unwrap();
    assert_eq!(counts(&with.make("whole", None, Some("store")).unwrap()), [0, 4, 0, 0]);
    assert!(files(&with.at("store")) == sound);
}

/// A store that cannot be used is an error before anything is computed; one that fails later costs nothing.
#[test]
fn a_store_that_fails_is_told_and_loses_nothing() {
    let with = WithStore::new();
    std::fs::write(with.at("file"), "").unwrap();
    let why = with.make("none", None, Some("file")).unwrap_err().to_string();
    assert!(why.contains("file://") && why.contains("name a folder"), "{why}");
    assert!(!with.at("none").exists());

    // Folders stand where the objects of cards would be: the store takes models, and no card.
    with.make("whole", None, Some("sound")).unwrap();
    let objects: Vec<PathBuf> =
        files(&with.at("sound")).into_keys().filter(|path| path.starts_with("cards")).collect();
    for object in &objects {
        std::fs::create_dir_all(with.at("store").join(object)).unwrap();
    }
    assert_eq!(counts(&with.make("out", None, Some("store")).unwrap()), [4, 0, 0, 3]);
    assert!(files(&with.at("out")) == files(&with.at("whole")));
    for object in &objects {
        std::fs::remove_dir(with.at("store").join(object)).unwrap();
    }
    assert_eq!(counts(&with.make("out", None, Some("store")).unwrap()), [0, 4, 0, 0]);
    assert_eq!(counts(&with.make("elsewhere", None, Some("store")).unwrap()), [0, 0, 4, 0]);
}

fn document(values: &[(&str, &[f64])]) -> Document {
    let text = serde_json::json!({
        "schema_version": vfl_papers::SCHEMA_VERSION, "figure": "r-fig4", "title": "t", "source": "s", "program": "p",
        "dataset": { "name": "synthetic", "sha256": "", "features": 10, "classes": 2, "test_records": 1 },
        "model": { "origin": { "none": {} }, "accuracy": 0.9 }, "seed": 1, "records": 1,
        "axis": { "label": "l", "symbol": "d", "points": [1, 2, 4], "determined_up_to": null },
        "attacks": [], "curves": [], "checks": [], "notes": []
    });
    let mut document: Document = serde_json::from_value(text).unwrap();
    document.curves = values
        .iter()
        .map(|(name, mean)| Curve {
            name: (*name).into(),
            role: CurveRole::Attack,
            of: None,
            x: vec![0.1, 0.2, 0.4],
            mean: mean.to_vec(),
            standard_error: None,
            spread: None,
        })
        .collect();
    document
}

fn test(text: &str) -> Test {
    #[derive(serde::Deserialize)]
    struct Holder {
        test: Test,
    }
    toml::from_str::<Holder>(&format!("test = {text}")).unwrap().test
}

/// Each kind of test can hold, and can fail.
#[test]
fn tests_tell_what_holds() {
    let mut document = document(&[("a", &[0.1, 0.2, 0.3]), ("b", &[0.1, 0.4, 0.2])]);
    document.checks.push(Check {
        id: "a".into(),
        kind: CheckKind::Paper,
        claim: "a is a".into(),
        holds: true,
        comparisons: 1,
        detail: "it is".into(),
        violations: Vec::new(),
    });
    let holds = |text: &str| match test(text).on(&document) {
        TestOutcome::Holds(_) => Some(true),
        TestOutcome::Fails(_) => Some(false),
        TestOutcome::Untested(_) => None,
    };
    for (text, want) in [
        (r#"{ kind = "below", curve = "a", than = "b" }"#, Some(false)),
        (r#"{ kind = "below", curve = "a", than = "b", to = 2 }"#, Some(true)),
        (r#"{ kind = "below", curve = "a", than = "b", share = 0.6 }"#, Some(true)),
        (r#"{ kind = "below", curve = "a", than = "b", factor = 1.5 }"#, Some(true)),
        (r#"{ kind = "near", curve = "a", than = "b", within = 0.5 }"#, Some(true)),
        (r#"{ kind = "near", curve = "a", than = "b", within = 0.4 }"#, Some(false)),
        (r#"{ kind = "at_most", curve = "a", value = 0.2, to = 2 }"#, Some(true)),
        (r#"{ kind = "at_most", curve = "a", value = 0.2 }"#, Some(false)),
        (r#"{ kind = "at_least", curve = "a", value = 0.2, from = 2 }"#, Some(true)),
        (r#"{ kind = "at_least", curve = "a", value = 0.2 }"#, Some(false)),
        (r#"{ kind = "rises", curve = "a" }"#, Some(true)),
        (r#"{ kind = "rises", curve = "b" }"#, Some(false)),
        (r#"{ kind = "rises", curve = "b", slack = 0.5 }"#, Some(true)),
        (r#"{ kind = "falls", curve = "b", from = 2 }"#, Some(true)),
        (r#"{ kind = "falls", curve = "b" }"#, Some(false)),
        (r#"{ kind = "ratio", curve = "a", than = "b", low = 0.9, high = 1.1 }"#, Some(true)),
        (r#"{ kind = "ratio", curve = "a", than = "b", low = 1.1, high = 2.0 }"#, Some(false)),
        (r#"{ kind = "check", id = "a" }"#, Some(true)),
        (r#"{ kind = "check", id = "b" }"#, None),
        (r#"{ kind = "at_most", curve = "c", value = 1.0 }"#, None),
        (r#"{ kind = "at_most", curve = "a", value = 1.0, from = 9 }"#, None),
        (r#"{ kind = "none", why = "no" }"#, None),
    ] {
        assert_eq!(holds(text), want, "{text}");
    }
}

/// The verdict follows from values, order and sentences.
#[test]
fn verdicts_follow_from_values_and_sentences() {
    let card = |published: &str, claims: &str| {
        let head = "paper = \"R\"\nitem = \"figure 4\"\ntitle = \"t\"\nfigure = \"r-fig4\"\ndataset = \"synthetic\"\nsetup = \"s\"\n";
        Card::read("x", &format!("{head}{published}{claims}")).unwrap()
    };
    let value = |curve: &str, values: &str| {
        format!(
            "[[published]]\ncurve = \"{curve}\"\nsource = \"s\"\npoints = [1, 2, 4]\nvalues = {values}\n"
        )
    };
    let claim = |value: f64| {
        format!(
            "[[claim]]\nquote = \"q\"\nwhere = \"w\"\ntest = {{ kind = \"at_most\", curve = \"a\", value = {value:?} }}\n"
        )
    };
    let document = document(&[("a", &[0.1, 0.2, 0.3]), ("b", &[0.5, 0.6, 0.7])]);
    let of = |published: String, claims: String| {
        judge(&card(&published, &claims), Some(&document)).unwrap().verdict
    };
    let close = value("a", "[0.1, 0.22, 0.3]");
    let far = value("a", "[0.2, 0.4, 0.6]") + &value("b", "[1.0, 1.2, 1.4]");
    let crossed = value("a", "[2.0, 2.0, 2.0]") + &value("b", "[1.0, 1.0, 1.0]");
    assert_eq!(of(close.clone(), claim(1.0)), Verdict::Reproduced);
    assert_eq!(of(far.clone(), claim(1.0)), Verdict::OrderOnly);
    assert_eq!(of(crossed, claim(1.0)), Verdict::NotReproduced);
    assert_eq!(of(close, claim(0.1)), Verdict::OrderOnly, "values that agree stand in order");
    assert_eq!(
        of(value("a", "[0.2, 0.4, 0.6]"), claim(1.0)),
        Verdict::NotReproduced,
        "one curve has no order"
    );
    // Round-off has no order.
    let exact = value("a", "[1e-20, 0.4, 0.6]") + &value("b", "[1e-25, 1.2, 1.4]");
    assert_eq!(of(exact, claim(1.0)), Verdict::OrderOnly);
    assert_eq!(of(String::new(), claim(1.0)), Verdict::Reproduced);
    assert_eq!(of(String::new(), claim(1.0) + &claim(0.1)), Verdict::OrderOnly);
    assert_eq!(of(String::new(), claim(0.1)), Verdict::NotReproduced);
    assert_eq!(of(String::new(), String::new()), Verdict::NotTested);
    // A second reading stands beside, and does not count.
    let aside = claim(0.1) + "aside = true\n";
    assert_eq!(of(String::new(), claim(1.0) + &aside), Verdict::Reproduced);
    assert_eq!(of(String::new(), aside), Verdict::NotTested);
    // A value above its bound is impossible and not compared; one below it is, as before.
    let limited = |values: &str, limit: f64| value("a", values) + &format!("limit = {limit:?}\n");
    assert_eq!(of(limited("[0.1, 0.2, 0.6]", 0.5), String::new()), Verdict::Impossible);
    assert_eq!(of(limited("[0.1, 0.2, 0.6]", 0.7), String::new()), Verdict::NotReproduced);
    assert_eq!(of(limited("[0.1, 0.4, 0.6]", 0.5), String::new()), Verdict::NotReproduced);
    assert_eq!(of(limited("[0.1, 0.2, 0.3]", 0.5), String::new()), Verdict::Reproduced);
    let slip = |published: &str| {
        let close = card(&format!("slip = \"s\"\n{published}"), "");
        judge(&close, Some(&document)).unwrap().verdict
    };
    assert_eq!(slip(&value("a", "[0.1, 0.2, 0.3]")), Verdict::WithSlip);
    assert_eq!(slip(&value("a", "[0.2, 0.4, 0.6]")), Verdict::NotReproduced);
    let judged = judge(&card(&far, ""), Some(&document)).unwrap();
    assert_eq!(judged.comparisons[0].median_ratio, Some(0.5));
    assert_eq!(judge(&card(&far, ""), None).unwrap().verdict, Verdict::NotMade);
}

/// A card that is wrong is refused by name.
#[test]
fn wrong_cards_are_named() {
    let wrong = |from: &str, to: &str| {
        Card::read("it", &SMALL.replacen(from, to, 1)).unwrap_err().to_string()
    };
    assert!(
        wrong("figure = \"r-fig4\"", "figure = \"r-fig99\"")
            .contains("card it: `r-fig99` is no figure")
    );
    assert!(wrong("figure = \"r-fig4\"\n", "").contains("has no `figure`"));
    assert!(wrong("\"synthetic\"", "\"mnist\"").contains("mnist"));
    assert!(wrong("points = [1, 4]", "points = [1]").contains("as many `points` as `values`"));
    assert!(wrong("source = \"nowhere\"", "").contains("either `file` or `source`"));
    assert!(wrong("records = 40", "records = \"many\"").contains("`many` is no number of records"));
    assert!(wrong("kind = \"below\"", "kind = \"beneath\"").contains("beneath"));
    assert!(wrong("setup =", "set_up =").contains("set_up"));
    let named = "file = { group = \"pps3\", data = \"satellite\", quantity = \"nothing\" }";
    let text =
        SMALL.replace("source = \"nowhere\"\npoints = [1, 4]\nvalues = [0.0, 1000.0]", named);
    let card = Card::read("it", &text).unwrap();
    assert!(
        judge(&card, None).unwrap_err().to_string().contains("no curve `nothing` of satellite")
    );
    let folder = tempfile::tempdir().unwrap();
    let refused = || read_folder(folder.path()).unwrap_err().to_string();
    assert!(refused().contains("has no card"));
    std::fs::write(folder.path().join("x-one.toml"), SMALL).unwrap();
    assert!(refused().contains("is to be called r-NAME.toml"), "{}", refused());
    std::fs::write(
        folder.path().join("x-one.toml"),
        SMALL.replace("paper = \"R\"", "paper = \"X\""),
    )
    .unwrap();
    assert!(refused().contains("is in no entry of papers.toml"), "{}", refused());
    let papers = |letter: &str| {
        std::fs::write(
            folder.path().join("papers.toml"),
            format!("[[paper]]\nletter = {letter:?}\nname = \"a\"\n"),
        )
    };
    papers("X").unwrap();
    assert_eq!(read_folder(folder.path()).unwrap().papers.len(), 5);
    papers("R").unwrap();
    assert!(refused().contains("the letter R is taken by"), "{}", refused());
}

/// A curve that is not there is told, and the command is that of the card.
#[test]
fn curves_are_known_and_commands_complete() {
    let card = Card::read(
        "r-x",
        &SMALL.replace("curve = \"half_star\", than", "curve = \"half_stars\", than"),
    )
    .unwrap();
    let document = document(&[("half_star", &[0.1, 0.2, 0.3]), ("half", &[0.1, 0.4, 0.2])]);
    assert_eq!(
        card.unknown(&document),
        ["card r-x: the document has no curve `half_stars`; it has: half_star, half"]
    );
    let want = "cloison reproduce r-fig4 --dataset synthetic --records 40 --windows 2 --dimensions 1,4 --attacks half_star,half,random";
    assert_eq!(card.command(false).unwrap(), want);
    let quick =
        Card::read("r-x", &SMALL.replace("[[published]]", "[quick]\nrecords = 7\n\n[[published]]"))
            .unwrap();
    assert_eq!(quick.command(true).unwrap(), want.replace("--records 40", "--records 7"));
}
