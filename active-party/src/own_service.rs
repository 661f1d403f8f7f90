//! The address of a service of this party, in its config file.

use serde::Deserialize;
use vfl_server::config::Addresses;

/// The address of a service of this party: `address`, or `addresses` of several processes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, try_from = "Addresses")]
pub struct OwnService {
    /// `host:port` of the running service; if it has several processes, that of each, separated by
    /// commas.
    pub address: String,
}

impl TryFrom<Addresses> for OwnService {
    type Error = &'static str;

    fn try_from(addresses: Addresses) -> Result<Self, Self::Error> {
        Ok(Self { address: addresses.joined()? })
    }
}
