"""The client against three real processes."""

from __future__ import annotations

import csv
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pandas as pd
import pytest
from deployment import Deployment

import cloison


def client(deployment: Deployment, **more: object) -> cloison.ActiveParty:
    given = {"coordinator": deployment.address("coordinator"), **deployment.tls("active"), **more}
    return cloison.ActiveParty(deployment.address("active"), **given)  # type: ignore[arg-type]


@pytest.fixture
def party(deployment: Deployment) -> Iterator[cloison.ActiveParty]:
    with client(deployment) as made:
        yield made


def of_command_line(deployment: Deployment, ids: list[str], texts: bool = False) -> pd.DataFrame:
    """What `active-party predict` writes, its decimals read back to the last bit, or left as texts."""
    (deployment.work / "asked.ids").write_text("\n".join(ids))
    deployment.run("active-party", "predict", "--config", "active.toml", "--ids", "asked.ids", "--out", "scores.csv")
    with (deployment.work / "scores.csv").open(newline="", encoding="utf-8") as file:
        head, *rows = list(csv.reader(file))
    values = [row[1:] if texts else [float(cell) for cell in row[1:]] for row in rows]
    return pd.DataFrame(values, index=pd.Index([row[0] for row in rows], name="id"), columns=head[1:])


def test_predictions_are_those_of_the_command_line_to_the_last_bit(
    deployment: Deployment, party: cloison.ActiveParty
) -> None:
    ids = deployment.ids("test")
    expected = of_command_line(deployment, ids)
    found = party.predict(ids)
    assert found["status"].unique().tolist() == ["ok"]
    assert found.index.tolist() == expected.index.tolist() == ids
    scores = found.drop(columns="status")
    assert scores.columns.tolist() == expected.columns.tolist()
    assert scores.to_numpy().tobytes() == expected.to_numpy(dtype=np.float64).tobytes()
    assert found.attrs["model_version"] == party.describe().version


def test_many_ids_come_in_several_frames_with_the_same_bits(deployment: Deployment, party: cloison.ActiveParty) -> None:
    ids = deployment.ids("test")
    frames = list(party.predict_stream((record for record in ids), chunk=60))
    assert [len(frame) for frame in frames[:-1]] == [60] * (len(frames) - 1)
    assert len(frames) > 2
    pd.testing.assert_frame_equal(pd.concat(frames), party.predict(ids), check_exact=True)


def test_a_record_that_is_not_there_or_was_trained_on_has_a_status(
    deployment: Deployment, party: cloison.ActiveParty
) -> None:
    test, trained = deployment.ids("test")[0], deployment.ids("train")[0]
    found = party.predict(["nobody", test, trained])
    assert found["status"].tolist() == ["not_found", "ok", "training_record"]
    assert found.drop(columns="status").isna().all(axis=1).tolist() == [True, False, True]


def test_the_model_is_described(deployment: Deployment, party: cloison.ActiveParty) -> None:
    model = party.describe()
    assert model.policy == "none"
    assert [(part.name, part.features, part.kind) for part in model.passive_parties] == [
        ("passive-1", 4, "softmax_regression")
    ]
    assert len(model.class_names) == party.predict(deployment.ids("test")[:1]).shape[1] - 1
    assert model.training.training_records + model.training.validation_records == len(deployment.ids("train"))
    with client(deployment, coordinator=None) as alone, pytest.raises(ValueError, match="name the coordinator"):
        alone.describe()


def test_the_configuration_of_the_party_is_enough(deployment: Deployment, party: cloison.ActiveParty) -> None:
    ids = deployment.ids("test")[:5]
    with cloison.ActiveParty.from_config(deployment.work / "active.toml", root=deployment.work) as configured:
        assert configured.predict(ids).equals(party.predict(ids))
        assert configured.describe() == party.describe()


def stock(deployment: Deployment, *options: tuple[str, str]) -> bool:
    """Whether a client of gRPC alone connects to the active party."""
    files = deployment.tls("active")
    ca, certificate, key = (path.read_bytes() for path in (files["ca"], files["cert"], files["key"]))
    credentials = grpc.ssl_channel_credentials(ca, key, certificate)
    with grpc.secure_channel(deployment.address("active"), credentials, options=options) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=1.5)
        except grpc.FutureTimeoutError:
            return False
        return True


def test_a_stock_client_connects_by_the_dns_name_of_the_certificate_alone(programs: Path, tmp_path: Path) -> None:
    """What cloison._channel says of certificates and gRPC."""
    own = Deployment(programs, tmp_path)
    override, name = "grpc.ssl_target_name_override", "active.cloison.example"
    uri = "spiffe://cloison.local/active-party/active"
    try:
        own.start("active")
        own.wait("active")
        assert stock(own, (override, "active.cloison.local"))
        assert not stock(own)
        assert not stock(own, (override, uri))
        assert not stock(own, (override, name))
        own.stop("active")

        # Another certificate of the same authority, with the same identity and another name.
        tls = own.work / "tls"
        (tls / "names").write_text(f"subjectAltName=URI:{uri},DNS:{name}\nextendedKeyUsage=serverAuth,clientAuth\n")
        request = (
            f"openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=a -keyout {tls}/active.key"
        )
        sign = (
            f"openssl x509 -req -CA {tls}/ca.pem -CAkey {tls}/ca.key -days 2 -extfile {tls}/names -out {tls}/active.pem"
        )
        asked = subprocess.run(request.split(), check=True, capture_output=True)
        subprocess.run(sign.split(), check=True, capture_output=True, input=asked.stdout)
        (tls / "active.key").chmod(0o600)
        own.start("active")
        own.wait("active")
        assert stock(own, (override, name))
        assert not stock(own, (override, "active.cloison.local"))
        # And so does this package, which asks for the identity.
        with client(own, coordinator=None) as party, pytest.raises(cloison.ServiceError, match="coordinator"):
            party.predict(["nobody"])
    finally:
        own.__exit__(None, None, None)


def test_what_the_server_refuses_keeps_its_words(deployment: Deployment, party: cloison.ActiveParty) -> None:
    with pytest.raises(cloison.InvalidRequestError, match="request_id") as refused:
        party.predict(["a"], request_id="x" * 200)
    assert refused.value.code == "INVALID_ARGUMENT"
    with pytest.raises(cloison.NotFoundError, match="1 of the 1 training records are not held here"):
        party.train(["nobody"])
    with pytest.raises(cloison.InvalidRequestError, match=r"learning[_ ]rate"):
        party.train(config=cloison.TrainingConfig(learning_rate=-1.0))
    with pytest.raises(cloison.IdsError, match="DataFrame"):
        party.predict_stream(pd.DataFrame({"id": ["a"]}))  # type: ignore[arg-type]
    with pytest.raises(cloison.IdsError, match="no id"):
        party.predict([])


def test_a_wrong_certificate_is_named(deployment: Deployment, tmp_path: Path) -> None:
    ids = deployment.ids("test")[:1]
    deployment.run("cloison", "certs", "--out", str(tmp_path), "--party", "active-party/active")
    ca, cert, key = tmp_path / "ca.pem", tmp_path / "active.pem", tmp_path / "active.key"
    own = deployment.tls("active")
    with (
        client(deployment, cert=cert, key=key) as foreign,
        pytest.raises(cloison.CertificateRefusedError, match="does not take our"),
    ):
        foreign.predict(ids)
    with (
        client(deployment, ca=ca) as distrusting,
        pytest.raises(cloison.UntrustedServerError, match="was not verified"),
    ):
        distrusting.predict(ids)
    with (
        client(deployment, name="another") as mistaken,
        pytest.raises(cloison.WrongServerError, match="active-party `active`"),
    ):
        mistaken.predict(ids)
    with (
        cloison.ActiveParty(deployment.address("coordinator"), **own) as elsewhere,
        pytest.raises(cloison.WrongServerError, match="is coordinator `coordinator`"),
    ):
        elsewhere.predict(ids)
    with (
        client(deployment, name="active", **deployment.tls("auditor")) as auditor,
        pytest.raises(cloison.PermissionDeniedError, match="auditor"),
    ):
        auditor.predict(ids)


def test_nobody_there_is_told_at_once(deployment: Deployment) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    began = time.monotonic()
    with (
        cloison.ActiveParty(address, **deployment.tls("active")) as party,
        pytest.raises(cloison.UnreachableError, match=address),
    ):
        party.predict(["a"], timeout=10)
    assert time.monotonic() - began < 5


def test_a_server_that_says_nothing_costs_no_more_than_the_deadline(deployment: Deployment) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with cloison.ActiveParty(address, **deployment.tls("active")) as party:
            began = time.monotonic()
            with pytest.raises(cloison.DeadlineExceededError, match=r"did not answer within 1.5 s"):
                party.predict(["a"], timeout=1.5)
            assert 1.4 < time.monotonic() - began < 3


def test_a_party_that_stands_still_costs_no_more_than_the_deadline(untrained: Deployment) -> None:
    with client(untrained) as party:
        with pytest.raises(cloison.FailedPreconditionError):
            party.predict(["a"])
        process = untrained.processes["active"]
        process.send_signal(signal.SIGSTOP)
        try:
            # The signal takes effect when the machine comes to it.
            for _ in range(500):
                if Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
                    break
                time.sleep(0.01)
            began = time.monotonic()
            with pytest.raises(cloison.DeadlineExceededError):
                party.predict(["a"], timeout=1.5)
            assert time.monotonic() - began < 3
        finally:
            untrained.processes["active"].send_signal(signal.SIGCONT)
        with pytest.raises(cloison.FailedPreconditionError):
            party.predict(["a"])


def test_several_threads_use_one_client(deployment: Deployment) -> None:
    from concurrent.futures import ThreadPoolExecutor

    ids = deployment.ids("test")
    with client(deployment) as party, ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda place: party.predict(ids[place : place + 5]), range(0, 40, 5)))
        assert pd.concat(found).equals(party.predict(ids[:40]))


def test_a_party_that_dies_during_a_training_is_noticed(untrained: Deployment) -> None:
    with client(untrained) as party:
        with pytest.raises(cloison.FailedPreconditionError):
            party.predict(["a"])
        seen: list[cloison.Progress] = []

        def kill(progress: cloison.Progress) -> None:
            seen.append(progress)
            if len(seen) == 1:
                threading.Thread(target=untrained.stop, args=("active", signal.SIGKILL)).start()

        with pytest.raises(cloison.UnreachableError, match="nobody answers"):
            party.train(
                untrained.ids("train"), cloison.TrainingConfig(epochs=200, patience=200, l2=1e-3), progress=kill
            )
        assert seen
        # The client goes on once the party is back.
        untrained.start("active")
        untrained.wait("active")
        assert trained(party, untrained, cloison.TrainingConfig(epochs=2)).epochs == 2
        assert party.predict(untrained.ids("test")[:3])["status"].tolist() == ["ok"] * 3


def trained(party: cloison.ActiveParty, deployment: Deployment, config: cloison.TrainingConfig) -> cloison.Published:
    """Trains as soon as a training that was broken off has ended at all parties."""
    until = time.monotonic() + 30
    while True:
        try:
            return party.train(deployment.ids("train"), config)
        except (cloison.BusyError, cloison.UnavailableError):
            assert time.monotonic() < until
            time.sleep(0.2)


def test_a_training_tells_its_progress_and_puts_its_model_in_service(untrained: Deployment) -> None:
    with client(untrained) as party:
        events: list[cloison.Progress] = []
        config = cloison.TrainingConfig(epochs=12, l2=1e-4)
        published = party.train(untrained.ids("train"), config, progress=events.append)
        assert published.epochs == events[-1].epoch
        assert [event.epoch for event in events] == list(range(1, published.epochs + 1))
        assert all(event.training_loss is None and event.validation_loss is None for event in events)
        assert not published.imported
        assert party.describe().training == published
        # What the callback raises ends the training without a model.
        with pytest.raises(ZeroDivisionError):
            party.train(untrained.ids("train"), progress=lambda progress: 1 / 0)
        assert party.describe().version == published.model_version
        # Another kind of model.
        settings = {"hidden": [4], "activation": "tanh"}
        wide = cloison.TrainingConfig(epochs=3, kind="mlp", settings=settings, combiner="concat", width=8, mode="plain")
        assert trained(party, untrained, wide).model_version != published.model_version
        assert party.describe().active_kind == "mlp"


@pytest.mark.parametrize("policy", ["class_label", "order_preserving_encryption"])
def test_labels_and_ciphertexts_are_those_of_the_command_line(untrained: Deployment, policy: str) -> None:
    untrained.stop("coordinator")
    untrained.edit("coordinator", 'name = "none"', f'name = "{policy}"')
    untrained.start("coordinator")
    untrained.wait("coordinator")
    ids = untrained.ids("test")[:40]
    with client(untrained) as party:
        party.train(untrained.ids("train"), cloison.TrainingConfig(epochs=3))
        found = party.predict(["nobody", *ids])
        assert party.describe().policy.startswith(policy)
    assert found["status"].tolist() == ["not_found"] + ["ok"] * len(ids)
    expected = of_command_line(untrained, ids, texts=True)
    scored = found.iloc[1:].drop(columns="status")
    assert scored.astype(str).to_numpy().tolist() == expected.to_numpy().tolist()
    assert (found.dtypes["label"] == "category") if policy == "class_label" else (scored.dtypes == "UInt64").all()
