//! Figures of the papers on real data, computed in this process: exact scores of one logistic
//! model, attacked split by split.
//!
//! The result is a [`Document`], which is stored as JSON; [`render_table`] and [`render_page`] show
//! it.

mod adversary_model;
mod agnostic;
mod blank_document;
mod by_feature;
pub mod cards;
mod complement;
mod complement_retraining;
mod compute;
mod counts;
mod curve_spec;
mod document;
mod error;
mod experiment_model;
mod figure;
mod heat_map;
mod inversions;
mod lattice;
mod model_file;
mod model_training;
mod moments;
mod names;
mod networks;
mod noise;
mod one_feature;
mod options;
mod page;
mod plot;
mod policy_release;
mod priors;
mod privee;
mod protocol;
mod recipe;
mod several_sets;
mod shadow;
mod starts;
mod statistics;
mod sweep;
mod table;
mod table1;
mod theorem2;
mod tradeoff;
mod undo;
mod version;
mod white_box;
mod workers;

use blank_document::blank;
pub use compute::{run, write};
pub use curve_spec::SettingPairs;
pub use document::{
    AddedRisk, AttackFacts, Axis, Check, CheckKind, Curve, CurveRole, DatasetFacts, Document,
    HeatMap, Measure, ModelFacts, ModelOrigin,
};
pub use error::{ModelFileError, ReproduceError};
pub use experiment_model::{ExperimentModel, ExperimentModelSpec};
pub use figure::Figure;
pub use model_training::{ServedModel, TrainAndServe};
pub use options::Options;
pub use page::render_page;
pub use protocol::{Protocol, Training};
pub use several_sets::compare;
pub use table::render_table;
pub use version::SCHEMA_VERSION;
