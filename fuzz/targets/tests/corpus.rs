//! The corpus that fuzzing found, replayed without a fuzzer: no input makes a target panic or keeps it busy.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use vfl_fuzz_targets::{MAX_INPUT, TARGETS, Target};

/// How long one input may take, in an unoptimised build on a busy machine. The slowest takes a hundredth of it.
const DEADLINE: Duration = Duration::from_secs(60);

/// All inputs of a target, by the names of their files: those of its archive, and those that lie in
/// its folder until `scripts/fuzz.sh --minimise` puts them into the archive.
fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus");
    let path = dir.join(format!("{name}.tar.gz"));
    let file = File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let mut inputs: Vec<(String, Vec<u8>)> = archive
        .entries()
        .unwrap()
        .map(|entry| {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().to_string_lossy().into_owned();
            let mut input = Vec::new();
            entry.read_to_end(&mut input).unwrap();
            (name, input)
        })
        .collect();
    for file in std::fs::read_dir(dir.join(name)).into_iter().flatten() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        inputs.push((name, std::fs::read(path).unwrap()));
    }
    inputs.sort();
    inputs
}

/// Runs all inputs on a thread of their own, and fails where one does not come back.
fn replay(name: &str, target: Target) {
    let inputs = corpus(name);
    assert!(inputs.len() >= 20, "{name} has only {} inputs", inputs.len());
    let (report, reports) = mpsc::channel();
    let names: Vec<String> = inputs.iter().map(|(file, _)| file.clone()).collect();
    let worker = std::thread::spawn(move || {
        for (_, input) in &inputs {
            assert!(input.len() <= MAX_INPUT);
            let began = Instant::now();
            target(input);
            report.send(began.elapsed()).unwrap();
        }
    });
    let mut slowest = (Duration::ZERO, "");
    for file in &names {
        match reports.recv_timeout(DEADLINE) {
            Ok(took) => slowest = slowest.max((took, file)),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                panic!("{name}/{file} is not done after {DEADLINE:?}")
            }
            // The panic itself is on standard error.
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                panic!("{name}/{file} panicked: {:?}", worker.join().is_err())
            }
        }
    }
    worker.join().unwrap();
    println!("{name}: {} inputs, the slowest {:?} ({})", names.len(), slowest.0, slowest.1);
}

macro_rules! replayed {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            let (name, target) = TARGETS.into_iter().find(|(name, _)| *name == stringify!($name)).unwrap();
            replay(name, target);
        })*

        #[test]
        fn every_target_is_replayed() {
            assert_eq!(TARGETS.map(|(name, _)| name), [$(stringify!($name)),*]);
        }
    };
}

replayed![messages, csv, schema, config, case_files];

#[test]
fn the_corpus_is_small() {
    let bytes: usize =
        TARGETS.iter().flat_map(|(name, _)| corpus(name)).map(|(_, input)| input.len()).sum();
    assert!(
        bytes < 1 << 20,
        "the corpus has {bytes} bytes: minimise it (scripts/fuzz.sh --minimise)"
    );
}
