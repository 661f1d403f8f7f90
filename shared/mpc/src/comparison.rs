//! Signs, choices and the largest of several numbers.

use crate::error::{MpcError, check_length};
use crate::session::Session;
use crate::shares::{BitShares, Shares};

impl Session {
    /// Returns 1 in the lowest bit of a word for each number below 0, as a number of two's
    /// complement. Eight rounds, 83 bytes per number.
    ///
    /// The highest bit of a sum is that of the summands and the carry into it (ABY3, section 5.3),
    /// which a tree of generated and propagated carries gives in six levels.
    ///
    /// # Errors
    /// Those of links.
    pub fn is_negative(&mut self, shares: &Shares) -> Result<BitShares, MpcError> {
        let (one, other) = self.summands(shares)?;
        let highest = one.xor(&other)?.map(|word| word >> 63);
        // The carry out of the 63 low bits, moved up by one so that it leaves the word.
        let (one, other) = (one.map(|word| word << 1), other.map(|word| word << 1));
        let mut propagated = one.xor(&other)?;
        let mut generated = self.and(&one, &other)?;
        let mut width = 64;
        while width > 1 {
            let half = width / 2;
            let (low, high) = (generated.map(even_bits), generated.map(|w| even_bits(w >> 1)));
            let passes = propagated.map(|word| {
                let odd = even_bits(word >> 1);
                odd | (odd << half)
            });
            let below = low.xor(&propagated.map(|word| even_bits(word) << half))?;
            let both = self.and_low(&passes, &below, (width as usize).div_ceil(8))?;
            let mask = u64::MAX >> (64 - half);
            generated = high.xor(&both.map(|word| word & mask))?;
            propagated = both.map(|word| (word >> half) & mask);
            width = half;
        }
        highest.xor(&generated)
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
    /// A tournament of ⌈log₂ k⌉ levels of at most eleven rounds each.
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

/// Moves the bits at even places together: bit 2 i becomes bit i.
fn even_bits(word: u64) -> u64 {
    let mut word = word & 0x5555_5555_5555_5555;
    word = (word | (word >> 1)) & 0x3333_3333_3333_3333;
    word = (word | (word >> 2)) & 0x0f0f_0f0f_0f0f_0f0f;
    word = (word | (word >> 4)) & 0x00ff_00ff_00ff_00ff;
    word = (word | (word >> 8)) & 0x0000_ffff_0000_ffff;
    (word | (word >> 16)) & 0x0000_0000_ffff_ffff
}
