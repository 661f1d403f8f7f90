//! The tables of measured results in the documents, made by the runs that they are of.
//!
//! A document names a table between two comments, `<!-- results: NAME -->` and `<!-- /results -->`. What stands between them is
//! written by `cargo run --release --example results`.

pub mod blocks;
mod privacy;
mod render;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use clap::Parser;

use crate::cli::DemoArgs;
use crate::demo::run;
use crate::report::Report;

/// A table of a document.
pub struct Table {
    /// Its name in the markers.
    pub name: &'static str,
    /// The document, from the root of the repository.
    pub document: &'static str,
    made: Made,
    /// Whether another run gives the same: some transforms are drawn from the operating system.
    pub repeats: bool,
}

/// How a table is made.
enum Made {
    /// Of demonstrations: the words of `cloison demo` commands.
    Of { commands: &'static [&'static [&'static str]], render: fn(&[&Report]) -> anyhow::Result<String> },
    /// By runs of its own, which no other command makes.
    Alone(fn() -> anyhow::Result<String>),
}

const RESULTS: &str = "docs/results.md";
const README: &str = "README.md";

const TWELVE: &[&str] = &["--dataset", "satellite", "--passive-features", "12"];
const ALL_SATELLITE: &[&str] = &["--dataset", "satellite", "--passive-features", "18", "--policy", "all", "--no-sweep"];
const ALL_BANK: &[&str] = &["--dataset", "bank", "--passive-features", "9", "--policy", "all", "--no-sweep"];

/// Satellite with 12 passive features and exact scores, under a transform of the parameters.
macro_rules! shown {
    ($transform:literal) => {
        &[
            "--dataset",
            "satellite",
            "--passive-features",
            "12",
            "--policy",
            "none",
            "--no-sweep",
            "--transform",
            $transform,
        ]
    };
}

/// Every table, in the order of the documents.
pub const TABLES: &[Table] = &[
    Table {
        name: "readme",
        document: README,
        made: Made::Of { commands: &[ALL_SATELLITE], render: render::readme },
        repeats: true,
    },
    Table {
        name: "one-audit",
        document: RESULTS,
        made: Made::Of { commands: &[TWELVE], render: render::excerpt },
        repeats: true,
    },
    Table {
        name: "defenses-satellite",
        document: RESULTS,
        made: Made::Of { commands: &[ALL_SATELLITE], render: render::defenses },
        repeats: true,
    },
    Table {
        name: "defenses-bank",
        document: RESULTS,
        made: Made::Of { commands: &[ALL_BANK], render: render::defenses },
        repeats: true,
    },
    Table {
        name: "certificates-satellite",
        document: RESULTS,
        made: Made::Of { commands: &[ALL_SATELLITE], render: render::certificates },
        repeats: true,
    },
    Table {
        name: "certificates-bank",
        document: RESULTS,
        made: Made::Of { commands: &[ALL_BANK], render: render::certificates },
        repeats: true,
    },
    Table {
        name: "transforms",
        document: RESULTS,
        made: Made::Of {
            commands: &[shown!("none"), shown!("negate"), shown!("complement"), shown!("least_squares_optimal")],
            render: render::transforms,
        },
        repeats: true,
    },
    Table {
        name: "transforms-drawn",
        document: RESULTS,
        made: Made::Of {
            commands: &[shown!("permute"), shown!("random_orthonormal"), shown!("stiefel (epsilon = 1.0)")],
            render: render::transforms,
        },
        repeats: false,
    },
    Table { name: "privacy", document: RESULTS, made: Made::Alone(privacy::table), repeats: true },
];

impl Table {
    /// The commands as a reader types them.
    #[must_use]
    pub fn commands(&self) -> Vec<String> {
        match self.made {
            Made::Of { commands, .. } => {
                commands.iter().map(|words| format!("cargo run --release -- demo {}", typed(words))).collect()
            }
            Made::Alone(_) => vec![format!("cargo run --release --example results -- {}", self.name)],
        }
    }

    /// What stands between the markers now.
    ///
    /// # Errors
    /// Whatever stops a run, or that its report lacks what the table shows.
    pub async fn make(&self, runs: &mut Runs) -> anyhow::Result<String> {
        let (commands, render) = match self.made {
            Made::Of { commands, render } => (commands, render),
            Made::Alone(make) => return make(),
        };
        for words in commands {
            runs.need(words).await?;
        }
        let reports: Vec<&Report> = commands.iter().filter_map(|words| runs.done.get(&typed(words))).collect();
        render(&reports)
    }
}

/// The runs so far: several tables may be of one.
#[derive(Default)]
pub struct Runs {
    done: BTreeMap<String, Report>,
}

impl Runs {
    async fn need(&mut self, words: &[&str]) -> anyhow::Result<()> {
        let command = typed(words);
        if let Entry::Vacant(missing) = self.done.entry(command) {
            let plan = Line::try_parse_from([&["demo"], words].concat())?.demo.plan()?;
            missing.insert(run(&plan).await?);
        }
        Ok(())
    }
}

/// The command line of a demonstration.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    demo: DemoArgs,
}

fn typed(words: &[&str]) -> String {
    let quoted = |word: &&str| if word.contains(' ') { format!("'{word}'") } else { (*word).to_owned() };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}
