//! Progress of long work: a bar on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

/// The progress of one piece of long work.
pub struct Progress {
    bar: Option<ProgressBar>,
    last: Option<u64>,
}

impl Progress {
    /// Starts a piece of work of `total` steps (0: unknown).
    #[must_use]
    pub fn start(what: &str, total: u64) -> Self {
        if std::io::stderr().is_terminal() {
            let bar = if total == 0 { ProgressBar::new_spinner() } else { ProgressBar::new(total) };
            let template = if total == 0 {
                "{spinner} {prefix} {msg}"
            } else {
                "{prefix} {bar:30} {pos}/{len} {msg}"
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_prefix(what.to_owned());
            return Self { bar: Some(bar), last: None };
        }
        say(what);
        Self { bar: None, last: None }
    }

    /// Shows the state of the work.
    pub fn at(&mut self, done: u64, message: &str) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            bar.set_message(message.to_owned());
        }
        self.last = Some(done);
    }

    /// Ends the work with one line.
    pub fn done(self, message: &str) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
        say(message);
    }
}

/// Prints a line on standard error, where progress goes.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
