//! Writes the tables of measured results in `README.md` and `docs/results.md`:
//!
//! ```console
//! cargo run --release --example results                    # all
//! cargo run --release --example results -- readme          # some, by the names in the markers
//! cargo run --release --example results -- --check         # writes nothing, and fails if any would change
//! ```

#[allow(dead_code)]
mod tables;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Parser;

use tables::{Runs, TABLES, Table, blocks};

/// Write the tables of measured results in the documents.
#[derive(Parser)]
struct Args {
    /// The tables; all unless some are named.
    names: Vec<String>,
    /// Say which would change, and write nothing.
    #[arg(long)]
    check: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let mut runs = Runs::default();
    let mut changed = false;
    for table in chosen(&args)? {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(table.document);
        let content =
            table.make(&mut runs).await.with_context(|| format!("table {}", table.name))?;
        let old = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let new = blocks::replace(&old, table.name, &content).context(table.document)?;
        let same = if new == old { "as it is" } else { "changes" };
        println!("{} in {}: {same}", table.name, table.document);
        changed |= new != old;
        if !args.check {
            std::fs::write(&path, new).with_context(|| path.display().to_string())?;
        }
    }
    Ok(if args.check && changed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The tables named. A check without names leaves out those that no two runs make alike.
fn chosen(args: &Args) -> anyhow::Result<Vec<&'static Table>> {
    if let Some(unknown) =
        args.names.iter().find(|name| TABLES.iter().all(|table| table.name != **name))
    {
        let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        bail!("there is no table `{unknown}`; there are {}", names.join(", "));
    }
    let named = |table: &&Table| match args.names.is_empty() {
        true => table.repeats || !args.check,
        false => args.names.iter().any(|name| name == table.name),
    };
    Ok(TABLES.iter().filter(named).collect())
}
