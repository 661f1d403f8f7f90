//! The edges, where generated types are at home.

/// A file, or a directory (it ends with `/`), that may use generated types.
pub(crate) struct Edge {
    pub(crate) path: &'static str,
    /// What arrives or leaves there.
    pub(crate) why: &'static str,
}

impl Edge {
    /// Whether it is `file`, or a directory that holds it.
    pub(crate) fn holds(&self, file: &str) -> bool {
        if self.path.ends_with('/') { file.starts_with(self.path) } else { file == self.path }
    }
}

const fn edge(path: &'static str, why: &'static str) -> Edge {
    Edge { path, why }
}

/// Where paths through `pb` may stand.
pub(crate) const EDGES: &[Edge] = &[
    edge("shared/protocol/src/", "generated code, codec and checked conversions"),
    edge("coordinator/src/service.rs", "the coordinator's calls"),
    edge("coordinator/src/client.rs", "client of a passive party"),
    edge("coordinator/src/import/client.rs", "client of the parties of an import"),
    edge("coordinator/src/training/client.rs", "client of the parties of a training"),
    edge("passive-party/src/service.rs", "the passive party's calls"),
    edge("passive-party/src/evaluation/service.rs", "the stream of scorings"),
    edge("active-party/src/service.rs", "the active party's calls"),
    edge("active-party/src/inference/service.rs", "the calls of the Open Inference Protocol"),
    edge(
        "active-party/src/inference/wire.rs",
        "questions and answers of the Open Inference Protocol as messages",
    ),
    edge("active-party/src/client.rs", "client of the coordinator"),
    edge("active-party/src/fallback/service.rs", "client of another service of this party"),
    edge("active-party/src/passive_party.rs", "client of a passive party"),
    edge("active-party/src/cli/align.rs", "client of the running service"),
    edge("active-party/src/cli/client.rs", "client of the running service"),
    edge("active-party/src/cli/publish.rs", "client of the running service"),
    edge("lab/auditor/src/client.rs", "client of the active party"),
    edge("lab/auditor/src/audit/client/", "the auditor's clients of the parties"),
    edge("lab/load/src/", "drives the coordinator with bare messages, to measure it"),
    edge("fuzz/targets/src/messages.rs", "fuzzes the conversions of every message"),
];

/// The crates of the workspace from the ground up: each depends on crates of lower floors alone.
pub(crate) const FLOORS: &[&[&str]] = &[
    &["shared/numerics", "shared/mpc"],
    &["shared/core"],
    &["shared/defense", "shared/state", "lab/datasets"],
    &["shared/transform", "shared/attack", "lab/present"],
    &["shared/protocol", "lab/papers"],
    &["shared/features", "shared/server"],
    &["shared/party", "lab/studies"],
    // None of them knows another: they are the parties of a deployment.
    &["coordinator", "passive-party", "active-party", "lab/auditor"],
    &["lab/testbed"],
    &["lab/demo", "lab/load", "lab/reproduce"],
    &["lab"],
    // For tests, and what shows how to extend the system.
    &["lab/testing", "fuzz/targets", "examples/extension"],
];

/// The mathematics: the crates that whoever adds an attack, a defense, a transform or a metric needs,
/// and the computation on shares; and what none of them may depend on, directly or not.
pub(crate) const MATHEMATICS: &[&str] = &[
    "shared/numerics",
    "shared/mpc",
    "shared/core",
    "shared/defense",
    "shared/transform",
    "shared/attack",
];
pub(crate) const FOREIGN: &[&str] =
    &["anyhow", "clap", "hyper", "prost", "rustls", "sqlx", "tokio", "tonic", "tracing"];
