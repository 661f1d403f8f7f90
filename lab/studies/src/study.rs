//! The form of a study: a checked plan that runs, and the report of it.

use serde::Serialize;

/// An event of a study that runs.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A part of the work begins: its name, for a progress bar.
    Start(&'a str),
    /// A part of the work ends: its result in words, or nothing.
    End(&'a str),
}

/// A function that takes the events of a study, from any thread.
pub type Listener<'a> = dyn Fn(Event<'_>) + Sync + 'a;

/// The report of a study. Its JSON has one key for each field.
pub trait Report: Serialize {
    /// Returns the settings of the run, a table of the figures, and a legend of the columns. Ends
    /// with a newline.
    fn text(&self) -> String;
}

/// A study whose plan was checked, with its records.
pub trait Study {
    /// The report of a run.
    type Report: Report;
    /// The title of the progress of a run.
    const TITLE: &'static str = "training models";

    /// Returns the number of parts whose end a run tells; 0 for a run of seconds, without progress.
    fn parts(&self) -> usize;

    /// Returns the last line of the progress of a run.
    #[must_use]
    fn ending(&self) -> String {
        "done".to_owned()
    }

    /// Measures on all cores, and returns the report. Calls `tell` at the end of each part. The
    /// figures depend on the plan alone, not on the number of cores.
    ///
    /// # Errors
    /// If a training diverges, or what was trained cannot be measured.
    fn run(&self, tell: &Listener<'_>) -> anyhow::Result<Self::Report>;
}
