//! Keyed noise: the same record has the same answer, however often and wherever it is asked for.

use std::collections::HashSet;

use vfl_core::types::RecordIds;

use super::*;

const K: usize = 5;

#[test]
fn a_record_has_one_answer_wherever_it_stands() {
    let ground = Ground::new(K);
    let n = 40;
    let scores = random_scores(K, n, 21);
    let ids: Vec<String> = (0..n).map(|i| format!("r{i}")).collect();
    let key = NoiseSecret::new([3; 32]).key("m", "p");
    for config in configs(K) {
        let pipeline = ground.build(&config);
        let forward = RecordIds::new(&ids).unwrap();
        let whole = columns(&release(&pipeline, &scores, Noise::keyed(&key, &forward)).released);
        let backward = RecordIds::new(ids.iter().rev()).unwrap();
        let turned = DMatrix::from_fn(K, n, |i, j| scores[(i, n - 1 - j)]);
        let mut again =
            columns(&release(&pipeline, &turned, Noise::keyed(&key, &backward)).released);
        again.reverse();
        assert_eq!(again, whole, "{config}");
        let alone = RecordIds::new(["r7"]).unwrap();
        let one = columns(
            &release(&pipeline, &scores.columns(7, 1).into_owned(), Noise::keyed(&key, &alone))
                .released,
        );
        assert_eq!(one[0], whole[7], "{config}");
    }
}

#[test]
fn a_thousand_questions_have_one_answer_and_another_secret_another() {
    let ground = Ground::new(K);
    let scores = DMatrix::from_column_slice(K, 1, &[0.1, 0.4, 0.25, 0.05, 0.2]);
    let ids = RecordIds::new(["r"]).unwrap();
    let mut randomised = 0;
    for config in configs(K) {
        let pipeline = ground.build(&config);
        let key = NoiseSecret::new([3; 32]).key("m", "p");
        let answers: HashSet<_> = (0..1000)
            .map(|_| columns(&release(&pipeline, &scores, Noise::keyed(&key, &ids)).released))
            .collect();
        assert_eq!(answers.len(), 1, "{config}");
        let others: HashSet<_> = (0u8..20)
            .map(|s| {
                columns(
                    &release(
                        &pipeline,
                        &scores,
                        Noise::keyed(&NoiseSecret::new([s; 32]).key("m", "p"), &ids),
                    )
                    .released,
                )
            })
            .collect();
        match (pipeline.contract().randomised, pipeline.contract().output) {
            // Five labels are all there are.
            (true, Output::Label) => assert!((2..=K).contains(&others.len()), "{config}"),
            (randomised, _) => {
                assert_eq!(others.len(), if randomised { 20 } else { 1 }, "{config}")
            }
        }
        randomised += u32::from(pipeline.contract().randomised);
    }
    assert!(randomised >= 9, "{randomised}");
}

/// Threads do not matter: a large batch is that of its parts.
#[test]
fn large_batches_are_those_of_their_parts() {
    let ground = Ground::new(K);
    let n = 5000;
    let scores = random_scores(K, n, 8);
    let ids: Vec<String> = (0..n).map(|i| format!("r{i}")).collect();
    let key = NoiseSecret::new([3; 32]).key("m", "p");
    for config in configs(K).iter().filter(|c| c.name() != "order_preserving_encryption") {
        let pipeline = ground.build(config);
        let all = RecordIds::new(&ids).unwrap();
        let whole = columns(&release(&pipeline, &scores, Noise::keyed(&key, &all)).released);
        for from in (0..n).step_by(1000) {
            let ids = RecordIds::new(&ids[from..from + 1000]).unwrap();
            let part = scores.columns(from, 1000).into_owned();
            let part = columns(&release(&pipeline, &part, Noise::keyed(&key, &ids)).released);
            assert_eq!(part, whole[from..from + 1000], "{config}");
        }
    }
}

/// Equal scores have equal ciphertexts in all records, and the order holds across records.
#[test]
fn ciphertexts_sort_across_records() {
    let scores = DMatrix::from_column_slice(2, 3, &[0.3, 0.7, 0.7, 0.3, 0.6, 0.4]);
    let pipeline = Ground::new(2).build(&DefenseConfig::OrderPreservingEncryption {});
    let key = NoiseSecret::new([3; 32]).key("m", "p");
    let ids = RecordIds::new(["a", "b", "c"]).unwrap();
    let ReleasedScores::Ciphertexts(out) =
        release(&pipeline, &scores, Noise::keyed(&key, &ids)).released
    else {
        panic!("kind")
    };
    assert!(out[(0, 0)] == out[(1, 1)] && out[(1, 0)] == out[(0, 1)]);
    assert!(out[(0, 0)] < out[(1, 2)] && out[(1, 2)] < out[(0, 2)] && out[(0, 2)] < out[(0, 1)]);
}
