//! The calls of the Open Inference Protocol.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use vfl_protocol::pb::inference::grpc_inference_service_server::{
    GrpcInferenceService, GrpcInferenceServiceServer,
};
use vfl_protocol::pb::inference::{
    ModelInferRequest, ModelInferResponse, ModelMetadataRequest, ModelMetadataResponse,
    ModelReadyRequest, ModelReadyResponse, ServerLiveRequest, ServerLiveResponse,
    ServerMetadataRequest, ServerMetadataResponse, ServerReadyRequest, ServerReadyResponse,
};
use vfl_protocol::{MAX_MESSAGE_BYTES, Refusal, RefusalKind};
use vfl_server::monitoring::traces::Context;
use vfl_server::service::caller;

use super::MODEL;
use super::output::check_room;
use super::wire::{InferRequest, answer, metadata, server};
use crate::predict::{ClientRequest, Predictor};
use crate::scoring::ModelDescription;

/// The service of the Open Inference Protocol. Every call is for this party's own clients.
pub(crate) struct Inference {
    predictor: Arc<Predictor>,
}

impl Inference {
    /// Creates the gRPC service over a predictor.
    pub(crate) fn serve(predictor: Arc<Predictor>) -> GrpcInferenceServiceServer<Self> {
        GrpcInferenceServiceServer::new(Self { predictor })
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }
}

fn named(name: &str) -> Result<(), Refusal> {
    if name == MODEL {
        return Ok(());
    }
    Err(Refusal::new(
        RefusalKind::NotFound,
        format!("there is no model of that name; the one model is `{MODEL}`"),
    ))
}

fn in_service(version: &str, model: &ModelDescription) -> Result<(), Refusal> {
    if version.is_empty() || version == model.version.as_str() {
        return Ok(());
    }
    let message = format!(
        "that version is not in service; `{}` is, and an empty version means it",
        model.version
    );
    Err(Refusal::precondition(message))
}

#[tonic::async_trait]
impl GrpcInferenceService for Inference {
    async fn server_live(
        &self,
        request: Request<ServerLiveRequest>,
    ) -> Result<Response<ServerLiveResponse>, Status> {
        self.predictor.own(&caller(&request)?)?;
        Ok(Response::new(ServerLiveResponse { live: true }))
    }

    async fn server_ready(
        &self,
        request: Request<ServerReadyRequest>,
    ) -> Result<Response<ServerReadyResponse>, Status> {
        self.predictor.own(&caller(&request)?)?;
        let ready = self.predictor.ready().await.is_some();
        Ok(Response::new(ServerReadyResponse { ready }))
    }

    async fn model_ready(
        &self,
        request: Request<ModelReadyRequest>,
    ) -> Result<Response<ModelReadyResponse>, Status> {
        self.predictor.own(&caller(&request)?)?;
        let ModelReadyRequest { name, version } = request.into_inner();
        named(&name)?;
        let model = self.predictor.ready().await;
        let ready = model.is_some_and(|model| in_service(&version, &model).is_ok());
        Ok(Response::new(ModelReadyResponse { ready }))
    }

    async fn server_metadata(
        &self,
        request: Request<ServerMetadataRequest>,
    ) -> Result<Response<ServerMetadataResponse>, Status> {
        self.predictor.own(&caller(&request)?)?;
        Ok(Response::new(server()))
    }

    async fn model_metadata(
        &self,
        request: Request<ModelMetadataRequest>,
    ) -> Result<Response<ModelMetadataResponse>, Status> {
        self.predictor.own(&caller(&request)?)?;
        let ModelMetadataRequest { name, version } = request.into_inner();
        named(&name)?;
        let model = self.predictor.model().await?;
        in_service(&version, &model)?;
        Ok(Response::new(metadata(&model)))
    }

    async fn model_infer(
        &self,
        request: Request<ModelInferRequest>,
    ) -> Result<Response<ModelInferResponse>, Status> {
        self.predictor.own(&caller(&request)?)?;
        let parent = Context::of(request.metadata());
        let work = async {
            let asked = InferRequest::try_from(request.into_inner())?;
            named(&asked.model)?;
            let admit = |model: &ModelDescription| {
                in_service(&asked.version, model)?;
                check_room(&asked.outputs, asked.ids.len(), &model.class_names)
            };
            let (ids, request_id) = (&asked.ids, asked.id.as_str());
            // The fallback answers for no version.
            let any_version = asked.version.is_empty();
            let request = ClientRequest { ids, request_id, is_fallback: false, any_version };
            let scored = self.predictor.predict(request, admit).await?;
            check_room(&asked.outputs, asked.ids.len(), &scored.class_names)?;
            Ok(Response::new(answer(asked, &scored)?))
        };
        self.predictor.traced(parent, work).await
    }
}
