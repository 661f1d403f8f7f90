//! The options that name a model.

use clap::Args;
use vfl_core::model::{Combiner, GENERALIZED_LINEAR, Link, ModelConfig, Settings};
use vfl_datasets::ImageShape;
use vfl_server::cli::CliError;

/// The options for the model that the parties train. Default: softmax regression.
#[derive(Debug, Clone, Default, Args)]
pub struct ModelArgs {
    /// Train a perceptron with hidden layers of these widths at each party, as `8,8`, instead of
    /// softmax regression.
    #[arg(long, value_name = "WIDTHS", value_delimiter = ',')]
    pub(super) hidden: Vec<u32>,
    /// Activation function of its hidden layers: sigmoid, tanh or relu. Default: sigmoid.
    #[arg(long, value_name = "NAME", requires = "hidden")]
    activation: Option<String>,
    /// Link of a model of a number: identity, as in linear regression, or log, as in Poisson
    /// regression of counts. Default: identity.
    #[arg(long, value_name = "NAME", value_parser = ["identity", "log"], conflicts_with_all = ["hidden", "residual"])]
    pub(super) link: Option<String>,
    /// Train a residual network at each party. Only for images.
    #[arg(long, conflicts_with = "hidden")]
    pub(super) residual: bool,
    /// Give each party's network this many outputs, from which a top model at the coordinator
    /// computes the scores (combiner `concat`), instead of one output per class that is added.
    #[arg(long, value_name = "WIDTH")]
    embedding: Option<u32>,
    /// Hidden layers of the top model, of relu. Default: none with one passive party, 256 with
    /// more.
    #[arg(long, value_name = "WIDTHS", value_delimiter = ',', requires = "embedding")]
    top: Vec<u32>,
}

impl ModelArgs {
    /// Returns true if the model is linear.
    pub(super) fn linear(&self) -> bool {
        self.hidden.is_empty() && !self.residual
    }

    /// Returns the model of a label that is a number.
    ///
    /// # Errors
    /// [`CliError::Input`] for options of networks.
    pub(super) fn number_model(&self) -> Result<ModelConfig, CliError> {
        if !self.linear() || self.embedding.is_some() {
            return Err(CliError::Input(
                "--hidden, --residual, --embedding: the label is a number, and models of numbers are linear"
                    .into(),
            ));
        }
        let link = self.link.as_deref().unwrap_or(Link::Identity.as_str());
        let settings = Settings::from_iter([("link".to_owned(), link.into())]);
        ModelConfig::new(Combiner::Sum, GENERALIZED_LINEAR, None, settings).map_err(CliError::input)
    }

    /// Returns the model for records of this shape.
    ///
    /// # Errors
    /// [`CliError::Input`] for options that cannot be combined.
    pub(super) fn model(&self, image: Option<ImageShape>) -> Result<ModelConfig, CliError> {
        if self.link.is_some() {
            return Err(CliError::Input(
                "--link: it is of a label that is a number, and this is about classes".into(),
            ));
        }
        if self.linear() {
            return match self.embedding {
                None => Ok(ModelConfig::default()),
                Some(_) => Err(CliError::Input(
                    "--embedding: it is of networks; add --hidden or --residual".into(),
                )),
            };
        }
        let mut settings = Settings::new();
        let kind = match (self.residual, image) {
            (false, _) => {
                settings.insert("hidden".into(), self.hidden.clone().into());
                if let Some(activation) = &self.activation {
                    settings.insert("activation".into(), activation.as_str().into());
                }
                "mlp"
            }
            (true, Some(shape)) => {
                settings.insert("channels".into(), shape.channels.into());
                settings.insert("height".into(), shape.height.into());
                "residual"
            }
            (true, None) => {
                return Err(CliError::Input(
                    "--residual: it is for images, and this data set has none".into(),
                ));
            }
        };
        let combiner = if self.embedding.is_some() { Combiner::Concat } else { Combiner::Sum };
        let model =
            ModelConfig::new(combiner, kind, self.embedding, settings).map_err(CliError::input)?;
        if self.top.is_empty() {
            return Ok(model);
        }
        let mut top = Settings::new();
        top.insert("hidden".into(), self.top.clone().into());
        top.insert("activation".into(), "relu".into());
        model.with_top(top).map_err(CliError::input)
    }
}
