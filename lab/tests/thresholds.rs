//! Thresholds on the command line: the exit code, and what is written before it.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

use vfl_auditor::report::{Compliance, Report};

fn demo(out: &Path, options: &[&str]) -> Output {
    let binary = std::env::var_os("CLOISON_UNDER_TEST")
        .unwrap_or_else(|| env!("CARGO_BIN_EXE_cloison").into());
    let all = [
        "--records",
        "100",
        "--known-records",
        "60",
        "--epochs",
        "3",
        "--no-sweep",
        "--policy",
        "none",
    ];
    Command::new(binary).arg("demo").args(all).args(options).arg("--out").arg(out).output().unwrap()
}

/// Undefended scores of 5 classes determine the 4 passive features: they add everything, and every record comes back.
#[test]
fn a_threshold_that_is_not_met_is_exit_code_3_and_everything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let ran = demo(dir.path(), &["--max-added-risk", "0.5", "--max-exact-share", "0.5"]);
    let (printed, said) =
        (String::from_utf8(ran.stdout).unwrap(), String::from_utf8(ran.stderr).unwrap());
    assert_eq!(ran.status.code(), Some(3), "{said}");
    let last = said.lines().last().unwrap();
    assert!(
        last.starts_with("not met: max_added_risk = 0.5: ")
            && last.contains("max_exact_share = 0.5: "),
        "{last}"
    );
    assert!(printed.contains("Next: ") && printed.lines().count() <= 40, "{printed}");
    for file in ["report.html", "report.csv"] {
        assert!(std::fs::metadata(dir.path().join(file)).unwrap().len() > 1000, "{file}");
    }
    let report =
        Report::from_json(&std::fs::read_to_string(dir.path().join("report.json")).unwrap())
            .unwrap();
    let unmet: Vec<Compliance> = report.unmet().iter().map(|result| result.compliance).collect();
    assert_eq!(unmet, [Compliance::NotMet; 2]);
    assert!(
        report.command.contains("--max-added-risk 0.5 --max-exact-share 0.5"),
        "{}",
        report.command
    );

    let met = demo(dir.path(), &["--max-added-risk", "1", "--details"]);
    assert_eq!(met.status.code(), Some(0), "{}", String::from_utf8_lossy(&met.stderr));
    assert!(
        String::from_utf8_lossy(&met.stdout)
            .contains("Summary: the strongest attack on each defense")
    );
}

#[test]
fn a_threshold_that_is_no_share_is_refused_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    for (option, value) in
        [("--max-added-risk", "-0.1"), ("--max-exact-share", "NaN"), ("--max-added-risk", "10")]
    {
        let refused = demo(dir.path(), &[option, value]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(
            said.contains(&option[2..].replace('-', "_")) && said.contains("from 0 to 1"),
            "{said}"
        );
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
