//! Writes a network of each kind as PyTorch reads it, with its outputs of random records: for `scripts/pytorch/exchange.py check`.
//!
//! `cargo run -p vfl-core --example pytorch_exchange -- DIR`

use std::path::PathBuf;

use nalgebra::DMatrix;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_core::model::contract::{SubModelOrigin, start_of};
use vfl_core::model::{NetworkFile, Settings, SubModelSpec, kinds};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = PathBuf::from(std::env::args().nth(1).ok_or("usage: pytorch_exchange DIR")?);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    for (name, kind, settings, width, features, active) in [
        ("mlp", "mlp", r#"{"activation":"sigmoid"}"#, 6, 18, true),
        ("mlp_passive", "mlp", r#"{"activation":"sigmoid"}"#, 6, 18, false),
        ("mlp_embedding", "mlp", r#"{"activation":"relu","hidden":[128]}"#, 64, 392, false),
        ("linear", "softmax_regression", "{}", 6, 18, true),
        ("residual_embedding", "residual", r#"{"channels":3,"height":32}"#, 64, 1536, false),
        (
            "residual",
            "residual",
            r#"{"channels":1,"height":9,"blocks":1,"filters":[4,6,8]}"#,
            10,
            63,
            true,
        ),
    ] {
        let settings: Settings = serde_json::from_str(settings)?;
        let spec = SubModelSpec::new(kind, width, settings)?;
        let mut model =
            kinds::start(&SubModelOrigin { spec, features, active, start: start_of(5) })?;
        for tensor in model.tensors_mut().into_iter().filter(|tensor| tensor.shape.len() == 1) {
            // Biases and batch norms away from zeros and ones, so that each block shows.
            tensor.values.iter_mut().for_each(|v| *v += 0.1 * rng.random::<f64>());
        }
        let inputs = DMatrix::from_fn(features, 3, |_, _| rng.random::<f64>());
        let outputs = model.outputs(&inputs)?.into_matrix();
        let names =
            |what: &str, n: usize| (1..=n).map(|i| format!("{what}{i}")).collect::<Vec<_>>();
        let file =
            NetworkFile::of(&*model, &names("x", features), &names("class ", width as usize));
        std::fs::write(dir.join(format!("{name}.safetensors")), file.to_bytes()?)?;
        let rows = |of: &DMatrix<f64>| {
            of.column_iter().map(|c| c.iter().copied().collect()).collect::<Vec<Vec<f64>>>()
        };
        let records = serde_json::json!({ "inputs": rows(&inputs), "outputs": rows(&outputs) });
        std::fs::write(dir.join(format!("{name}.json")), records.to_string())?;
    }
    Ok(())
}
