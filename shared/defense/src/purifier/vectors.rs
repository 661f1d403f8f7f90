//! Purifiers of given weights compared with NumPy (`scripts/numpy/purifier.py`), with slopes by
//! complex steps.

use nalgebra::{DMatrix, DVector};
use serde::Deserialize;

use super::{Purifier, PurifierOutput};

type Rows = Vec<Vec<f64>>;

#[derive(Deserialize)]
struct Parameters {
    encoder: Rows,
    encoder_bias: Vec<f64>,
    decoder: Rows,
    decoder_bias: Vec<f64>,
}

#[derive(Deserialize)]
struct Loss {
    label_weight: f64,
    loss: f64,
    gradients: Parameters,
}

#[derive(Deserialize)]
struct Case {
    #[serde(flatten)]
    parameters: Parameters,
    inputs: Rows,
    targets: Rows,
    outputs: Rows,
    /// By record: a row for each entry of the output.
    slopes: Vec<Rows>,
    losses: Vec<Loss>,
}

fn matrix(rows: &Rows) -> DMatrix<f64> {
    DMatrix::from_fn(rows.len(), rows[0].len(), |i, j| rows[i][j])
}

#[test]
fn what_numpy_makes_of_it() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("numpy.json")).unwrap();
    assert_eq!(cases.len(), 2);
    for case in cases {
        let Parameters { encoder, encoder_bias, decoder, decoder_bias } = &case.parameters;
        let purifier = Purifier {
            encoder: matrix(encoder),
            encoder_bias: DVector::from_column_slice(encoder_bias),
            decoder: matrix(decoder),
            decoder_bias: DVector::from_column_slice(decoder_bias),
        };
        let (c, t) = (matrix(&case.inputs).transpose(), matrix(&case.targets).transpose());
        let want = matrix(&case.outputs).transpose();
        assert!((purifier.apply(&c) - &want).amax() < 1e-14);
        for (record, slopes) in case.slopes.iter().enumerate() {
            let PurifierOutput { scores, slopes: found } =
                purifier.with_slopes(c.column(record).as_slice());
            assert!((scores - want.column(record)).amax() < 1e-14);
            assert!((found - matrix(slopes)).amax() < 1e-14);
        }
        for Loss { label_weight, loss, gradients } in &case.losses {
            let (found, slopes) = purifier.loss(&c, &t, *label_weight);
            assert!((found - loss).abs() < 1e-14, "{found} {loss}");
            let want = [
                matrix(&gradients.encoder).as_slice().to_vec(),
                gradients.encoder_bias.clone(),
                matrix(&gradients.decoder).as_slice().to_vec(),
                gradients.decoder_bias.clone(),
            ];
            for (found, want) in slopes.iter().zip(&want) {
                assert_eq!(found.len(), want.len());
                let off = found.iter().zip(want).map(|(f, w)| (f - w).abs()).fold(0.0, f64::max);
                assert!(off < 1e-14, "label weight {label_weight}: off by {off:e}");
            }
        }
    }
}
