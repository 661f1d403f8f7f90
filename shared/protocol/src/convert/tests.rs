//! Tests of conversions.

use std::fmt::Debug;

use proptest::prelude::*;

use super::*;

/// Asserts that a message is the same after its conversion to a domain type and back.
pub(crate) fn comes_back<M, D>(message: M)
where
    M: Clone + Debug + PartialEq + From<D>,
    D: TryFrom<M, Error: Debug>,
{
    assert_eq!(M::from(D::try_from(message.clone()).unwrap()), message);
}

fn matrix(rows: u32, columns: u32, values: &[f64]) -> pb::Matrix {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    pb::Matrix { rows, columns, values: bytes.into() }
}

#[test]
fn matrices_are_refused_one_field_at_a_time() {
    let good = matrix(2, 2, &[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(decode_columns("m", &good, 2, Some(2)).unwrap()[(1, 0)], 2.0);
    let rows = decode_columns("m", &good, 3, Some(2));
    assert_eq!(rows, Err(WireError::Size { field: "m", unit: "rows", expected: 3, got: 2 }));
    let columns = decode_columns("m", &good, 2, Some(3));
    assert_eq!(columns, Err(WireError::Size { field: "m", unit: "columns", expected: 3, got: 2 }));
    let bytes = decode_columns("m", &matrix(2, 2, &[1.0]), 2, None);
    assert_eq!(bytes, Err(WireError::MatrixBytes { field: "m", rows: 2, columns: 2, bytes: 8 }));
    let huge = decode_columns("m", &matrix(u32::MAX, u32::MAX, &[]), 2, None);
    assert!(matches!(huge, Err(WireError::MatrixBytes { .. })));
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let not_finite = decode_columns("m", &matrix(2, 2, &[0.0, 0.0, 0.0, bad]), 2, None);
        assert_eq!(not_finite, Err(WireError::NotFinite { field: "m", row: 1 }));
    }
    assert_eq!(crate::read_share("m", None, 1, None), Err(WireError::Missing { field: "m" }));
    let one = matrix(2, 1, &[0.0, 0.0]);
    // The predictor of a number is one.
    assert_eq!(crate::read_logits("m", Some(&one), 2, None).unwrap().classes(), 1);
    assert!(crate::read_logits("m", Some(&matrix(2, 0, &[])), 2, None).is_err(), "no output");
    let share = crate::read_share("m", Some(&one), 2, None).unwrap();
    check_share_size(&share, "m", 2, 1).unwrap();
    let width = check_share_size(&share, "m", 2, 3);
    assert_eq!(width, Err(WireError::Size { field: "m", unit: "columns", expected: 3, got: 1 }));
    let rows = check_share_size(&share, "m", 1, 1);
    assert_eq!(rows, Err(WireError::Size { field: "m", unit: "rows", expected: 1, got: 2 }));
}

#[test]
fn releases_are_checked() {
    use pb::release::Kind;
    let release = |kind| pb::Release { kind: Some(kind) };
    let read = |kind| crate::read_release(Some(&release(kind)), 1, 2);
    assert!(read(Kind::Probabilities(matrix(1, 2, &[0.25, 0.75]))).is_ok());
    assert!(read(Kind::Probabilities(matrix(1, 2, &[0.25, 0.70]))).is_err());
    assert!(read(Kind::Numbers(matrix(1, 2, &[0.25, 0.70]))).is_ok());
    assert!(read(Kind::Labels(pb::Labels { classes: 2, labels: vec![1] })).is_ok());
    assert!(read(Kind::Labels(pb::Labels { classes: 2, labels: vec![2] })).is_err());
    assert!(read(Kind::Labels(pb::Labels { classes: 3, labels: vec![1] })).is_err());
    assert!(read(Kind::Labels(pb::Labels { classes: 2, labels: vec![] })).is_err());
    let sealed = ReleasedScores::Ciphertexts(DMatrix::from_vec(2, 1, vec![7, u64::MAX]));
    let wire = pb::Release::from(sealed.clone());
    assert_eq!(crate::read_release(Some(&wire), 1, 2).unwrap(), sealed);
    assert_eq!(sealed.predicted_labels(), vec![1]);
    for (records, classes) in [(2, 2), (1, 3), (1, 1)] {
        assert!(crate::read_release(Some(&wire), records, classes).is_err());
    }
    let short = pb::Ciphertexts { rows: 1, columns: 2, values: vec![0; 15].into() };
    assert!(read(Kind::Ciphertexts(short)).is_err());
    assert!(crate::read_release(None, 1, 2).is_err());
    assert!(crate::read_release(Some(&pb::Release { kind: None }), 1, 2).is_err());
}

#[test]
fn shares_of_32_bit_numbers_travel_as_such() {
    let sample = [0.5f32, -0.0, 1.0 / 3.0, f32::MIN_POSITIVE / 4.0, f32::MAX, -7.25].map(f64::from);
    let narrow = LogitShare::new(DMatrix::from_column_slice(3, 2, &sample)).unwrap();
    let wire = pb::Matrix::from(narrow.clone());
    assert_eq!(wire.values.len(), 4 * 6);
    let back = crate::read_share("m", Some(&wire), 2, Some(3)).unwrap();
    let bits = |share: &LogitShare| share.matrix().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&back), bits(&narrow));
    // One number that is not: all travel in 64 bits.
    for other in [1.0 / 3.0, 1e39, 1e-46] {
        let mut sample = sample;
        sample[5] = other;
        let wide = LogitShare::new(DMatrix::from_column_slice(3, 2, &sample)).unwrap();
        let wire = pb::Matrix::from(wide.clone());
        assert_eq!(wire.values.len(), 8 * 6, "{other}");
        assert_eq!(bits(&crate::read_share("m", Some(&wire), 2, Some(3)).unwrap()), bits(&wide));
    }
    let mut infinite = wire;
    infinite.values =
        [f32::INFINITY; 6].iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>().into();
    assert_eq!(
        decode_columns("m", &infinite, 2, None),
        Err(WireError::NotFinite { field: "m", row: 0 })
    );
}

proptest! {
    #[test]
    fn blocks_round_trip(rows in 0usize..7, columns in 0usize..7, seed in any::<u64>()) {
        let block = DMatrix::from_fn(columns, rows, |i, j| ((seed.wrapping_mul((i * 31 + j + 1) as u64) >> 11) as f64) - 1e15);
        let wire = encode(&block);
        prop_assert_eq!(decode_columns("m", &wire, rows, Some(columns)).unwrap(), block);
    }

    #[test]
    fn no_matrix_makes_the_reader_panic(rows in any::<u32>(), columns in any::<u32>(), bytes in proptest::collection::vec(any::<u8>(), 0..100), n in 0usize..20) {
        let _ = decode_columns("m", &pb::Matrix { rows, columns, values: bytes.into() }, n, None);
    }
}
