"""A deployment on loopback, from the configuration files of examples/local."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import TypedDict

ROOT = Path(__file__).resolve().parents[2]
SERVICES = {"passive-1": "passive-party", "coordinator": "coordinator", "active": "active-party"}
_PORTS = {"coordinator": 7100, "passive-1": 7101, "active": 7102}
_SECONDS = 60.0


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


class Files(TypedDict):
    ca: Path
    cert: Path
    key: Path


class Deployment:
    """Certificates, data, configuration and processes of three parties in one directory."""

    def __init__(self, programs: Path, work: Path, *, features: int = 4, parties: tuple[str, ...] = ()) -> None:
        """`parties` are further passive parties, which get columns and certificates and no configuration."""
        self.programs, self.work = programs, work
        self.services = dict(SERVICES)
        self.ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        named = ["coordinator/coordinator", "passive-party/passive-1", "active-party/active", "auditor/auditor"]
        named += [f"passive-party/{party}" for party in parties]
        self.run("cloison", "certs", "--out", "tls", *(word for party in named for word in ("--party", party)))
        split = ["--dataset", "synthetic", "--seed", "7", "--passive-features", str(features)]
        split += ["--passive-parties", str(1 + len(parties))]
        self.run("cloison", "partition", *split, "--out", "data")
        for name in (*SERVICES, "audit"):
            text = (ROOT / "examples" / "local" / f"{name}.toml").read_text()
            if name == "passive-1":
                # It takes part in plain trainings too, for networks.
                text = re.sub(r'(?m)^# (mode = "plain"|plain_consent = .*)$', r"\1", text)
            (work / f"{name}.toml").write_text(re.sub(r"127\.0\.0\.1:(\d+)", self._moved, text))

    def _moved(self, found: re.Match[str]) -> str:
        # Other ports are in comments, such as that of the metrics.
        names = [name for name, port in _PORTS.items() if port == int(found.group(1))]
        return self.address(names[0]) if names else found.group(0)

    def address(self, name: str) -> str:
        return f"127.0.0.1:{self.ports[name]}"

    def tls(self, name: str) -> Files:
        """The files of one party, as `ActiveParty` takes them."""
        tls = self.work / "tls"
        return {"ca": tls / "ca.pem", "cert": tls / f"{name}.pem", "key": tls / f"{name}.key"}

    def ids(self, name: str) -> list[str]:
        return (self.work / "data" / f"{name}.ids").read_text().split()

    def run(self, program: str, *arguments: str, codes: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
        ended = subprocess.run(
            [self.programs / program, *arguments],
            cwd=self.work,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode in codes, ended.stderr
        return ended

    def start(self, name: str) -> None:
        with (self.work / f"{name}.log").open("ab") as log:
            command = [str(self.programs / self.services[name]), "serve", "--config", f"{name}.toml"]
            self.processes[name] = subprocess.Popen(
                command, cwd=self.work, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def wait(self, name: str) -> None:
        until = time.monotonic() + _SECONDS
        check = [str(self.programs / self.services[name]), "check", "--config", f"{name}.toml", "--health"]
        while subprocess.run(check, cwd=self.work, capture_output=True, timeout=30, check=False).returncode != 0:
            assert self.processes[name].poll() is None, (self.work / f"{name}.log").read_text()
            assert time.monotonic() < until, f"{name} is not healthy"
            time.sleep(0.1)

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        process = self.processes.pop(name)
        process.send_signal(how)
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=15)

    def add(self, name: str, like: str, *changes: tuple[str, str]) -> None:
        """Adds a service with the configuration of another one, changed, at a port of its own."""
        self.ports[name] = free_ports(1)[0]
        self.services[name] = self.services[like]
        text = (self.work / f"{like}.toml").read_text().replace(self.address(like), self.address(name))
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        (self.work / f"{name}.toml").write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.work / f"{name}.toml"
        text = path.read_text()
        assert old in text, old
        path.write_text(text.replace(old, new, 1))

    def __enter__(self) -> Deployment:
        try:
            for name in self.services:
                self.start(name)
            for name in self.services:
                self.wait(name)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self.processes):
            self.stop(name)
