"""The six calls, each with its deadline, as their callers make them."""

import itertools
import os
import re
import subprocess
import time
import urllib.parse

import parties as at

# How long each call may take until it ends in an error, in seconds, when a party says nothing more. It follows from the settings of the
# parties (`parties.py`) and from what is fixed: a connection is given up 10 s after its last sign of life, a new one after 5 s, and a
# session of an alignment must open in 20 s.
_LOST = 10
_CONNECT = 5
_OPENING = 20
DEADLINES = {
    # The active party waits so long for the coordinator, whatever happens behind it.
    "predict": at.ACTIVE_WAITS,
    # Waits for the stream to open, for an answer; with a request id, both once more.
    "stream": 4 * at.ACTIVE_WAITS,
    # A step of a party that is silent; to learn that the coordinator is gone takes a lost connection.
    "train": max(at.STEP, _LOST) + _CONNECT,
    "private": max(at.STEP, _LOST) + _CONNECT,
    # An audit asks one party after the other; one is given up at a time.
    "audit": _LOST + _CONNECT + at.ACTIVE_WAITS,
    "align": _OPENING + _LOST,
}
# For the machine, which has other things to do.
SLACK = 2
# How long a call may take that is answered in spite of a fault.
ANSWERED = 90
NAMES = tuple(DEADLINES)
# Plain, and on secret shares.
TRAININGS = ("train", "private")
# Seconds into the call at which a fault begins that would come too early before it.
LEADS = {"predict": 0.5, "stream": 0.5, "train": 1.0, "private": 1.0, "audit": 0.3, "align": 0.4}

_requests = itertools.count(1)


class Outcome:
    """What a call came to."""

    def __init__(self, seconds, answer, words):
        self.seconds, self.answer, self.words = seconds, answer, words

    @property
    def is_answer(self):
        return self.answer is not None


def _varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes((*out, number))


def _field(number, content):
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _score_request(ids, name):
    """`ScoreRequest` of proto/vfl/v1/active_party.proto, as a message of gRPC."""
    ends = b"".join(_varint(end) for end in itertools.accumulate(len(i.encode()) for i in ids))
    message = _field(1, _field(1, "".join(ids).encode()) + _field(2, ends)) + _field(2, name.encode())
    return b"\0" + len(message).to_bytes(4, "big") + message


class Call:
    """A call under way. `wait` ends it."""

    def __init__(self, process, finish):
        self.process, self.finish, self.since = process, finish, time.monotonic()

    def wait(self, seconds):
        """The outcome; `None` if there is none after so many seconds, and the caller is killed."""
        try:
            out, error = self.process.communicate(timeout=max(0.1, seconds - (time.monotonic() - self.since)))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate(timeout=20)
            return None
        took = time.monotonic() - self.since
        answer, words = self.finish(self.process.returncode, out, error.decode(errors="replace"))
        return Outcome(took, answer, words)


def _begin(parties, name, arguments, finish):
    process = subprocess.Popen(
        arguments, cwd=parties.directory(name), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    return Call(process, finish)


def new_name():
    """A request id that was not used before."""
    return f"request-{next(_requests)}"


def score(parties, which, name):
    """Asks for the scores of a list of ids as a program does, with a request id. The answer is the bytes of the message."""
    directory = parties.directory("active")
    body, heads, answer = (os.path.join(directory, file) for file in ("body", "heads", "answer"))
    with open(body, "wb") as file:
        file.write(_score_request(parties.lists[which], name))
    for file in (heads, answer):
        if os.path.exists(file):
            os.remove(file)

    def finish(status, _, error):
        told = _read(heads).decode(errors="replace")
        code = re.findall(r"(?im)^grpc-status: *(\d+)", told)
        if code and code[-1] == "0":
            return _read(answer), ""
        message = re.findall(r"(?im)^grpc-message: *(.*?)\r?$", told)
        return None, urllib.parse.unquote(message[-1]) if message else f"curl ({status}): {error.strip()}"

    # The name in the certificate is no host name; curl could check host names alone.
    arguments = [
        "curl", "--silent", "--show-error", "--insecure", "--http2", "--cert", "tls/active.pem", "--key", "tls/active.key",
        "--header", "content-type: application/grpc", "--header", "te: trailers", "--data-binary", f"@{body}",
        "--dump-header", heads, "--output", answer, "https://127.0.0.1:7102/vfl.v1.ActiveParty/Predict",
    ]  # fmt: skip
    return _begin(parties, "active", at.network.command("active", *arguments), finish)


def _read(path):
    if not os.path.exists(path):
        return b""
    with open(path, "rb") as file:
        return file.read()


def _last_words(status, out, error):
    """What a command of ours says: its output if it is done, else the error in one line."""
    if status == 0:
        return out or b"done", ""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in error.replace("\r", "\n").splitlines()]
    lines = [line for line in lines if line]
    at_error = next((i for i, line in enumerate(lines) if line.startswith("error")), max(0, len(lines) - 1))
    return None, " ".join(lines[at_error:]).removeprefix("error: ") or f"exit code {status}, and no word"


def begin(parties, name, long):
    """Begins a call; `long`: a training that does not end by itself, an audit that takes some seconds."""
    config = "long.toml" if long else "config.toml"
    if name in ("predict", "stream"):
        return score(parties, name, new_name())
    if name in TRAININGS:
        if name == "private":
            config = "private-long.toml" if long else "private.toml"
        elif not long:
            parties.next_training()
        command = parties.command("active", "active-party", "train", "--config", config)
        return _begin(parties, "active", command, _last_words)
    if name == "align":
        command = parties.command("active", "active-party", "align", "--config", "config.toml", "--passive-party", "passive-1")
        return _begin(parties, "active", [*command, "--out", "common.ids"], _last_words)
    # The auditor works on the coordinator's machine.
    command = parties.command("coordinator", "cloison", "audit", "--config", config, "--out", "report")
    return _begin(parties, "auditor", command, _last_words)


def by_command_line(parties, which):
    """Scores a list of ids by `active-party predict`."""
    command = parties.command("active", "active-party", "predict", "--config", "config.toml", "--ids", f"data/{which}.ids")
    return _begin(parties, "active", command, _last_words)


