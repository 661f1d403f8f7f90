//! What generative regression is for: it learns from many records how passive features go with active ones.

use std::sync::Arc;

use nalgebra::{DMatrix, DVector};
use vfl_attack as attack;
use vfl_attack::{
    AdversaryView, AttackError, FailureClass, KnownModel, KnownNetwork, Method, Prior,
    Reconstruction, Replacement, Settings, SideInformation,
};
use vfl_core::metrics::mse;
use vfl_core::model::{LinearParameters, Parameters, kinds};
use vfl_core::types::{FeatureBlock, ReleasedScores};

use crate::fixture::{Published, robot, satellite};

/// The first records of a window of `d` features from 0, with their exact scores.
struct Few {
    model: KnownModel,
    active: FeatureBlock,
    released: ReleasedScores,
    truth: DMatrix<f64>,
}

impl Few {
    fn of(published: &Published, d: usize, n: usize) -> Self {
        let window = published.window(0, d);
        let first = |m: &DMatrix<f64>| m.columns(0, n).into_owned();
        Self {
            active: FeatureBlock::new(first(window.active.matrix())).unwrap(),
            released: ReleasedScores::Probabilities(first(published.scores().matrix())),
            truth: first(&window.truth),
            model: window.model,
        }
    }

    fn view<'a>(&'a self, model: &'a KnownModel) -> AdversaryView<'a> {
        AdversaryView::new(model, &self.active, &self.released, Replacement::default()).unwrap()
    }

    fn run(&self, method: Method, settings: &[(&str, &str)]) -> Reconstruction {
        attack::run(&*built(method, settings), &self.view(&self.model), 1).unwrap()
    }

    /// The error of generative regression as a share of that of ½.
    fn share(&self, settings: &[(&str, &str)]) -> f64 {
        let error = |found: Reconstruction| mse(&found.estimates, &self.truth).unwrap().overall;
        error(self.run(Method::GenerativeRegression, settings)) / error(self.run(Method::Half, &[]))
    }
}

fn built(method: Method, settings: &[(&str, &str)]) -> Box<dyn attack::Attack> {
    method.build(&Settings::read(settings.iter().copied()).unwrap())
}

/// Many records tell the generator what a few do not (J figure 8). On robot, whose features hardly go together, they tell nothing either.
#[test]
fn many_records_teach_it_what_goes_together() {
    let (few, many) =
        (Few::of(satellite(), 12, 10).share(&[]), Few::of(satellite(), 12, 500).share(&[]));
    assert!(many < 0.8 && many < 0.8 * few, "{few} {many}");
    let unrelated = Few::of(robot(), 12, 500).share(&[]);
    assert!(unrelated > 0.95, "{unrelated}");
}

/// The variance term of its inventors keeps it from telling records apart, even where scores determine the features (errata J5).
#[test]
fn the_variance_term_hinders() {
    let few = Few::of(satellite(), 3, 500);
    let (own, hindered) = (few.share(&[]), few.share(&[("variance_weight", "0.25")]));
    assert!(own < 0.3 && hindered > 2.0 * own, "{own} {hindered}");
}

/// Through a network of one linear layer it does what it does through its weights; the seed decides, and what is said of the training
/// names no value.
#[test]
fn it_runs_through_networks_as_through_weights() {
    let few = Few::of(satellite(), 4, 40);
    let settings = [("epochs", "5"), ("batch", "16")];
    let through_weights = few.run(Method::GenerativeRegression, &settings);
    let linear = LinearParameters::new(few.model.passive_weights().unwrap().clone(), None).unwrap();
    let part = kinds::restore(&Parameters::from(&linear)).unwrap();
    let network = KnownNetwork::summed(vec![Arc::from(part)]);
    let w_act = few.model.active_weights().clone();
    let model = KnownModel::of_network(w_act, few.model.bias().clone(), network).unwrap();
    let attack = built(Method::GenerativeRegression, &settings);
    let through_network = attack::run(&*attack, &few.view(&model), 1).unwrap();
    assert!((&through_network.estimates - &through_weights.estimates).amax() < 1e-9);
    let again = attack::run(&*attack, &few.view(&model), 2).unwrap();
    assert_ne!(again.estimates, through_network.estimates);
    assert!(through_weights.estimates.iter().all(|x| (0.0..=1.0).contains(x)));
    assert_eq!(through_weights.remarks.len(), 1);
    assert!(through_weights.remarks[0].contains("40 records"), "{:?}", through_weights.remarks);
}

/// With a known mean the estimates' mean is drawn towards it (the `enableMean` of its inventors' program).
#[test]
fn a_known_mean_draws_the_estimates() {
    let few = Few::of(satellite(), 6, 100);
    let d = few.truth.nrows();
    let prior = Prior::new(DVector::from_element(d, 0.9), DMatrix::identity(d, d)).unwrap();
    let view = few.view(&few.model).with_side_information(SideInformation {
        prior: Some(&prior),
        ..SideInformation::default()
    });
    let mean = |weight: &str| {
        let attack =
            built(Method::GenerativeRegression, &[("mean_weight", weight), ("epochs", "100")]);
        attack::run(&*attack, &view, 1).unwrap().estimates.mean()
    };
    let (free, drawn) = (mean("0"), mean("100"));
    assert!(free < 0.75 && (drawn - 0.9).abs() < 0.05, "{free} {drawn}");
    let needs_it = built(Method::GenerativeRegression, &[("mean_weight", "1")]);
    let refused = attack::run(&*needs_it, &few.view(&few.model), 1).unwrap_err();
    assert_eq!(refused.not_run(), FailureClass::Missing);
}

#[test]
fn what_cannot_be_trained_is_refused() {
    let few = Few::of(satellite(), 6, 1000);
    let endless = built(Method::GenerativeRegression, &[("epochs", "100000")]);
    let refused = attack::run(&*endless, &few.view(&few.model), 1).unwrap_err();
    let AttackError::Steps { what: "epochs", limit, .. } = refused else { panic!("{refused}") };
    assert!((1000..100_000).contains(&limit), "{limit}");
    assert!(refused.to_string().contains("epochs"), "{refused}");
    // A step for every record is more work than one for a batch.
    let single = built(Method::GenerativeRegression, &[("epochs", "100000"), ("batch", "1")]);
    let refused = attack::run(&*single, &few.view(&few.model), 1).unwrap_err();
    let AttackError::Steps { limit: of_singles, .. } = refused else { panic!("{refused}") };
    assert!(of_singles < limit / 2, "{of_singles} {limit}");
    let (w_act, bias) = (few.model.active_weights().clone(), few.model.bias().clone());
    let hidden = KnownModel::black_box(w_act, bias, 6).unwrap();
    let refused =
        attack::run(&*built(Method::GenerativeRegression, &[]), &few.view(&hidden), 1).unwrap_err();
    assert_eq!(refused, AttackError::NeedsParameters);
    for (key, value) in [
        ("epochs", "0"),
        ("batch", "0"),
        ("batch", "5000"),
        ("variance_weight", "-1"),
        ("generator", "x"),
    ] {
        assert!(Settings::read([(key, value)]).is_err(), "{key}={value}");
    }
}
