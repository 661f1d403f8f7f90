//! Training configurations and models on the wire.

use vfl_core::model::privacy::{PrivacyError, PrivacyStatement};
use vfl_core::model::{
    Combiner, ModelConfig, ModelSpec, NotLinear, SpecError, SubModelSpec, TrainingConfig,
    TrainingMode, TrainingValues,
};

use crate::{Refusal, WireError, pb, require};

impl From<&TrainingConfig> for pb::TrainingConfig {
    fn from(config: &TrainingConfig) -> Self {
        let v = config.values();
        Self {
            epochs: v.epochs,
            batch_size: v.batch_size,
            learning_rate: v.learning_rate,
            l2: v.l2,
            validation_share: v.validation_share,
            patience: v.patience,
            seed: v.seed,
            shuffle_block: v.shuffle_block,
            private: v.mode == TrainingMode::Private,
            label_scale: v.label_scale,
            model: (!v.model.is_default()).then(|| (&v.model).into()),
        }
    }
}

impl TryFrom<&pb::TrainingConfig> for TrainingConfig {
    type Error = WireError;

    fn try_from(c: &pb::TrainingConfig) -> Result<Self, WireError> {
        let mode = if c.private { TrainingMode::Private } else { TrainingMode::Plain };
        let values = TrainingValues {
            mode,
            epochs: c.epochs,
            batch_size: c.batch_size,
            learning_rate: c.learning_rate,
            l2: c.l2,
            validation_share: c.validation_share,
            patience: c.patience,
            seed: c.seed,
            shuffle_block: c.shuffle_block,
            label_scale: c.label_scale,
            model: c.model.as_ref().map(ModelConfig::try_from).transpose()?.unwrap_or_default(),
        };
        Self::try_from(values)
            .map_err(|e| WireError::Content { field: "config", reason: e.to_string() })
    }
}

impl From<NotLinear> for Refusal {
    fn from(error: NotLinear) -> Self {
        Self::precondition(error.to_string())
    }
}

impl From<PrivacyError> for Refusal {
    fn from(error: PrivacyError) -> Self {
        match error {
            PrivacyError::Twice { .. } => Self::invalid(error.to_string()),
            _ => Self::precondition(error.to_string()),
        }
    }
}

impl From<&PrivacyStatement> for pb::Privacy {
    fn from(statement: &PrivacyStatement) -> Self {
        let PrivacyStatement { clip, noise, epsilon, delta, steps } = *statement;
        Self { clip, noise, epsilon, delta, steps }
    }
}

impl TryFrom<&pb::Privacy> for PrivacyStatement {
    type Error = WireError;

    fn try_from(message: &pb::Privacy) -> Result<Self, WireError> {
        let pb::Privacy { clip, noise, epsilon, delta, steps } = *message;
        let statement = Self { clip, noise, epsilon, delta, steps };
        statement
            .checked()
            .map_err(|e| WireError::Content { field: "privacy", reason: e.to_string() })
    }
}

impl From<SpecError> for Refusal {
    fn from(error: SpecError) -> Self {
        Self::invalid(error.to_string())
    }
}

fn refused(error: &SpecError) -> WireError {
    WireError::Content { field: "model", reason: error.to_string() }
}

impl From<Combiner> for pb::Combiner {
    fn from(combiner: Combiner) -> Self {
        match combiner {
            Combiner::Sum => Self::Sum,
            Combiner::Concat => Self::Concat,
        }
    }
}

/// Reads a combiner.
fn combiner(value: i32) -> Result<Combiner, WireError> {
    match pb::Combiner::try_from(value) {
        Ok(pb::Combiner::Sum) => Ok(Combiner::Sum),
        Ok(pb::Combiner::Concat) => Ok(Combiner::Concat),
        Ok(pb::Combiner::Unspecified) | Err(_) => {
            Err(WireError::Range { field: "combiner", reason: "`sum` or `concat`" })
        }
    }
}

impl From<&SubModelSpec> for pb::SubModel {
    fn from(spec: &SubModelSpec) -> Self {
        Self { kind: spec.kind().to_owned(), width: spec.width(), settings: spec.settings_text() }
    }
}

impl TryFrom<&pb::SubModel> for SubModelSpec {
    type Error = WireError;

    /// Does not check that the kind is known.
    fn try_from(message: &pb::SubModel) -> Result<Self, WireError> {
        let pb::SubModel { kind, width, settings } = message;
        let settings = Self::parse_settings(settings).map_err(|e| refused(&e))?;
        Self::new(kind.clone(), *width, settings).map_err(|e| refused(&e))
    }
}

impl From<&ModelSpec> for pb::ModelSpec {
    fn from(spec: &ModelSpec) -> Self {
        Self {
            combiner: pb::Combiner::from(spec.combiner()) as i32,
            active: Some(spec.active().into()),
            passive: spec.passive().iter().map(Into::into).collect(),
            top: spec.top().map(Into::into),
        }
    }
}

impl TryFrom<&pb::ModelSpec> for ModelSpec {
    type Error = WireError;

    fn try_from(message: &pb::ModelSpec) -> Result<Self, WireError> {
        let active = require("active", message.active.as_ref())?.try_into()?;
        let combiner = combiner(message.combiner)?;
        // This check comes before any of them is read.
        if message.passive.len() > vfl_core::model::MAX_PASSIVE_PARTIES {
            return Err(refused(&SpecError::Parties { got: message.passive.len() }));
        }
        let passive =
            message.passive.iter().map(SubModelSpec::try_from).collect::<Result<_, _>>()?;
        let top = message.top.as_ref().map(SubModelSpec::try_from).transpose()?;
        Self::new(combiner, active, passive, top).map_err(|e| refused(&e))
    }
}

impl From<&ModelConfig> for pb::ModelConfig {
    fn from(config: &ModelConfig) -> Self {
        // A map of JSON values: serialisation cannot fail.
        let text = |settings| serde_json::to_string(settings).unwrap_or_default();
        let settings =
            if config.settings().is_empty() { String::new() } else { text(config.settings()) };
        Self {
            combiner: pb::Combiner::from(config.combiner()) as i32,
            kind: config.kind().to_owned(),
            width: config.width(),
            settings,
            top: config.top().map(text),
        }
    }
}

impl TryFrom<&pb::ModelConfig> for ModelConfig {
    type Error = WireError;

    fn try_from(message: &pb::ModelConfig) -> Result<Self, WireError> {
        let pb::ModelConfig { combiner: how, kind, width, settings, top } = message;
        let read = |text: &String| SubModelSpec::parse_settings(text).map_err(|e| refused(&e));
        let config = Self::new(combiner(*how)?, kind.clone(), *width, read(settings)?)
            .map_err(|e| refused(&e))?;
        match top {
            Some(top) => config.with_top(read(top)?).map_err(|e| refused(&e)),
            None => Ok(config),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use vfl_core::model::{MAX_PASSIVE_PARTIES, MAX_WIDTH};

    fn message() -> pb::ModelSpec {
        (&ModelSpec::softmax_regression(3, 2).unwrap()).into()
    }

    #[test]
    fn hostile_models_are_refused() {
        let said = |change: &dyn Fn(&mut pb::ModelSpec)| {
            let mut message = message();
            change(&mut message);
            ModelSpec::try_from(&message).unwrap_err().to_string()
        };
        assert!(said(&|m| m.passive[1].width = 0).contains("`width` is 0, expected 1 to 65536"));
        assert!(said(&|m| m.passive[1].width = u32::MAX).contains("`width` is 4294967295"));
        assert!(
            said(&|m| m.active.as_mut().unwrap().width = MAX_WIDTH + 1)
                .contains("`width` is 65537")
        );
        assert!(said(&|m| m.active = None).contains("`active` is missing"));
        assert!(said(&|m| m.passive.clear()).contains("0 passive parties, expected 1 to 64"));
        let many =
            |m: &mut pb::ModelSpec| m.passive = vec![m.passive[0].clone(); MAX_PASSIVE_PARTIES + 1];
        assert!(said(&many).contains("65 passive parties"));
        for combiner in [0, 3, -1, i32::MAX] {
            assert!(said(&|m| m.combiner = combiner).contains("`combiner` is out of range"));
        }
        for kind in ["", "Soft", "a b", &"x".repeat(65)] {
            assert!(
                said(&|m| m.active.as_mut().unwrap().kind = kind.into())
                    .contains("`kind` is 1 to 64 of")
            );
        }
        for settings in ["[]", "{", "7", &format!("{{\"a\":\"{}\"}}", "x".repeat(5000))] {
            assert!(
                said(&|m| m.active.as_mut().unwrap().settings = settings.into())
                    .contains("at most 4096 bytes")
            );
        }
    }

    #[test]
    fn a_configuration_that_cannot_be_trained_is_refused_by_name() {
        let default = pb::ModelConfig::from(&ModelConfig::default());
        let said =
            |message: pb::ModelConfig| ModelConfig::try_from(&message).unwrap_err().to_string();
        let concat = pb::ModelConfig { combiner: pb::Combiner::Concat as i32, ..default.clone() };
        assert!(said(concat.clone()).contains("`concat` does not take `softmax_regression`"));
        let top = Some(r#"{"layers":[8]}"#.to_owned());
        assert!(
            said(pb::ModelConfig { kind: "mlp".into(), top, ..concat })
                .contains("`top`: `layers` is unknown")
        );
        let top = pb::ModelConfig { top: Some(String::new()), ..default.clone() };
        assert!(said(top).contains("combiner `sum` has no top model"));
        let unknown = pb::ModelConfig { kind: "boosted_trees".into(), ..default.clone() };
        assert!(
            said(unknown)
                .contains("`kind` is `boosted_trees`, this version knows `softmax_regression`")
        );
        let settings = pb::ModelConfig { settings: r#"{"hidden":[8]}"#.into(), ..default.clone() };
        assert!(said(settings).contains("settings of `softmax_regression`: `hidden` is unknown"));
        assert!(
            said(pb::ModelConfig { width: Some(0), ..default.clone() }).contains("`width` is 0")
        );
        let narrow = ModelConfig::try_from(&pb::ModelConfig { width: Some(4), ..default }).unwrap();
        assert!(narrow.sub_model(5).unwrap_err().to_string().contains("one output per class: 5"));
        assert_eq!(narrow.sub_model(4).unwrap(), SubModelSpec::softmax_regression(4));
    }

    proptest! {
        #[test]
        fn models_come_back_from_the_wire(
            widths in proptest::collection::vec(1..=MAX_WIDTH, 1..=25),
            kinds in proptest::collection::vec("[a-z0-9_]{1,64}", 26),
            hidden in proptest::collection::vec(any::<u32>(), 0..9),
            concat in any::<bool>(),
        ) {
            let spec = |at: usize, width: u32| {
                let mut settings = vfl_core::model::Settings::new();
                if !hidden.is_empty() {
                    settings.insert("hidden".into(), hidden.clone().into());
                }
                SubModelSpec::new(kinds[at].clone(), width, settings).unwrap()
            };
            let passive = widths.iter().enumerate().map(|(at, &width)| spec(at, width)).collect();
            let combiner = if concat { Combiner::Concat } else { Combiner::Sum };
            let top = concat.then(|| spec(0, 7));
            let model = ModelSpec::new(combiner, spec(25, widths[0]), passive, top).unwrap();
            prop_assert_eq!(&ModelSpec::try_from(&pb::ModelSpec::from(&model)).unwrap(), &model);
            let file = serde_json::to_string(&model).unwrap();
            prop_assert_eq!(serde_json::from_str::<ModelSpec>(&file).unwrap(), model);
        }
    }
}
