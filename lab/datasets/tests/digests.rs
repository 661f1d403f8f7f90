//! The same seed gives the same model, to the bit, as every earlier version of this program: stored shares are known by the
//! digests of their files.
#![allow(missing_docs, clippy::unwrap_used)]

use nalgebra::DMatrix;
use vfl_core::model::{PartyLearner, Schedule, TrainingConfig, TrainingValues, cross_entropy};
use vfl_core::types::{FeatureBlock, Logits};
use vfl_datasets as data;
use vfl_datasets::{Dataset, DatasetName, DatasetSpec};
use vfl_state::ShareStore;
use vfl_testing::not_run;

/// Trains for six epochs without a validation share: an active party with all features but the last four, and two passive
/// parties with two of them each. Gives the digest of each party's share, the active party's first.
fn digests(dataset: &Dataset) -> Vec<String> {
    let values = TrainingValues {
        epochs: 6,
        learning_rate: 0.02,
        l2: 1e-4,
        validation_share: 0.0,
        seed: 5,
        ..TrainingValues::default()
    };
    let config = TrainingConfig::try_from(values).unwrap();
    let train = &dataset.split().train;
    let (x, k) = (dataset.x().select_columns(train), dataset.class_names().len());
    let d = x.nrows();
    let columns = [0..d - 4, d - 4..d - 2, d - 2..d];
    let mut parties: Vec<PartyLearner> = columns
        .iter()
        .enumerate()
        .map(|(at, rows)| {
            let block = FeatureBlock::new(x.rows(rows.start, rows.len()).into_owned()).unwrap();
            PartyLearner::new(&config, k, block, at == 0).unwrap()
        })
        .collect();
    let mut schedule = Schedule::new(&config, train.len());
    for _ in 0..6 {
        for batch in schedule.next_epoch() {
            let shares: Vec<_> =
                parties.iter_mut().map(|party| party.shares(&batch, false).unwrap()).collect();
            let mut shares = shares.into_iter();
            let logits = Logits::sum(shares.next().unwrap(), shares).unwrap();
            let labels: Vec<u32> =
                batch.iter().map(|&p| dataset.labels()[train[p as usize]]).collect();
            let gradient: DMatrix<f64> = cross_entropy(logits, &labels).1;
            parties.iter_mut().for_each(|party| party.update(&gradient).unwrap());
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let store = ShareStore::open(dir.path()).unwrap();
    let names: Vec<String> = dataset.features().iter().map(|f| f.name.clone()).collect();
    let put = |(party, rows): (&PartyLearner, &std::ops::Range<usize>)| {
        store.put(party.parameters(false).unwrap(), &names[rows.clone()]).unwrap()
    };
    parties.iter().zip(&columns).map(put).collect()
}

/// Products of matrices are added up in an order that depends on the processor: the digests are those of one with fused
/// multiply-add.
fn processor_fits() -> bool {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("fma") && std::arch::is_x86_feature_detected!("avx2") {
        return true;
    }
    not_run(
        "a_seed_gives_the_parameters_it_always_gave",
        "the digests are those of x86-64 with fused multiply-add",
    );
    false
}

/// The digests were computed with the code of commit c4ebaeb.
#[test]
fn a_seed_gives_the_parameters_it_always_gave() {
    if !processor_fits() {
        return;
    }
    for (name, expected) in
        [(DatasetName::Synthetic, SYNTHETIC), (DatasetName::Satellite, SATELLITE)]
    {
        let found = digests(&data::load(&DatasetSpec::new(name, None, 3)).unwrap());
        println!("{name}: {found:#?}");
        assert_eq!(found, expected, "{name}");
    }
}

const SYNTHETIC: [&str; 3] = [
    "f1d650a2c684957cc0d37190021529bc16ab68395b0d8ad4227a649f86214149",
    "571833490747a22a14a2a3c1c7718e386e4e015152ec17f151f2db02fb62afa7",
    "dd101b14e65a23910e778be919b4d46ce0d78f22324e94de9ba2f9162fd44ce3",
];
const SATELLITE: [&str; 3] = [
    "3012438201866d282e22212908b4f34504d4155bbb32c73c5be510b213d2c0b1",
    "6ee44f62e4652f78ede3c8623b9948fe26f86da7b4c5f64b1f4a241488547adb",
    "2ab9c017b395e8cc57456e4776a6eee464da19210ac4f6eeae37494fd282d03d",
];
