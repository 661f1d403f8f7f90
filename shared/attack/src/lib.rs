//! Reconstruction attacks: one module per method, behind one [contract](Attack), found by name in
//! one [register](Method).
//!
//! An attack sees an [`AdversaryView`] and nothing else: what its threat model grants. The truth is
//! not reachable from it; estimates are scored elsewhere, after the attack has returned. [`run`]
//! checks that the view has what an attack [needs](Needs), or names what is missing.
//!
//! # Example
//!
//! Three classes give two equations. With two passive features and exact scores, the features are
//! recovered:
//!
//! ```
//! use nalgebra::{DMatrix, DVector};
//! use rand::SeedableRng;
//! use vfl_attack::{AdversaryView, Attack, HalfStar, KnownModel, Replacement};
//! use vfl_core::types::{ConfidenceScores, FeatureBlock, Logits, ReleasedScores};
//!
//! let w_act = DMatrix::from_row_slice(3, 1, &[0.5, -0.25, 0.0]);
//! let w_pas = DMatrix::from_row_slice(3, 2, &[1.0, 0.5, -1.0, 2.0, 0.25, -0.75]);
//! let bias = DVector::from_vec(vec![0.1, 0.0, -0.1]);
//!
//! // One record: what the active party holds, and what it does not.
//! let y = FeatureBlock::new(DMatrix::from_element(1, 1, 0.3))?;
//! let x = DMatrix::from_column_slice(2, 1, &[0.9, 0.2]);
//! let logits = Logits::new(&w_act * y.matrix() + &w_pas * &x + DMatrix::from_column_slice(3, 1, bias.as_slice()))?;
//! let released = ReleasedScores::Probabilities(ConfidenceScores::softmax(logits).into_matrix());
//!
//! let model = KnownModel::white_box(w_act, bias, w_pas)?;
//! let view = AdversaryView::new(&model, &y, &released, Replacement::default())?;
//! let found = HalfStar { clamped: false }.reconstruct(&view, &mut rand_chacha::ChaCha20Rng::seed_from_u64(1))?;
//! assert!((found.estimates - x).amax() < 1e-12);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod adaptive;
mod affine;
pub mod agnostic;
mod baseline;
mod black_box_lattice;
mod cells;
mod chebyshev_exact;
mod coalition;
mod collusion;
mod config;
mod constrained;
mod contract;
mod differentiable;
mod discrete_features;
mod entry;
mod error;
mod estimated_scores;
mod evidence;
pub mod generative_regression;
pub mod gradient_inversion;
mod half_star;
mod knowledge;
mod knowledge_wrapper;
mod known_model;
mod lattice;
mod layerwise_inversion;
mod least_squares;
mod network;
mod numbers;
mod one_feature;
mod one_feature_case;
mod predicted_scores;
mod prior;
mod questions;
mod range_scaling;
mod records;
mod replacement;
mod runner;
mod schema_settings;
mod second_order;
mod settings;
mod shadow_model;
mod shadow_network;
mod sizes;
mod system;
mod system_summary;
mod text;
mod view;

pub use adaptive::{Centre, KnownPolicy};
pub use agnostic::{Agnostic, AgnosticResult, AgnosticSettings, OutOfRange};
pub use baseline::{Constant, Random};
pub use black_box_lattice::BlackBoxLattice;
pub use cells::{Bound, Cell, Cells};
pub use chebyshev_exact::{ChebyshevExact, MAX_CORNERS, MAX_NULLITY};
pub use coalition::{Coalition, Party, Role};
pub use collusion::Collusion;
pub use config::AttackConfig;
pub use constrained::{ConstrainedLeastSquares, Rcc1, Rcc2};
pub use contract::{
    Attack, Need, Needs, Parameters, Reconstruction, RecordOutcome, Status, Termination,
};
pub use differentiable::{Differentiable, LogitBlock};
pub use discrete_features::{ExactBinary, MAX_BINARY, Snap};
pub use entry::{Base, BaseChoice, Constructor, Entry, Group};
pub use error::{AttackError, FailureClass};
pub use estimated_scores::{AdversaryFit, EstimatedScores};
pub use evidence::{Equations, Evidence, Fits, NoisyScores};
pub use generative_regression::GenerativeRegression;
pub use gradient_inversion::GradientInversion;
pub use half_star::HalfStar;
pub use knowledge::{FeatureKnowledge, KnowledgeError, StatedKnowledge};
pub use known_model::KnownModel;
pub use lattice::Lattice;
pub use layerwise_inversion::LayerwiseInversion;
pub use least_squares::LeastSquares;
pub use network::KnownNetwork;
pub use numbers::as_difference;
pub use one_feature::{OneFeature, one_feature, one_feature_of_mean};
pub use one_feature_case::{OneFeatureCase, OneFeatureError};
pub use prior::{
    BestImputation, Imputation, MAX_FITTED, Moments, Point, Posterior, Prior, PriorError,
    Regression,
};
pub use questions::{
    Answer, ChosenQuestions, OracleError, Questions, RepeatedQuestions, ShareOracle,
};
pub use range_scaling::RangeScaling;
pub use records::{AuxiliaryRecords, Colluders, LabelledRecords, ObservedRecords};
pub use replacement::Replacement;
pub use runner::run;
pub use schema_settings::{GRID_SETTINGS, schema_settings};
pub use settings::{AnySetting, Setting, SettingError, Settings};
pub use shadow_model::{Descent, DescentEnd, ShadowBias, ShadowEstimate, ShadowFit, ShadowModel};
pub use shadow_network::{
    Architecture, FittedShadow, MAX_STARTS, NetworkTraining, ShadowLoss, ShadowNetwork, fit_shadow,
};
pub use system::LinearSystem;
pub use system_summary::{AuxiliarySystem, SystemSummary};
pub use view::{AdversaryView, DisclosedModel, SideInformation};

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use rand::Rng;
use vfl_defense::Policy;

use settings::ZERO_FLOOR;
use text::clip;

/// Errors from a name or a setting.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MethodError {
    /// There is no attack of that name.
    #[error("there is no attack {name:?}; there are: {}", Method::all().map(Method::as_str).collect::<Vec<_>>().join(", "))]
    Name {
        /// The name given, cut to 80 characters.
        name: String,
    },
    /// There is no setting of that name, or its value is not valid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The setting belongs to another attack.
    #[error(
        "{method} has no setting `{key}`; it takes: {}",
        Settings::all().iter().map(|s| s.key()).filter(|key| method.takes(key, &Settings::default())).collect::<Vec<_>>().join(", ")
    )]
    NotTaken {
        /// The attack that was named.
        method: Method,
        /// The name of the setting.
        key: &'static str,
    },
}

/// An attack of the register, by name.
#[derive(Clone, Copy)]
pub struct Method(&'static Entry);

impl Method {
    /// Returns all attacks, in the order of the register.
    pub fn all() -> impl Iterator<Item = Self> {
        REGISTER.iter().copied()
    }

    /// Returns the attacks that run on one release and need nothing else.
    pub fn on_one_release() -> impl Iterator<Item = Self> {
        let more = |method: &Self| matches!(method.0.group, Group::Helped | Group::Informed);
        Self::all().filter(move |method| !more(method) && *method != Self::ChosenShares)
    }

    /// Returns the attacks that need moments of the features, or records known whole, controls
    /// among them.
    pub fn informed() -> impl Iterator<Item = Self> {
        Self::all().filter(|method| method.0.group == Group::Informed)
    }

    /// Returns true if it is the control of such attacks: it knows the same, and uses no score.
    #[must_use]
    pub fn is_control(self) -> bool {
        self.0.group == Group::Informed
            && !self.plain(&Settings::default()).needs().release.wanted()
    }

    /// Returns the attacks that run on any model whose parameters are known, and take the release
    /// for the true scores.
    pub fn general() -> impl Iterator<Item = Self> {
        Self::all().filter(|method| method.0.group == Group::General)
    }

    /// Returns the name of the attack.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.0.name
    }

    /// Returns the purpose of the attack.
    #[must_use]
    pub fn group(self) -> Group {
        self.0.group
    }

    /// Returns its settings, besides those of all attacks.
    pub fn settings(self) -> impl Iterator<Item = &'static dyn AnySetting> {
        let base = self.0.chooser().map(|setting| setting as &'static dyn AnySetting);
        base.into_iter().chain(self.0.settings.iter().copied())
    }

    /// Returns true if it takes the setting of this name: its own ones, those of all attacks, and
    /// those of the attack that it runs.
    #[must_use]
    pub fn takes(self, key: &str, settings: &Settings) -> bool {
        let own = |method: Self| method.settings().any(|setting| setting.key() == key);
        own(self)
            || Settings::common().any(|s| s.key() == key)
            || self.base(settings).is_some_and(|base| base.takes(key, settings))
    }

    /// Returns true if another attack can be built upon it: it knows the parameters and runs on one
    /// release.
    #[must_use]
    pub fn is_base(self) -> bool {
        // An attack that runs another is no base: it would have to be built to be asked.
        !matches!(
            self.0.build,
            Constructor::Upon(Base { chosen: BaseChoice::Base | BaseChoice::Fixed, .. }, _)
        ) && Self::on_one_release().chain(Self::informed()).any(|method| method == self)
            && self.plain(&Settings::default()).needs().white_box()
    }

    /// Returns true if its evidence can be combined with moments of the features: it knows the
    /// parameters, runs on one release, and is not built upon another.
    fn has_evidence(self) -> bool {
        matches!(self.0.build, Constructor::Alone(_)) && self.is_base() && self != Self::Lattice
    }

    /// Returns the attack that this one runs: the choice of the setting `base` or `evidence`, or
    /// the default. Returns `None` if no setting chooses it.
    #[must_use]
    pub fn base(self, settings: &Settings) -> Option<Self> {
        let Constructor::Upon(base, _) = self.0.build else { return None };
        let setting = self.0.chooser()?;
        settings.get(setting).or_else(|| Self::named((base.name)(settings)))
    }

    /// Returns the attack of this name.
    fn named(name: &str) -> Option<Self> {
        Self::all().find(|method| method.as_str() == name)
    }

    /// Builds the attack with these settings.
    #[must_use]
    pub fn build(self, settings: &Settings) -> Box<dyn Attack> {
        let attack = self.plain(settings);
        Box::new(FiniteEstimates(if self.0.informed {
            attack
        } else {
            StatedKnowledge::from(settings).wrap(attack)
        }))
    }

    /// Builds the attack without the knowledge of the features.
    fn plain(self, settings: &Settings) -> Box<dyn Attack> {
        match self.0.build {
            Constructor::Alone(build) => build(settings),
            Constructor::Upon(base, build) => {
                let named = || Self::named((base.name)(settings));
                let method = self.base(settings).or_else(named).unwrap_or(Self::ClampedHalfStar);
                let unclipped = method.0.unclipped.filter(|_| base.unclipped);
                build(settings, unclipped.map_or(method, Self).plain(settings))
            }
        }
    }
}

/// An attack that fails if an estimate is not finite.
#[derive(Debug)]
struct FiniteEstimates(Box<dyn Attack>);

impl Attack for FiniteEstimates {
    fn needs(&self) -> Needs {
        self.0.needs()
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let found = self.0.reconstruct(view, rng)?;
        let finite = found.estimates.iter().all(|v| v.is_finite());
        if finite { Ok(found) } else { Err(AttackError::NotFinite { what: "an estimate" }) }
    }
}

/// Compares names, which are distinct.
impl PartialEq for Method {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Method {}

impl Hash for Method {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl AsRef<str> for Method {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl FromStr for Method {
    type Err = MethodError;

    fn from_str(name: &str) -> Result<Self, MethodError> {
        Self::named(name).ok_or_else(|| MethodError::Name { name: clip(name) })
    }
}

static BASE: Setting<Method> = Setting {
    key: "base",
    takes: "the attack that agnostic, coalition, shadow_model, shadow_network and undo_transform run in the end: one that knows the \
            parameters and runs on one release, with moments of the features or without (default clamped_half_star; of \
            shadow_network gradient_inversion)",
    read: |value| value.trim().parse().ok().filter(|method: &Method| method.is_base()),
};

static EVIDENCE: Setting<Method> = Setting {
    key: "evidence",
    takes: "the attack whose equations, bounds or noisy scores conditional_mean, gaussian and posterior_mean put together with the \
            moments (default the strongest on `policy`, half_star without one)",
    read: |value| value.trim().parse().ok().filter(|method: &Method| method.has_evidence()),
};

impl Entry {
    /// Returns the setting that chooses the attack upon which this one is built.
    fn chooser(&self) -> Option<&'static Setting<Method>> {
        match self.build {
            Constructor::Upon(Base { chosen: BaseChoice::Base, .. }, _) => Some(&BASE),
            Constructor::Upon(Base { chosen: BaseChoice::Evidence, .. }, _) => Some(&EVIDENCE),
            Constructor::Upon(..) | Constructor::Alone(_) => None,
        }
    }
}

impl Settings {
    /// Returns the settings that all attacks take: the replacement of a score of 0, and the
    /// knowledge of the features.
    pub fn common() -> impl Iterator<Item = &'static dyn AnySetting> {
        let floor: &'static dyn AnySetting = &ZERO_FLOOR;
        [floor].into_iter().chain(StatedKnowledge::SETTINGS.iter().copied())
    }

    /// Returns all settings, those common to all attacks first; each comes once.
    #[must_use]
    pub fn all() -> Vec<&'static dyn AnySetting> {
        let mut all: Vec<&'static dyn AnySetting> = Vec::new();
        for setting in Self::common().chain(Method::all().flat_map(Method::settings)) {
            if !all.iter().any(|known| known.key() == setting.key()) {
                all.push(setting);
            }
        }
        all
    }

    /// Reads `key`, `value` pairs; the last of a key counts.
    ///
    /// # Errors
    /// [`MethodError::Setting`] naming the setting that is unknown, or whose value it does not
    /// take.
    pub fn read<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, MethodError> {
        let (mut settings, all) = (Self::default(), Self::all());
        for (key, value) in pairs {
            settings.accept(&all, key, value)?;
        }
        Ok(settings)
    }
}

/// Returns the strongest adaptive attack on a policy; `None` if there is no defense, and so nothing
/// to adapt to.
///
/// If shares are not bound, it is `chosen_shares`; if noise is drawn anew, it is `averaging`. Both
/// need more than one release. Of several defenses the one that leaves the least decides.
#[must_use]
pub fn adaptive_for(policy: &Policy) -> Option<Method> {
    adaptive::strongest_on(policy).and_then(Method::named)
}

/// Makes the register: the attacks by name, and a constant of each.
macro_rules! register {
    ($($constant:ident = $entry:path,)*) => {
        /// The register of all attacks.
        static REGISTER: &[Method] = &[$(Method(&$entry)),*];

        #[allow(non_upper_case_globals, reason = "they stand for the variants of an enumeration")]
        impl Method {
            $(
                #[doc = concat!("The attack `", stringify!($entry), "`.")]
                pub const $constant: Self = Self(&$entry);
            )*
        }
    };
}

// A new attack is a module and a line here.
register! {
    Random = baseline::RANDOM,
    Zero = baseline::ZERO,
    Half = baseline::HALF,
    LeastSquares = least_squares::LEAST_SQUARES,
    ClampedLeastSquares = least_squares::CLAMPED_LEAST_SQUARES,
    ConstrainedLeastSquares = constrained::CONSTRAINED_LEAST_SQUARES,
    HalfStar = half_star::HALF_STAR,
    ClampedHalfStar = half_star::CLAMPED_HALF_STAR,
    Rcc1 = constrained::RCC1,
    Rcc2 = constrained::RCC2,
    GradientInversion = gradient_inversion::GRADIENT_INVERSION,
    GenerativeRegression = generative_regression::GENERATIVE_REGRESSION,
    Lattice = lattice::LATTICE,
    BlackBoxLattice = black_box_lattice::BLACK_BOX_LATTICE,
    HalfStarLayerwise = layerwise_inversion::HALF_STAR_LAYERWISE,
    OneFeature = one_feature::ONE_FEATURE,
    ChebyshevExact = chebyshev_exact::CHEBYSHEV_EXACT,
    Interval = adaptive::interval::INTERVAL,
    RankingCone = adaptive::cones::RANKING_CONE,
    LabelCone = adaptive::cones::LABEL_CONE,
    NoisyLabel = adaptive::noisy_label::NOISY_LABEL,
    CodebookCell = adaptive::cones::CODEBOOK_CELL,
    ShadowPurifier = adaptive::shadow_purifier::SHADOW_PURIFIER,
    NoiseDirection = adaptive::noise_direction::NOISE_DIRECTION,
    Averaging = adaptive::averaging::AVERAGING,
    UndoTransform = adaptive::undo::UNDO_TRANSFORM,
    ChosenShares = adaptive::chosen_shares::CHOSEN_SHARES,
    Agnostic = agnostic::AGNOSTIC,
    ShadowModel = shadow_model::SHADOW_MODEL,
    ShadowNetwork = shadow_network::SHADOW_NETWORK,
    Coalition = collusion::COALITION,
    BestImputation = prior::best_imputation::BEST_IMPUTATION,
    Imputation = prior::imputation::IMPUTATION,
    ConditionalMean = prior::posterior::CONDITIONAL_MEAN,
    Gaussian = prior::posterior::GAUSSIAN,
    PosteriorMean = prior::posterior::POSTERIOR_MEAN,
    InformedLattice = lattice::INFORMED_LATTICE,
    KernelImputation = prior::regression::KERNEL_IMPUTATION,
    KernelRidge = prior::regression::KERNEL_RIDGE,
}
