//! `attack`: runs attacks on a case file, without any service. The kind of the case says what is
//! attacked: records of a known model ([`records`]), one feature of an unknown one
//! ([`one_feature`]), or the unknown model itself ([`shadow_model`]).

mod answer;
mod case;
mod checked_case;
mod networks;
mod one_feature;
mod own_records;
mod records;
mod shadow_model;
mod truth;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use vfl_attack::{Method, Settings};
use vfl_server::cli::CliError;

use answer::Answer;
use case::Kind;

/// The arguments of `active-party attack`.
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub struct AttackArgs {
    /// The case file (JSON).
    #[arg(long, value_name = "FILE")]
    case: PathBuf,
    /// Names of attacks, separated by commas (see below). A case of another kind than "attack" has
    /// one method, its kind's, and needs no name.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    attack: Vec<String>,
    /// A setting, key=value (see below); may be given more than once.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seed of attacks that draw random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The output file for the estimates (JSON); `-` for standard output.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Returns the text below the options: examples, kinds, attacks and settings. The last two come
/// from the lists that the code itself reads.
fn after_help() -> String {
    let attacks: Vec<_> =
        Method::all().filter(|m| *m != Method::ChosenShares).map(Method::as_str).collect();
    let attacks = attacks.join(", ");
    let settings: String =
        Settings::all().iter().map(|s| format!("\n  {}: {}", s.key(), s.takes())).collect();
    format!(
        "\
Examples:
  active-party attack --case case.json --attack half_star,least_squares --out estimates.json
  active-party attack --case case.json --attack half_star --set zero_floor=0.005 --out -
  active-party attack --case never_asked.json --attack agnostic --set alpha=1 --set out_of_range=half --out estimates.json
  active-party attack --case transformed.json --attack undo_transform --set column_means=0.4,0.1,0.7 --out estimates.json
  active-party attack --case one_feature.json --out features.json
  active-party attack --case auxiliary.json --set shadow_fit=gradient --out weights.json

A case holds `schema` (1), `kind`, and what the kind asks for (k classes; binary is k = 2):
  attack: `w_act`, `w_pas` (k rows each), `b`, and `records` with `id`, `y_act`, scores `c`.
    Gives the estimates of every attack named, with its remarks, which go to standard error too.
    For agnostic also `training` records with `y_act`, `label` (from 0), and if there are, `observed` ones with `y_act`, `c`;
    its `records` need no `c`, and one that is there is not looked at. As in
      {{\"schema\": 1, \"kind\": \"attack\", \"w_act\": [[0.5], [-0.5]], \"w_pas\": [[1, 2], [0, 1]], \"b\": [0, 0],
       \"training\": [{{\"y_act\": [0.2], \"label\": 0}}, {{\"y_act\": [0.9], \"label\": 1}}], \"records\": [{{\"id\": \"r1\", \"y_act\": [0.3]}}]}}
    For undo_transform, if there are, `auxiliary` records with `y_act`, `x_pas`, `c`. For shadow_model there must be some.
    For imputation, conditional_mean, gaussian and posterior_mean also `prior`: `mean` and `covariance` of the passive features, and if
    known `active_mean`, `active_covariance` and `cross_covariance` (a row for each passive feature).
    For coalition also `colluders`, positions of passive features, and in each record `x_colluders`, their values.
    In place of `w_act`, `w_pas` and `b` there may be `networks`: `combiner` (sum or concat), `active`, the list `passive`, and under
    concat `top`. Each has `kind`, `settings`, `features` (its number of inputs) and `parameters`, named and laid out as
    export-parameters writes them to a .safetensors file. The attacks that run through networks are gradient_inversion,
    generative_regression and half_star_layerwise, and with `prior` conditional_mean, gaussian and posterior_mean. As in
      \"networks\": {{\"combiner\": \"sum\", \"active\": {{\"kind\": \"softmax_regression\", \"features\": 1,
         \"parameters\": {{\"weight\": [[0.5], [-0.5]], \"bias\": [0, 0]}}}}, \"passive\": [{{\"kind\": \"mlp\",
         \"settings\": {{\"activation\": \"tanh\"}}, \"features\": 2,
         \"parameters\": {{\"0.weight\": [[1, 2]], \"0.bias\": [0], \"2.weight\": [[1], [-1]]}}}}]}}
    Where the records have scores, the answer has `score_mismatch` of each attack: the mean squared difference between the scores at its
    estimates and the released ones. Where all records are in `truth` (`id`, `x_pas`), it has `errors`: `mse`, that of ½ everywhere
    (`half`), and under `metrics` those that an audit may ask for, of the estimates clipped to [0, 1], null where one is not defined;
    and `active_correlation`, how the passive features go with the active ones. No attack sees the truth.
  one_feature: `case` (1, 2, 3, +- or -+) and `v`, one value per record. For case 3 also `mean`, the population's, if it is known.
    Gives `x_hat`, null where it is undefined.
  shadow_model: `w_act`, `b`, and `auxiliary` records with `id`, `y_act`, `x_pas`, `c`.
    Gives an estimate of `w_pas` and how much of it the records determine (`rank` of `unknowns`).
`expected` is accepted and never read, nor is `truth` in the other kinds; other keys are refused.

Attacks: {attacks}.

Settings:{settings}"
    )
}

impl AttackArgs {
    pub(super) fn run(self) -> Result<(), CliError> {
        for name in self.attack.iter().filter(|name| Kind::named(name).is_none()) {
            name.parse::<Method>().map_err(CliError::input)?;
        }
        let pairs = self.set.iter().map(|pair| {
            let known = || CliError::Input(format!("--set {pair:?} is not of the form key=value"));
            pair.split_once('=').ok_or_else(known)
        });
        let settings =
            Settings::read(pairs.collect::<Result<Vec<_>, _>>()?).map_err(CliError::input)?;
        let shown = self.case.display();
        let text = std::fs::read_to_string(&self.case)
            .map_err(|e| CliError::Input(format!("cannot read the case file {shown}: {e}")))?;
        let Answer { content, remarks } = answer_case(&text, &self.attack, &settings, self.seed)
            .map_err(|reason| CliError::Input(format!("case file {shown}: {reason}")))?;
        // To standard error, because the output may go to standard output.
        for remark in remarks {
            eprintln!("{remark}");
        }
        if self.out.as_os_str() == "-" {
            return std::io::stdout().write_all(&content).map_err(CliError::failed);
        }
        vfl_state::files::write_atomic(&self.out, &content, true)
            .map_err(|e| CliError::Failed(format!("cannot write {}: {e}", self.out.display())))
    }
}

/// Runs the named attacks on the text of a case file.
fn answer_case(
    text: &str,
    names: &[impl AsRef<str>],
    settings: &Settings,
    seed: u64,
) -> Result<Answer, String> {
    let kind = Kind::of(text)?;
    match kind {
        Kind::Attack => records::run(text, &kind.methods(names)?, settings, seed),
        Kind::OneFeature => {
            kind.own_method(names).and_then(|()| one_feature::run(text)).map(Answer::from)
        }
        Kind::ShadowModel => kind
            .own_method(names)
            .and_then(|()| shadow_model::run(text, settings))
            .map(Answer::from),
    }
}

/// Returns the output file of `active-party attack` for the text of a case file.
///
/// # Errors
/// A message that says what is wrong with the case, or why an attack cannot run on it. It contains
/// no feature, score or parameter.
pub fn attack_case(
    text: &str,
    names: &[impl AsRef<str>],
    settings: &Settings,
    seed: u64,
) -> Result<Vec<u8>, String> {
    answer_case(text, names, settings, seed).map(|answer| answer.content)
}

#[cfg(test)]
mod tests;
