//! Converts messages of the Open Inference Protocol to requests, and answers to messages.

use vfl_core::types::RecordIds;
use vfl_protocol::Refusal;
use vfl_protocol::pb::inference::infer_parameter::ParameterChoice;
use vfl_protocol::pb::inference::model_infer_request::{
    InferInputTensor, InferRequestedOutputTensor,
};
use vfl_protocol::pb::inference::model_infer_response::InferOutputTensor;
use vfl_protocol::pb::inference::model_metadata_response::TensorMetadata;
use vfl_protocol::pb::inference::{
    InferParameter, ModelInferRequest, ModelInferResponse, ModelMetadataResponse,
    ServerMetadataResponse,
};

use super::MODEL;
use super::elements::split;
use super::output::{Output, kind};
use crate::predict::Prediction;
use crate::predict::check_count;
use crate::scoring::ModelDescription;

/// The one input: record ids, BYTES [n].
const INPUT: &str = "ids";

/// A request, checked as far as possible without the model.
#[derive(Debug)]
pub(super) struct InferRequest {
    /// The model's name.
    pub(super) model: String,
    /// The version of the model; empty for the one in service.
    pub(super) version: String,
    /// The client's name for the request; empty for none.
    pub(super) id: String,
    pub(super) ids: RecordIds,
    /// The tensors to answer with.
    pub(super) outputs: Vec<Output>,
}

impl TryFrom<ModelInferRequest> for InferRequest {
    type Error = Refusal;

    fn try_from(request: ModelInferRequest) -> Result<Self, Refusal> {
        no_parameter("the request", request.parameters.keys())?;
        let [input] = &request.inputs[..] else {
            let message =
                format!("a request has one input, `{INPUT}`; {} came", request.inputs.len());
            return Err(Refusal::invalid(message));
        };
        let ids = ids(input, &request.raw_input_contents)?;
        let outputs = outputs(&request.outputs)?;
        let ModelInferRequest { model_name: model, model_version: version, id, .. } = request;
        Ok(Self { model, version, id, ids, outputs })
    }
}

fn ids(input: &InferInputTensor, raw: &[bytes::Bytes]) -> Result<RecordIds, Refusal> {
    if input.name != INPUT {
        return Err(Refusal::invalid(format!(
            "there is no input {}; the one input is `{INPUT}`",
            quoted(&input.name)
        )));
    }
    no_parameter("the input `ids`", input.parameters.keys())?;
    if input.datatype != "BYTES" {
        let came = quoted(&input.datatype);
        return Err(Refusal::invalid(format!(
            "the input `{INPUT}` has the datatype BYTES, not {came}"
        )));
    }
    let [n] = input.shape[..] else {
        let came = input.shape.len();
        return Err(Refusal::invalid(format!(
            "the input `{INPUT}` has one dimension, [n]; {came} came"
        )));
    };
    let n = usize::try_from(n)
        .map_err(|_| Refusal::invalid(format!("the input `{INPUT}` has a negative shape")))?;
    check_count(n)?;
    let contents =
        input.contents.as_ref().map(|contents| &contents.bytes_contents[..]).unwrap_or_default();
    let elements = match (contents, raw) {
        ([], []) => {
            return Err(Refusal::invalid(
                "no ids came: fill `bytes_contents` or `raw_input_contents`",
            ));
        }
        ([], [raw]) => split(raw, n)?,
        (contents, []) if contents.len() == n => contents.iter().map(|id| &id[..]).collect(),
        (contents, []) => {
            let message =
                format!("the tensor `{INPUT}` has {} elements, its shape says {n}", contents.len());
            return Err(Refusal::invalid(message));
        }
        ([], _) => {
            return Err(Refusal::invalid(
                "there is one input, and `raw_input_contents` has more than one tensor",
            ));
        }
        _ => {
            return Err(Refusal::invalid(
                "ids came both in `contents` and in `raw_input_contents`",
            ));
        }
    };
    let text = |(at, id)| {
        std::str::from_utf8(id)
            .map_err(|_| Refusal::invalid(format!("record id at position {at} is not UTF-8")))
    };
    let texts =
        elements.into_iter().enumerate().map(text).collect::<Result<Vec<&str>, Refusal>>()?;
    RecordIds::new(texts).map_err(|e| Refusal::invalid(e.to_string()))
}

fn outputs(requested: &[InferRequestedOutputTensor]) -> Result<Vec<Output>, Refusal> {
    let mut outputs = Vec::with_capacity(requested.len());
    for output in requested {
        let Some(known) = Output::ALL.into_iter().find(|known| known.name() == output.name) else {
            let names = Output::ALL.map(Output::name).join(", ");
            let message = format!("there is no output {}; there are {names}", quoted(&output.name));
            return Err(Refusal::invalid(message));
        };
        no_parameter("an output", output.parameters.keys())?;
        if outputs.contains(&known) {
            return Err(Refusal::invalid(format!(
                "the output `{}` is asked for twice",
                known.name()
            )));
        }
        outputs.push(known);
    }
    Ok(if outputs.is_empty() { Output::ALL.to_vec() } else { outputs })
}

/// Refuses any parameter. To ignore one would break its promise: a time-out, a priority, shared
/// memory.
fn no_parameter<'a>(
    what: &str,
    mut names: impl Iterator<Item = &'a String>,
) -> Result<(), Refusal> {
    match names.next() {
        Some(name) => {
            Err(Refusal::invalid(format!("{what} takes no parameter; {} came", quoted(name))))
        }
        None => Ok(()),
    }
}

/// Quotes a text of the request, cut to 100 characters.
fn quoted(text: &str) -> String {
    format!("{:?}", text.chars().take(100).collect::<String>())
}

/// Builds the answer to a request.
///
/// # Errors
/// INTERNAL for scores that the protocol cannot carry exactly.
pub(super) fn answer(
    asked: InferRequest,
    scored: &Prediction,
) -> Result<ModelInferResponse, Refusal> {
    let (n, k) = (scored.status.len(), scored.class_names.len());
    let tensor = |output: &Output| InferOutputTensor {
        name: output.name().to_owned(),
        datatype: output.datatype().to_owned(),
        shape: output.shape(n as i64, k),
    };
    let bytes = |output: &Output| output.tensor(scored).map(bytes::Bytes::from);
    let release = ParameterChoice::StringParam(kind(&scored.released).to_owned());
    Ok(ModelInferResponse {
        model_name: MODEL.to_owned(),
        model_version: scored.version().to_owned(),
        outputs: asked.outputs.iter().map(tensor).collect(),
        raw_output_contents: asked.outputs.iter().map(bytes).collect::<Result<_, Refusal>>()?,
        parameters: [("release".to_owned(), InferParameter { parameter_choice: Some(release) })]
            .into(),
        id: asked.id,
    })
}

/// Returns the metadata of the program.
pub(super) fn server() -> ServerMetadataResponse {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    ServerMetadataResponse { name: MODEL.to_owned(), version, extensions: Vec::new() }
}

/// Returns the metadata of the model.
pub(super) fn metadata(model: &ModelDescription) -> ModelMetadataResponse {
    let any = -1;
    let output = |output: Output| TensorMetadata {
        name: output.name().to_owned(),
        datatype: output.datatype().to_owned(),
        shape: output.shape(any, model.class_names.len()),
    };
    ModelMetadataResponse {
        name: MODEL.to_owned(),
        versions: vec![model.version.as_str().to_owned()],
        platform: MODEL.to_owned(),
        inputs: vec![TensorMetadata {
            name: INPUT.to_owned(),
            datatype: "BYTES".to_owned(),
            shape: vec![any],
        }],
        outputs: Output::ALL.into_iter().map(output).collect(),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use vfl_protocol::pb;
    use vfl_protocol::pb::inference::InferTensorContents;

    use super::super::elements::join;
    use super::*;
    use vfl_core::types::RowStatus;

    fn raw(ids: &[&str]) -> ModelInferRequest {
        let shape = vec![ids.len() as i64];
        let input = InferInputTensor {
            name: "ids".into(),
            datatype: "BYTES".into(),
            shape,
            parameters: [].into(),
            contents: None,
        };
        ModelInferRequest {
            inputs: vec![input],
            raw_input_contents: vec![join(ids.iter().copied()).into()],
            ..Default::default()
        }
    }

    fn refused(change: impl FnOnce(&mut ModelInferRequest)) -> String {
        let mut request = raw(&["a", "b"]);
        change(&mut request);
        let refusal = InferRequest::try_from(request).unwrap_err();
        assert_eq!(refusal.kind, vfl_protocol::RefusalKind::InvalidArgument);
        refusal.message
    }

    fn contents(ids: &[&'static str]) -> Option<InferTensorContents> {
        let bytes_contents = ids.iter().map(|id| Bytes::from_static(id.as_bytes())).collect();
        Some(InferTensorContents { bytes_contents, ..Default::default() })
    }

    fn parameter() -> (String, InferParameter) {
        ("priority".into(), InferParameter { parameter_choice: None })
    }

    /// The statuses have the names of the contract.
    #[test]
    fn statuses_have_the_names_of_the_contract() {
        let names = RowStatus::ALL.map(|status| pb::RowStatus::from(status).as_str_name());
        let words =
            RowStatus::ALL.map(|status| format!("ROW_STATUS_{}", status.as_str().to_uppercase()));
        assert_eq!(names, words.each_ref().map(String::as_str));
        let known = (1..).map_while(|status| pb::RowStatus::try_from(status).ok()).count();
        assert_eq!(RowStatus::ALL.len(), known);
    }

    #[test]
    fn ids_come_in_both_forms() {
        let asked = InferRequest::try_from(raw(&["a", "é"])).unwrap();
        assert_eq!(asked.outputs, Output::ALL);
        let mut request = raw(&["a", "é"]);
        request.raw_input_contents.clear();
        request.inputs[0].contents = contents(&["a", "é"]);
        assert!(InferRequest::try_from(request).unwrap().ids == asked.ids);
        assert_eq!(asked.ids.iter().collect::<Vec<_>>(), ["a", "é"]);
    }

    #[test]
    fn what_is_not_served_is_refused_and_not_skipped() {
        for (message, says) in [
            (refused(|r| r.inputs.clear()), "one input"),
            (refused(|r| r.inputs.push(Default::default())), "one input"),
            (refused(|r| r.inputs[0].name = "x".repeat(500)), "no input"),
            (refused(|r| r.inputs[0].datatype = "FP32".into()), "BYTES"),
            (refused(|r| r.inputs[0].shape = vec![2, 1]), "one dimension"),
            (refused(|r| r.inputs[0].shape = vec![-2]), "negative"),
            (refused(|r| r.inputs[0].shape = vec![0]), "1 to 65536 records"),
            (refused(|r| r.inputs[0].shape = vec![i64::MAX]), "1 to 65536 records"),
            (refused(|r| r.inputs[0].shape = vec![3]), "2 elements"),
            (refused(|r| r.inputs[0].contents = contents(&["a", "b"])), "both"),
            (refused(|r| r.raw_input_contents.push(Bytes::new())), "more than one tensor"),
            (refused(|r| r.raw_input_contents.clear()), "no ids came"),
            (refused(|r| r.raw_input_contents = vec![join(["a", "a"]).into()]), "twice"),
            (
                refused(|r| r.raw_input_contents = vec![join(["a", ""]).into()]),
                "position 1 is empty",
            ),
            (
                refused(|r| {
                    r.raw_input_contents[0] = Bytes::from_static(b"\x01\0\0\0\xff\0\0\0\0")
                }),
                "not UTF-8",
            ),
            (refused(|r| r.parameters.extend([parameter()])), "takes no parameter"),
            (refused(|r| r.inputs[0].parameters.extend([parameter()])), "`ids` takes no parameter"),
            (refused(|r| r.outputs.push(Default::default())), "no output \"\""),
        ] {
            assert!(message.contains(says) && message.len() < 300, "{message}");
        }
    }

    #[test]
    fn outputs_are_those_asked_for_in_their_order() {
        let output =
            |name: &str| InferRequestedOutputTensor { name: name.into(), parameters: [].into() };
        let mut request = raw(&["a"]);
        request.outputs = vec![output("row_status"), output("scores")];
        assert_eq!(
            InferRequest::try_from(request).unwrap().outputs,
            [Output::RowStatus, Output::Scores]
        );
        assert!(
            refused(|r| r.outputs = vec![output("scores"), output("scores")]).contains("twice")
        );
        let classification =
            InferRequestedOutputTensor { parameters: [parameter()].into(), ..output("scores") };
        assert!(refused(|r| r.outputs = vec![classification]).contains("takes no parameter"));
    }
}
