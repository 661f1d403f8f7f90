"""A connection to a party: mutual TLS 1.3, with the peer's identity checked, and a reason when there is none.

A certificate of Cloison names a party by a URI such as `spiffe://cloison.local/active-party/bank`. It has no host name, since a party
may move, and the DNS name that `cloison certs` puts beside the URI tells no role. gRPC has no way to check a URI. It compares a name with
the certificate, by default the host's, and sends the same name in its greeting (SNI). `grpc.ssl_target_name_override` replaces both: with
the URI the comparison would succeed, but a URI is no server name, and a server of Cloison ends such a handshake with `illegal_parameter`.

So the connection is made here, with the standard library, and checked as the parties check one another: by authority, role and name.
gRPC speaks to it through a Unix socket in a directory that only this user can enter, who can read the key as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import stat
import tempfile
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc

from ._identity import Identity, IdentityError
from .errors import (
    CertificateError,
    CertificateRefusedError,
    ConnectError,
    UnreachableError,
    UntrustedServerError,
    WrongServerError,
)

# Messages have at most 16 MiB; the frame around one is a little more.
MESSAGE_BYTES: Final = (16 << 20) + 1024
# Until a connection stands; what waits for it has a deadline of its own.
_CONNECT_SECONDS: Final = 10.0
_FLUSH_SECONDS: Final = 2.0
_CHUNK: Final = 1 << 16
# A server that is flooded drops connections in the handshake: it is tried again, after pauses that double.
_ATTEMPTS: Final = 4
_FIRST_PAUSE: Final = 0.05

# Two types before Python 3.11.
_TIMEOUTS: Final = (TimeoutError, asyncio.TimeoutError)

_T = TypeVar("_T")


@dataclass(frozen=True)
class Credentials:
    """The PEM files of one party, read and checked."""

    ca: Path
    certificate: Path
    key: Path
    identity: Identity
    texts: tuple[bytes, bytes, bytes] = field(repr=False)

    @classmethod
    def read(
        cls, ca: str | os.PathLike[str], certificate: str | os.PathLike[str], key: str | os.PathLike[str]
    ) -> Credentials:
        """Reads the files.

        Raises:
            CertificateError: A file cannot be read, is malformed, or does not go with the others; a key that others may read.
        """
        paths = (Path(ca), Path(certificate), Path(key))
        texts = []
        for what, path in zip(("authority", "certificate", "private key"), paths, strict=True):
            try:
                texts.append(path.read_bytes())
            except OSError as error:
                message = f"cannot read the {what} {path}: {error.strerror} (make certificates with `cloison certs`)"
                raise CertificateError(message) from error
        mode = stat.S_IMODE(paths[2].stat().st_mode)
        if os.name == "posix" and mode & 0o077:
            raise CertificateError(
                f"the private key {paths[2]} can be read by others than its owner (mode {mode:o}); run chmod 600 on it"
            )
        try:
            identity = Identity.of_pem(texts[1])
        except IdentityError as error:
            raise CertificateError(f"the certificate {paths[1]} is no identity: {error}") from error
        made = cls(*paths, identity, (texts[0], texts[1], texts[2]))
        try:
            made.context()
        except (ssl.SSLError, OSError) as error:
            raise CertificateError(f"{paths[0]}, {paths[1]} and {paths[2]} do not go together: {error}") from error
        return made

    def context(self) -> ssl.SSLContext:
        """How the standard library connects with them: the chain is checked, the name is left to the caller."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cafile=self.ca)
        context.load_cert_chain(self.certificate, self.key)
        context.set_alpn_protocols(["h2"])
        return context


@dataclass(frozen=True)
class Peer:
    """A party and where it is."""

    address: str
    identity: Identity

    def host_and_port(self) -> tuple[str, int]:
        """The two parts of the address; `ValueError` if it is not `host:port`."""
        host, _, port = self.address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise ValueError(f"the address {self.address!r} is not of the form host:port")
        return host, int(port)

    def __str__(self) -> str:
        """For messages."""
        return f"{self.identity.role} `{self.identity.name}` at {self.address}"


class _HungUpError(Exception):
    """The server ended the connection without a word."""


class Connection:
    """A gRPC channel to a peer. It connects on first use, and again whenever the connection is lost."""

    def __init__(self, credentials: Credentials, peer: Peer) -> None:
        """Opens the local end; nothing is sent to the peer before the first call."""
        self._credentials, self._peer = credentials, peer
        self._host, self._port = peer.host_and_port()
        # Why the last attempt to connect failed, if it did.
        self.failure: ConnectError | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._directory = tempfile.TemporaryDirectory(prefix="cloison-")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"cloison {peer.address}", daemon=True)
        self._thread.start()
        place = os.path.join(self._directory.name, "socket")
        self._server = self._run(asyncio.start_unix_server(self._serve, place), _CONNECT_SECONDS)
        options: list[tuple[str, str | int]] = [
            ("grpc.default_authority", f"[{self._host}]" if ":" in self._host else self._host),
            ("grpc.max_receive_message_length", MESSAGE_BYTES),
            ("grpc.max_send_message_length", MESSAGE_BYTES),
            # A party that is gone without a word is noticed within 15 s, also in a training.
            ("grpc.keepalive_time_ms", 10_000),
            ("grpc.keepalive_timeout_ms", 5_000),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 5_000),
        ]
        self.channel = grpc.insecure_channel(f"unix:{place}", options=options)

    def close(self) -> None:
        """Ends the connection."""
        self.channel.close()
        with contextlib.suppress(*_TIMEOUTS):
            self._run(self._stop(), _CONNECT_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CONNECT_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()
        self._directory.cleanup()

    def why_not(self, seconds: float) -> ConnectError | None:
        """Why there is no connection: what the last attempt met with, or if it met with nothing, what another one does."""
        if self.failure is not None:
            return self.failure
        try:
            self._run(self._try_once(), max(0.1, min(seconds, _CONNECT_SECONDS)))
        except ConnectError as error:
            return error
        except _TIMEOUTS:
            return UnreachableError(f"{self._peer} takes the connection and then says nothing")
        return None

    def _run(self, what: Coroutine[Any, Any, _T], seconds: float) -> _T:
        waiting = asyncio.run_coroutine_threadsafe(asyncio.wait_for(what, seconds), self._loop)
        return waiting.result()

    async def _stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _try_once(self) -> None:
        _, writer, _ = await self._connect()
        await _close(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection of gRPC's."""
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        # Cancelled on close alone, which the loop would report as a failure.
        with contextlib.suppress(asyncio.CancelledError):
            try:
                await self._relay(reader, writer)
            finally:
                await _flush(writer)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connects to the peer, then passes on what either side says."""
        try:
            theirs, ours, first = await asyncio.wait_for(self._connect(), _CONNECT_SECONDS)
        except ConnectError as error:
            self.failure = error
            return
        except _TIMEOUTS:
            self.failure = UnreachableError(f"{self._peer} takes the connection and then says nothing")
            return
        self.failure = None
        try:
            writer.write(first)
            ways = [asyncio.create_task(_pass_on(reader, ours)), asyncio.create_task(_pass_on(theirs, writer))]
            try:
                # HTTP/2 ends as a whole: when one way is at its end, so is the other.
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            await _close(ours)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        """A connection on which the server has spoken, and what it said. `ConnectError` if there is none."""
        pause = _FIRST_PAUSE
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._attempt()
            except _HungUpError:
                await asyncio.sleep(pause)
                pause *= 2
        try:
            return await self._attempt()
        except _HungUpError:
            raise CertificateRefusedError(f"{self._refusing()}: it hung up") from None

    def _refusing(self) -> str:
        return (
            f"{self._peer} does not take our certificate {self._credentials.certificate} ({self._credentials.identity})"
        )

    async def _attempt(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        address = self._peer.address
        try:
            reader, writer = await asyncio.open_connection(self._host, self._port, ssl=self._credentials.context())
        except ssl.SSLCertVerificationError as error:
            raise UntrustedServerError(
                f"the certificate of the server at {address} was not verified with {self._credentials.ca}: {error.verify_message}"
            ) from error
        except ssl.SSLError as error:
            raise UnreachableError(
                f"the server at {address} does not speak TLS 1.3: {error.reason or error}"
            ) from error
        except (ConnectionResetError, BrokenPipeError) as error:
            raise _HungUpError from error
        except OSError as error:
            said = error.strerror or error
            raise UnreachableError(f"nobody answers for {self._peer}: {said}; is the service running?") from error
        try:
            self._check(writer)
            # With TLS 1.3 the server judges our certificate after our side of the handshake has ended. If it takes it, it begins with
            # its settings of HTTP/2.
            try:
                first = await reader.read(_CHUNK)
            except ssl.SSLError as error:
                raise CertificateRefusedError(f"{self._refusing()}: {error.reason or error}") from error
            except OSError as error:
                raise _HungUpError from error
            if not first:
                raise _HungUpError
        except BaseException:
            await _close(writer)
            raise
        return reader, writer, first

    def _check(self, writer: asyncio.StreamWriter) -> None:
        secure = writer.get_extra_info("ssl_object")
        address = self._peer.address
        try:
            found = Identity.of_der(secure.getpeercert(binary_form=True) or b"")
        except IdentityError as error:
            raise WrongServerError(f"the server at {address} has no identity: {error}") from error
        if found != self._peer.identity:
            raise WrongServerError(f"the server at {address} is {found}, expected {self._peer.identity}")
        if secure.selected_alpn_protocol() != "h2":
            raise WrongServerError(f"the server at {address} does not speak HTTP/2")


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while said := await reader.read(_CHUNK):
            writer.write(said)
            await writer.drain()


async def _close(writer: asyncio.StreamWriter) -> None:
    """Closes at once: an orderly end of TLS would wait for the other side."""
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def _flush(writer: asyncio.StreamWriter) -> None:
    """Closes after what was written, such as the last words of a server that stops."""
    writer.close()
    with contextlib.suppress(OSError, *_TIMEOUTS):
        await asyncio.wait_for(writer.wait_closed(), _FLUSH_SECONDS)
