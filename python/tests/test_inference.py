"""Clients that are not ours, over mutual TLS: Triton's, and that of gRPC reflection."""

from __future__ import annotations

import doctest
import time
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from deployment import ROOT, Deployment
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from test_serving import of_command_line
from tritonclient.utils import InferenceServerException

SERVICE = "inference.GRPCInferenceService"
# The certificate names the party and not the address 127.0.0.1. The second is 4 MiB where it is not given.
OPTIONS = [
    ("grpc.ssl_target_name_override", "active.cloison.local"),
    ("grpc.max_receive_message_length", 16 << 20),
]


def open_client(deployment: Deployment) -> Any:
    files = deployment.tls("active")
    return triton.InferenceServerClient(
        url=deployment.address("active"),
        ssl=True,
        root_certificates=str(files["ca"]),
        private_key=str(files["key"]),
        certificate_chain=str(files["cert"]),
        channel_args=OPTIONS,
    )


def infer(client: Any, ids: list[str], **more: Any) -> Any:
    asked = triton.InferInput("ids", [len(ids)], "BYTES")
    asked.set_data_from_numpy(np.array(ids, dtype=np.object_))
    return client.infer("cloison", [asked], **more)


def texts(answer: Any, name: str) -> list[str]:
    return [text.decode() for text in answer.as_numpy(name)]


def channel_of(deployment: Deployment, name: str | None) -> grpc.Channel:
    """A channel of gRPC's own to the active party; without a name it shows no certificate."""
    ca = deployment.tls("active")["ca"].read_bytes()
    own: dict[str, bytes] = {}
    if name is not None:
        files = deployment.tls(name)
        own = {"private_key": files["key"].read_bytes(), "certificate_chain": files["cert"].read_bytes()}
    credentials = grpc.ssl_channel_credentials(ca, **own)
    return grpc.secure_channel(deployment.address("active"), credentials, options=OPTIONS)


@pytest.fixture
def client(deployment: Deployment) -> Iterator[Any]:
    with open_client(deployment) as made:
        yield made


def test_scores_are_those_of_the_command_line_to_the_last_bit(deployment: Deployment, client: Any) -> None:
    ids = deployment.ids("test")
    expected = of_command_line(deployment, ids)
    answer = infer(client, ids)
    scores = answer.as_numpy("scores")
    assert scores.dtype == np.float64
    assert scores.tobytes() == expected.to_numpy(dtype=np.float64).tobytes()
    assert texts(answer, "row_status") == ["ok"] * len(ids)
    assert texts(answer, "class_names") == expected.columns.tolist()
    assert texts(answer, "label") == [str(name) for name in expected.idxmax(axis=1)]
    assert answer.get_response().parameters["release"].string_param == "probabilities"


def test_a_record_without_a_score_has_none(deployment: Deployment, client: Any) -> None:
    test, trained = deployment.ids("test")[0], deployment.ids("train")[0]
    answer = infer(client, ["nobody", test, trained])
    assert texts(answer, "row_status") == ["not_found", "ok", "training_record"]
    assert np.isnan(answer.as_numpy("scores")).all(axis=1).tolist() == [True, False, True]
    assert [label != "" for label in texts(answer, "label")] == [False, True, False]


def test_the_server_tells_what_it_serves(deployment: Deployment, client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("cloison")
    assert client.get_server_metadata().name == "cloison"
    model = client.get_model_metadata("cloison", as_json=True)
    assert [(tensor["name"], tensor["datatype"], tensor["shape"]) for tensor in model["inputs"]] == [
        ("ids", "BYTES", ["-1"])
    ]
    assert [tensor["name"] for tensor in model["outputs"]] == ["scores", "label", "row_status", "class_names"]
    (version,) = model["versions"]
    asked = infer(
        client, deployment.ids("test")[:2], model_version=version, outputs=[triton.InferRequestedOutput("scores")]
    )
    assert asked.get_response().model_version == version
    assert asked.as_numpy("row_status") is None


def test_the_page_shows_what_happens(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(deployment.work)
    page = (ROOT / "docs" / "inference-protocol.md").read_text().replace("127.0.0.1:7102", deployment.address("active"))
    # The end of the block is no output.
    lines = doctest.DocTestParser().get_doctest(page.replace("```", ""), {}, "page", None, 0)
    assert len(lines.examples) > 8
    assert doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF).run(lines).failed == 0


def test_refusals_say_what_is_wrong(deployment: Deployment, client: Any) -> None:
    ids = deployment.ids("test")[:2]
    for status, words, more in (
        ("FAILED_PRECONDITION", "not in service", {"model_version": "m-1"}),
        ("INVALID_ARGUMENT", "takes no parameter", {"priority": 3}),
        ("INVALID_ARGUMENT", "no output", {"outputs": [triton.InferRequestedOutput("logits")]}),
        ("INVALID_ARGUMENT", "100 bytes", {"request_id": "x" * 101}),
    ):
        with pytest.raises(InferenceServerException, match=words) as refused:
            infer(client, ids, **more)
        assert refused.value.status() == f"StatusCode.{status}"
    with pytest.raises(InferenceServerException, match="the one model is `cloison`"):
        client.get_model_metadata("other")
    with pytest.raises(InferenceServerException, match="twice"):
        infer(client, [ids[0], ids[0]])


def health(deployment: Deployment, service: str) -> int:
    """1 serving, 2 not serving: a message of one field each way, as any party asks it."""
    with channel_of(deployment, "auditor") as channel:
        check: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
        answer: bytes = check(b"\x0a" + bytes([len(service)]) + service.encode(), timeout=5)
    return answer[1]


def test_readiness_and_health_follow_the_model_and_the_coordinator(untrained: Deployment) -> None:
    def wait(serving: bool) -> None:
        until = time.monotonic() + 30
        while health(untrained, SERVICE) != (1 if serving else 2) or asked.is_server_ready() != serving:
            assert time.monotonic() < until
            time.sleep(0.1)
        assert asked.is_model_ready("cloison") == serving
        assert asked.is_server_live()
        assert health(untrained, "") == 1

    with open_client(untrained) as asked:
        wait(serving=False)
        untrained.run("active-party", "train", "--config", "active.toml")
        wait(serving=True)
        untrained.stop("coordinator")
        wait(serving=False)
        untrained.start("coordinator")
        wait(serving=True)


def test_reflection_shows_the_contract_to_who_shows_a_certificate(deployment: Deployment) -> None:
    with channel_of(deployment, "auditor") as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert {SERVICE, "vfl.v1.ActiveParty"} <= set(database.get_services())
        pool = DescriptorPool(database)
        methods = pool.FindServiceByName(SERVICE).methods_by_name
        assert sorted(methods) == [
            "ModelInfer",
            "ModelMetadata",
            "ModelReady",
            "ServerLive",
            "ServerMetadata",
            "ServerReady",
        ]
        assert pool.FindMessageTypeByName("vfl.v1.ScoreRequest").fields_by_name["request_id"].number == 2
    with channel_of(deployment, None) as channel, pytest.raises(grpc.RpcError) as refused:
        ProtoReflectionDescriptorDatabase(channel).get_services()
    assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_the_messages_are_those_of_the_public_protocol(deployment: Deployment) -> None:
    """Every field that is served has the number and the type that Triton's client gives it."""
    from tritonclient.grpc import service_pb2

    theirs = {message.full_name: message for message in service_pb2.DESCRIPTOR.message_types_by_name.values()}
    with channel_of(deployment, "auditor") as channel:
        pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        ours = pool.FindFileContainingSymbol(SERVICE)
        messages = [
            nested
            for message in ours.message_types_by_name.values()
            for nested in (message, *message.nested_types)
            if not nested.GetOptions().map_entry
        ]
        for message in messages:
            outer, _, inner = message.full_name.removeprefix("inference.").partition(".")
            public = theirs[f"inference.{outer}"]
            public = public.nested_types_by_name[inner] if inner else public
            for field in message.fields:
                same = public.fields_by_name[field.name]
                assert (field.number, field.type, field.is_repeated) == (same.number, same.type, same.is_repeated)
        methods = ours.services_by_name["GRPCInferenceService"].methods
        public_methods = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name
        for method in methods:
            same = public_methods[method.name]
            assert method.input_type.full_name == same.input_type.full_name
            assert method.output_type.full_name == same.output_type.full_name
    assert len(messages) > 15
