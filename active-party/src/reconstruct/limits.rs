//! The limits of memory and time of one call.

use std::time::Duration;

use vfl_attack::{AttackError, GradientInversion, Method};
use vfl_protocol::Refusal;

use super::job::{Job, Task};

/// The most scores that averaging keeps, 800 MB.
const MAX_ANSWERED: usize = 100_000_000;

/// The most bounds on pairs of classes that adaptive attacks keep over all records, about 800 MB.
const MAX_BOUNDS: usize = 20_000_000;

/// The most unknowns and bounds of one record.
const MAX_ROWS: usize = 2_500;

/// The most questions about one record.
const MAX_QUERIES: u32 = 1000;

/// The most steps of gradient inversion over all records and attacks of one call: a minute or two
/// of two cores.
const MAX_DESCENT_STEPS: u64 = 1_000_000_000;

/// Refuses more steps of gradient inversion than end in time, run by itself or as a base.
pub(super) fn check_steps(tasks: &[Task], records: usize) -> Result<(), Refusal> {
    let descents = tasks.iter().filter(|t| t.effective_method() == Method::GradientInversion);
    let steps: u64 =
        descents.map(|t| u64::from(GradientInversion::from(&t.settings).steps())).sum();
    if steps.saturating_mul(records as u64) > MAX_DESCENT_STEPS {
        return Err(Refusal::invalid(format!(
            "{steps} `steps` of gradient_inversion on {records} records are more than {MAX_DESCENT_STEPS} in all; set fewer \
             steps or name fewer records"
        )));
    }
    Ok(())
}

/// The most trainings of a network in one call. Each of them may take up to an hour, so that all of
/// them end within a day.
const MAX_TRAININGS: usize = 24;

/// Refuses more trainings of a network than end in time, by an attack itself or by its base.
pub(super) fn check_trainings(tasks: &[Task]) -> Result<(), Refusal> {
    let trains = [Method::GenerativeRegression, Method::ShadowNetwork, Method::ShadowPurifier];
    let of_task = |task: &Task| {
        let base = task.method.base(&task.settings);
        usize::from(trains.contains(&task.method))
            + usize::from(base.is_some_and(|base| trains.contains(&base)))
    };
    let trainings: usize = tasks.iter().map(of_task).sum();
    if trainings > MAX_TRAININGS {
        let names = trains.map(Method::as_str).join(", ");
        return Err(Refusal::invalid(format!(
            "the attacks train {trainings} networks ({names}), a request takes at most {MAX_TRAININGS}; ask for the others in \
             another request"
        )));
    }
    Ok(())
}

/// Refuses a further attack of a job whose attacks have had the cores for `most`; `done` of
/// `attacks` have ended.
pub(super) fn check_time(
    spent: Duration,
    most: Duration,
    (done, attacks): (usize, u64),
) -> Result<(), AttackError> {
    if spent < most {
        return Ok(());
    }
    let (took, most) = (spent.as_secs() / 60, most.as_secs() / 60);
    let reason = format!(
        "{done} of the {attacks} attacks took {took} minutes, and this active party begins no \
         further one after {most}; ask for fewer attacks or records, or its operator may raise \
         `max_minutes` in [audit]"
    );
    Err(AttackError::NotGranted { reason })
}

/// Refuses more than [`MAX_QUERIES`] questions about a record.
pub(super) fn check_queries(queries: u32) -> Result<(), Refusal> {
    if queries > MAX_QUERIES {
        return Err(Refusal::invalid(format!(
            "`queries` is {queries}, at most {MAX_QUERIES} are made"
        )));
    }
    Ok(())
}

/// Refuses a job that would not fit in memory, or not end: adaptive attacks keep bounds on every
/// pair of classes, and averaging keeps every answer.
pub(super) fn check_size(job: &Job, classes: usize, target: usize) -> Result<(), Refusal> {
    let records = job.ids.len();
    let answers = records.saturating_mul(classes).saturating_mul(job.queries);
    // As a base, averaging gets one release and asks no more.
    if job.tasks.iter().any(|t| t.needs.repeated.wanted()) && answers > MAX_ANSWERED {
        return Err(Refusal::invalid(format!(
            "{} `queries` of {records} records and {classes} classes are more than {MAX_ANSWERED} scores; ask less often or for fewer",
            job.queries
        )));
    }
    let pairs = classes * (classes - 1) / 2;
    let of_pairs = [Method::Interval, Method::RankingCone, Method::LabelCone, Method::CodebookCell];
    let bounded = job.tasks.iter().any(|t| of_pairs.contains(&t.effective_method()));
    if bounded && (records.saturating_mul(pairs) > MAX_BOUNDS || target + pairs > MAX_ROWS) {
        return Err(Refusal::invalid(format!(
            "attacks that know the defense take {pairs} bounds for {classes} classes, on at most {} records here",
            if target + pairs > MAX_ROWS { 0 } else { MAX_BOUNDS / pairs.max(1) }
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use vfl_core::types::{ModelVersion, RecordIds};

    use super::*;
    use vfl_attack::Settings;

    fn job(method: Method, settings: Settings, records: usize, queries: usize) -> Job {
        Job {
            audit_session: "s".into(),
            version: ModelVersion::new("m-1").unwrap(),
            ids: RecordIds::new((0..records).map(|i| i.to_string())).unwrap(),
            tasks: vec![Task::new(method, settings)],
            seed: 0,
            queries,
            auxiliary: Default::default(),
            colluders: Vec::new(),
        }
    }

    #[test]
    fn what_would_not_fit_is_refused_with_what_would() {
        let check = |method, records, queries, classes| {
            check_size(&job(method, Settings::default(), records, queries), classes, 10)
        };
        assert!(check(Method::Interval, 5000, 1, 10).is_ok());
        assert!(check(Method::HalfStar, 5000, 1, 200).is_ok());
        let refused = check(Method::Interval, 5000, 1, 100).unwrap_err();
        assert!(
            refused.message.contains("4950 bounds") && refused.message.contains("at most 0"),
            "{refused}"
        );
        let refused = check(Method::LabelCone, 20_000, 1, 50).unwrap_err();
        assert!(refused.message.contains("at most 16326"), "{refused}");
        assert!(check(Method::Averaging, 1000, 1000, 10).is_ok());
        let refused = check(Method::Averaging, 10_001, 1000, 10).unwrap_err();
        assert!(refused.message.contains("`queries`"), "{refused}");
    }

    #[test]
    fn no_attack_begins_after_the_time_of_a_call() {
        let hours = |hours: u64| Duration::from_secs(3600 * hours);
        assert!(check_time(hours(3), hours(4), (2, 40)).is_ok());
        let refused = check_time(hours(5), hours(4), (2, 40)).unwrap_err();
        let refused = refused.to_string();
        assert!(refused.contains("2 of the 40 attacks took 300 minutes"), "{refused}");
    }

    #[test]
    fn trainings_of_networks_are_counted_over_all_attacks() {
        let task = |method, pairs: &[(&'static str, &'static str)]| {
            Task::new(method, Settings::read(pairs.iter().copied()).unwrap())
        };
        let mut tasks: Vec<Task> = (0..40).map(|_| task(Method::HalfStar, &[])).collect();
        tasks.extend((0..22).map(|_| task(Method::GenerativeRegression, &[("epochs", "100000")])));
        // One training by itself, one as a base.
        tasks.push(task(Method::ShadowNetwork, &[]));
        tasks.push(task(Method::Agnostic, &[("base", "generative_regression")]));
        assert!(check_trainings(&tasks).is_ok());
        tasks.push(task(Method::ShadowNetwork, &[("base", "generative_regression")]));
        let refused = check_trainings(&tasks).unwrap_err();
        assert!(
            refused.message.contains("26 networks") && refused.message.contains("at most 24"),
            "{refused}"
        );
    }

    #[test]
    fn a_base_is_held_to_the_limits_of_the_attack_that_it_is() {
        for method in [Method::Agnostic, Method::UndoTransform] {
            for base in ["interval", "ranking_cone", "label_cone", "codebook_cell"] {
                let settings = Settings::read([("base", base)]).unwrap();
                let refused =
                    check_size(&job(method, settings.clone(), 5000, 1), 100, 10).unwrap_err();
                assert!(refused.message.contains("4950 bounds"), "{method} on {base}: {refused}");
                assert!(
                    check_size(&job(method, settings.clone(), 20_000, 1), 50, 10).is_err(),
                    "{method} on {base}"
                );
                assert!(
                    check_size(&job(method, settings, 5000, 1), 10, 10).is_ok(),
                    "{method} on {base}"
                );
            }
            let settings =
                Settings::read([("base", "gradient_inversion"), ("steps", "1000000")]).unwrap();
            let tasks = [Task::new(method, settings)];
            assert!(check_steps(&tasks, 1000).is_ok());
            let refused = check_steps(&tasks, 1001).unwrap_err();
            assert!(refused.message.contains("`steps`"), "{method}: {refused}");
        }
    }
}
