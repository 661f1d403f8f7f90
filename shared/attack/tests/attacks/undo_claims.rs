//! What an examination of released parameters may claim, and how long it may take.

use std::time::Instant;

use nalgebra::{DMatrix, DVector};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_attack::adaptive::{Hypothesis, TransformEvidence};
use vfl_attack::{KnownModel, StatedKnowledge};

use crate::undo::{World, with_auxiliary};

fn after_complement(hypothesis: Hypothesis) -> Hypothesis {
    Hypothesis::AfterComplement(Box::new(hypothesis))
}

proptest! {
    /// The logits of x under a hypothesis are those of 1 − x under its partner, and the partner's partner is the hypothesis.
    #[test]
    fn partners_explain_the_same_records(seed in any::<u64>(), k in 2usize..6, d in 2usize..9) {
        let world = World::drawn(seed, k, d, 1);
        let shown = world.shown(&Hypothesis::Identity);
        let order = (0..d).map(|i| (i + 1) % d).collect();
        let features = Hypothesis::Features { negated: vec![0], complemented: vec![d - 1] };
        let x = DVector::from_fn(d, |i, _| 0.1 * i as f64);
        let other = x.map(|v| 1.0 - v);
        for hypothesis in [
            Hypothesis::Identity,
            Hypothesis::Negate,
            Hypothesis::Complement,
            features,
            Hypothesis::Permutation(order),
            after_complement(Hypothesis::Negate),
        ] {
            let partner = hypothesis.partner();
            prop_assert_eq!(partner.partner(), hypothesis.clone());
            let logits = |h: &Hypothesis, x: &DVector<f64>| {
                let model = h.model(&shown, None).unwrap();
                model.passive_weights().unwrap() * x + model.bias()
            };
            let off = (logits(&hypothesis, &x) - logits(&partner, &other)).amax();
            prop_assert!(off < 1e-11, "{hypothesis}: {off:e}");
        }
    }
}

/// Trained on 1 − x and released negated: the same records show as for −x alone. That is said, and a known record tells.
#[test]
fn two_transforms_are_not_ruled_out() {
    for seed in 0..10 {
        let world = World::drawn(300 + seed, 4, 4, 200);
        // Trained on 1 − x: weights −W, bias b + W 1. Released: W.
        let trained = &world.bias + world.w_pas.column_sum();
        let both =
            KnownModel::white_box(world.w_act.clone(), trained, world.w_pas.clone()).unwrap();
        let one = world.shown(&Hypothesis::Negate);
        for shown in [&both, &one] {
            let found = world.examine(shown, TransformEvidence::default());
            assert_eq!(found.undone.hypothesis, Some(Hypothesis::Negate), "seed {seed}: {found:?}");
            assert_eq!(found.undone.not_ruled_out, [after_complement(Hypothesis::Negate)]);
            assert!(
                found.remarks[0].starts_with("undone: negate, if one transform was used"),
                "{:?}",
                found.remarks
            );
            assert!(
                found.remarks[0].contains("not ruled out: negate after complement"),
                "{:?}",
                found.remarks
            );
        }
        let found = world.examine(&one, with_auxiliary(world.auxiliary(1)));
        assert_eq!(found.undone.hypothesis, Some(Hypothesis::Negate));
        assert!(
            found.undone.not_ruled_out.is_empty() && !found.remarks[0].contains("not ruled out")
        );
        let found = world.examine(&both, with_auxiliary(world.auxiliary(1)));
        let hypothesis = found.undone.hypothesis.unwrap();
        assert_eq!(hypothesis, after_complement(Hypothesis::Negate), "{:?}", found.remarks);
        let model = hypothesis.model(&both, None).unwrap();
        assert!((model.passive_weights().unwrap() - &world.w_pas).amax() < 1e-12);
        assert!((model.bias() - &world.bias).amax() < 1e-12);
    }
}

/// A rotation of the class differences in feature space, by Gram and Schmidt.
fn rotation(seed: u64, d: usize) -> DMatrix<f64> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    DMatrix::from_fn(d, d, |_, _| rng.random::<f64>() - 0.5).qr().q()
}

/// Parameters that were mixed in a way that is not compared: no claim that a listed transform was undone, and never one that there
/// is none. An order of features is found or not, and claimed only if it is the right one.
#[test]
fn what_is_not_compared_is_not_claimed() {
    for seed in 0..20u64 {
        let world = World::drawn(400 + seed, 5, 5, 100);
        let rotated = &world.w_pas * rotation(seed, 5);
        let order = DMatrix::from_fn(5, 5, |i, j| f64::from(u8::from((i + 2) % 5 == j)));
        let permuted = &world.w_pas * order;
        for (name, weights) in [("rotated", rotated), ("permuted", permuted)] {
            let shown =
                KnownModel::white_box(world.w_act.clone(), world.bias.clone(), weights).unwrap();
            let found = world.examine(&shown, TransformEvidence::default());
            let remark = &found.remarks[0];
            assert!(!remark.contains("no transform"), "{name}, seed {seed}: {remark}");
            assert!(!remark.starts_with("undone"), "{name}, seed {seed}: {remark}");
        }
    }
}

/// Two classes: their one equation is explained by many weights, such as those that `binary` rewrites. What is claimed is
/// claimed of what was compared.
#[test]
fn two_classes_bind_the_claim_to_what_was_compared() {
    let mut claims = [0; 2];
    for seed in 0..40u64 {
        let world = World::drawn(500 + seed, 2, 4, 100);
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let sign = if seed % 2 == 0 { -1.0 } else { 1.0 };
        let weights = world.w_pas.map(|w| sign * w * (0.8 + 0.6 * rng.random::<f64>()));
        let shown =
            KnownModel::white_box(world.w_act.clone(), world.bias.clone(), weights).unwrap();
        let remark = world.examine(&shown, TransformEvidence::default()).remarks.swap_remove(0);
        assert!(!remark.contains("no transform"), "{remark}");
        if remark.starts_with("undone") {
            assert!(remark.contains(", if one transform was used: "), "{remark}");
        }
        let bound = remark.contains("transforms of other kinds were not compared");
        let claimed = remark.starts_with("undone") || remark.starts_with("nothing speaks against");
        assert_eq!(bound, claimed, "{remark}");
        claims[usize::from(claimed)] += 1;
    }
    println!("two classes, other weights: {} of 40 with a claim", claims[1]);
    assert!(claims[1] > 0);
}

/// The parameters as they are: that nothing speaks against them, no more; and where ranges differ, which orders nothing speaks
/// against either.
#[test]
fn parameters_as_they_are() {
    let world = World::drawn(600, 4, 4, 50);
    let shown = world.shown(&Hypothesis::Identity);
    let found = world.examine(&shown, with_auxiliary(world.auxiliary(1)));
    assert_eq!(found.undone.hypothesis, Some(Hypothesis::Identity));
    let said = "nothing speaks against the parameters as released (50 records";
    assert!(found.remarks[0].starts_with(said), "{:?}", found.remarks);

    // x_1 + 1.2 x_2 below 0.44, in ranges whose complement begins at 0.4 and 0.5.
    let weights = DMatrix::from_row_slice(2, 2, &[0.0, 0.0, 1.0, 1.2]);
    let x = DMatrix::from_fn(2, 20, |i, r| 0.2 * ((r * (i + 3)) % 7) as f64 / 7.0 + 0.01);
    let world =
        World::new(DMatrix::zeros(2, 0), weights, DVector::zeros(2), DMatrix::zeros(0, 20), x);
    let ranges = StatedKnowledge { upper: vec![0.5, 0.6], ..StatedKnowledge::default() };
    let found = world.examine(
        &world.shown(&Hypothesis::Identity),
        TransformEvidence { ranges, ..TransformEvidence::default() },
    );
    assert_eq!(found.undone.hypothesis, Some(Hypothesis::Identity), "{:?}", found.remarks);
    assert_eq!(found.undone.not_ruled_out, [Hypothesis::Permutation(vec![1, 0])]);
    assert!(found.remarks[0].contains("not ruled out: permutation [1, 0]"), "{:?}", found.remarks);
}

/// Parameters of other features, 24 of them: the search ends at its limit, whatever the number of records.
#[test]
fn the_search_is_bounded() {
    let (world, other) = (World::drawn(700, 6, 24, 10_000), World::drawn(701, 6, 24, 1));
    let shown =
        KnownModel::white_box(world.w_act.clone(), world.bias.clone(), other.w_pas).unwrap();
    let start = Instant::now();
    let found = world.examine(&shown, with_auxiliary(world.auxiliary(2)));
    println!("d = 24, 10000 records: {:.2} s: {:?}", start.elapsed().as_secs_f64(), found.remarks);
    assert_eq!((found.undone.hypothesis, found.undone.left.len()), (None, 0));
    assert!(
        found.remarks[0].contains("1500 patterns") && found.remarks[0].contains("cut short"),
        "{:?}",
        found.remarks
    );
}

/// The best of a search is held against all records, its neighbours against 200 of them.
#[test]
fn neighbours_are_judged_on_some_records() {
    let mut neighbours = 0;
    for seed in 0..20u64 {
        let world = World::drawn(800 + seed, 3, 6, 1000);
        let truth = Hypothesis::Features { negated: vec![0, 1, 2], complemented: vec![] };
        let found = world.examine(&world.shown(&truth), TransformEvidence::default());
        let left = found.undone.counts.iter().filter(|v| !v.rejected());
        let tested: Vec<usize> = left.map(|v| v.tested).collect();
        if let [best, others @ ..] = tested.as_slice() {
            assert!(*best == 1000 && others.iter().all(|t| *t == 200 || *t == 1000), "{tested:?}");
            neighbours += others.iter().filter(|t| **t == 200).count();
        }
    }
    println!("{neighbours} neighbours left");
    assert!(neighbours > 0);
}
