//! Computation on values that three parties hold as shares, of which no party learns anything.
//!
//! A number x of the ring Z_2^64 is x = x₀ + x₁ + x₂ with random components. Party i holds xᵢ and
//! xᵢ₊₁ (indices modulo 3): any two parties can reconstruct x, and one alone knows nothing of it
//! (replicated secret sharing; Araki, Furukawa, Lindell, Nof and Ohara, CCS 2016). A word of bits
//! is shared in the same way under exclusive or. Sums are local. A product costs every party one
//! message.
//!
//! | operation | source | rounds | bytes sent by all parties, per element |
//! |---|---|---|---|
//! | [`Session::share`] | Araki et al. 2016, with a component of zeros | 1 | 8 |
//! | [`Session::shares_masked`], the same shares each time | | 0 | 8 to the second party |
//! | [`Session::open`] | | 1 | 24 |
//! | [`Session::open_to`] | | 1 | 8 |
//! | [`deal`] by a data owner outside of the three | two components from keys | 0 | 16, and 128 at once |
//! | [`Session::reveal`] to such a data owner | a fresh sharing of zero | 0 | 24 |
//! | [`Session::multiply`], [`Session::multiply_matrices`] | Araki et al. 2016 | 1 | 24 |
//! | [`Session::truncate`] by f bits, products of fixed-point numbers | Dalskov, Escudero and Keller 2020 | 2 | 24 + 3 ⌈(f + 1)/8⌉ |
//! | [`Session::and`] | Araki et al. 2016 | 1 | 24 |
//! | [`Session::is_negative`] | ABY3 (Mohassel and Rindal, CCS 2018), three bits at a time | 7 | 41.9 |
//! | the same, of at most 256 numbers | eight bits at a time | 5 | 263 |
//! | [`Session::bit_to_number`] | ABY3 | 2 | 24 |
//! | [`Session::tanh`] and its slope | a sum of ten sines (Boura et al., FC 2018) | 3 | 160 and two truncations |
//! | [`Session::arg_max`] of k | tournament | ≤ 10 ⌈log₂ k⌉ | 113.9 (k − 1) |
//! | [`Session::softmax`] of k, r steps | Zheng, Zhang and Yu, ACSAC 2023 | 4 r | r (k + 1) truncations |
//!
//! The release of predictions, of which one party learns what is named, and nobody else anything.
//! Rounds are those of many records, and of one; all but the last four are exact; k is the number
//! of classes.
//!
//! | release | source | rounds | bytes sent by all parties, per record |
//! |---|---|---|---|
//! | [`Session::release_label`], k = 2, 6, 10 | all pairs, random words | 8, 6 | 74, 724, 2044 |
//! | [`Session::release_top`], 2 of 6 | ranks by a rotated table | 11, 10 | 656 |
//! | [`Session::release_top_set`], 2 of 6 | the same | 11, 10 | 656 |
//! | [`Session::release_ranking`], k = 6 | all pairs are opened | 8, 6 | 630 |
//! | [`Session::release_logits`], k = 6 | | 1, 1 | 48 |
//! | [`Session::release_scores`], k = 6 | differences are opened | 1, 1 | 40 |
//! | [`Session::release_place`] among 9 thresholds, k = 1 | signs, whose sum is opened | 9, 8 | 601 |
//! | [`Session::exponential_softmax`], k = 6 | e^−a e^−b; Goldschmidt 1964 | 43, 40 | 2932 |
//! | [`Session::release_rounded_scores`], k = 2, 6, 10 | carry | 46, 51, 55; 41, 46, 48 | 1072, 3105, 5819 |
//! | [`Session::release_rounded_top`], 2 of 6 | both | 64, 58 | 4048 |
//! | [`Session::release_word`], 8 words, k = 6 | tournament | 69, 63 | 3737 |
//!
//! Scores on shares differ from exact ones by at most 2^−22.
//!
//! A round is one delay of the network. Bytes of a matrix product are per element of the result,
//! whatever its inner dimension is.
//!
//! **What it promises.** Every party follows the protocol, and no two join hands: then a party
//! learns its own input and output alone. Outputs are what is opened or revealed; a training with
//! validation opens the bits that say after which epochs its score was better. Every message that a
//! party receives is uniform, whatever the inputs are, up to the one that opens an output. The
//! output of a truncation is rounded by a number that each party knows: ⌊(z + ρ) / 2^f⌋ with ρ
//! uniform below 2^f. An opened quotient therefore tells z to one unit and not to two. Do not open
//! many truncations of one number. A party that deviates can spoil results. Nothing is guaranteed
//! then; `docs/protection.md` has what each changed message was found to do.
//!
//! A [`Session`] blocks its thread: it belongs on a thread of its own, and its [`Link`]s are fed
//! from the transport.

mod arithmetic;
mod bits;
mod carry;
mod clear_network;
mod clear_regression;
mod comparison;
mod error;
mod family;
mod fixed_point;
mod link;
mod masked;
mod matrix;
mod network;
mod outsiders;
mod party_index;
mod random;
mod regression;
mod release;
mod rows;
mod session;
mod shared_network;
mod shares;
mod softmax;
mod truncation;
mod wave;

pub use clear_network::ClearData;
pub use error::MpcError;
pub use family::Family;
pub use fixed_point::FixedPoint;
pub use link::{Link, LinkError, MemoryLink, Traffic, connect_in_memory};
pub use masked::{MASK_KEY_BYTES, MaskKey, MaskedInput, TAG_WORDS};
pub use matrix::{RingMatrix, SharedMatrix};
pub use network::{Activation, LayerShape, Network, NetworkData};
pub use outsiders::{combine, deal};
pub use party_index::PartyIndex;
pub use regression::{LARGEST_FEATURE, Regression, RegressionData, TrainingResult};
pub use release::{
    LARGEST_LOGIT, LARGEST_THRESHOLD, LOGIT_BITS, Logits, MOST_THRESHOLDS, MOST_WORDS, SCORE_BITS,
    encode_logits,
};
pub use session::{CONTEXT_BYTES, Session};
pub use shares::{BitShares, Shares};
pub use softmax::euler_softmax;
