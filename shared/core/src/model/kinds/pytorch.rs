//! Dense layers in PyTorch's names and layout: `0.weight` (outputs × inputs, row by row) and
//! `0.bias` of an `nn.Linear`, in an `nn.Sequential` or under other names.

use std::cmp::Ordering;

use crate::model::contract::Block;

/// The parameters of one `nn.Linear`.
pub(super) struct Dense {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    /// Inputs × outputs, row by row: transposed.
    pub(super) weights: Vec<f64>,
    pub(super) bias: Option<Vec<f64>>,
}

/// Returns the layers in the order of the list, or in that of the numbers in their names: `net.2`
/// is before `net.10`. A file keeps no order of its own, and words do not tell which layer is
/// first.
///
/// # Errors
/// The problem with a block, by its name, and its fix.
pub(super) fn dense_layers(
    mut blocks: Vec<Block>,
    listed: Option<&[String]>,
) -> Result<Vec<Dense>, String> {
    blocks.sort_by(|a, b| natural(&a.name, &b.name));
    let (mut biases, mut layers): (Vec<Block>, Vec<(String, Dense)>) = (Vec::new(), Vec::new());
    for block in blocks {
        match (suffix(&block.name), block.shape.as_slice()) {
            ("bias", [_]) => biases.push(block),
            ("weight", &[outputs, inputs]) => {
                let weights = transposed(&block.values, outputs, inputs);
                let name = layer(&block.name).to_owned();
                layers.push((name, Dense { inputs, outputs, weights, bias: None }));
            }
            _ => {
                return Err(format!(
                    "block `{}` has shape {:?}: layers are `….weight` of two dimensions and `….bias` of one, as of `nn.Linear`",
                    block.name, block.shape
                ));
            }
        }
    }
    for bias in biases {
        let owner = layers.iter_mut().find(|(name, _)| *name == layer(&bias.name));
        let (_, owner) =
            owner.ok_or_else(|| format!("block `{}` has no `weight` beside it", bias.name))?;
        if bias.values.len() != owner.outputs {
            let (got, expected) = (bias.values.len(), owner.outputs);
            return Err(format!(
                "block `{}` has {got} numbers, its layer {expected} outputs",
                bias.name
            ));
        }
        owner.bias = Some(bias.values);
    }
    in_order(&mut layers, listed)?;
    for ((above, a), (below, b)) in layers.iter().zip(layers.iter().skip(1)) {
        if a.outputs != b.inputs {
            return Err(format!(
                "layer `{above}` has {} outputs and the next one, `{below}`, {} inputs: layers are taken in the order of the \
                 numbers in their names, or of `layers` in the metadata",
                a.outputs, b.inputs
            ));
        }
    }
    Ok(layers.into_iter().map(|(_, dense)| dense).collect())
}

/// Puts layers, which are in the order of their names, in that in which they are used.
fn in_order(layers: &mut [(String, Dense)], listed: Option<&[String]>) -> Result<(), String> {
    if let Some(listed) = listed {
        let place = |name: &String| listed.iter().position(|listed| listed == name);
        if let Some((name, _)) = layers.iter().find(|(name, _)| place(name).is_none()) {
            return Err(format!("`layers` in the metadata does not name the layer `{name}`"));
        }
        let unknown = |name: &&String| !layers.iter().any(|(layer, _)| layer == *name);
        if let Some(name) = listed.iter().find(unknown) {
            return Err(format!("`layers` in the metadata names `{name}`, which is no layer here"));
        }
        layers.sort_by_key(|(name, _)| place(name));
        return Ok(());
    }
    // Equal but for their numbers, and not in them.
    let words = |name: &str| {
        let mut words: Vec<char> =
            name.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
        words.dedup_by(|a, b| (*a, *b) == ('#', '#'));
        words
    };
    for ((a, _), (b, _)) in layers.iter().zip(layers.iter().skip(1)) {
        if words(a) != words(b) || natural(a, b) == Ordering::Equal {
            return Err(format!(
                "the names `{a}` and `{b}` do not say which layer is used first: list the names of all layers, in the order of use, \
                 under `layers` (in the metadata of a .safetensors file)"
            ));
        }
    }
    Ok(())
}

/// Checks that the first layer takes this many inputs, before anything of that size is allocated.
///
/// # Errors
/// A message with both numbers.
pub(super) fn check_inputs(layers: &[Dense], features: usize) -> Result<(), String> {
    match layers.first() {
        Some(first) if first.inputs != features => Err(format!(
            "the first layer takes {} inputs, and there are {features} features",
            first.inputs
        )),
        _ => Ok(()),
    }
}

/// Returns the blocks of an `nn.Linear` under this name; `weights` are inputs × outputs, row by
/// row.
pub(super) fn linear(name: &str, weights: &Block, bias: Option<&Block>) -> Vec<Block> {
    let [inputs, outputs] = weights.shape[..] else { return Vec::new() };
    let values = transposed(&weights.values, inputs, outputs);
    let mut blocks =
        vec![Block { name: format!("{name}.weight"), shape: vec![outputs, inputs], values }];
    blocks.extend(bias.map(|bias| Block { name: format!("{name}.bias"), ..bias.clone() }));
    blocks
}

/// Transposes a matrix of this many rows and columns, stored row by row.
fn transposed(values: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    (0..columns)
        .flat_map(|column| (0..rows).map(move |row| values[row * columns + column]))
        .collect()
}

fn suffix(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn layer(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(layer, _)| layer)
}

/// Compares names as text, with consecutive digits as one number.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let (digits_a, digits_b) = (digits(a), digits(b));
        if digits_a > 0 && digits_b > 0 {
            let number = |text: &str| text.trim_start_matches('0').to_owned();
            let (x, y) = (number(&a[..digits_a]), number(&b[..digits_b]));
            let order = x.len().cmp(&y.len()).then_with(|| x.cmp(&y));
            if order != Ordering::Equal {
                return order;
            }
            (a, b) = (&a[digits_a..], &b[digits_b..]);
            continue;
        }
        let (mut left, mut right) = (a.chars(), b.chars());
        match (left.next(), right.next()) {
            (Some(x), Some(y)) if x == y => (a, b) = (left.as_str(), right.as_str()),
            (x, y) => return x.cmp(&y),
        }
    }
}

/// Returns the number of digits that a text begins with.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(name: &str, shape: &[usize]) -> Block {
        let values = (0..shape.iter().product()).map(|i| i as f64).collect();
        Block { name: name.to_owned(), shape: shape.to_vec(), values }
    }

    #[test]
    fn layers_come_in_the_order_of_their_numbers() {
        let blocks = ["net.10.weight", "net.10.bias", "net.2.weight", "net.0.bias", "net.0.weight"];
        let shapes: [&[usize]; 5] = [&[1, 3], &[1], &[3, 2], &[2], &[2, 4]];
        let layers =
            dense_layers(blocks.iter().zip(shapes).map(|(n, s)| block(n, s)).collect(), None)
                .unwrap();
        let found: Vec<_> =
            layers.iter().map(|l| (l.inputs, l.outputs, l.bias.is_some())).collect();
        assert_eq!(found, [(4, 2, true), (2, 3, false), (3, 1, true)]);
        // Row 0 of the weights, outputs × inputs, is 0 to 3.
        assert_eq!(layers[0].weights, [0.0, 4.0, 1.0, 5.0, 2.0, 6.0, 3.0, 7.0]);
    }

    #[test]
    fn what_is_no_chain_of_layers_is_named() {
        for (blocks, says) in [
            (
                vec![block("0.weight", &[2, 3]), block("2.weight", &[2, 3])],
                "`0` has 2 outputs and the next one, `2`, 3",
            ),
            (
                vec![block("0.weight", &[2, 3]), block("0.bias", &[3])],
                "`0.bias` has 3 numbers, its layer 2",
            ),
            (vec![block("1.bias", &[3])], "`1.bias` has no `weight`"),
            (vec![block("0.weight", &[2, 3, 1])], "`0.weight` has shape [2, 3, 1]"),
            (vec![block("0.running_mean", &[2])], "`0.running_mean` has shape"),
        ] {
            let said = dense_layers(blocks, None).err().unwrap();
            assert!(said.contains(says), "{said}");
        }
    }

    /// Words in names tell nothing of the order: the list does, and without it they are refused.
    #[test]
    fn layers_with_other_names_take_a_list() {
        let square = |name: &str, first: f64| Block {
            values: vec![first, 0.0, 0.0, 1.0],
            ..block(&format!("{name}.weight"), &[2, 2])
        };
        let blocks = || vec![square("input", 1.0), square("hidden", 2.0), square("output", 3.0)];
        let said = dense_layers(blocks(), None).err().unwrap();
        assert!(said.contains("`hidden` and `input` do not say"), "{said}");
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let order = list(&["input", "hidden", "output"]);
        let layers = dense_layers(blocks(), Some(&order)).unwrap();
        let first: Vec<f64> = layers.iter().map(|layer| layer.weights[0]).collect();
        assert_eq!(first, [1.0, 2.0, 3.0]);
        for (names, says) in [
            (list(&["input", "output"]), "does not name the layer `hidden`"),
            (list(&["input", "hidden", "output", "more"]), "names `more`"),
        ] {
            let said = dense_layers(blocks(), Some(&names)).err().unwrap();
            assert!(said.contains(says), "{said}");
        }
        // Numbers that are equal, and a layer beside others of one name.
        for names in [["fc1", "fc01"], ["fc1", "head"], ["net.0", "head.1"], ["fc", "fc1"]] {
            let blocks = names.map(|name| square(name, 1.0)).into();
            assert!(dense_layers(blocks, None).is_err(), "{names:?}");
        }
        let blocks = ["layer2.0", "layer1.3", "layer10.1"].map(|name| square(name, 1.0)).into();
        assert!(dense_layers(blocks, None).is_ok());
    }

    #[test]
    fn turned_twice_is_as_before() {
        let weights = block("layer1.weights", &[4, 2]);
        let there = linear("0", &weights, Some(&block("layer1.bias", &[2])));
        assert_eq!(there[0].shape, [2, 4]);
        let back = dense_layers(there, None).unwrap();
        assert_eq!(back[0].weights, weights.values);
    }
}
