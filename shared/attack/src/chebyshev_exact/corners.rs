//! All corners of {x ∈ [0, 1]^d : A x = b}, by walking along its edges.
//!
//! With r = rank A, n = d − r features are held at 0 or 1 and the other r follow from the
//! equations: a basis, as in the simplex method with bounds. From a basis in the box, each of its n
//! edges leads to another. Corners and edges of a polytope are connected, so all are found.
//!
//! If more than n features of a corner are at 0 or 1, many bases stand for it, and the walk could
//! go astray among them. So the box is enlarged while walking: each of its 2d faces moves outwards
//! by its own distance, 0.5e-9 to 1e-9, after which ties do not occur. The enlarged box also admits
//! points that round-off leaves outside: a record all of whose features are 0 or 1 misses the box
//! by 1e-16 as often as not. The reported corners are those of the box itself: the same features at
//! exactly 0 or 1.

use std::collections::VecDeque;

/// The most dimensions of S, d − rank A: at 8 a set has some thousands of corners.
pub const MAX_NULLITY: usize = 8;

use foldhash::HashSet;
use nalgebra::DMatrix;

/// The most that a coordinate may lie outside the box: each face moves outwards by at most this.
pub(super) const SLACK: f64 = 1e-9;

/// Entries of a table below this are round-off of 0.
const NEGLIGIBLE: f64 = 1e-11;

/// The number of bases at which the search for a first corner gives up. No search in tests took a
/// tenth of it.
const FIRST_CORNER_STEPS: usize = 10_000;

/// The ends at which a basis holds its features: 2 i for feature i at 0 and 2 i + 1 at 1, in rising
/// order, then `UNUSED`.
type BasisKey = [u32; MAX_NULLITY];

const UNUSED: u32 = u32::MAX;

/// The part that the walks of all records share: one basis of the equations and its table.
pub(super) struct Corners {
    features: usize,
    start: Basis,
    /// Ends of the enlarged box, [2 i] below 0 and [2 i + 1] above 1.
    ends: Vec<f64>,
}

/// A basis x_B + T x_N = h: the r features of B in terms of the n held ones, N.
#[derive(Clone, Default)]
struct Basis {
    solved: Vec<u32>,
    /// As in [`BasisKey`], in no order.
    held: Vec<u32>,
    /// r × (n + 1) by rows: T and h.
    table: Vec<f64>,
}

/// Memory of a walk, reused for the next.
#[derive(Default)]
pub(super) struct Walk {
    seen: HashSet<BasisKey>,
    ahead: VecDeque<Basis>,
    spare: Vec<Basis>,
    /// Solved features at this corner of the enlarged box.
    values: Vec<f64>,
    /// d × (number of corners), by columns.
    pub(super) corners: Vec<f64>,
    /// Corners of the enlarged box, clipped. They are used if none of the box's own is left.
    clipped: Vec<f64>,
}

/// The reasons for a walk to end without corners.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// No point of the box satisfies the equations.
    Empty,
    /// There are more bases than allowed.
    TooMany,
}

/// Returns a number in [0.5, 1) · `SLACK` for each face, the same on every run (the finaliser of
/// splitmix64).
fn shift(face: u64) -> f64 {
    let mut z = (face + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    SLACK * (0.5 + (z >> 12) as f64 / (1u64 << 53) as f64)
}

impl Corners {
    /// Prepares the walks from the projector A⁺ A (d × d) onto the rows of A, and its rank. The
    /// features that the rows say most of (the largest diagonal of what is left of the projector)
    /// are solved for first.
    pub(super) fn new(projector: &DMatrix<f64>, rank: usize) -> Self {
        let d = projector.nrows();
        let mut rows = projector.clone();
        let mut solved: Vec<usize> = Vec::with_capacity(rank);
        for _ in 0..rank {
            let left = (0..d).filter(|i| !solved.contains(i));
            let Some(pivot) = left.max_by(|&i, &j| rows[(i, i)].total_cmp(&rows[(j, j)])) else {
                break;
            };
            let row = rows.row(pivot) / rows[(pivot, pivot)];
            for i in 0..d {
                let share = rows[(i, pivot)];
                rows.row_mut(i).zip_apply(&row, |entry, of_pivot| *entry -= share * of_pivot);
            }
            rows.row_mut(pivot).copy_from(&row);
            solved.push(pivot);
        }
        let held: Vec<usize> = (0..d).filter(|i| !solved.contains(i)).collect();
        let width = held.len() + 1;
        let mut table = vec![0.0; solved.len() * width];
        for (line, &i) in table.chunks_exact_mut(width).zip(&solved) {
            for (entry, &j) in line.iter_mut().zip(&held) {
                *entry = rows[(i, j)];
            }
        }
        let start = Basis {
            solved: solved.into_iter().map(|i| i as u32).collect(),
            held: held.into_iter().map(|i| 2 * i as u32).collect(),
            table,
        };
        let ends = (0..d as u64).flat_map(|i| [-shift(2 * i), 1.0 + shift(2 * i + 1)]).collect();
        Self { features: d, start, ends }
    }

    /// Writes the corners of the solutions in the box to `walk.corners`, given any solution `q`. A
    /// corner may be there more than once. Returns the number of bases visited.
    ///
    /// # Errors
    /// [`Stop`] if there is none, or if there are more than `most` bases.
    pub(super) fn find(&self, q: &[f64], most: usize, walk: &mut Walk) -> Result<usize, Stop> {
        walk.clear();
        let mut first = walk.spare.pop().unwrap_or_default();
        first.copy_from(&self.start);
        first.place(q);
        if !first.enter(&self.ends, &mut walk.values) {
            walk.spare.push(first);
            return Err(Stop::Empty);
        }
        walk.seen.insert(first.key());
        walk.ahead.push_back(first);
        // Breadth first: each table is computed from another, and this keeps the chains as short as
        // they can be.
        while let Some(basis) = walk.ahead.pop_front() {
            basis.values(&self.ends, &mut walk.values);
            self.tell(&basis, walk);
            for edge in 0..basis.held.len() {
                let step = basis.along(edge, &self.ends, &walk.values);
                let key = basis.key_after(edge, step);
                if !walk.seen.insert(key) {
                    continue;
                }
                if walk.seen.len() > most {
                    return Err(Stop::TooMany);
                }
                let mut next = walk.spare.pop().unwrap_or_default();
                next.copy_from(&basis);
                next.go(edge, step);
                walk.ahead.push_back(next);
            }
            walk.spare.push(basis);
        }
        if walk.corners.is_empty() {
            std::mem::swap(&mut walk.corners, &mut walk.clipped);
        }
        Ok(walk.seen.len())
    }

    /// Records the corner of a basis. If the basis leaves the box once the faces are back in their
    /// places, it has no corner of the box.
    fn tell(&self, basis: &Basis, walk: &mut Walk) {
        let (d, width) = (self.features, basis.held.len() + 1);
        let from = walk.corners.len();
        walk.corners.resize(from + d, 0.0);
        let corner = &mut walk.corners[from..];
        for &face in &basis.held {
            corner[face as usize / 2] = f64::from(face % 2);
        }
        let mut inside = true;
        for (line, &i) in basis.table.chunks_exact(width).zip(&basis.solved) {
            let at_ends: f64 =
                line.iter().zip(&basis.held).map(|(t, face)| t * f64::from(face % 2)).sum();
            let value = line[width - 1] - at_ends;
            inside &= (-2.0 * SLACK..=1.0 + 2.0 * SLACK).contains(&value);
            corner[i as usize] = value.clamp(0.0, 1.0);
        }
        if inside {
            walk.clipped.clear();
        } else {
            // Used only if no other corner is found.
            if from == 0 {
                for (value, &i) in walk.values.iter().zip(&basis.solved) {
                    corner[i as usize] = value.clamp(0.0, 1.0);
                }
                walk.clipped.extend_from_slice(corner);
            }
            walk.corners.truncate(from);
        }
    }
}

impl Walk {
    fn clear(&mut self) {
        self.seen.clear();
        self.spare.extend(self.ahead.drain(..));
        self.corners.clear();
        self.clipped.clear();
    }
}

/// The end of an edge: the other end of the feature that moves along it, or the point where a
/// solved feature meets an end.
#[derive(Clone, Copy)]
enum Step {
    Across,
    Meets { line: usize, face: u32 },
}

impl Basis {
    fn copy_from(&mut self, other: &Self) {
        self.solved.clone_from(&other.solved);
        self.held.clone_from(&other.held);
        self.table.clone_from(&other.table);
    }

    /// Sets h for the solutions through `q`, and moves held features to the nearer end.
    fn place(&mut self, q: &[f64]) {
        let width = self.held.len() + 1;
        for (line, &i) in self.table.chunks_exact_mut(width).zip(&self.solved) {
            let held = line.iter().zip(&self.held).map(|(t, face)| t * q[*face as usize / 2]);
            line[width - 1] = q[i as usize] + held.sum::<f64>();
        }
        for face in &mut self.held {
            *face = *face / 2 * 2 + u32::from(q[*face as usize / 2] > 0.5);
        }
    }

    /// Computes the solved features, with the held ones at their ends.
    fn values(&self, ends: &[f64], values: &mut Vec<f64>) {
        let width = self.held.len() + 1;
        values.clear();
        values.extend(self.table.chunks_exact(width).map(|line| {
            let held = line.iter().zip(&self.held).map(|(t, face)| t * ends[*face as usize]);
            line[width - 1] - held.sum::<f64>()
        }));
    }

    /// Returns the step along `edge`: its held feature moves inwards until something meets an end.
    fn along(&self, edge: usize, ends: &[f64], values: &[f64]) -> Step {
        let width = self.held.len() + 1;
        let face = self.held[edge];
        let inwards = 1.0 - 2.0 * f64::from(face % 2);
        let mut way = (ends[(face ^ 1) as usize] - ends[face as usize]).abs();
        let mut step = Step::Across;
        for (line, (value, &i)) in values.iter().zip(&self.solved).enumerate() {
            let slope = -inwards * self.table[line * width + edge];
            if slope.abs() < NEGLIGIBLE {
                continue;
            }
            let face = 2 * i + u32::from(slope > 0.0);
            let here = (ends[face as usize] - value) / slope;
            if here < way {
                (way, step) = (here.max(0.0), Step::Meets { line, face });
            }
        }
        step
    }

    fn go(&mut self, edge: usize, step: Step) {
        match step {
            Step::Across => self.held[edge] ^= 1,
            Step::Meets { line, face } => {
                self.pivot(line, edge);
                self.solved[line] = self.held[edge] / 2;
                self.held[edge] = face;
            }
        }
    }

    /// Solves for the held feature of `edge` in place of the one of `line`.
    fn pivot(&mut self, line: usize, edge: usize) {
        let width = self.held.len() + 1;
        let (before, rest) = self.table.split_at_mut(line * width);
        let (own, after) = rest.split_at_mut(width);
        let pivot = own[edge];
        own[edge] = 1.0;
        own.iter_mut().for_each(|t| *t /= pivot);
        for other in before.chunks_exact_mut(width).chain(after.chunks_exact_mut(width)) {
            let share = std::mem::take(&mut other[edge]);
            for (t, own) in other.iter_mut().zip(&*own) {
                *t -= share * own;
            }
        }
    }

    fn key(&self) -> BasisKey {
        let mut key = [UNUSED; MAX_NULLITY];
        key[..self.held.len()].copy_from_slice(&self.held);
        key.sort_unstable();
        key
    }

    fn key_after(&self, edge: usize, step: Step) -> BasisKey {
        let mut key = [UNUSED; MAX_NULLITY];
        key[..self.held.len()].copy_from_slice(&self.held);
        key[edge] = match step {
            Step::Across => self.held[edge] ^ 1,
            Step::Meets { face, .. } => face,
        };
        key.sort_unstable();
        key
    }

    /// Moves to a basis in the box. The sum of the distances by which solved features miss it falls
    /// at every step. Returns false if the sum stops above 0: then no point of the box satisfies
    /// the equations.
    fn enter(&mut self, ends: &[f64], values: &mut Vec<f64>) -> bool {
        let width = self.held.len() + 1;
        for _ in 0..FIRST_CORNER_STEPS {
            self.values(ends, values);
            // −1 below the box, 1 above, 0 inside.
            let side = |value: f64, i: u32| {
                f64::from(u8::from(value > ends[2 * i as usize + 1]))
                    - f64::from(u8::from(value < ends[2 * i as usize]))
            };
            let mut outside = false;
            // The edge along which the sum falls fastest.
            let (mut best, mut fall) = (None, NEGLIGIBLE);
            for edge in 0..self.held.len() {
                let inwards = 1.0 - 2.0 * f64::from(self.held[edge] % 2);
                let mut rate = 0.0;
                for (line, (&value, &i)) in values.iter().zip(&self.solved).enumerate() {
                    rate += side(value, i) * inwards * self.table[line * width + edge];
                }
                if rate > fall {
                    (best, fall) = (Some(edge), rate);
                }
            }
            for (&value, &i) in values.iter().zip(&self.solved) {
                outside |= side(value, i) != 0.0;
            }
            if !outside {
                return true;
            }
            let Some(edge) = best else { return false };
            let step = self.until_inside(edge, ends, values);
            self.go(edge, step);
        }
        false
    }

    /// Works as [`Basis::along`] while some solved features are outside. Such a feature meets the
    /// end at which it enters the box, and is then held there; one that moves away from the box
    /// meets nothing.
    fn until_inside(&self, edge: usize, ends: &[f64], values: &[f64]) -> Step {
        let width = self.held.len() + 1;
        let face = self.held[edge];
        let inwards = 1.0 - 2.0 * f64::from(face % 2);
        let mut way = (ends[(face ^ 1) as usize] - ends[face as usize]).abs();
        let mut step = Step::Across;
        for (line, (&value, &i)) in values.iter().zip(&self.solved).enumerate() {
            let slope = -inwards * self.table[line * width + edge];
            if slope.abs() < NEGLIGIBLE {
                continue;
            }
            let (low, high) = (ends[2 * i as usize], ends[2 * i as usize + 1]);
            let (toward, face) = match (slope > 0.0, value < low, value > high) {
                (true, true, _) => (low, 2 * i),
                (true, false, false) => (high, 2 * i + 1),
                (false, _, true) => (high, 2 * i + 1),
                (false, false, false) => (low, 2 * i),
                (true, _, true) | (false, true, _) => continue,
            };
            let here = (toward - value) / slope;
            if here < way {
                (way, step) = (here.max(0.0), Step::Meets { line, face });
            }
        }
        step
    }
}
