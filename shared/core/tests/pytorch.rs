//! Files that PyTorch wrote (`scripts/pytorch/exchange.py write`) are read as the models they are of: the same outputs of the same
//! records as PyTorch computed. What is written here is read back as it was.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use nalgebra::DMatrix;
use vfl_core::model::contract::{SubModelOrigin, start_of};
use vfl_core::model::{NetworkFile, Settings, SubModelSpec, kinds};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pytorch").join(name)
}

/// Records and outputs, one column each.
fn records(name: &str) -> (DMatrix<f64>, DMatrix<f64>) {
    let text = std::fs::read_to_string(path(&format!("{name}.json"))).unwrap();
    let content: serde_json::Value = serde_json::from_str(&text).unwrap();
    let read = |key: &str| {
        let rows: Vec<Vec<f64>> = serde_json::from_value(content[key].clone()).unwrap();
        DMatrix::from_fn(rows[0].len(), rows.len(), |i, j| rows[j][i])
    };
    (read("inputs"), read("outputs"))
}

fn outputs(file: &NetworkFile, inputs: &DMatrix<f64>) -> DMatrix<f64> {
    kinds::restore(file.parameters()).unwrap().outputs(inputs).unwrap().into_matrix()
}

#[test]
fn outputs_are_those_of_pytorch() {
    for (name, kind, tolerance) in [
        ("mlp", "mlp", 1e-14),
        ("mlp_32", "mlp", 1e-6),
        ("linear", "softmax_regression", 1e-14),
        ("residual", "residual", 2e-6),
    ] {
        let file = NetworkFile::read(&path(&format!("{name}.safetensors"))).unwrap();
        assert_eq!(file.parameters().spec.kind(), kind);
        let (inputs, expected) = records(name);
        assert_eq!(file.class_names().len(), expected.nrows());
        let difference = (outputs(&file, &inputs) - &expected).amax();
        assert!(difference < tolerance, "{name}: {difference:e}");
        assert!(expected.amax() > 0.1, "{name}: outputs that are all small show nothing");
    }
}

#[test]
fn what_is_written_is_read_back_to_the_bit() {
    for name in ["mlp", "mlp_32", "linear", "residual"] {
        let file = NetworkFile::read(&path(&format!("{name}.safetensors"))).unwrap();
        let again = NetworkFile::parse(&file.to_bytes().unwrap()).unwrap();
        assert!(again == file, "{name}");
    }
}

#[test]
fn inputs_are_found_by_their_names() {
    let file = NetworkFile::read(&path("mlp.safetensors")).unwrap();
    let (inputs, expected) = records("mlp");
    let order = [3, 0, 4, 1, 2];
    let names: Vec<String> = order.iter().map(|&at| file.feature_names()[at].clone()).collect();
    let reordered = file.with_features(&names).unwrap();
    assert!((outputs(&reordered, &inputs.select_rows(&order)) - &expected).amax() < 1e-14);
    assert!((outputs(&reordered, &inputs) - &expected).amax() > 1e-3);
    let said = file.with_features(&names[..4]).unwrap_err().to_string();
    assert!(said.contains("`x3` unknown here"), "{said}");
    let images = NetworkFile::read(&path("residual.safetensors")).unwrap();
    let mut names = images.feature_names().to_vec();
    names.swap(0, 1);
    let said = images.with_features(&names).unwrap_err().to_string();
    assert!(said.contains("schema's order"), "{said}");
}

/// The error for a file with another header.
fn changed(name: &str, from: &str, to: &str) -> String {
    with_header(name, &[(from, to)]).unwrap_err()
}

/// A file in whose header some texts are others.
fn with_header(name: &str, changes: &[(&str, &str)]) -> Result<NetworkFile, String> {
    let content = std::fs::read(path(&format!("{name}.safetensors"))).unwrap();
    let length = u64::from_le_bytes(*content.first_chunk().unwrap()) as usize;
    let header = std::str::from_utf8(&content[8..8 + length]).unwrap();
    let mut header = header.to_owned();
    for (from, to) in changes {
        assert!(header.contains(from), "{header}");
        header = header.replace(from, to);
    }
    let mut header = header.into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut other = (header.len() as u64).to_le_bytes().to_vec();
    other.extend(header);
    other.extend(&content[8 + length..]);
    NetworkFile::parse(&other).map_err(|e| e.to_string())
}

#[test]
fn what_is_wrong_with_a_file_is_named_with_the_fix() {
    for (name, from, to, says) in [
        (
            "mlp",
            "\"kind\":\"mlp\"",
            "\"sort\":\"mlp\"",
            "`kind` is missing: write the file with metadata=",
        ),
        ("mlp", "\"kind\":\"mlp\"", "\"kind\":\"tree\"", "`kind` is `tree`, this version knows"),
        (
            "mlp",
            "\"kind\":\"mlp\"",
            "\"kind\":\"softmax_regression\"",
            "3 layers, a softmax regression one",
        ),
        ("mlp", "{\\\"activation\\\": \\\"tanh\\\"}", "{}", "`activation` is missing"),
        ("mlp", "\\\"tanh\\\"", "\\\"tan\\\"", "`activation` is"),
        (
            "mlp",
            "{\\\"activation\\\": \\\"tanh\\\"}",
            "{\\\"activation\\\": \\\"tanh\\\", \\\"hidden\\\": [4]}",
            "`hidden` is [4]",
        ),
        ("mlp", "\"feature_names\"", "\"names\"", "`feature_names` is missing"),
        ("mlp", "\\\"x5\\\"", "\\\"x4\\\"", "names `x4` twice"),
        ("mlp", ", \\\"x5\\\"", "", "the first layer takes 5 inputs, and there are 4 features"),
        ("mlp", "\"F64\"", "\"I64\"", "call .float() or .double()"),
        ("mlp_32", "\"F32\"", "\"I32\"", "call .float()"),
        (
            "residual",
            "stage2.block1.bn1.running_mean",
            "stage2.block1.bn1.mean",
            "`stage2.block1.bn1.running_mean` is missing",
        ),
        ("residual", "\\\"height\\\": 6", "\\\"height\\\": 7", "expected a multiple of 14"),
    ] {
        let said = changed(name, from, to);
        assert!(said.contains(says), "{to}: {said}");
    }
    let parse = |content: &[u8]| NetworkFile::parse(content).unwrap_err().to_string();
    let content = std::fs::read(path("mlp.safetensors")).unwrap();
    for cut in [0, 7, 8, 100, content.len() - 1] {
        assert!(
            parse(&content[..cut]).contains("no safetensors file"),
            "{cut}: {}",
            parse(&content[..cut])
        );
    }
    let mut infinite = content.clone();
    let end = infinite.len();
    infinite[end - 8..].copy_from_slice(&f64::INFINITY.to_le_bytes());
    assert!(parse(&infinite).contains("not a finite number"), "{}", parse(&infinite));
    assert!(parse(&u64::MAX.to_le_bytes()).contains("header is too long"));
}

/// Layers with names of words are used in the order of a list, and never in that of the names.
#[test]
fn a_list_orders_layers_whose_names_do_not() {
    let renamed = [("\"0.", "\"trunk."), ("\"2.", "\"body."), ("\"4.", "\"head.")];
    let refused = with_header("mlp", &renamed).unwrap_err();
    assert!(refused.contains("`body` and `head` do not say which"), "{refused}");
    let list = "\"kind\":\"mlp\",\"layers\":\"[\\\"trunk\\\", \\\"body\\\", \\\"head\\\"]\"";
    let listed = [&renamed[..], &[("\"kind\":\"mlp\"", list)]].concat();
    let file = with_header("mlp", &listed).unwrap();
    let (inputs, expected) = records("mlp");
    assert!((outputs(&file, &inputs) - &expected).amax() < 1e-14);
}

/// Samples that PyTorch computed are those of the model; with a value changed they are not.
#[test]
fn samples_are_compared() {
    let (inputs, outputs) = records("mlp");
    let sample = |record: usize, error: f64| {
        let features: Vec<f64> = inputs.column(record).iter().copied().collect();
        let mut outputs: Vec<f64> = outputs.column(record).iter().copied().collect();
        outputs[1] += error;
        serde_json::json!({ "features": features, "outputs": outputs })
    };
    let read = |samples: serde_json::Value| {
        let text = serde_json::Value::String(samples.to_string()).to_string();
        with_header("mlp", &[("\"kind\":\"mlp\"", &format!("\"kind\":\"mlp\",\"samples\":{text}"))])
    };
    assert!(read(serde_json::json!([sample(0, 0.0), sample(3, 1e-6)])).is_ok());
    for (samples, says) in [
        (serde_json::json!([sample(0, 0.0), sample(1, 0.01)]), "`samples`, number 2: the model's"),
        (
            serde_json::json!([{"features": [0.1], "outputs": [0.2]}]),
            "give 5 features and 3 outputs",
        ),
        (serde_json::json!({"features": []}), "is no list such as"),
    ] {
        let refused = read(samples).unwrap_err();
        assert!(refused.contains(says), "{refused}");
    }
    let activation = "{\\\"activation\\\": \\\"tanh\\\"}";
    let text = serde_json::json!([sample(0, 0.0)]).to_string();
    let text = serde_json::Value::String(text).to_string();
    let other = [
        ("\"kind\":\"mlp\"", &*format!("\"kind\":\"mlp\",\"samples\":{text}")),
        (activation, "{\\\"activation\\\": \\\"relu\\\"}"),
    ];
    assert!(with_header("mlp", &other).unwrap_err().contains("another activation"));
}

/// A perceptron of default settings is written with its activation, which its parameters do not tell.
#[test]
fn what_was_left_to_the_defaults_is_written() {
    let spec = SubModelSpec::new("mlp", 3, Settings::new()).unwrap();
    let model =
        kinds::start(&SubModelOrigin { spec, features: 2, active: true, start: start_of(3) })
            .unwrap();
    let names = |names: [&str; 2]| names.map(str::to_owned);
    let file = NetworkFile::of(&*model, &names(["a", "b"]), &[]);
    let read = NetworkFile::parse(&file.to_bytes().unwrap()).unwrap();
    assert!(read.parameters().blocks == file.parameters().blocks);
    assert_eq!(
        read.parameters().spec.settings_text(),
        r#"{"activation":"sigmoid","hidden":[8,8]}"#
    );
    let inputs = DMatrix::from_row_slice(2, 3, &[0.1, 0.2, 0.3, 0.9, 0.8, 0.7]);
    assert_eq!(outputs(&read, &inputs), outputs(&file, &inputs));
}
