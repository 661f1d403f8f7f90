//! State that lasts: files, folders and tables, stored models, staged parameters and journals.

pub mod blocking;
pub mod common_rules;
mod config;
pub mod disjoint_sets;
pub mod files;
pub mod journal;
mod model_store;
#[cfg(feature = "postgres")]
mod postgres_state;
#[cfg(feature = "postgres")]
pub mod postgres_url;
pub mod secret_file;
mod staging;
pub mod state_dir;
pub mod state_file;
pub mod state_folder;
pub mod state_table;

pub use config::{StateConfig, WITHOUT_POSTGRES, place_of_state};
pub use model_store::{ShareStore, StoreError, StoredShare};
pub use staging::{
    ImportError, ImportReport, ImportRequest, StagedParameters, Staging, import_parameters,
    import_parameters_if, restage,
};
