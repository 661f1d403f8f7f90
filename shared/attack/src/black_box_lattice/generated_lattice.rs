//! A basis of the lattice that given vectors generate, by Lenstra, Lenstra and Lovász's reduction
//! of vectors that may depend on each other (Pohst 1987).

use nalgebra::{Cholesky, DMatrix, DVector};

/// The most steps of a reduction, and its Lovász parameter.
const STEPS: usize = 100_000;
const LOVASZ: f64 = 0.99;

/// Returns a basis (columns) of the lattice that these vectors generate, if it has `d` dimensions.
pub(super) fn generated(
    vectors: impl Iterator<Item = DVector<f64>>,
    d: usize,
    round_off: f64,
) -> Option<DMatrix<f64>> {
    let mut basis: Vec<DVector<f64>> = Vec::new();
    for vector in vectors {
        let inside = match basis.is_empty() {
            true => vector.norm() <= round_off,
            false => is_in(&DMatrix::from_columns(&basis), &vector, round_off),
        };
        if inside {
            continue;
        }
        basis.push(vector);
        reduce(&mut basis, round_off)?;
        if basis.len() > d {
            return None;
        }
    }
    (basis.len() == d).then(|| DMatrix::from_columns(&basis))
}

/// Returns true if a vector is in the lattice of a basis (columns), up to round-off.
fn is_in(basis: &DMatrix<f64>, vector: &DVector<f64>, round_off: f64) -> bool {
    let Some(square) = Cholesky::new(basis.tr_mul(basis)) else { return false };
    let nearest = square.solve(&basis.tr_mul(vector)).map(f64::round);
    (basis * nearest - vector).norm() <= round_off
}

/// Reduces vectors that may depend on each other to a basis. Returns `None` if it takes too long.
fn reduce(basis: &mut Vec<DVector<f64>>, round_off: f64) -> Option<()> {
    let mut at = 1;
    for _ in 0..STEPS {
        if basis.first().is_some_and(|first| first.norm() <= round_off) {
            basis.remove(0);
            at = 1;
        }
        if at >= basis.len() {
            return Some(());
        }
        let directions = orthogonal(&basis[..at], round_off);
        let mut vector = basis[at].clone();
        for (earlier, direction) in basis[..at].iter().zip(&directions).rev() {
            vector.axpy(-share(&vector, direction).round(), earlier, 1.0);
        }
        if vector.norm() <= round_off {
            basis.remove(at);
            at = at.saturating_sub(1).max(1);
            continue;
        }
        let left = directions.iter().fold(vector.clone(), |left, direction| {
            let share = share(&vector, direction);
            left - direction * share
        });
        let before = &directions[at - 1];
        let along = share(&vector, before);
        basis[at] = vector;
        if left.norm_squared() >= (LOVASZ - along * along) * before.norm_squared() {
            at += 1;
        } else {
            basis.swap(at - 1, at);
            at = at.saturating_sub(1).max(1);
        }
    }
    None
}

/// Returns the coefficient of a vector along a direction; 0 if the direction is 0.
pub(super) fn share(vector: &DVector<f64>, direction: &DVector<f64>) -> f64 {
    let length = direction.norm_squared();
    if length > 0.0 { vector.dot(direction) / length } else { 0.0 }
}

/// Returns the Gram–Schmidt vectors; 0 for a vector that depends on those before it.
fn orthogonal(basis: &[DVector<f64>], round_off: f64) -> Vec<DVector<f64>> {
    let mut directions: Vec<DVector<f64>> = Vec::new();
    for vector in basis {
        let mut left = vector.clone();
        for direction in &directions {
            let share = share(&left, direction);
            left.axpy(-share, direction, 1.0);
        }
        directions.push(if left.norm() > round_off { left } else { DVector::zeros(vector.len()) });
    }
    directions
}
