//! The command from arguments to files.

use std::fs;

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: DefendArgs,
}

/// A directory with a file of scores, and what is run in it.
struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        let rows: String = (0..1200)
            .map(|i| {
                let a = 0.05 + 0.9 * f64::from(i * 7919 % 1200) / 1200.0;
                let b = (1.0 - a) * f64::from(i * 104_729 % 1100) / 1100.0;
                format!("r{i},{a},{b},{}\n", 1.0 - a - b)
            })
            .collect();
        bench.write("scores.csv", format!("id,low,\"mid, or so\",high\n{rows}"));
        bench.write(
            "case.json",
            r#"{"schema":1,"kind":"assess","w_pas":[[1,2],[-0.5,0.1],[0,1]],"x_pas":[[0,1]]}"#,
        );
        bench
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    fn args(&self, more: &[&str]) -> DefendArgs {
        let (scores, out) = (self.path("scores.csv"), self.path("out.csv"));
        let base = ["defend", "--scores", &scores, "--out", &out];
        Cli::try_parse_from(base.iter().chain(more)).unwrap().args
    }

    /// The output, and the report.
    fn run(&self, more: &[&str]) -> (Vec<Vec<String>>, serde_json::Value) {
        let args = self.args(more);
        let (content, report) =
            args.defend(&scores::content).unwrap_or_else(|e| panic!("{more:?}: {e}"));
        let rows =
            csv::ReaderBuilder::new().has_headers(false).from_reader(&content[..]).into_records();
        let rows = rows.map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect();
        assert!(report.to_string().contains("Promised"));
        (rows, serde_json::to_value(report).unwrap())
    }

    fn error(&self, more: &[&str]) -> String {
        match self.args(more).run().unwrap_err() {
            CliError::Input(message) => message,
            other => panic!("not refused: {other}"),
        }
    }
}

#[test]
fn every_defense_runs_and_keeps_the_columns() {
    let bench = Bench::new();
    let case = bench.path("case.json");
    let input = bench.run(&["--defense", "none"]).0;
    assert_eq!(input[0], ["id", "low", "mid, or so", "high"]);
    // Bins are of numbers, and scores are of classes.
    for name in DefenseConfig::NAMES.into_iter().filter(|name| *name != "bins") {
        let (rows, report) = bench.run(&["--defense", name, "--parameters", &case]);
        assert_eq!((rows.len(), &rows[0]), (1201, &input[0]), "{name}");
        assert!(
            rows.iter().zip(&input).all(|(row, input)| row[0] == input[0] && row.len() == 4),
            "{name}"
        );
        if report["contract"]["keeps_arg_max"] == true {
            assert_eq!(report["utility"]["arg_max_kept"], 1.0, "{name}");
        }
        if report["contract"]["keeps_ranking"] == true {
            assert_eq!(report["utility"]["ranks_kept"], 1.0, "{name}");
        }
        for value in rows[1..].iter().flat_map(|row| &row[1..]) {
            match name {
                "order_preserving_encryption" => assert!(value.parse::<u64>().unwrap() < 1 << 53),
                "class_label" => assert!(value == "0" || value == "1"),
                _ => assert!(value.parse::<f64>().unwrap().is_finite()),
            }
        }
    }
}

#[test]
fn scores_without_a_logit_defense_pass_through_no_logarithm() {
    let bench = Bench::new();
    let exact = "id,a,b\nx,0.35,0.65\ny,0.25,0.75\nz,1e-7,0.9999999\nq,0,1\n";
    bench.write("scores.csv", exact);
    let (rows, _) = bench.run(&["--defense", "none"]);
    let text: String = rows.iter().map(|row| row.join(",") + "\n").collect();
    assert_eq!(text, exact);
    let (rows, report) = bench.run(&["--defense", "rounding", "--set", "decimals=1"]);
    assert_eq!(rows[1..3], [["x", "0.4", "0.6"], ["y", "0.2", "0.8"]]);
    assert_eq!(report["contract"]["output"], "numbers");
    // A score of 0 has no logarithm, and still ranks last.
    let (rows, _) = bench.run(&["--defense", "temperature"]);
    assert!(rows[4][1].parse::<f64>().unwrap() < rows[3][1].parse::<f64>().unwrap());
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let bench = Bench::new();
    for name in ["gaussian_noise", "privee_dp", "order_preserving_encryption"] {
        let first = bench.run(&["--defense", name]).0;
        assert_eq!(bench.run(&["--defense", name]).0, first);
        assert_ne!(bench.run(&["--defense", name, "--seed", "2"]).0, first);
    }
}

#[test]
fn labels_fit_and_output_are_used() {
    let bench = Bench::new();
    let input = bench.run(&["--defense", "none"]).0;
    let labels: String = input[1..].iter().map(|row| format!("{},low\n", row[0])).collect();
    bench.write("labels.csv", format!("id,label\n{labels}"));
    let (_, report) =
        bench.run(&["--defense", "class_label", "--labels", &bench.path("labels.csv")]);
    assert_eq!(report["labels"]["accuracy_change"], 0.0);
    assert!(
        report["labels"]["calibration_error_before"].is_f64()
            && report["labels"]["calibration_error_after"].is_null()
    );
    let fit = bench.path("scores.csv");
    bench.run(&["--defense", "ranking", "--fit", &fit]);
    let (_, report) = bench.run(&["--defense", "codebook", "--set", "size=3", "--top", "1"]);
    assert!((report["contract"]["bits_per_record"].as_f64().unwrap() - 3f64.log2()).abs() < 1e-12);
    bench.args(&["--defense", "rounding", "--json"]).run().unwrap();
    assert!(
        fs::read_to_string(bench.path("out.csv"))
            .unwrap()
            .starts_with("id,low,\"mid, or so\",high\nr0,")
    );
}

#[test]
fn bad_files_are_refused_with_line_and_fix_and_without_scores() {
    let bench = Bench::new();
    for (content, parts) in [
        (&b""[..], &["is empty"][..]),
        (b"id,a,b\n", &["no record"]),
        (b"name,a,b\nx,0.5,0.5\n", &["line 1", "`id`"]),
        (b"id,a\nx,1\n", &["line 1", "at least 2"]),
        (b"id,a,a\nx,0.5,0.5\n", &["line 1", "column 3"]),
        (b"id,a,\nx,0.5,0.5\n", &["line 1", "no name"]),
        (b"id,a,b\nx,0.5,0.5\ny,0.1234\n", &["line 3", "2 fields"]),
        (b"id,a,b\nx,0.1234,0.8766\nx,0.5,0.5\n", &["line 3", "same id"]),
        (b"id,a,b\n,0.5,0.5\n", &["line 2", "empty"]),
        (b"id,a,b\n\n\nx,0.1234,0.5\n", &["line 4", "sum"]),
        (b"id,a,b\nx,0.1234,few\n", &["line 2", "`b`", "not a number"]),
        (b"id,a,b\nx,nan,0.1234\n", &["line 2", "`a`", "0 to 1"]),
        (b"id,a,b\nx,0.1234,inf\n", &["line 2", "`b`"]),
        (b"id,a,b\nx,-0.1234,1.1234\n", &["line 2", "`a`"]),
        (b"id,a,b\nx,1234,0\n", &["line 2", "percentages"]),
        (b"id,a,b\n\xff,0.5,0.5\n", &["line 2", "UTF-8"]),
        (b"id,a,b\nx,\"0.1234,0.5\ny,0.5,0.5\n", &["line 2", "quote"]),
    ] {
        bench.write("scores.csv", content);
        let error = bench.error(&["--defense", "none"]);
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        assert!(!error.contains("1234"), "{error}");
    }
    assert!(!Path::new(&bench.path("out.csv")).exists());
    bench.write("scores.csv", "\u{feff}id,a,b\r\nx,0.5000001,0.5\r\n");
    assert!(bench.run(&["--defense", "none"]).1["notes"][0].as_str().unwrap().contains("divided"));
}

#[test]
fn bad_options_are_refused() {
    let bench = Bench::new();
    bench.write("other.csv", "id,a,b\nx,0.5,0.5\n");
    bench.write("labels.csv", "id,label\nr0,low\n");
    bench.write("unknown.csv", "id,label\nr0,lower\n");
    bench.write("bad.json", r#"{"schema":1,"w_pas":[[1.2345],[2,3]]}"#);
    bench.write("worse.json", r#"{"schema":1,"w_pas":[["1.2345"]]}"#);
    bench.write("key.json", r#"{"schema":1,"w_pas":[[1]],"w_pass":[]}"#);
    let [other, labels, unknown, bad, worse, key] =
        ["other.csv", "labels.csv", "unknown.csv", "bad.json", "worse.json", "key.json"]
            .map(|name| bench.path(name));
    for (options, part) in [
        (&["--defense", "logit_noise"][..], "--parameters"),
        (&["--defense", "logit_noise", "--parameters", &bad], "row 1"),
        (&["--defense", "logit_noise", "--parameters", &worse], "case file"),
        (&["--defense", "logit_noise", "--parameters", &key], "w_pass"),
        (&["--defense", "ranking", "--fit", &other], "columns"),
        (&["--defense", "none", "--labels", &labels], "no label"),
        (&["--defense", "none", "--labels", &unknown], "line 2"),
        (&["--defense", "none", "--top", "4"], "--top"),
        (&["--defense", "class_label", "--defense", "rounding"], "cannot follow"),
        (&["--defense", "top_k", "--set", "k=3"], "1 to 2"),
        (&["--defense", "rounding", "--set", "digits=3"], "decimals"),
    ] {
        let error = bench.error(options);
        assert!(error.contains(part) && !error.contains("2345"), "{options:?}: {error}");
    }
    let mut args = bench.args(&["--defense", "none"]);
    args.scores = bench.0.path().to_owned();
    assert!(matches!(args.run(), Err(CliError::Input(m)) if m.contains("directory")));
}

/// Whatever a file holds, the command ends with a release or a refusal.
#[test]
fn hostile_files_do_not_panic() {
    use rand::{RngExt, SeedableRng};
    let bench = Bench::new();
    let mut rng = rand_chacha::ChaCha12Rng::seed_from_u64(1);
    let pieces: [&[u8]; 14] = [
        b"id",
        b",",
        b"\n",
        b"\"",
        b"a",
        b"0.5",
        b"1",
        b"\r",
        b"\0",
        b"\xef\xbb\xbf",
        b"\xff",
        b"1e999",
        b"-",
        b"id,a,b\n",
    ];
    for _ in 0..500 {
        let n = rng.random_range(0..40);
        let content: Vec<u8> =
            (0..n).flat_map(|_| pieces[rng.random_range(0..pieces.len())]).copied().collect();
        bench.write("scores.csv", &content);
        let _ = bench.args(&["--defense", "privee_dp"]).defend(&scores::content);
        let _ = bench
            .args(&["--defense", "none", "--labels", &bench.path("scores.csv")])
            .defend(&scores::content);
        let _ = read_weights(Path::new(&bench.path("scores.csv")), &scores::content);
    }
}
