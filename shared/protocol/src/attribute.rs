//! Conversions of the figures by attribute from and to messages.

use vfl_core::metrics::{
    AttributeFigures, ControlledFigure, ErrorReduction, Event, EventFigures, HalfErrorReduction,
    ToleranceShare,
};

use super::convert::{WireError, require};
use super::pb::{self, attribute_figures as wire};

impl From<AttributeFigures> for pb::AttributeFigures {
    fn from(figures: AttributeFigures) -> Self {
        let AttributeFigures {
            attribute,
            columns,
            error,
            removed: of_error,
            removed_ranks,
            event: of_event,
            auc,
            top_category,
            within,
            exact,
            percentile_1,
            percentile_5,
        } = figures;
        let (tolerance, within) =
            within.map(|ToleranceShare { tolerance, share }| (tolerance, share)).unzip();
        Self {
            attribute,
            columns: columns.into_iter().map(|c| u32::try_from(c).unwrap_or(u32::MAX)).collect(),
            error: error.map(beside),
            removed: of_error.map(removed),
            removed_ranks: removed_ranks.map(removed),
            event: of_event.map(event),
            auc: auc.map(beside),
            top_category: top_category.map(beside),
            within: within.map(beside),
            tolerance: tolerance.unwrap_or_default(),
            exact: exact.map(beside),
            percentile_1: percentile_1.map(beside),
            percentile_5: percentile_5.map(beside),
        }
    }
}

fn beside(figure: ControlledFigure) -> wire::Beside {
    wire::Beside { attack: figure.attack, control: figure.control }
}

fn removed(of: ErrorReduction) -> pb::Removed {
    let half = |h: HalfErrorReduction| pb::removed::Half { value: h.value, deviation: h.deviation };
    let halves = of.halves.into_iter().flatten().map(half).collect();
    pb::Removed { value: of.value, low: of.low, high: of.high, halves }
}

fn event(of: EventFigures) -> wire::Event {
    let event = match of.event {
        Event::Rarer { value } => wire::event::Event::Rarer(value),
        Event::NotUsual { value } => wire::event::Event::NotUsual(value),
        Event::TopDecile { from } => wire::event::Event::TopDecile(from),
        Event::Category { column } => wire::event::Event::Category(column),
    };
    let right = Some(wire::Beside { attack: of.attack, control: of.control });
    wire::Event { event: Some(event), named: of.named, having: of.having, right }
}

impl TryFrom<pb::AttributeFigures> for AttributeFigures {
    type Error = WireError;

    /// Converts the figures. A number that is not finite becomes a missing figure.
    fn try_from(figures: pb::AttributeFigures) -> Result<Self, WireError> {
        let pb::AttributeFigures {
            attribute,
            columns,
            error,
            removed,
            removed_ranks,
            event,
            auc,
            top_category,
            within,
            tolerance,
            exact,
            percentile_1,
            percentile_5,
        } = figures;
        Ok(Self {
            attribute,
            columns: columns.into_iter().map(|c| c as usize).collect(),
            error: error.and_then(read_beside),
            removed: removed.map(read_removed),
            removed_ranks: removed_ranks.map(read_removed),
            event: event.map(read_event).transpose()?.flatten(),
            auc: auc.and_then(read_beside),
            top_category: top_category.and_then(read_beside),
            within: within
                .and_then(read_beside)
                .filter(|_| tolerance.is_finite())
                .map(|share| ToleranceShare { tolerance, share }),
            exact: exact.and_then(read_beside),
            percentile_1: percentile_1.and_then(read_beside),
            percentile_5: percentile_5.and_then(read_beside),
        })
    }
}

fn read_beside(wire::Beside { attack, control }: wire::Beside) -> Option<ControlledFigure> {
    (attack.is_finite() && control.is_finite()).then_some(ControlledFigure { attack, control })
}

fn read_removed(of: pb::Removed) -> ErrorReduction {
    let finite = |x: Option<f64>| x.filter(|x| x.is_finite());
    let half = |h: pb::removed::Half| {
        (h.value.is_finite() && h.deviation.is_finite())
            .then_some(HalfErrorReduction { value: h.value, deviation: h.deviation })
    };
    let halves: Option<Vec<HalfErrorReduction>> = of.halves.into_iter().map(half).collect();
    let (low, high) = finite(of.low).zip(finite(of.high)).unzip();
    ErrorReduction {
        value: finite(of.value),
        low,
        high,
        halves: halves.and_then(|halves| halves.try_into().ok()),
    }
}

fn read_event(of: wire::Event) -> Result<Option<EventFigures>, WireError> {
    let event = match require("event", of.event)? {
        wire::event::Event::Rarer(value) => Event::Rarer { value },
        wire::event::Event::NotUsual(value) => Event::NotUsual { value },
        wire::event::Event::TopDecile(from) => Event::TopDecile { from },
        wire::event::Event::Category(column) => Event::Category { column },
    };
    let number = match &event {
        Event::Rarer { value } | Event::NotUsual { value } => *value,
        Event::TopDecile { from } => *from,
        Event::Category { .. } => 0.0,
    };
    let right = read_beside(require("right", of.right)?).filter(|_| number.is_finite());
    let figures = |ControlledFigure { attack, control }| {
        let (named, having) = (of.named, of.having);
        EventFigures { event, named, having, attack, control }
    };
    Ok(right.map(figures))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_come_back_as_they_went() {
        let beside = Some(ControlledFigure { attack: 0.25, control: 0.5 });
        let half = HalfErrorReduction { value: 0.5, deviation: 0.1 };
        let removed = Some(ErrorReduction {
            value: Some(0.5),
            low: Some(0.25),
            high: Some(0.75),
            halves: Some([half, half]),
        });
        for event in [
            Event::Rarer { value: 1.0 },
            Event::NotUsual { value: 0.0 },
            Event::TopDecile { from: 3.0 },
            Event::Category { column: "job=a".into() },
        ] {
            let figures = AttributeFigures {
                attribute: "late".into(),
                columns: vec![2, 4],
                error: beside,
                removed,
                removed_ranks: Some(ErrorReduction {
                    value: None,
                    low: None,
                    high: None,
                    halves: None,
                }),
                event: Some(EventFigures {
                    event,
                    named: 20,
                    having: 30,
                    attack: 12.0,
                    control: 3.0,
                }),
                auc: beside,
                top_category: None,
                within: Some(ToleranceShare {
                    tolerance: 500.0,
                    share: ControlledFigure { attack: 0.5, control: 0.25 },
                }),
                exact: beside,
                percentile_1: beside,
                percentile_5: None,
            };
            let message = pb::AttributeFigures::from(figures.clone());
            assert_eq!(AttributeFigures::try_from(message).unwrap(), figures);
        }
    }

    #[test]
    fn what_is_no_number_is_no_figure() {
        let nan = Some(wire::Beside { attack: f64::NAN, control: 0.5 });
        let read =
            AttributeFigures::try_from(pb::AttributeFigures { error: nan, ..Default::default() })
                .unwrap();
        assert_eq!(read.error, None);
        let open = pb::Removed {
            value: Some(f64::INFINITY),
            low: Some(0.1),
            high: None,
            halves: Vec::new(),
        };
        let read = AttributeFigures::try_from(pb::AttributeFigures {
            removed: Some(open),
            ..Default::default()
        });
        assert_eq!(
            read.unwrap().removed,
            Some(ErrorReduction { value: None, low: None, high: None, halves: None })
        );
        let silent =
            pb::AttributeFigures { event: Some(wire::Event::default()), ..Default::default() };
        assert!(AttributeFigures::try_from(silent).is_err());
    }
}
