//! The semidefinite relaxation of the Chebyshev centre, record by record: cheap cases first.
//!
//! With N the orthonormal null-space basis (rows a_i), x = x₂ + N u and β = α − 1, R (16) is:
//! minimise over β ≥ −1 with Nᵀ diag(β) N ⪰ 0 the value f(β) = max {Σ (1 + β_i) x_i (1 − x_i) : x =
//! x₂ + N u}; the estimate is the maximiser at the optimal β. Its dual is: maximise tr S over S ⪰ 0
//! and u with a_iᵀ S a_i ≤ x_i (1 − x_i). Restricting β to be ≥ 0 gives the projection of ½, x₂.
//!
//! Coordinates that the equations determine (a_i = 0) take no part, nor do those that the box
//! determines. Where x₂ lies on the boundary, a slightly smaller box is tried. If no solution lies
//! in it, the proof names coordinates that are the same in all solutions. Without them there is an
//! interior again.

use super::certificate::{RestrictedCertificate, certified};
use super::equations::Equations;
use super::face::Face;
use super::interior_point::{CentreOutcome, InteriorPoint};
use super::projection::{Dual, ProjectionOutcome, Rows};
use crate::dense::dot;

/// The margin of the smaller box, [MARGIN, 1 − MARGIN]^d.
const MARGIN: f64 = 1e-9;

/// The workspace for one record.
#[derive(Default)]
pub(super) struct Centre {
    x: Vec<f64>,
    v: Vec<f64>,
    s: Vec<f64>,
    dual: Dual,
    scaled: Vec<f64>,
    middle: Vec<f64>,
    restricted: RestrictedCertificate,
    interior: InteriorPoint,
}

/// Moves the projection `x` of ½ to the centre of the semidefinite relaxation. `moving` has the
/// coordinates that the equations leave free.
pub(super) fn centre(
    equations: &Equations,
    moving: &Face,
    x: &mut [f64],
    work: &mut Centre,
) -> CentreOutcome {
    match on_face(moving, x, work) {
        Some(centred) => centred,
        None => {
            // Rare: a face of the box holds all solutions.
            let mut face = moving.clone();
            let mut iterations = 0;
            while let Some(index) = unforced(&face, x, work, &mut iterations) {
                face = Face::new(&equations.scaled, equations.r, equations.d, index);
            }
            let centred = on_face(&face, x, work).unwrap_or_else(|| interior(&face, x, work));
            CentreOutcome { iterations: iterations + centred.iterations, ..centred }
        }
    }
}

/// Returns the centre on a face; `None` if x lies on the boundary of the box and no cheap case
/// applies.
fn on_face(face: &Face, x: &mut [f64], work: &mut Centre) -> Option<CentreOutcome> {
    if face.n == 0 {
        // No freedom at all.
        return Some(CentreOutcome { bound: 0.0, converged: true, iterations: 0 });
    }
    work.x.clear();
    work.x.extend(face.index.iter().map(|&i| x[i]));
    work.v.clear();
    work.v.extend(work.x.iter().map(|x| x * (1.0 - x)));
    let bound = work.v.iter().sum();
    let inside = work.x.iter().all(|x| *x > 0.0 && *x < 1.0);
    let d = work.x.len();
    let agreed = if inside {
        let Centre { v, s, scaled, middle, .. } = work;
        s.clone_from(v);
        face.n > 1
            && face
                .hadamard
                .as_ref()
                .is_some_and(|factor| certified(factor, &face.nt, s, scaled, middle))
    } else {
        work.restricted.certified(&face.vt, face.r, d, &work.x, &work.v)
    };
    if agreed {
        return Some(CentreOutcome { bound, converged: true, iterations: 0 });
    }
    if face.n == 1 {
        let (u, bound) = on_a_line(&face.nt, &work.x, &work.v);
        for (&i, a) in face.index.iter().zip(&face.nt) {
            x[i] = (x[i] + u * a).clamp(0.0, 1.0);
        }
        return Some(CentreOutcome { bound, converged: true, iterations: 0 });
    }
    inside.then(|| interior(face, x, work))
}

fn interior(face: &Face, x: &mut [f64], work: &mut Centre) -> CentreOutcome {
    work.x.clear();
    work.x.extend(face.index.iter().map(|&i| x[i]));
    if face.n == 0 {
        return CentreOutcome { bound: 0.0, converged: true, iterations: 0 };
    }
    let mut centred = work.interior.solve(&face.nt, face.n, &mut work.x);
    if !centred.converged {
        let iterations = centred.iterations;
        centred = work.interior.solve_by_barrier(&face.nt, face.n, &mut work.x);
        centred.iterations += iterations;
    }
    for (&i, v) in face.index.iter().zip(&work.x) {
        x[i] = v.clamp(0.0, 1.0);
    }
    centred
}

/// Returns the coordinates of a face without those that the box forces to 0 or 1 in every solution;
/// `None` if it forces none.
fn unforced(face: &Face, x: &[f64], work: &mut Centre, iterations: &mut u32) -> Option<Vec<usize>> {
    let d = face.index.len();
    work.x.clear();
    work.x.extend(face.index.iter().map(|&i| x[i]));
    let t: Vec<f64> = (0..face.r).map(|a| dot(&face.vt[a * d..][..d], &work.x)).collect();
    let rows = Rows {
        g: &face.vt,
        r: face.r,
        d,
        margin: MARGIN,
        epsilon: 0.0,
        tolerance: 1e-13 * (d as f64).sqrt(),
    };
    work.dual.lambda.clear();
    work.dual
        .lambda
        .extend((0..face.r).map(|a| t[a] - 0.5 * face.vt[a * d..][..d].iter().sum::<f64>()));
    let mut point = std::mem::take(&mut work.x);
    let (ended, steps) = rows.project(&t, &mut work.dual, &mut point);
    work.x = point;
    *iterations += steps;
    if ended != ProjectionOutcome::Empty {
        return None;
    }
    let normal: Vec<f64> = (0..d)
        .map(|i| (0..face.r).map(|a| work.dual.p[a] * face.vt[a * d + i]).sum::<f64>())
        .collect();
    let largest = normal.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
    let forced = |place: usize| {
        let at = x[face.index[place]];
        normal[place].abs() > 1e-6 * largest && at.min(1.0 - at) < 1e-6
    };
    let kept: Vec<usize> =
        (0..d).filter(|&place| !forced(place)).map(|place| face.index[place]).collect();
    (kept.len() < d).then_some(kept)
}

/// A line: its height at 0 and half its slope.
type Line = (f64, f64);

/// Solves the case of one dimension: the largest S with a_i² S ≤ x_i(u) (1 − x_i(u)) for all i. All
/// bounds are parabolas of the same curvature, (v_i/a_i² + 2 c_i u) − u² with c_i = (½ − x_i)/a_i,
/// so their minimum is a concave polygon less u². The lines that meet at the maximum are found by
/// intersecting the two that bracket it.
fn on_a_line(a: &[f64], x: &[f64], v: &[f64]) -> (f64, f64) {
    let line = |i: usize| (v[i] / (a[i] * a[i]), (0.5 - x[i]) / a[i]);
    let lowest = |u: f64| {
        let mut best = (f64::INFINITY, 0.0, 0.0);
        for i in 0..a.len() {
            let (height, c) = line(i);
            let value = height + 2.0 * c * u;
            if value < best.0 {
                best = (value, height, c);
            }
        }
        best
    };
    let (mut left, mut right) = (None::<Line>, None::<Line>);
    let mut u = 0.0;
    for _ in 0..4 * a.len() + 8 {
        let (value, height, c) = lowest(u);
        // The bound that the two bracketing lines give at u.
        let promised = [left, right]
            .into_iter()
            .flatten()
            .map(|(h, c)| h + 2.0 * c * u)
            .fold(f64::INFINITY, f64::min);
        if c == u || value >= promised - 1e-15 * promised.abs().max(1.0) {
            return (u, value - u * u);
        }
        if c > u {
            left = Some((height, c));
        } else {
            right = Some((height, c));
        }
        u = match (left, right) {
            (Some((hl, cl)), Some((hr, cr))) => {
                let crossing = 0.5 * (hr - hl) / (cl - cr);
                if cl <= crossing {
                    cl
                } else if cr >= crossing {
                    cr
                } else {
                    crossing
                }
            }
            (Some((_, c)), None) | (None, Some((_, c))) => c,
            (None, None) => u,
        };
    }
    let (value, _, _) = lowest(u);
    (u, value - u * u)
}
