//! Finished work that is kept, so that what was stopped goes on where it was, and what several processes share out among each other comes
//! together.

mod keeper;
mod shard;
mod store;
mod store_error;
mod store_url;

pub use keeper::{Keeper, KeptError};
pub use shard::Shard;
pub use store_error::StoreError;
pub use store_url::{StoreUrl, StoreUrlError};
