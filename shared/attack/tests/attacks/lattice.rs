//! The attack `lattice`: golden cases decoded to their true grid points, and what it may never say.

use nalgebra::{DMatrix, DVector};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use serde_json::{Value, json};
use vfl_active_party::cli::attack_case;
use vfl_attack::{
    AdversaryView, AuxiliaryRecords, KnownModel, Method, Prior, Reconstruction, Replacement,
    Settings, SideInformation, run as run_attack,
};
use vfl_core::types::{FeatureBlock, ReleasedScores};
use vfl_testing::golden_cases;

use crate::fixture::{Published, Window, robot, satellite, scores};

/// The answer of the attack on a case.
fn decode(case: &Value, settings: &[(&str, &str)]) -> Value {
    let settings = Settings::read(settings.iter().copied()).unwrap();
    let answer = attack_case(&case.to_string(), &["lattice"], &settings, 1).unwrap();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    answer["attacks"][0].clone()
}

/// Of the records of a case: how many are rebuilt to the last digit, are certain, are certain and wrong.
fn count(case: &Value, answer: &Value) -> (usize, usize, usize) {
    let (mut exact, mut certain, mut wrong) = (0, 0, 0);
    for (estimate, truth) in
        answer["estimates"].as_array().unwrap().iter().zip(case["truth"].as_array().unwrap())
    {
        let values = |of: &Value| {
            of.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect::<Vec<_>>()
        };
        let (x, truth) = (values(&estimate["x"]), values(&truth["x_pas"]));
        let right = x.iter().zip(&truth).all(|(a, b)| (a - b).abs() <= 1e-9);
        let sure = estimate["certain"].as_bool().unwrap();
        exact += usize::from(right);
        certain += usize::from(sure);
        wrong += usize::from(sure && !right);
    }
    (exact, certain, wrong)
}

#[test]
fn golden_cases_decode_to_the_last_digit() {
    let mut cases = 0;
    for (file, text) in golden_cases("lattice_") {
        let case: Value = serde_json::from_str(&text).unwrap();
        let began = std::time::Instant::now();
        let answer = decode(&case, &[]);
        let (exact, certain, wrong) = count(&case, &answer);
        let n = case["records"].as_array().unwrap().len();
        println!(
            "{file}: {exact} of {n} exact, {certain} certain, {wrong} wrong, {:?} {}",
            began.elapsed(),
            answer["remarks"]
        );
        assert_eq!(wrong, 0, "{file}");
        assert_eq!(exact, n, "{file}");
        if case.get("prior").is_none() {
            assert_eq!(certain, n, "{file}");
        }
        cases += 1;
    }
    assert!(cases >= 13, "{cases} cases");
}

/// On a grid that the records do not lie on nothing is certain.
#[test]
fn a_wrong_grid_makes_nothing_certain() {
    for (file, text) in
        golden_cases("lattice_").into_iter().filter(|(file, _)| !file.contains("onehot"))
    {
        let mut case: Value = serde_json::from_str(&text).unwrap();
        let steps: Vec<f64> =
            case["grid"]["step"].as_array().unwrap().iter().map(|s| s.as_f64().unwrap()).collect();
        for by in [2, 3] {
            // Coarser: each count of steps is divided, rounded to a whole number.
            let coarser: Vec<f64> =
                steps.iter().map(|s| 1.0 / ((1.0 / s).round() / f64::from(by)).round()).collect();
            case["grid"]["step"] = json!(coarser);
            let answer = decode(&case, &[]);
            let (_, certain, _) = count(&case, &answer);
            assert_eq!(certain, 0, "{file}, steps {by} times as wide");
        }
    }
}

/// The number of steps of each feature (d × n, in [0, 1]): one over the least gap between two values.
fn counts(x: &DMatrix<f64>) -> Vec<f64> {
    let of = |row: Vec<f64>| {
        let mut values = row;
        values.sort_by(f64::total_cmp);
        let gaps = values.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 1e-9);
        (1.0 / gaps.fold(1.0, f64::min)).round()
    };
    x.row_iter().map(|row| of(row.iter().copied().collect())).collect()
}

fn listed(values: impl IntoIterator<Item = f64>) -> String {
    values.into_iter().map(|v| v.to_string()).collect::<Vec<_>>().join(",")
}

/// The first `n` records of a window of a published model.
struct Subject {
    window: Window,
    scores: DMatrix<f64>,
    counts: Vec<f64>,
}

impl Subject {
    fn new(published: &Published, k0: usize, d: usize, n: usize) -> Self {
        let whole = published.window(k0, d);
        let scores = published.scores().matrix().columns(0, n).into_owned();
        let counts = counts(&whole.truth);
        let active = FeatureBlock::new(whole.active.matrix().columns(0, n).into_owned()).unwrap();
        let window =
            Window { active, truth: whole.truth.columns(0, n).into_owned(), model: whole.model };
        Self { window, scores, counts }
    }

    fn steps(&self) -> String {
        listed(self.counts.iter().map(|n| 1.0 / n))
    }

    /// (exact, certain, certain and wrong) of the attack on scores that were changed like this.
    fn attacked(
        &self,
        release: impl Fn(f64) -> f64,
        settings: &[(&str, &str)],
    ) -> (usize, usize, usize) {
        let released = ReleasedScores::Numbers(self.scores.map(release));
        let settings = Settings::read(settings.iter().copied()).unwrap();
        let attack = Method::Lattice.build(&settings);
        let found = run_attack(&*attack, &self.window.view(&released), 1).unwrap();
        self.tally(&found)
    }

    fn tally(&self, found: &Reconstruction) -> (usize, usize, usize) {
        let right: Vec<bool> = (0..self.scores.ncols())
            .map(|j| (found.estimates.column(j) - self.window.truth.column(j)).amax() <= 1e-9)
            .collect();
        let wrong = found
            .certain
            .iter()
            .zip(&right)
            .filter(|(certain, right)| **certain && !**right)
            .count();
        let count = |of: &[bool]| of.iter().filter(|v| **v).count();
        (count(&right), count(&found.certain), wrong)
    }
}

fn digits(digits: usize) -> impl Fn(f64) -> f64 {
    move |c| format!("{c:.*e}", digits - 1).parse().unwrap()
}

/// Ranges and grid are known, nothing else; the papers' attacks err by half of the spread there.
#[test]
fn exact_scores_of_published_models_give_back_all_features() {
    for (published, k0, d) in
        [(satellite(), 0, 6), (satellite(), 18, 18), (satellite(), 3, 24), (robot(), 0, 4)]
    {
        let subject = Subject::new(published, k0, d, 60);
        let known = subject.attacked(|c| c, &[("step", &subject.steps())]);
        assert_eq!(known, (60, 60, 0), "{d} features from {k0}");
        // The schema has ranges in the features' own units and no step: whole numbers, and thousandths.
        let unit = if published.w.nrows() == 4 { 0.001 } else { 1.0 };
        let widths = listed(subject.counts.iter().map(|n| n * unit));
        let sought = subject.attacked(|c| c, &[("width", &widths)]);
        assert_eq!(sought, (60, 60, 0), "{d} features from {k0}, grid not known");
    }
}

/// Means and covariances of 200 records that are not attacked.
fn moments(published: &Published, k0: usize, d: usize) -> Prior {
    let whole = published.window(k0, d);
    let others = |m: &DMatrix<f64>| m.columns(m.ncols() - 200, 200).into_owned();
    Prior::of_records(&others(&whole.truth), &others(whole.active.matrix())).unwrap()
}

/// The figures of docs/lattice.md: records rebuilt exactly, of 60, by the number of passive features.
#[test]
fn the_more_features_the_more_bits_an_adversary_needs() {
    for (name, published, k0, cases) in [
        (
            "satellite",
            satellite(),
            0,
            [(18, 60, 60), (24, 60, 60), (27, 55, 55), (30, 40, 55), (33, 0, 55), (36, 0, 55)],
        ),
        (
            "robot",
            robot(),
            7,
            [(4, 60, 60), (6, 58, 58), (8, 45, 45), (9, 0, 0), (10, 0, 0), (12, 0, 0)],
        ),
    ] {
        for (d, least, informed_least) in cases {
            let subject = Subject::new(published, if d == 36 { 0 } else { k0 }, d, 60);
            let steps = subject.steps();
            let (alone, certain, wrong) = subject.attacked(|c| c, &[("step", &steps)]);
            let prior = moments(published, if d == 36 { 0 } else { k0 }, d);
            let released = ReleasedScores::Numbers(subject.scores.clone());
            let side = SideInformation { prior: Some(&prior), ..SideInformation::default() };
            let attack =
                Method::InformedLattice.build(&Settings::read([("step", steps.as_str())]).unwrap());
            let view = subject.window.view(&released).with_side_information(side);
            let began = std::time::Instant::now();
            let (informed, sure, false_claims) =
                subject.tally(&run_attack(&*attack, &view, 1).unwrap());
            let bits: f64 = subject.counts.iter().map(|n| (n + 1.0).log2()).sum();
            println!(
                "{name}, {d} features ({bits:.0} bits): {alone} exact, {certain} certain; with moments {informed}, \
                 {sure} certain; {:.1} ms a record",
                1e3 * began.elapsed().as_secs_f64() / 60.0
            );
            assert!(
                alone >= least && informed >= informed_least,
                "{name}, {d}: {alone}, {informed}"
            );
            assert_eq!((wrong, false_claims), (0, 0), "{name}, {d}");
        }
    }
}

/// Fewer digits tell fewer bits: what the grid alone leaves open, means and covariances of 200 other records may decide. Nothing
/// that is certain is wrong at any precision.
#[test]
fn rounded_scores_give_back_as_much_as_their_digits_tell() {
    let subject = Subject::new(satellite(), 18, 18, 60);
    let steps = subject.steps();
    let prior = moments(satellite(), 18, 18);
    for (kept, least, informed_least) in [(8, 55, 55), (6, 0, 55), (5, 0, 30), (3, 0, 0)] {
        let (alone, _, wrong) = subject.attacked(digits(kept), &[("step", &steps)]);
        let released = ReleasedScores::Numbers(subject.scores.map(digits(kept)));
        let side = SideInformation { prior: Some(&prior), ..SideInformation::default() };
        let attack =
            Method::InformedLattice.build(&Settings::read([("step", steps.as_str())]).unwrap());
        let view = subject.window.view(&released).with_side_information(side);
        let (informed, certain, false_claims) =
            subject.tally(&run_attack(&*attack, &view, 1).unwrap());
        println!(
            "18 features, {kept} digits: {alone} of 60 exact, {informed} with moments, {certain} certain"
        );
        assert!(alone >= least && informed >= informed_least, "{kept} digits: {alone}, {informed}");
        assert_eq!((wrong, false_claims), (0, 0), "{kept} digits");
        assert!(kept > 3 || (alone, informed) == (0, 0), "three digits tell too little");
    }
    let single = Subject::new(satellite(), 0, 12, 60);
    let (exact, _, wrong) = single.attacked(|c| f64::from(c as f32), &[("step", &single.steps())]);
    println!("12 features, 32-bit floats: {exact} of 60 exact");
    assert!(exact >= 55 && wrong == 0, "32-bit floats: {exact} exact");
}

/// A temperature changes no bit of what the scores tell whoever knows it.
#[test]
fn a_temperature_protects_nothing() {
    let mut subject = Subject::new(satellite(), 18, 18, 60);
    let steps = subject.steps();
    for mut c in subject.scores.column_iter_mut() {
        let cooled = c.map(|c| (c.ln() / 4.0).exp());
        c.copy_from(&(&cooled / cooled.sum()));
    }
    let policy = "temperature (temperature = 4.0)";
    assert_eq!(subject.attacked(|c| c, &[("step", &steps), ("policy", policy)]), (60, 60, 0));
    let (_, certain, _) = subject.attacked(|c| c, &[("step", &steps)]);
    assert_eq!(certain, 0, "whoever takes them for the model's own scores decodes nothing");
}

/// 25 records known whole give the weights to all digits, and those all other records.
#[test]
fn known_records_serve_in_place_of_the_weights() {
    let subject = Subject::new(satellite(), 18, 18, 100);
    let part = |m: &DMatrix<f64>, from: usize, n: usize| m.columns(from, n).into_owned();
    let (y, x) = (subject.window.active.matrix(), &subject.window.truth);
    let known = AuxiliaryRecords::new(
        FeatureBlock::new(part(y, 0, 25)).unwrap(),
        FeatureBlock::new(part(x, 0, 25)).unwrap(),
        ReleasedScores::Numbers(part(&subject.scores, 0, 25)),
        Replacement::default(),
    )
    .unwrap();
    let model = &subject.window.model;
    let hidden =
        KnownModel::black_box(model.active_weights().clone(), model.bias().clone(), 18).unwrap();
    let active = FeatureBlock::new(part(y, 25, 75)).unwrap();
    let released = ReleasedScores::Numbers(part(&subject.scores, 25, 75));
    let side = SideInformation { auxiliary: Some(&known), ..SideInformation::default() };
    let view = AdversaryView::new(&hidden, &active, &released, Replacement::default()).unwrap();
    let settings =
        Settings::read([("base", "lattice"), ("step", subject.steps().as_str())]).unwrap();
    let attack = Method::ShadowModel.build(&settings);
    let found = run_attack(&*attack, &view.with_side_information(side), 1).unwrap();
    let right = |j: &usize| (found.estimates.column(*j) - x.column(j + 25)).amax() <= 1e-9;
    let exact = (0..75).filter(right).count();
    let wrong = (0..75).filter(|j| found.certain[*j] && !right(j)).count();
    println!("weights from 25 records: {exact} of 75 exact, {:?}", found.remarks);
    assert!(exact >= 70 && wrong == 0, "{exact} exact, {wrong} wrong");
}

/// Features of full precision lie on no grid that is tried.
#[test]
fn features_off_every_grid_are_never_certain() {
    let mut subject = Subject::new(satellite(), 18, 18, 60);
    let widths = listed(subject.counts.clone());
    let off =
        DMatrix::from_fn(18, 60, |i, j| 0.004 * (1.0 + (7.3 * i as f64 + 1.7 * j as f64).sin()));
    subject.window.truth = (&subject.window.truth * 0.99) + &off;
    let mut all = subject.window.model.passive_weights().unwrap() * &subject.window.truth;
    all += subject.window.model.active_weights() * subject.window.active.matrix();
    for mut z in all.column_iter_mut() {
        z += subject.window.model.bias();
        let e = z.map(f64::exp);
        z.copy_from(&(&e / e.sum()));
    }
    subject.scores = all;
    for settings in [[("width", widths.as_str())], [("step", subject.steps().as_str())]] {
        let (_, certain, _) = subject.attacked(|c| c, &settings);
        assert_eq!(certain, 0, "{settings:?}");
    }
}

/// Two features with the same weights can change places: the scores do not tell which is which.
#[test]
fn features_that_can_change_places_are_not_certain() {
    let w = DMatrix::from_row_slice(2, 3, &[0.31, 0.31, -0.73, -0.31, -0.31, 0.73]);
    let model = KnownModel::white_box(DMatrix::zeros(2, 0), DVector::zeros(2), w.clone()).unwrap();
    let x = DMatrix::from_column_slice(3, 2, &[0.1, 0.4, 0.7, 0.2, 0.2, 0.5]);
    let scores = scores(&w, &DVector::zeros(2), &x).matrix().clone();
    let released = ReleasedScores::Numbers(scores);
    let active = FeatureBlock::new(DMatrix::zeros(0, 2)).unwrap();
    let view = AdversaryView::new(&model, &active, &released, Replacement::default()).unwrap();
    let settings = Settings::read([("step", "0.1")]).unwrap();
    let found = run_attack(&*Method::Lattice.build(&settings), &view, 1).unwrap();
    assert_eq!(found.certain, [false, false]);
}

/// A binary model without active features, weights (0, w), and the exact scores of these records.
struct Plain {
    model: KnownModel,
    released: ReleasedScores,
    active: FeatureBlock,
}

impl Plain {
    fn new(w: &[f64], x: &DMatrix<f64>) -> Self {
        let weights = DMatrix::from_fn(2, w.len(), |i, j| if i == 0 { 0.0 } else { w[j] });
        let bias = DVector::zeros(2);
        let released = ReleasedScores::Numbers(scores(&weights, &bias, x).matrix().clone());
        Self {
            model: KnownModel::white_box(DMatrix::zeros(2, 0), bias, weights).unwrap(),
            released,
            active: FeatureBlock::new(DMatrix::zeros(0, x.ncols())).unwrap(),
        }
    }

    fn attacked(
        &self,
        method: Method,
        settings: &[(&str, &str)],
        side: SideInformation<'_>,
    ) -> Reconstruction {
        let settings = Settings::read(settings.iter().copied()).unwrap();
        let view =
            AdversaryView::new(&self.model, &self.active, &self.released, Replacement::default())
                .unwrap();
        run_attack(&*method.build(&settings), &view.with_side_information(side), 1).unwrap()
    }
}

/// With weights (2, 1) half a step of one feature is a step of the other: on the grid of whole numbers each record has one point,
/// and those at a half the wrong one.
#[test]
fn related_weights_make_nothing_certain() {
    let x =
        DMatrix::from_fn(2, 60, |i, j| if i == 0 { 0.5 } else { f64::from(u8::from(j % 2 == 0)) });
    let plain = Plain::new(&[2.0, 1.0], &x);
    for settings in [[("width", "1,1")], [("step", "1,1")]] {
        let found = plain.attacked(Method::Lattice, &settings, SideInformation::default());
        assert!(found.certain.iter().all(|certain| !certain), "{settings:?}: {:?}", found.remarks);
    }
}

/// Two features with the same weights, of which moments say which is which: the record that is unusual would be wrong.
#[test]
fn what_moments_say_is_likely_and_not_certain() {
    let w = [0.31, 0.31, -0.73];
    let x = DMatrix::from_column_slice(3, 1, &[0.8, 0.2, 0.5]);
    let spread = DMatrix::from_diagonal_element(3, 3, 1e-4);
    let prior = Prior::new(DVector::from_row_slice(&[0.2, 0.8, 0.5]), spread).unwrap();
    let side = SideInformation { prior: Some(&prior), ..SideInformation::default() };
    let found = Plain::new(&w, &x).attacked(Method::InformedLattice, &[("step", "0.1")], side);
    assert_eq!(found.certain, [false]);
}

/// A step is a share of the range, whatever the range: by itself and at the end of `shadow_model`.
#[test]
fn ranges_of_other_units_are_decoded_too() {
    let (w, n) = ([0.01, -0.04, 0.07].map(|w: f64| w.cos() * w), 40);
    let x = DMatrix::from_fn(3, n, |i, j| 20.0 * ((7 * i + 3 * j + i * j) % 21) as f64 / 20.0);
    let plain = Plain::new(&w, &x);
    let settings = [("upper", "20"), ("step", "0.05")];
    let found = plain.attacked(Method::Lattice, &settings, SideInformation::default());
    assert!(
        found.certain.iter().all(|c| *c) && (found.estimates - &x).amax() < 1e-9,
        "{:?}",
        found.remarks
    );
}

/// Two classes of which one is withheld: it is what the other leaves of 1.
#[test]
fn withholding_one_of_two_scores_protects_nothing() {
    let (w, n) = ([1.4, -2.2, 0.7].map(|w: f64| w.cos() * w), 40);
    let x = DMatrix::from_fn(3, n, |i, j| ((7 * i + 3 * j + i * j) % 11) as f64 / 10.0);
    let mut plain = Plain::new(&w, &x);
    if let ReleasedScores::Numbers(c) = &mut plain.released {
        c.column_iter_mut().for_each(|mut c| {
            let least = if c[0] < c[1] { 0 } else { 1 };
            c[least] = 0.0;
        });
    }
    let settings = [("step", "0.1"), ("policy", "top_k (k = 1)")];
    let found = plain.attacked(Method::Lattice, &settings, SideInformation::default());
    assert!(
        found.certain.iter().all(|c| *c) && (found.estimates - &x).amax() < 1e-9,
        "{:?}",
        found.remarks
    );
}

/// Of the features, how many are rebuilt in all records, whichever the attack takes it for and whichever way round.
fn rebuilt_up_to_order(found: &Reconstruction, truth: &DMatrix<f64>) -> usize {
    let away = |row: Vec<f64>| row.iter().map(|v| v - row[0]).collect::<Vec<f64>>();
    let rows = |m: &DMatrix<f64>| {
        m.row_iter().map(|row| away(row.iter().copied().collect())).collect::<Vec<_>>()
    };
    let found = rows(&found.estimates);
    let same =
        |a: &[f64], b: &[f64], sign: f64| a.iter().zip(b).all(|(a, b)| (a - sign * b).abs() < 1e-9);
    rows(truth).iter().filter(|x| found.iter().any(|e| same(x, e, 1.0) || same(x, e, -1.0))).count()
}

/// Neither a parameter nor a record is known: whole numbers come out all the same where the features are fewer than the classes.
#[test]
fn exact_scores_give_back_few_features_without_any_parameter() {
    for (published, k0, d, least) in
        [(satellite(), 7, 3, 3), (satellite(), 20, 5, 3), (robot(), 3, 3, 1)]
    {
        let window = published.window(k0, d);
        let n = window.truth.ncols();
        let steps = listed(counts(&window.truth).iter().map(|n| 1.0 / n));
        let model =
            KnownModel::black_box(window.model.active_weights().clone(), published.bias.clone(), d)
                .unwrap();
        let attack =
            Method::BlackBoxLattice.build(&Settings::read([("step", steps.as_str())]).unwrap());
        let attacked = |release: &dyn Fn(f64) -> f64, records: usize| {
            let first = |m: &DMatrix<f64>| m.columns(0, records).into_owned();
            let released = ReleasedScores::Numbers(first(published.scores().matrix()).map(release));
            let active = FeatureBlock::new(first(window.active.matrix())).unwrap();
            let view =
                AdversaryView::new(&model, &active, &released, Replacement::default()).unwrap();
            run_attack(&*attack, &view, 1).unwrap()
        };
        let began = std::time::Instant::now();
        let found = attacked(&|c| c, n);
        println!("{d} features from {k0}, {n} records, {:?}: {:?}", began.elapsed(), found.remarks);
        let rebuilt = rebuilt_up_to_order(&found, &window.truth);
        println!("{rebuilt} features rebuilt");
        assert!(rebuilt >= least, "{d} features from {k0}: {rebuilt}, {:?}", found.remarks);
        assert!(found.certain.is_empty(), "order and direction are guesses");
        // Too few digits, or too few records: it says so.
        for found in [attacked(&|c| (c * 1e5).round() / 1e5, n), attacked(&|c| c, 5)] {
            assert!(found.remarks[0].starts_with("no lattice was found"), "{:?}", found.remarks);
            assert!(found.estimates.iter().all(|v| *v == 0.5));
        }
    }
}

/// Features that lie on no grid are not said to.
#[test]
fn without_a_grid_no_lattice_is_found() {
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let x = DMatrix::from_fn(3, 400, |_, _| rng.random::<f64>());
    let w = DMatrix::from_fn(5, 3, |i, j| ((i + 1) as f64 * (j + 2) as f64 * 1.3).sin() * 3.0);
    let bias = DVector::zeros(5);
    let released = ReleasedScores::Numbers(scores(&w, &bias, &x).matrix().clone());
    let model = KnownModel::black_box(DMatrix::zeros(5, 0), bias, 3).unwrap();
    let active = FeatureBlock::new(DMatrix::zeros(0, 400)).unwrap();
    let view = AdversaryView::new(&model, &active, &released, Replacement::default()).unwrap();
    let attack = Method::BlackBoxLattice.build(&Settings::read([("step", "0.01")]).unwrap());
    let found = run_attack(&*attack, &view, 1).unwrap();
    assert!(
        found.remarks[0].starts_with("no lattice was found: their differences"),
        "{:?}",
        found.remarks
    );
}

/// Features with two values beside fine ones, and a score that was cut off at 0: what is decoded is the features.
#[test]
fn narrow_and_fine_features_come_out_together() {
    let (steps, n) = ([1.0, 1.0, 40.0, 100.0], 1200);
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let x =
        DMatrix::from_fn(4, n, |i, _| (rng.random::<f64>() * (steps[i] + 1.0)).floor() / steps[i]);
    let w = DMatrix::from_fn(6, 4, |i, j| ((i + 1) as f64 * (j + 2) as f64 * 1.3).sin() * 3.0);
    let bias = DVector::zeros(6);
    let mut c = scores(&w, &bias, &x).matrix().clone();
    c[(0, 5)] = 0.0;
    let model = KnownModel::black_box(DMatrix::zeros(6, 0), bias, 4).unwrap();
    let active = FeatureBlock::new(DMatrix::zeros(0, n)).unwrap();
    let released = ReleasedScores::Numbers(c);
    let view = AdversaryView::new(&model, &active, &released, Replacement::default()).unwrap();
    let steps = listed(steps.iter().map(|steps| 1.0 / steps));
    let attack =
        Method::BlackBoxLattice.build(&Settings::read([("step", steps.as_str())]).unwrap());
    let found = run_attack(&*attack, &view, 1).unwrap();
    assert!(
        found.remarks[0].starts_with(&format!("the scores of {} of {n} records", n - 1)),
        "{:?}",
        found.remarks
    );
    assert!(found.estimates.column(5).iter().all(|v| *v == 0.5));
    let others: Vec<usize> = (0..n).filter(|j| *j != 5).collect();
    let found = Reconstruction { estimates: found.estimates.select_columns(&others), ..found };
    assert_eq!(rebuilt_up_to_order(&found, &x.select_columns(&others)), 4, "{:?}", found.remarks);
}
