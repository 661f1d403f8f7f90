//! The gRPC reflection service, from which clients such as grpcurl read the available calls. It
//! shows the public contract, and nothing of the party. Like any call, it is served only to callers
//! with an accepted certificate.

use tonic::service::Routes;
use tonic_reflection::server::{Builder, Error};
use vfl_protocol::DESCRIPTORS;

use super::identity::Role;

/// The services that every party serves besides its own.
const COMMON: &[&str] = &[
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];

/// Returns a party's own services.
fn own(role: Role) -> &'static [&'static str] {
    match role {
        Role::Coordinator => &["vfl.v1.Coordinator"],
        Role::PassiveParty => &["vfl.v1.PassiveParty"],
        Role::ActiveParty => &["vfl.v1.ActiveParty", "inference.GRPCInferenceService"],
        Role::Auditor => &[],
    }
}

/// Adds both versions of the reflection service of a party.
///
/// # Errors
/// [`Error`] if the compiled-in contract cannot be read.
pub(super) fn with_reflection(routes: Routes, role: Role) -> Result<Routes, Error> {
    let builder = || {
        let builder = Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(
                tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
            )
            .include_reflection_service(false);
        own(role)
            .iter()
            .chain(COMMON)
            .fold(builder, |builder, name| builder.with_service_name(*name))
    };
    Ok(routes.add_service(builder().build_v1()?).add_service(builder().build_v1alpha()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::ACCESS_TABLE;

    /// Every listed service is served to some role, and every served one is listed.
    #[test]
    fn the_services_listed_are_those_of_the_table() {
        let mut listed: Vec<&str> =
            Role::ALL.into_iter().flat_map(own).chain(COMMON).copied().collect();
        let mut served: Vec<&str> = ACCESS_TABLE
            .iter()
            .filter_map(|(path, _)| path.strip_prefix('/')?.split('/').next())
            .collect();
        listed.sort_unstable();
        served.sort_unstable();
        served.dedup();
        assert_eq!(listed, served);
    }
}
