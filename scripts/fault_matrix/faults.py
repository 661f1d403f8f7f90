"""The faults: how each begins and ends, and whether a call can be answered in spite of it."""

import dataclasses
import time
from collections.abc import Callable

import calls
import parties as at

DELAY_MS = 200
LOSS_PERCENT = 5
HOUR, DAY = 3600, 86_400


@dataclasses.dataclass(frozen=True)
class Fault:
    """One row of the table."""

    name: str
    words: str
    begin: Callable
    end: Callable
    # A party of which an error must speak.
    party: str | None = None
    # It lies between the auditor and the others too, who then may name any of them: it works on the coordinator's machine.
    at_auditor: bool = False
    # By how many seconds a clock is set back.
    clock: int = 0
    # It drops packets.
    drops: bool = False
    # A call goes on under it: it begins before the call, and a training is short. Others begin in the middle of one.
    bearable: bool = False
    # What must be done before the call, and undone after it: (before, after).
    around: tuple | None = None
    # Whether the fault is there, asked when it has begun; gives what is wrong.
    check: Callable = lambda stage: None
    quick: bool = False


def _nothing(_stage):
    pass


def _delayed(stage):
    took = stage.network.round_trip("coordinator", "passive-1")
    # There and back, a frame waits at the coordinator's end of the wire.
    if took is None or took < 2 * DELAY_MS / 1000:
        return f"a round trip took {took} s in spite of a delay of {DELAY_MS} ms each way"
    return None


def _unreachable(name, to):
    def check(stage):
        return f"{name} reaches {to} in spite of it" if stage.network.round_trip(name, to) is not None else None

    return check


def _network(name, words, begin, drops=True, **rest):
    return Fault(name, words, lambda stage: begin(stage.network), lambda stage: stage.network.heal(), drops=drops, **rest)


def _killed(name):
    def begin(stage):
        stage.parties.kill(name)

    # A prediction is too short to be met: a party stands still before it, so that the kill comes in the middle of the call.
    still = "passive-1" if name == "active" else name

    def before(stage):
        if stage.call in ("predict", "stream"):
            stage.parties.freeze(still)

    def end(stage):
        stage.parties.thaw(still)

    return Fault(
        f"killed-{name}", f"{name} is killed (SIGKILL)", begin, end, party=name, around=(before, _nothing),
        quick=name == "passive-1",
    )  # fmt: skip


def _slow(name):
    return Fault(
        f"slow-{name}",
        f"{name} reads slowly: it runs a twentieth of the time",
        lambda stage: stage.parties.slow_down(name),
        lambda stage: stage.parties.speed_up(),
        party=name,
        bearable=True,
    )


def _full(name):
    def check(stage):
        return f"something could be written to the disk of {name}" if stage.parties.disk_has_room(name) else None

    return Fault(
        f"full-{name}",
        f"disk of {name} is full",
        lambda stage: stage.parties.fill_disk(name),
        lambda stage: stage.parties.free_disk(name),
        party=name,
        bearable=True,
        check=check,
        quick=name == "coordinator",
    )


def _frozen(name):
    return Fault(
        f"frozen-{name}",
        f"{name} stands still (SIGSTOP)",
        lambda stage: stage.parties.freeze(name),
        lambda stage: stage.parties.thaw(name),
        party=name,
    )


def _clock(name, seconds, words):
    def before(stage):
        stage.parties.take_clock(name)
        stage.settle()

    return Fault(
        f"clock-{'hour' if seconds == HOUR else 'days'}-{name}",
        f"clock of {name} set back {words}",
        lambda stage: stage.parties.set_clock(-seconds),
        lambda stage: stage.parties.give_clock_back(name),
        clock=seconds,
        bearable=True,
        around=(before, _nothing),
    )


def _forgotten(name):
    def begin(stage):
        stage.network.forget_connections(name, stage.parties.processes[name].pid)

    return Fault(
        f"forgotten-{name}",
        f"half-open: the network forgets connections that {name} opened; new ones work",
        begin,
        lambda stage: stage.network.heal(),
        party="passive-1" if name == "coordinator" else "coordinator",
        at_auditor=name == "coordinator",
        drops=True,
    )


ALL = (
    Fault("none", "none", _nothing, _nothing, bearable=True, quick=True),
    _network(
        "delay", f"delay: {DELAY_MS} ms each way at coordinator", lambda n: n.delay("coordinator", DELAY_MS),
        drops=False, bearable=True, check=_delayed,
    ),
    _network(
        "loss", f"loss: {LOSS_PERCENT} % of packets each way at coordinator", lambda n: n.lose("coordinator", LOSS_PERCENT),
        bearable=True,
    ),
    _network(
        "cut-passive-1", "cut: no packet from or to passive-1", lambda n: n.cut("passive-1"),
        party="passive-1", check=_unreachable("coordinator", "passive-1"), quick=True,
    ),
    _network(
        "cut-coordinator", "cut: no packet from or to coordinator", lambda n: n.cut("coordinator"), at_auditor=True,
        party="coordinator", check=_unreachable("active", "coordinator"),
    ),
    _network(
        "deaf-coordinator", "half-open: coordinator gets nothing from passive-1", lambda n: n.deafen("coordinator", "passive-1"),
        party="passive-1", check=_unreachable("coordinator", "passive-1"),
    ),
    _network(
        "deaf-active", "half-open: active gets nothing from coordinator", lambda n: n.deafen("active", "coordinator"),
        at_auditor=True, party="coordinator", check=_unreachable("active", "coordinator"),
    ),
    _forgotten("coordinator"),
    _forgotten("active"),
    _slow("active"),
    _slow("passive-1"),
    _frozen("passive-1"),
    _frozen("coordinator"),
    *(_killed(name) for name in at.NAMES),
    *(_full(name) for name in at.NAMES),
    _clock("coordinator", HOUR, "1 hour"),
    _clock("coordinator", 2 * DAY, "2 days, before its certificates"),
)  # fmt: skip


def wait_for_lead(call):
    """Waits until the call is in the middle of its work."""
    time.sleep(calls.LEADS[call])
