//! Progress of long work: a bar on a terminal, plain lines elsewhere. Both say how much longer the
//! work is likely to take.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// The time after which a plain line says how much longer the work is likely to take, and the time
/// between two such lines.
const FIRST_GUESS: Duration = Duration::from_secs(10);
const NEXT_GUESS: Duration = Duration::from_secs(60);

/// The progress of one piece of long work.
pub struct Progress {
    bar: Option<ProgressBar>,
    what: String,
    total: u64,
    started: Instant,
    /// The time, since the start, of the next plain line.
    next_guess: Duration,
}

impl Progress {
    /// Starts a piece of work of `total` steps (0: unknown).
    #[must_use]
    pub fn start(what: &str, total: u64) -> Self {
        let (what_said, started) = (what.to_owned(), Instant::now());
        let of = |bar| Self { bar, what: what_said, total, started, next_guess: FIRST_GUESS };
        if std::io::stderr().is_terminal() {
            let bar = if total == 0 { ProgressBar::new_spinner() } else { ProgressBar::new(total) };
            let template = if total == 0 {
                "{spinner} {prefix} {msg}"
            } else {
                "{prefix} {bar:30} {pos}/{len}, about {eta} left; {msg}"
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_prefix(what.to_owned());
            return of(Some(bar));
        }
        say(what);
        of(None)
    }

    /// Shows the state of the work.
    pub fn at(&mut self, done: u64, message: &str) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            bar.set_message(message.to_owned());
            return;
        }
        let elapsed = self.started.elapsed();
        if elapsed >= self.next_guess
            && let Some(left) = left(elapsed, done, self.total)
        {
            self.next_guess = elapsed + NEXT_GUESS;
            say(&format!("{}: {done} of {}, about {} left", self.what, self.total, words(left)));
        }
    }

    /// Ends the work with one line.
    pub fn done(self, message: &str) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
        say(message);
    }
}

/// Returns the time that the rest of the work takes at the speed so far; `None` if nothing is known
/// of it.
fn left(elapsed: Duration, done: u64, total: u64) -> Option<Duration> {
    (done > 0 && done <= total).then(|| elapsed.mul_f64((total - done) as f64 / done as f64))
}

/// Returns a time in words: seconds, or from two minutes on minutes.
fn words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

/// Prints a line on standard error, where progress goes.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_its_share_of_the_time() {
        let second = Duration::from_secs(1);
        assert_eq!(left(10 * second, 5, 20), Some(30 * second));
        assert_eq!(left(10 * second, 20, 20), Some(Duration::ZERO));
        assert_eq!((left(second, 0, 20), left(second, 3, 0)), (None, None));
        let said = [0, 119, 120, 121, 600].map(|seconds| words(seconds * second));
        assert_eq!(said, ["0 s", "119 s", "2 min", "3 min", "10 min"]);
    }
}
