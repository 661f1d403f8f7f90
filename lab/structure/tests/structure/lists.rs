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
    edge("shared/src/rpc/", "generated code, codec and checked conversions"),
    edge("shared/src/policy/wire.rs", "policies as messages"),
    edge(
        "shared/src/transform/wire.rs",
        "transforms, and what is shown of parameters, as messages",
    ),
    edge("shared/src/model/wire.rs", "models and training configurations as messages"),
    edge("shared/src/training/wire.rs", "the messages of a training"),
    edge("shared/src/alignment/wire.rs", "frames and figures of alignments as messages"),
    edge("coordinator/src/service.rs", "the coordinator's calls"),
    edge("coordinator/src/wire.rs", "what the coordinator answers, as messages"),
    edge("coordinator/src/client.rs", "client of a passive party"),
    edge("coordinator/src/import/client.rs", "client of the parties of an import"),
    edge("coordinator/src/training/client.rs", "client of the parties of a training"),
    edge("passive-party/src/service.rs", "the passive party's calls"),
    edge("passive-party/src/evaluation/service.rs", "the stream of scorings"),
    edge("passive-party/src/evaluation/wire.rs", "scorings as messages"),
    edge("active-party/src/service.rs", "the active party's calls"),
    edge("active-party/src/inference/service.rs", "the calls of the Open Inference Protocol"),
    edge(
        "active-party/src/inference/wire.rs",
        "questions and answers of the Open Inference Protocol as messages",
    ),
    edge(
        "active-party/src/reconstruct/wire.rs",
        "what auditors ask for and attacks give, as messages",
    ),
    edge("active-party/src/client.rs", "client of the coordinator"),
    edge("active-party/src/passive_party.rs", "client of a passive party"),
    edge("active-party/src/cli/align.rs", "client of the running service"),
    edge("active-party/src/cli/client.rs", "client of the running service"),
    edge("active-party/src/cli/publish.rs", "client of the running service"),
    edge("lab/src/client.rs", "client of the active party"),
    edge("lab/src/audit/client/", "the auditor's clients of the parties"),
    edge("lab/src/load/", "drives the coordinator with bare messages, to measure it"),
    edge("fuzz/targets/src/messages.rs", "fuzzes the conversions of every message"),
];
