"""The client of an active party."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar, cast

import grpc
import pandas as pd

from ._channel import Connection, Credentials, Peer
from ._identity import Identity
from ._pb import active_party_pb2, active_party_pb2_grpc, coordinator_pb2, coordinator_pb2_grpc
from ._wire import checked_ids, frame, pack_ids, refuse_containers
from .errors import CertificateError, CloisonError, ConnectError, IdsError, ModelChangedError, ProtocolError, of_status
from .model import Model, Progress, Published, TrainingConfig

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

# As the command line sends them.
CALL_RECORDS: Final = 8192
_CALL_SECONDS: Final = 60.0

_Path = str | os.PathLike[str]
_Answer_co = TypeVar("_Answer_co", covariant=True)
_Item = TypeVar("_Item")


class _Events(Protocol[_Answer_co]):
    def __iter__(self) -> Iterator[_Answer_co]: ...

    def cancel(self) -> bool: ...


class _Active(Protocol):
    """What is used of the generated stub, which has no annotations."""

    def Predict(  # noqa: N802
        self, request: active_party_pb2.ScoreRequest, timeout: float | None
    ) -> active_party_pb2.ScoreResponse: ...

    def Train(  # noqa: N802
        self, request: active_party_pb2.TrainJobRequest, timeout: float | None
    ) -> _Events[active_party_pb2.TrainJobEvent]: ...


class _Coordinator(Protocol):
    def DescribeModel(  # noqa: N802
        self, request: coordinator_pb2.DescribeModelRequest, timeout: float | None
    ) -> coordinator_pb2.DescribeModelResponse: ...


class ActiveParty:
    """An active party's service, as its own clients call it: with its own certificate, over mutual TLS 1.3.

    The service takes no other caller, so the certificate says whom to expect at the address, and no name need be given. Several threads
    may use one client.

    Example:
        >>> with cloison.ActiveParty("127.0.0.1:7102", ca="ca.pem", cert="active.pem", key="active.key") as party:
        ...     scores = party.predict(["c-17", "c-18"])
    """

    def __init__(
        self,
        address: str,
        *,
        ca: _Path,
        cert: _Path,
        key: _Path,
        name: str | None = None,
        coordinator: str | None = None,
        coordinator_name: str = "coordinator",
        timeout: float = _CALL_SECONDS,
    ) -> None:
        """Reads the certificates. Connects on the first call.

        Args:
            address: `host:port` of the active party's service.
            ca: The deployment's certificate authority, PEM.
            cert: The active party's certificate, PEM.
            key: Its private key, PEM, which only its owner may read.
            name: The active party's name; by default that of the certificate.
            coordinator: `host:port` of the coordinator, for `describe`.
            coordinator_name: The coordinator's name in its certificate.
            timeout: Seconds that one call may take, where it is not given to the call.

        Raises:
            CertificateError: The files cannot be used.
            ValueError: An address is not `host:port`.
        """
        self._credentials = Credentials.read(ca, cert, key)
        own = self._credentials.identity
        self._peer = Peer(address, Identity(own.trust_domain, "active-party", name or own.name))
        self._peer.host_and_port()
        self._coordinator = None
        if coordinator is not None:
            self._coordinator = Peer(coordinator, Identity(own.trust_domain, "coordinator", coordinator_name))
            self._coordinator.host_and_port()
        self._timeout = timeout
        self._connections: dict[str, Connection] = {}
        self._training = TrainingConfig()
        self._opening = threading.Lock()

    @classmethod
    def from_config(cls, path: _Path, *, root: _Path | None = None, timeout: float = _CALL_SECONDS) -> ActiveParty:
        """From the active party's own configuration file, as `active-party predict --config` reads it.

        `train` then takes its settings from `[training]` and `[model]`.

        Args:
            path: The file (TOML).
            root: Where relative paths in it start; by default the working directory, as for the programs.
            timeout: Seconds that one call may take.

        Raises:
            CertificateError: The file cannot be read, or as `ActiveParty`.
            ValueError: A setting is missing or malformed.
        """
        try:
            values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise CertificateError(f"cannot read {path}: {error.strerror}") from error
        start = Path(root) if root is not None else Path()
        try:
            tls, coordinator = values["tls"], values["coordinator"]
            party = cls(
                values.get("client", {}).get("address", values["listen"]),
                ca=start / tls["ca"],
                cert=start / tls["certificate"],
                key=start / tls["key"],
                coordinator=coordinator["address"],
                coordinator_name=coordinator["name"],
                timeout=timeout,
            )
        except KeyError as error:
            raise ValueError(f"{path}: the key {error} is missing; is it an active party's configuration?") from error
        party._training = TrainingConfig.of_tables(values.get("training", {}), values.get("model", {}))
        return party

    def __enter__(self) -> ActiveParty:
        """The client itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the connections."""
        self.close()

    def close(self) -> None:
        """Closes the connections; a later call opens them again."""
        while self._connections:
            self._connections.popitem()[1].close()

    def __repr__(self) -> str:
        """Whom it calls, without any key."""
        return f"ActiveParty({str(self._peer)!r})"

    def describe(self, *, timeout: float | None = None) -> Model:
        """The model in service and the policy on its scores, which the coordinator tells.

        Raises:
            ValueError: No coordinator was named.
            CloisonError: As `predict`.
        """
        if self._coordinator is None:
            raise ValueError(
                "name the coordinator to have its model described: ActiveParty(..., coordinator='host:port')"
            )
        made = coordinator_pb2_grpc.CoordinatorStub(self._open(self._coordinator))  # type: ignore[no-untyped-call]
        stub = cast(_Coordinator, made)
        with self._told(self._coordinator, timeout) as seconds:
            return Model.of(stub.DescribeModel(coordinator_pb2.DescribeModelRequest(), timeout=seconds))

    def predict(
        self, ids: Iterable[str], *, status_column: str = "status", request_id: str = "", timeout: float | None = None
    ) -> pd.DataFrame:
        """Scores records.

        Args:
            ids: Distinct record ids. More than 8192 go in several calls.
            status_column: Name of the column with the status of each record.
            request_id: A name for this request, up to 90 bytes: a retry with the same name and ids costs no budget again.
            timeout: Seconds that one call may take.

        Returns:
            One row per id, in order, indexed by `id`. Scores have a column of float64 per class, NaN where the record was not scored;
            a policy that releases labels gives one categorical column `label`. `status` is `ok`, `not_found`, `training_record`,
            `share_changed`, `budget_spent`, `model_budget_spent`, or `fallback` where the party's fallback scored the record.
            `attrs["model_version"]` names the model; it is empty if the fallback alone answered.

        Raises:
            IdsError: The ids cannot be sent.
            ConnectError: There is no connection; its kinds say why.
            ServiceError: The server refused; its kinds say why.
            ModelChangedError: Another model came into service between two calls.
        """
        checked = checked_ids(ids)
        if not checked:
            raise IdsError("there is no id to score")
        frames = list(self._score(_chunks(checked, CALL_RECORDS), status_column, request_id, timeout))
        if len(frames) == 1:
            return frames[0]
        whole = pd.concat(frames)
        whole.attrs.update(frames[0].attrs)
        # A fallback does not know the version.
        versions = [one.attrs["model_version"] for one in frames if one.attrs["model_version"]]
        whole.attrs["model_version"] = versions[0] if versions else ""
        return whole

    def predict_stream(
        self,
        ids: Iterable[str],
        *,
        chunk: int = CALL_RECORDS,
        status_column: str = "status",
        request_id: str = "",
        timeout: float | None = None,
    ) -> Iterator[pd.DataFrame]:
        """Scores records as they are asked for: a data frame for each `chunk` of ids, which may come from a generator.

        Ids must be distinct within a chunk. The arguments, the frames and the exceptions are those of `predict`.
        """
        if not 1 <= chunk <= 1 << 16:
            raise ValueError(f"chunk is {chunk}, expected 1 to 65536")
        refuse_containers(ids)
        checked = ((number, checked_ids(records, number * chunk)) for number, records in _chunks(ids, chunk))
        return self._score(checked, status_column, request_id, timeout)

    def _score(
        self,
        chunks: Iterable[tuple[int, list[str]]],
        status_column: str,
        request_id: str,
        timeout: float | None,
    ) -> Iterator[pd.DataFrame]:
        """Scores chunks of ids that have been checked, one call each."""
        stub = self._active()
        version: str | None = None
        form: tuple[tuple[str, ...], str | None] | None = None
        for number, records in chunks:
            named = f"{request_id}/{number}" if request_id else ""
            request = active_party_pb2.ScoreRequest(ids=pack_ids(records), request_id=named)
            with self._told(self._peer, timeout) as seconds:
                answer = stub.Predict(request, timeout=seconds)
            # Where the fallback alone answers, there is no version.
            now = answer.model_version or version
            if version not in {None, now}:
                raise ModelChangedError(
                    "another model was published while the records were being scored; score them again"
                )
            version = now
            kind = answer.release.WhichOneof("kind")
            # Scores that need not sum to 1 are scores too.
            answered = (tuple(answer.class_names), "probabilities" if kind == "numbers" else kind)
            if form not in {None, answered}:
                raise ModelChangedError(
                    "answers have different forms, those of the parties together and those of the fallback"
                )
            form = answered
            yield frame(records, answer, status_column)

    def train(
        self,
        ids: Iterable[str] | None = None,
        config: TrainingConfig | None = None,
        *,
        progress: Callable[[Progress], object] | None = None,
        timeout: float | None = None,
    ) -> Published:
        """Has a model trained by all parties and put in service. It takes the consent of the coordinator and the passive parties.

        Args:
            ids: The records to train on; by default all that have a label.
            config: How; by default as the configuration file says, or `TrainingConfig()`.
            progress: Called after each epoch.
            timeout: Seconds that it may take; by default as long as it takes. A server that dies is noticed all the same.

        Raises:
            CloisonError: As `predict`. What `progress` raises ends the training, and no model is published.
        """
        request = active_party_pb2.TrainJobRequest(config=(config or self._training).message())
        if ids is not None:
            checked = checked_ids(ids)
            if not checked:
                raise IdsError("there is no id to train on; leave ids out to train on all records with a label")
            request.ids.CopyFrom(pack_ids(checked))
        stub = self._active()
        with self._told(self._peer, timeout, limited=timeout is not None) as seconds:
            events = stub.Train(request, timeout=seconds)
            try:
                for event in events:
                    if event.HasField("published"):
                        return Published.of(event.published)
                    if progress is not None and event.HasField("progress"):
                        progress(Progress.of(event.progress))
            finally:
                events.cancel()
        raise ProtocolError("the service ended the training without a word")

    def _open(self, peer: Peer) -> grpc.Channel:
        with self._opening:
            if peer.address not in self._connections:
                self._connections[peer.address] = Connection(self._credentials, peer)
            return self._connections[peer.address].channel

    def _active(self) -> _Active:
        return cast(_Active, active_party_pb2_grpc.ActivePartyStub(self._open(self._peer)))  # type: ignore[no-untyped-call]

    @contextmanager
    def _told(self, peer: Peer, timeout: float | None, *, limited: bool = True) -> Iterator[float | None]:
        """Gives a call its time, and turns its failure into an exception of this package, within that time."""
        seconds = (self._timeout if timeout is None else timeout) if limited else None
        began = time.monotonic()
        try:
            yield seconds
        except grpc.RpcError as failed:
            left = (seconds or _CALL_SECONDS) - (time.monotonic() - began)
            raise self._reason(peer, failed, seconds, left) from failed

    def _reason(self, peer: Peer, failed: Any, seconds: float | None, left: float) -> CloisonError:
        code, message = failed.code(), failed.details() or "no reason was given"
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return of_status(code, f"{peer} did not answer within {seconds:g} s" if seconds else f"{peer}: {message}")
        if code is grpc.StatusCode.UNAVAILABLE:
            unconnected: ConnectError | None = self._connections[peer.address].why_not(left)
            if unconnected is not None:
                return unconnected
        return of_status(code, message)


def _chunks(items: Iterable[_Item], size: int) -> Iterator[tuple[int, list[_Item]]]:
    """Number of each chunk, and its items."""
    rest, number = iter(items), 0
    while chunk := list(islice(rest, size)):
        yield number, chunk
        number += 1
