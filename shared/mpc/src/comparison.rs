//! Signs, choices and the largest of several numbers.

use crate::error::{MpcError, check_length};
use crate::session::Session;
use crate::shares::{BitShares, Shares};

impl Session {
    /// Returns 1 in the lowest bit of a word for each number below 0, as a number of two's
    /// complement. Seven rounds, 335 bits (41.9 bytes) per number; of at most 256 numbers five
    /// rounds, 263 bytes for each.
    ///
    /// # Errors
    /// Those of links.
    pub fn is_negative(&mut self, shares: &Shares) -> Result<BitShares, MpcError> {
        Ok(self.negative_row(shares)?.spread(shares.len()))
    }

    /// As [`Session::is_negative`], with one bit per number in a row.
    ///
    /// The highest bit of a sum is that of the summands and the carry into it (ABY3, section 5.3).
    ///
    /// # Errors
    /// Those of links.
    pub(crate) fn negative_row(&mut self, shares: &Shares) -> Result<BitShares, MpcError> {
        self.carry(shares, 63, true)
    }

    /// Chooses `one` where `choice` is 1, and `other` where it is 0. One round, 24 bytes per
    /// element.
    ///
    /// # Errors
    /// [`MpcError::Shape`] unless all have as many elements; errors of links.
    pub fn select(
        &mut self,
        choice: &Shares,
        one: &Shares,
        other: &Shares,
    ) -> Result<Shares, MpcError> {
        let step = self.multiply(choice, &one.minus(other)?)?;
        other.plus(&step)
    }

    /// Returns the position of the largest of k numbers for each record, from 0; of equal ones the
    /// first. `numbers` holds k vectors of one element per record; all differences of a record's
    /// numbers are below 2^63.
    ///
    /// A tournament of ⌈log₂ k⌉ levels of at most ten rounds each.
    ///
    /// # Errors
    /// [`MpcError::Shape`] unless there is a number and all vectors have as many elements; errors
    /// of links.
    pub fn arg_max(&mut self, numbers: &[Shares]) -> Result<Shares, MpcError> {
        let n = numbers.first().map_or(0, Shares::len);
        let candidate = |(at, numbers): (usize, &Shares)| {
            check_length("a class", numbers.len(), n)?;
            let position = self.public(&vec![at as u64; n]);
            Ok((numbers.clone(), position))
        };
        let mut left: Vec<(Shares, Shares)> =
            numbers.iter().enumerate().map(candidate).collect::<Result<_, MpcError>>()?;
        while left.len() > 1 {
            left = self.play(&left, n)?;
        }
        let winner = left.pop().map(|(_, position)| position);
        winner.ok_or(MpcError::Shape { what: "the list of classes", expected: 1, got: 0 })
    }

    /// Plays one level: the larger of each pair stays, the first if they are equal.
    fn play(
        &mut self,
        candidates: &[(Shares, Shares)],
        n: usize,
    ) -> Result<Vec<(Shares, Shares)>, MpcError> {
        let none = || Shares { own: Vec::new(), next: Vec::new() };
        let (mut first, mut second) = ((none(), none()), (none(), none()));
        let pairs = candidates.chunks_exact(2);
        let unpaired = pairs.remainder().to_vec();
        for pair in pairs {
            if let [one, other] = pair {
                first = (first.0.concat(&one.0), first.1.concat(&one.1));
                second = (second.0.concat(&other.0), second.1.concat(&other.1));
            }
        }
        let smaller = self.is_negative(&first.0.minus(&second.0)?)?;
        let smaller = self.bit_to_number(&smaller)?;
        let chosen = self.select(
            &smaller.concat(&smaller),
            &second.0.concat(&second.1),
            &first.0.concat(&first.1),
        )?;
        let (mut values, mut positions) = chosen.split_at(first.0.len());
        let mut winners = Vec::new();
        for _ in 0..candidates.len() / 2 {
            let (value, values_left) = values.split_at(n);
            let (position, positions_left) = positions.split_at(n);
            (values, positions) = (values_left, positions_left);
            winners.push((value, position));
        }
        winners.extend(unpaired);
        Ok(winners)
    }
}
