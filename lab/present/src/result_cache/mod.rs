//! Keeps finished work, so that a stopped run resumes and several processes can share the work.

mod bucket;
mod keeper;
mod shard;
mod store;
mod store_error;
mod store_url;

pub use keeper::{CacheError, ResultCache};
pub use shard::Shard;
pub use store_error::StoreError;
pub use store_url::{StoreUrl, StoreUrlError};
