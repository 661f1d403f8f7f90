//! Figures by attribute of the schema, without noise or derived from errors that carry it.

use nalgebra::DMatrix;
use vfl_core::metrics::{Attribute, AttributeFigures};
use vfl_numerics::two_sided_normal;

/// The attributes that have figures, and their truth.
#[derive(Clone, Copy)]
pub struct AttributeScoring<'a> {
    /// The attributes of the schema.
    pub attributes: &'a [Attribute],
    /// The true features, d × n.
    pub truth: &'a DMatrix<f64>,
}

/// Shows the number of attributes only.
impl std::fmt::Debug for AttributeScoring<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ByAttribute({} attributes)", self.attributes.len())
    }
}

impl AttributeScoring<'_> {
    /// Returns all figures of an attack's estimates beside those of its control (both d × n), to
    /// three significant digits.
    pub(super) fn exact(
        &self,
        attack: &DMatrix<f64>,
        control: &DMatrix<f64>,
    ) -> Vec<AttributeFigures> {
        let of = |attribute| AttributeFigures::of(attribute, self.truth, attack, control).rounded();
        self.attributes.iter().map(of).collect()
    }

    /// Returns the share of the control's error that an attack removes, from errors by feature that
    /// carry noise: it costs nothing beside them. The intervals hold together, over all attributes,
    /// in 95 of 100 scorings (Bonferroni).
    ///
    /// Nothing else is reported with noise: no bound is known on the change of the other figures by
    /// one record.
    pub(super) fn noised(
        &self,
        attack: (&[f64], f64),
        control: (&[f64], f64),
    ) -> Vec<AttributeFigures> {
        let z = two_sided_normal(0.05 / self.attributes.len().max(1) as f64);
        self.attributes
            .iter()
            .map(|of| AttributeFigures::of_noised(of, attack, control, z))
            .collect()
    }
}
