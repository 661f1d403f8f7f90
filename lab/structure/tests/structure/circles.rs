//! Circles of a directed graph: its strongly connected components of more than one node.

use std::collections::{BTreeMap, BTreeSet};

use crate::paths::Dependencies;

/// The dependencies within each circle.
pub(crate) fn circles(dependencies: &Dependencies) -> Vec<Dependencies> {
    let nodes: BTreeSet<usize> = dependencies.keys().flat_map(|&(from, to)| [from, to]).collect();
    let reach: BTreeMap<usize, BTreeSet<usize>> =
        nodes.iter().map(|&node| (node, reachable(dependencies, node))).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for &node in &nodes {
        // Those that a node reaches and that reach it.
        let circle: BTreeSet<usize> =
            reach[&node].iter().copied().filter(|other| reach[other].contains(&node)).collect();
        if circle.len() > 1 && seen.insert(circle.clone()) {
            let within = dependencies
                .iter()
                .filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
            found.push(within.map(|(edge, path)| (*edge, path.clone())).collect());
        }
    }
    found
}

fn reachable(dependencies: &Dependencies, from: usize) -> BTreeSet<usize> {
    let (mut found, mut todo) = (BTreeSet::new(), vec![from]);
    while let Some(node) = todo.pop() {
        for (_, to) in dependencies.range((node, 0)..=(node, usize::MAX)).map(|(edge, _)| *edge) {
            if found.insert(to) {
                todo.push(to);
            }
        }
    }
    found
}
