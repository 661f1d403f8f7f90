//! The edges, where generated types are at home, and what is owed.

/// What a place that uses generated types is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Messages arrive or leave here.
    Edge,
    /// It should use domain types, and does not yet.
    Debt,
}

/// Whether `path` is `file`, or a directory (it ends with `/`) that holds it.
fn holds(path: &str, file: &str) -> bool {
    if path.ends_with('/') { file.starts_with(path) } else { file == path }
}

/// A file or directory that may use generated types.
pub(crate) struct Edge {
    pub(crate) path: &'static str,
    pub(crate) kind: Kind,
    pub(crate) why: &'static str,
}

impl Edge {
    pub(crate) fn holds(&self, file: &str) -> bool {
        holds(self.path, file)
    }
}

const fn edge(path: &'static str, why: &'static str) -> Edge {
    Edge { path, kind: Kind::Edge, why }
}

const fn debt(path: &'static str, why: &'static str) -> Edge {
    Edge { path, kind: Kind::Debt, why }
}

/// Where paths through `pb` may stand.
pub(crate) const EDGES: &[Edge] = &[
    edge("shared/src/rpc/", "generated code, codec and checked conversions"),
    edge("shared/src/policy/wire.rs", "policies as messages"),
    edge("shared/src/transform/wire.rs", "transforms, and what is shown of parameters, as messages"),
    edge("shared/src/model/wire.rs", "models and training configurations as messages"),
    edge("shared/src/training/wire.rs", "the messages of a training"),
    edge("coordinator/src/service.rs", "the coordinator's calls"),
    edge("coordinator/src/wire.rs", "what the coordinator answers, as messages"),
    edge("coordinator/src/client.rs", "client of a passive party"),
    edge("coordinator/src/import/client.rs", "client of the parties of an import"),
    edge("coordinator/src/training/client.rs", "client of the parties of a training"),
    edge("passive-party/src/service.rs", "the passive party's calls"),
    edge("passive-party/src/evaluation/service.rs", "the stream of scorings"),
    edge("passive-party/src/evaluation/wire.rs", "scorings as messages"),
    edge("active-party/src/service.rs", "the active party's calls"),
    edge("active-party/src/reconstruct/wire.rs", "what auditors ask for and attacks give, as messages"),
    edge("active-party/src/client.rs", "client of the coordinator"),
    edge("active-party/src/passive_party.rs", "client of a passive party"),
    edge("active-party/src/cli/client.rs", "client of the running service"),
    edge("active-party/src/cli/publish.rs", "client of the running service"),
    edge("lab/src/load/", "drives the coordinator with bare messages, to measure it"),
    edge("fuzz/targets/src/messages.rs", "fuzzes the conversions of every message"),
    debt("lab/src/audit.rs", "asks and reads results as messages"),
    debt("lab/src/audit/", "asks and reads results as messages"),
    debt("lab/src/demo.rs", "predicts with messages"),
    debt("lab/src/deployment.rs", "trains with messages"),
    debt("lab/src/reproduce/sockets.rs", "predicts with messages"),
];

/// Files that still depend on each other in a circle.
pub(crate) struct Circle {
    /// Files and directories: a circle within them is known.
    pub(crate) among: &'static [&'static str],
    pub(crate) why: &'static str,
}

impl Circle {
    pub(crate) fn holds(&self, file: &str) -> bool {
        self.among.iter().any(|path| holds(path, file))
    }
}

/// The circles that are owed.
pub(crate) const CIRCLES: &[Circle] = &[Circle {
    among: &["lab/src/audit.rs", "lab/src/audit/"],
    why: "results are defined beside the audit that makes them",
}];
