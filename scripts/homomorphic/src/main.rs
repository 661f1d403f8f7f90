//! Times the five highest of encrypted confidence scores (Top-5 HE, P section 6.2, table 9), as
//! Verma et al. (2022, P's reference) select them: comparisons of encrypted numbers in Batcher's network, without those
//! comparisons on which the five do not depend. A number is a score of 16 bits with the position of
//! its class below it, under TFHE (the default parameters of TFHE-rs, 128 bits of security).

mod network;

use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use rand::RngExt;
use rayon::prelude::*;
use serde::Serialize;
use tfhe::prelude::*;
use tfhe::{ClientKey, ConfigBuilder, FheUint32, generate_keys, set_server_key};

use self::network::{Comparator, Output, Selection};

/// The number of classes that a record is answered with.
const TOP: usize = 5;

/// Times the five highest of encrypted scores.
#[derive(Parser)]
#[command(
    after_help = "Example: vfl-homomorphic --out top5.json 10 100 --extrapolate 1000 --extrapolate 10000"
)]
struct Options {
    /// The numbers of classes to compute.
    #[arg(required = true, value_parser = clap::value_parser!(u16).range(6..))]
    classes: Vec<u16>,
    /// A number of classes whose time is the number of its comparisons times the time of one.
    #[arg(long, value_parser = clap::value_parser!(u16).range(6..))]
    extrapolate: Vec<u16>,
    /// Writes the times as JSON.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// The times of one number of classes, in seconds.
#[derive(Serialize)]
struct Times {
    classes: u16,
    comparisons: usize,
    /// Absent for an extrapolated row.
    #[serde(skip_serializing_if = "Option::is_none")]
    encryption_seconds: Option<f64>,
    selection_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    decryption_seconds: Option<f64>,
    extrapolated: bool,
}

#[derive(Serialize)]
struct Report {
    library: &'static str,
    threads: usize,
    key_seconds: f64,
    times: Vec<Times>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::parse();
    let begun = Instant::now();
    let (client, server) = generate_keys(ConfigBuilder::default().build());
    let key_seconds = begun.elapsed().as_secs_f64();
    println!("keys: {key_seconds:.2} s");
    // The key of computations belongs to a thread, here those of rayon's pool.
    rayon::broadcast(|_| set_server_key(server.clone()));

    let mut times = Vec::new();
    for &classes in &options.classes {
        times.push(compute(classes, &client)?);
        print(&times[times.len() - 1]);
    }
    let (seconds, comparisons) =
        times.iter().fold((0.0, 0), |(s, c), row| (s + row.selection_seconds, c + row.comparisons));
    for &classes in &options.extrapolate {
        let count = Selection::new(usize::from(classes), TOP).comparisons();
        times.push(Times {
            classes,
            comparisons: count,
            encryption_seconds: None,
            selection_seconds: seconds / comparisons as f64 * count as f64,
            decryption_seconds: None,
            extrapolated: true,
        });
        print(&times[times.len() - 1]);
    }
    let threads = rayon::current_num_threads();
    let report = Report { library: "tfhe 1.8.2", threads, key_seconds, times };
    if let Some(path) = options.out {
        std::fs::write(path, serde_json::to_string_pretty(&report)? + "\n")?;
    }
    Ok(())
}

/// Selects the five highest of random scores, and compares them with those in clear.
fn compute(classes: u16, client: &ClientKey) -> Result<Times, Box<dyn std::error::Error>> {
    let mut rng = rand::rng();
    // A class with a smaller position goes before another with the same score.
    let mut numbers: Vec<u32> = (0..classes)
        .map(|class| u32::from(rng.random::<u16>()) << 16 | u32::from(u16::MAX - class))
        .collect();
    let begun = Instant::now();
    let mut encrypted: Vec<FheUint32> =
        numbers.par_iter().map(|number| FheUint32::encrypt(*number, client)).collect();
    let encryption = begun.elapsed().as_secs_f64();

    let network = Selection::new(usize::from(classes), TOP);
    let begun = Instant::now();
    for stage in &network.stages {
        let compared: Vec<_> =
            stage.par_iter().map(|comparator| compare(comparator, &encrypted)).collect();
        for (comparator, (higher, lower)) in stage.iter().zip(compared) {
            if let Some(higher) = higher {
                encrypted[comparator.first] = higher;
            }
            if let Some(lower) = lower {
                encrypted[comparator.second] = lower;
            }
        }
    }
    let selected = begun.elapsed().as_secs_f64();

    let begun = Instant::now();
    let found: Vec<u32> =
        network.selected.iter().map(|place| encrypted[*place].decrypt(client)).collect();
    let decryption = begun.elapsed().as_secs_f64();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    if found != numbers[..TOP] {
        return Err(format!("the five highest of {classes} encrypted scores are wrong").into());
    }
    Ok(Times {
        classes,
        comparisons: network.comparisons(),
        encryption_seconds: Some(encryption),
        selection_seconds: selected,
        decryption_seconds: Some(decryption),
        extrapolated: false,
    })
}

/// Returns the higher and the lower of two encrypted numbers, as far as the network needs them.
fn compare(
    Comparator { first, second, output }: &Comparator,
    encrypted: &[FheUint32],
) -> (Option<FheUint32>, Option<FheUint32>) {
    let (a, b) = (&encrypted[*first], &encrypted[*second]);
    let greater = a.gt(b);
    let higher = || greater.select(a, b);
    let lower = || greater.select(b, a);
    match output {
        Output::Higher => (Some(higher()), None),
        Output::Lower => (None, Some(lower())),
        Output::Both => {
            let (higher, lower) = rayon::join(higher, lower);
            (Some(higher), Some(lower))
        }
    }
}

fn print(row: &Times) {
    let of = |seconds: Option<f64>| seconds.map_or("–".to_owned(), |s| format!("{s:.3}"));
    println!(
        "{:>6} classes: {:>6} comparisons, {:>10.1} s{}; encryption {} s, decryption {} s",
        row.classes,
        row.comparisons,
        row.selection_seconds,
        if row.extrapolated { " (extrapolated)" } else { "" },
        of(row.encryption_seconds),
        of(row.decryption_seconds),
    );
}
