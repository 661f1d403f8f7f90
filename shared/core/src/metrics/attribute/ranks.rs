//! Ranks of values in the distribution of an attribute, and the area under the ROC curve of an
//! event.

/// The values of an attribute in order, as a distribution for ranks and quantiles.
pub(super) struct Distribution {
    sorted: Vec<f64>,
    /// The largest distance of values that count as one.
    near: f64,
}

/// Values within this share of an attribute's spread count as one.
pub(super) const SAME: f64 = 1e-6;

impl Distribution {
    /// Creates the distribution of the values x, at least one.
    pub(super) fn of(x: &[f64]) -> Self {
        let mut sorted = x.to_vec();
        sorted.sort_by(f64::total_cmp);
        let spread = sorted.last().zip(sorted.first()).map_or(0.0, |(most, least)| most - least);
        Self { sorted, near: SAME * spread }
    }

    /// Returns the largest distance of values that count as one.
    pub(super) fn near(&self) -> f64 {
        self.near
    }

    /// Returns the midrank of v in [0, 1]: the share of values below it and half of the share of
    /// those equal to it.
    pub(super) fn midrank(&self, v: f64) -> f64 {
        let below = self.sorted.partition_point(|x| *x < v - self.near);
        let up_to = self.sorted.partition_point(|x| *x <= v + self.near);
        0.5 * (below + up_to) as f64 / self.sorted.len().max(1) as f64
    }

    /// Returns the least value that a share of at least `p` of the values does not exceed, p in (0,
    /// 1].
    pub(super) fn quantile(&self, p: f64) -> f64 {
        let n = self.sorted.len();
        let at = (p * n as f64).ceil() as usize;
        self.sorted.get(at.clamp(1, n.max(1)) - 1).copied().unwrap_or(0.0)
    }

    /// Returns the most frequent value (of equally frequent ones the least) and how often it
    /// occurs.
    pub(super) fn mode(&self) -> (f64, usize) {
        let runs = self.sorted.chunk_by(|a, b| a == b);
        runs.fold((0.0, 0), |most, run| match run {
            [first, ..] if run.len() > most.1 => (*first, run.len()),
            _ => most,
        })
    }

    /// Returns the values in increasing order.
    pub(super) fn sorted(&self) -> &[f64] {
        &self.sorted
    }
}

/// Returns the probability that a record with the event has a higher score than one without it,
/// with ties counted half: the area under the ROC curve. `None` if all records have the event, or
/// none.
#[must_use]
pub fn area_under_curve(scores: &[f64], event: &[bool]) -> Option<f64> {
    let mut order: Vec<(f64, bool)> = scores.iter().copied().zip(event.iter().copied()).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let having = order.iter().filter(|(_, has)| *has).count() as f64;
    let others = order.len() as f64 - having;
    if having == 0.0 || others == 0.0 {
        return None;
    }
    let (mut below, mut pairs) = (0.0, 0.0);
    for tied in order.chunk_by(|a, b| a.0 == b.0) {
        let have = tied.iter().filter(|(_, has)| *has).count() as f64;
        let have_not = tied.len() as f64 - have;
        pairs += have * (below + 0.5 * have_not);
        below += have_not;
    }
    Some(pairs / (having * others))
}
