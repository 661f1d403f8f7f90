//! The option `--shard`: the part of the work for this process, given by number or taken from a
//! cluster's scheduler.

use std::str::FromStr;

use thiserror::Error;

use crate::result_cache::Shard;

/// The value of `--shard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardChoice {
    /// The part itself, written `I/N`.
    Given(Shard),
    /// The task of a Slurm job array, written `slurm`.
    Slurm,
    /// The pod of a Kubernetes Indexed Job, written `kubernetes/N` for a Job with N completions:
    /// Kubernetes does not tell a pod the number.
    Kubernetes(usize),
}

/// Errors from the variables of a scheduler.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ShardError {
    /// A variable is not set.
    #[error("--shard {choice} reads {variable}, which is not set: {fix}")]
    Missing {
        /// The value of `--shard`.
        choice: &'static str,
        /// The name of the variable.
        variable: &'static str,
        /// The way to have it set.
        fix: &'static str,
    },
    /// A variable is not a whole number.
    #[error("{variable} is not a whole number: `{text}`")]
    NotANumber {
        /// The name of the variable.
        variable: &'static str,
        /// Its value.
        text: String,
    },
    /// The tasks of a Slurm array are not evenly numbered.
    #[error(
        "SLURM_ARRAY_TASK_ID is {id}, but the array has {count} tasks from {min} to {max} in steps of {step}: \
         --shard slurm needs evenly numbered tasks, as sbatch --array=0-3 makes"
    )]
    Uneven {
        /// The number of this task.
        id: usize,
        /// The number of tasks.
        count: usize,
        /// The least number of a task.
        min: usize,
        /// The greatest number of a task.
        max: usize,
        /// The distance of two numbers.
        step: usize,
    },
    /// A pod has an index that the Job does not have.
    #[error(
        "JOB_COMPLETION_INDEX is {index}, but --shard kubernetes/{of} has the indexes 0 to {}: \
         give the Job's `completions` after the slash", .of - 1
    )]
    Outside {
        /// The index of the pod.
        index: usize,
        /// The number of completions.
        of: usize,
    },
}

impl FromStr for ShardChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "slurm" {
            return Ok(Self::Slurm);
        }
        let completions =
            text.strip_prefix("kubernetes/").map(|of| of.parse().ok().filter(|of| *of > 0));
        match completions {
            Some(Some(of)) => Ok(Self::Kubernetes(of)),
            None if !text.starts_with("kubernetes") => text
                .parse()
                .map(Self::Given)
                .map_err(|e| format!("{e}; or `slurm`, or `kubernetes/N`")),
            _ => Err("expected the Job's `completions` after kubernetes/, as kubernetes/4".into()),
        }
    }
}

impl ShardChoice {
    /// Returns the part. `variable` reads the variables of the environment.
    ///
    /// # Errors
    /// [`ShardError`] if the scheduler's variables do not name a part.
    pub fn resolve(self, variable: impl Fn(&str) -> Option<String>) -> Result<Shard, ShardError> {
        match self {
            Self::Given(shard) => Ok(shard),
            Self::Slurm => {
                let fix = "submit with sbatch --array=0-3, or give --shard I/N";
                let read = |name| number(name, "slurm", fix, &variable);
                let (id, count) = (read("SLURM_ARRAY_TASK_ID")?, read("SLURM_ARRAY_TASK_COUNT")?);
                let (min, max) = (read("SLURM_ARRAY_TASK_MIN")?, read("SLURM_ARRAY_TASK_MAX")?);
                let step = match variable("SLURM_ARRAY_TASK_STEP") {
                    None => 1,
                    Some(_) => read("SLURM_ARRAY_TASK_STEP")?.max(1),
                };
                let even = count.checked_sub(1).and_then(|n| n.checked_mul(step)?.checked_add(min))
                    == Some(max);
                match id.checked_sub(min) {
                    Some(from_first) if even && id <= max && from_first % step == 0 => {
                        Ok(Shard { part: from_first / step + 1, of: count })
                    }
                    _ => Err(ShardError::Uneven { id, count, min, max, step }),
                }
            }
            Self::Kubernetes(of) => {
                let fix = "the Job needs `completionMode: Indexed`";
                let index = number("JOB_COMPLETION_INDEX", "kubernetes/N", fix, &variable)?;
                if index < of {
                    Ok(Shard { part: index + 1, of })
                } else {
                    Err(ShardError::Outside { index, of })
                }
            }
        }
    }
}

fn number(
    name: &'static str,
    choice: &'static str,
    fix: &'static str,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<usize, ShardError> {
    let text = variable(name).ok_or(ShardError::Missing { choice, variable: name, fix })?;
    text.parse().map_err(|_| ShardError::NotANumber { variable: name, text })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slurm(values: [&str; 5]) -> Result<Shard, ShardError> {
        let names = ["ID", "COUNT", "MIN", "MAX", "STEP"];
        let variable = |name: &str| {
            let at = names.iter().position(|n| format!("SLURM_ARRAY_TASK_{n}") == name).unwrap();
            Some(values[at].to_owned()).filter(|value| !value.is_empty())
        };
        ShardChoice::Slurm.resolve(variable)
    }

    #[test]
    fn the_forms_are_read_and_others_refused() {
        assert_eq!("2/4".parse(), Ok(ShardChoice::Given(Shard { part: 2, of: 4 })));
        assert_eq!("slurm".parse(), Ok(ShardChoice::Slurm));
        assert_eq!("kubernetes/4".parse(), Ok(ShardChoice::Kubernetes(4)));
        for text in ["0/4", "5/4", "", "slurm/4", "SLURM", "auto"] {
            let error = text.parse::<ShardChoice>().unwrap_err();
            assert!(error.contains("1 ≤ i ≤ n") && error.contains("`slurm`"), "{text}: {error}");
        }
        for text in ["kubernetes", "kubernetes/", "kubernetes/0", "kubernetes/-1", "kubernetes/1/2"]
        {
            assert!(text.parse::<ShardChoice>().unwrap_err().contains("kubernetes/4"), "{text}");
        }
    }

    #[test]
    fn a_given_part_reads_no_variable() {
        let shard = Shard { part: 2, of: 4 };
        assert_eq!(ShardChoice::Given(shard).resolve(|name| panic!("{name} was read")), Ok(shard));
    }

    #[test]
    fn missing_and_inconsistent_variables_are_named() {
        let unset = ShardChoice::Slurm.resolve(|_| None).unwrap_err().to_string();
        assert!(
            unset.contains("SLURM_ARRAY_TASK_ID") && unset.contains("sbatch --array"),
            "{unset}"
        );
        let unset = slurm(["2", "", "0", "3", "1"]).unwrap_err().to_string();
        assert!(unset.contains("SLURM_ARRAY_TASK_COUNT"), "{unset}");
        let text = slurm(["2", "four", "0", "3", "1"]).unwrap_err().to_string();
        assert!(text.contains("SLURM_ARRAY_TASK_COUNT") && text.contains("`four`"), "{text}");
        for uneven in [
            // The array of --array=1,3,7.
            ["3", "3", "1", "7", "1"],
            ["3", "0", "0", "3", "1"],
            ["4", "4", "0", "3", "1"],
            ["0", "4", "1", "4", "1"],
            ["3", "3", "0", "4", "2"],
            ["1", "18446744073709551615", "1", "3", "2"],
        ] {
            let error = slurm(uneven).unwrap_err().to_string();
            assert!(error.contains("evenly numbered"), "{uneven:?}: {error}");
        }
        let unset = ShardChoice::Kubernetes(4).resolve(|_| None).unwrap_err().to_string();
        assert!(unset.contains("JOB_COMPLETION_INDEX") && unset.contains("Indexed"), "{unset}");
        let outside =
            ShardChoice::Kubernetes(4).resolve(|_| Some("4".into())).unwrap_err().to_string();
        assert!(outside.contains("is 4") && outside.contains("0 to 3"), "{outside}");
    }

    proptest! {
        /// The tasks of an array are the parts 1 to n, each once, for every way to number them.
        #[test]
        fn tasks_of_an_array_are_all_parts(min in 0usize..50, count in 1usize..40, step in 1usize..5) {
            let max = min + (count - 1) * step;
            for i in 0..count {
                let text = [min + i * step, count, min, max, step].map(|n| n.to_string());
                let shard = slurm([&text[0], &text[1], &text[2], &text[3], &text[4]]);
                prop_assert_eq!(shard, Ok(Shard { part: i + 1, of: count }));
                let pod = ShardChoice::Kubernetes(count).resolve(|_| Some(i.to_string()));
                prop_assert_eq!(pod, Ok(Shard { part: i + 1, of: count }));
            }
        }
    }
}
