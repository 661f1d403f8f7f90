//! Runs an attack of the register, or names what it is missing.

use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use super::{AdversaryView, Attack, AttackError, Need, Needs, Parameters, Reconstruction};

/// Runs an attack on a view, with its own random numbers from `seed`: in a list of attacks each
/// gives the same result as alone.
///
/// # Errors
/// [`AttackError`] naming what the view lacks of what the attack [needs](Attack::needs), and those
/// of the attack.
pub fn run(
    attack: &dyn Attack,
    view: &AdversaryView<'_>,
    seed: u64,
) -> Result<Reconstruction, AttackError> {
    supplied(&attack.needs(), view)?;
    attack.reconstruct(view, &mut ChaCha20Rng::seed_from_u64(seed))
}

/// Checks that a view has what is needed.
fn supplied(needs: &Needs, view: &AdversaryView<'_>) -> Result<(), AttackError> {
    let has = view.side_information();
    match needs.parameters {
        Parameters::Hidden => {}
        Parameters::Differentiable if view.model().needs_tangents() => {}
        Parameters::Linear | Parameters::Differentiable => drop(view.model().passive_weights()?),
    }
    let missing = [
        (needs.release == Need::Yes && !view.has_release(), "a release of the records"),
        (
            needs.repeated == Need::Yes && has.repeated.is_none(),
            "several releases of the same records",
        ),
        (
            needs.chosen_shares == Need::Yes && has.oracle.is_none(),
            "a coordinator to ask with logit shares of its own choice: it does not run on one release",
        ),
        (
            needs.labelled == Need::Yes && has.labelled.is_none(),
            "records of the adversary's own with labels (`training` in a case)",
        ),
        (
            needs.auxiliary == Need::Yes && has.auxiliary.is_none(),
            "records whose passive features the adversary knows (`auxiliary` in a case, `auxiliary_ids` in an audit)",
        ),
        (
            needs.colluders == Need::Yes && has.colluders.is_none(),
            "passive parties that collude with the adversary (`colluding` in an audit)",
        ),
        (
            needs.prior == Need::Yes && has.prior.is_none(),
            "moments of the passive features (`prior` in a case)",
        ),
    ];
    let reads = needs.release.wanted() || needs.chosen_shares.wanted();
    if view.model().link().is_numeric() && reads && !needs.numbers {
        return Err(AttackError::Numbers);
    }
    match missing.into_iter().find(|(missing, _)| *missing) {
        Some((_, what)) => Err(AttackError::Missing { what }),
        None => Ok(()),
    }
}
