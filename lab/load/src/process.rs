//! The processes of the measurement.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A process of the measurement. It ends when this value is dropped.
pub(super) struct Worker {
    pub(super) address: String,
    pub(super) child: Child,
}

impl Worker {
    /// Starts `program` in the given role, optionally with a limit of file descriptors and further
    /// options, and waits for its address.
    ///
    /// # Errors
    /// If it ends before it listens.
    pub(super) async fn start(
        program: &Path,
        dir: &Path,
        role: &str,
        passive: Option<&str>,
        descriptors: Option<u32>,
        options: &[String],
    ) -> anyhow::Result<Self> {
        let mut command = match descriptors {
            None => Command::new(program),
            Some(most) => {
                let mut shell = Command::new("sh");
                // Sets the hard and the soft limit, so that the process cannot raise it.
                shell.arg("-c").arg(format!("ulimit -n {most} && exec \"$0\" \"$@\"")).arg(program);
                shell
            }
        };
        command.arg("load-worker").arg("--role").arg(role).arg("--dir").arg(dir);
        if let Some(address) = passive {
            command.arg("--passive").arg(address);
        }
        command.args(options);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let stdout = child
            .stdout
            .take()
            .ok_or_else(|| anyhow::anyhow!("the {role} process has no output"))?;
        let mut address = String::new();
        let mut stdout = BufReader::new(stdout);
        tokio::time::timeout(Duration::from_secs(30), stdout.read_line(&mut address)).await??;
        anyhow::ensure!(!address.is_empty(), "the {role} process ended before it listened");
        Ok(Self { address: address.trim().to_owned(), child })
    }

    /// Returns the current memory of the process (resident set), in bytes.
    ///
    /// # Errors
    /// If the system does not report it.
    pub(super) fn memory(&self) -> anyhow::Result<u64> {
        let pid = self.child.id().ok_or_else(|| anyhow::anyhow!("the process has ended"))?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
        let kib = line
            .and_then(|l| l.trim().strip_suffix("kB"))
            .and_then(|n| n.trim().parse::<u64>().ok());
        kib.map(|n| n * 1024)
            .ok_or_else(|| anyhow::anyhow!("the system does not tell a process's memory"))
    }
}
