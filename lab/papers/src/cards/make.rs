//! Computes cards, with one file for each, so that an interrupted run can be continued.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use vfl_core::hex;
use vfl_datasets::DatasetName;
use vfl_present::progress::say;
use vfl_present::result_cache::{ResultCache, Shard, StoreUrl};

use super::card::Card;
use crate::model_training::TrainAndServe;
use crate::{
    Document, ExperimentModel, ExperimentModelSpec, Figure, Options, ReproduceError,
    SCHEMA_VERSION, run,
};

/// The plan of a run over cards.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The directory of the files.
    pub out: PathBuf,
    /// The directory of the public data sets.
    pub data_dir: Option<PathBuf>,
    /// True if the cards' smaller settings are used.
    pub quick: bool,
    /// Seed of everything random.
    pub seed: u64,
    /// The number of threads; no result depends on it.
    pub threads: usize,
    /// The part of the cards to compute; `None`: all.
    pub shard: Option<Shard>,
    /// A store for finished cards and models besides `out`.
    pub store: Option<StoreUrl>,
    /// The parties that train over sockets, for the figures that want it.
    pub parties: Option<TrainAndServe>,
}

/// The result of a run over cards.
#[derive(Debug, Default)]
pub struct RunSummary {
    /// The existing documents, by the index of their card.
    pub documents: Vec<Option<Document>>,
    /// Cards computed now, with the seconds each took.
    pub computed: Vec<(String, f64)>,
    /// The number of cards found in the folder.
    pub kept: usize,
    /// The number of cards taken from the store.
    pub fetched: usize,
    /// The cards that could not be computed, with the reason.
    pub failed: Vec<(String, String)>,
    /// The cards that --quick leaves out, with the reason.
    pub left_out: Vec<(String, String)>,
    /// The number of missing cards that other shards compute.
    pub elsewhere: usize,
    /// The number of cards and models that are in files and could not be put into the store.
    pub unstored: usize,
}

/// The stored form of a document.
#[derive(Serialize, Deserialize)]
struct StoredDocument {
    /// The key of the settings that it was computed from.
    key: String,
    document: Document,
}

/// A card to compute.
struct Job<'a> {
    place: usize,
    card: &'a Card,
    figure: Figure,
    spec: ExperimentModelSpec,
    options: Options,
    key: String,
}

/// Computes the cards that are missing, and reads the others from the folder, or else from the
/// store. A card that cannot be computed is listed in [`RunSummary::failed`]; the others are
/// computed nevertheless. A card that cannot be put into the store counts in
/// [`RunSummary::unstored`].
///
/// # Errors
/// [`ReproduceError::Write`] if a file cannot be written; [`ReproduceError::Store`] if the store
/// cannot be read or, before the first card is computed, not be written to.
pub fn make(cards: &[Card], plan: &Plan) -> Result<RunSummary, ReproduceError> {
    let mut made = RunSummary { documents: vec![None; cards.len()], ..RunSummary::default() };
    let mut jobs = Vec::new();
    for (place, card) in cards.iter().enumerate() {
        if let (true, Some(why)) = (plan.quick, &card.quick.skip) {
            made.left_out.push((card.id.clone(), why.clone()));
            continue;
        }
        match job(place, card, plan) {
            Ok(job) => jobs.extend(job),
            Err(why) => made.failed.push((card.id.clone(), why)),
        }
    }
    let keeper = ResultCache::open(&plan.out, plan.store.as_ref(), "cards")?;
    let ours = |i: usize| plan.shard.is_none_or(|shard| shard.has(i));
    // Cards of one computation belong to one part, which computes it once.
    let mut computations: BTreeMap<String, usize> = BTreeMap::new();
    let mut missing = Vec::new();
    for job in jobs {
        let next = computations.len();
        let i = *computations.entry(job.key.clone()).or_insert(next);
        let place = keeper.card(&job.card.id, &job.key);
        let read = |bytes: &[u8]| kept(bytes, &job.key);
        if let Some(document) = keeper.in_folder(&place, read) {
            made.documents[job.place] = Some(document);
            made.kept += 1;
            if ours(i) {
                keeper.catch_up(&place);
            }
        } else if !ours(i) {
            made.elsewhere += 1;
        } else if let Some(document) = keeper.in_store(&place, read)? {
            made.documents[job.place] = Some(document);
            made.fetched += 1;
        } else {
            missing.push(job);
        }
    }
    if !missing.is_empty() {
        keeper.try_store()?;
    }
    // Cards of one model are adjacent, so that it is trained once.
    missing.sort_by_cached_key(|job| {
        (subject_key(&job.spec), job.figure as usize, job.key.clone(), job.place)
    });
    let mut held: Option<(String, ExperimentModel)> = None;
    // Several tables of one paper come from one computation.
    let mut last: Option<(String, Document)> = None;
    let all = missing.len();
    for (i, job) in missing.into_iter().enumerate() {
        say(&format!("card {} of {all}: {}, {}", i + 1, job.card.id, job.card.title));
        let start = Instant::now();
        let same = last.take().filter(|(key, _)| *key == job.key).map(|(_, document)| Ok(document));
        match same.unwrap_or_else(|| compute(&job, &mut held, &keeper)) {
            Ok(document) => {
                let kept = StoredDocument { key: job.key, document };
                let mut text = serde_json::to_vec(&kept)?;
                text.push(b'\n');
                keeper.keep(&keeper.card(&job.card.id, &kept.key), text)?;
                last = Some((kept.key, kept.document.clone()));
                made.documents[job.place] = Some(kept.document);
                made.computed.push((job.card.id.clone(), start.elapsed().as_secs_f64()));
            }
            Err(why) => made.failed.push((job.card.id.clone(), why.to_string())),
        }
    }
    made.unstored = keeper.finish();
    Ok(made)
}

/// Reads a document from a file or an object, if it is complete and has this key.
fn kept(bytes: &[u8], key: &str) -> Option<Document> {
    let kept: StoredDocument = serde_json::from_slice(bytes).ok()?;
    (kept.key == key).then_some(kept.document)
}

/// Returns the job of a card; `None` if nothing computes it.
fn job<'a>(place: usize, card: &'a Card, plan: &Plan) -> Result<Option<Job<'a>>, String> {
    let Some((figure, dataset)) = card.computed()? else { return Ok(None) };
    let variant = match &card.variant {
        Some(text) => dataset.variant(text).map_err(|e| e.to_string())?,
        None => figure.default_variant(dataset),
    };
    let (seed, threads) = (plan.seed, plan.threads);
    let options = Options { seed, threads, ..card.options(plan.quick)? };
    let data_dir = if DatasetName::is_included(dataset) { None } else { plan.data_dir.clone() };
    let spec = ExperimentModelSpec {
        dataset,
        data_dir,
        variant,
        model: None,
        seed,
        l2: None,
        protocol: figure.protocol(),
        training: figure.training(),
        parties: plan.parties,
    };
    let Options {
        records,
        inversion_records,
        inversion,
        attacks,
        dimensions,
        windows,
        own_records,
        ..
    } = &options;
    let settings = serde_json::json!({
        "schema": SCHEMA_VERSION,
        "program": env!("CARGO_PKG_VERSION"),
        "figure": figure.as_str(),
        "subject": subject_key(&spec),
        "records": records,
        "inversion_records": inversion_records,
        "inversion": inversion,
        "attacks": attacks,
        "dimensions": dimensions,
        "windows": windows,
        "own_records": own_records,
    });
    let key = hex(Sha256::digest(settings.to_string().as_bytes()));
    Ok(Some(Job { place, card, figure, spec, options, key }))
}

/// Returns a key that identifies the model.
fn subject_key(spec: &ExperimentModelSpec) -> String {
    format!(
        "{} {} {:?} {:?} {}",
        spec.dataset, spec.variant, spec.protocol, spec.training, spec.seed
    )
}

/// Computes the document of a card, without the times that differ from run to run.
fn compute(
    job: &Job<'_>,
    held: &mut Option<(String, ExperimentModel)>,
    models: &ResultCache,
) -> Result<Document, ReproduceError> {
    let key = subject_key(&job.spec);
    if held.as_ref().is_none_or(|(of, _)| *of != key) {
        // The old subject is dropped first: two image sets take too much memory.
        *held = None;
        *held = Some((key, ExperimentModel::load_kept(&job.spec, Some(models))?));
    }
    let Some((_, subject)) = held else {
        return Err(ReproduceError::NothingToRun { notes: String::new() });
    };
    Ok(run(job.figure, subject, &job.options)?.without_times())
}
