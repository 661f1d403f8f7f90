//! The status of one record of a request.

/// The status of one record of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowStatus {
    /// The record was scored, or its logit share computed.
    Ok,
    /// A party does not hold the record.
    NotFound,
    /// The record was used in training, and such records are not served.
    TrainingRecord,
    /// The record is not part of the audit session that the request names.
    NotInSession,
    /// The record was requested before with another logit share, which is the one that counts.
    ShareChanged,
    /// The record's budget of requests is spent.
    BudgetSpent,
    /// The record has been answered under as many models as allowed.
    ModelBudgetSpent,
    /// The active party's fallback scored the record, which the parties together could not. Only
    /// the active party's service answers so.
    Fallback,
}

impl RowStatus {
    /// All statuses, in a fixed order.
    pub const ALL: [Self; 8] = [
        Self::Ok,
        Self::NotFound,
        Self::TrainingRecord,
        Self::NotInSession,
        Self::ShareChanged,
        Self::BudgetSpent,
        Self::ModelBudgetSpent,
        Self::Fallback,
    ];

    /// Returns the name of the status in metrics, on the wire and in the Python package.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotFound => "not_found",
            Self::TrainingRecord => "training_record",
            Self::NotInSession => "not_in_session",
            Self::ShareChanged => "share_changed",
            Self::BudgetSpent => "budget_spent",
            Self::ModelBudgetSpent => "model_budget_spent",
            Self::Fallback => "fallback",
        }
    }

    /// Returns true if an answer has a score, a number or a label of the record.
    #[must_use]
    pub fn is_scored(self) -> bool {
        matches!(self, Self::Ok | Self::Fallback)
    }

    /// Returns a status for each of the `asked` records of a request: those at the positions `held`
    /// are held.
    ///
    /// # Panics
    /// If a position is not below `asked`.
    #[must_use]
    pub fn of_held(held: &[usize], asked: usize) -> Vec<Self> {
        let mut statuses = vec![Self::NotFound; asked];
        held.iter().for_each(|&at| statuses[at] = Self::Ok);
        statuses
    }

    /// Returns the positions of the records that are [`RowStatus::Ok`].
    #[must_use]
    pub fn positions_ok(statuses: &[Self]) -> Vec<usize> {
        let mut positions = Vec::with_capacity(statuses.len());
        positions.extend((0..statuses.len()).filter(|&at| statuses[at] == Self::Ok));
        positions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_ok() {
        use RowStatus::{NotFound, Ok};
        assert_eq!(RowStatus::of_held(&[0, 2], 4), [Ok, NotFound, Ok, NotFound]);
        assert_eq!(RowStatus::of_held(&[0, 1], 2), [Ok, Ok]);
        assert_eq!(RowStatus::of_held(&[], 0), []);
    }

    #[test]
    fn all_statuses_are_all() {
        // Whoever adds a status here adds it to the list.
        let place = |status| match status {
            RowStatus::Ok => 0,
            RowStatus::NotFound => 1,
            RowStatus::TrainingRecord => 2,
            RowStatus::NotInSession => 3,
            RowStatus::ShareChanged => 4,
            RowStatus::BudgetSpent => 5,
            RowStatus::ModelBudgetSpent => 6,
            RowStatus::Fallback => 7,
        };
        assert_eq!(RowStatus::ALL.map(place), [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
