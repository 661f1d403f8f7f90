"""The three parties: files, processes, and the books that they keep."""

import glob
import json
import os
import random
import signal
import subprocess
import threading
import time

import network

BINARIES = {"coordinator": "coordinator", "passive-1": "passive-party", "active": "active-party"}
# The order in which they start.
NAMES = ("passive-1", "coordinator", "active")
TRAINING, PREDICTED, STREAMED, AUDITED = 2000, 1000, 8000, 200
# Where the deadlines of the calls come from, in seconds: of the coordinator for a passive party, of the active party for the
# coordinator, of a step of a training.
COORDINATOR_WAITS, ACTIVE_WAITS, STEP = 3, 6, 5
# A ledger and the models of all trainings are far from this; a full disk is one that is made smaller.
_STATE = "512m"
_SLICE = 0.2
_AWAKE = 0.01

_CONFIGS = {
    "coordinator": """
        peer_timeout_ms = {coordinator_ms}
        active_party = "active"
        [[passive_parties]]
        name = "passive-1"
        address = "{passive}"
        [training]
        allowed = true
        step_timeout_s = {step}
        [budget]
        queries_per_record = "unlimited"
        models_per_record = "unlimited"
        rows_per_minute = "unlimited"
        [audit]
        allowed = true
    """,
    "passive-1": """
        [data]
        csv = "data/passive-1.csv"
        schema = "data/passive-1.schema.toml"
        [release]
        to_active_party = "true_parameters"
        [training]
        allowed = true
        mode = "plain"
        plain_consent = "a plain training gives the active party our features of every training record"
        active_party = "active"
        max_classes = 3
        max_epochs = 1000000
        max_per_day = 10000
        max_total = 10000
        [alignment]
        allowed = true
        active_party = "active"
        max_runs = 10000
        [audit]
        allowed = true
        mode = "trusted"
        max_scorings = 100000
        max_total_scorings = 100000
    """,
    "active": """
        peer_timeout_ms = {active_ms}
        [data]
        csv = "data/active.csv"
        schema = "data/active.schema.toml"
        [coordinator]
        name = "coordinator"
        address = "{coordinator}"
        [[passive_parties]]
        name = "passive-1"
        address = "{passive}"
        [alignment]
        allowed = true
        max_runs = 10000
        [audit]
        allowed = true
        [client]
        address = "127.0.0.1:7102"
        [training]
        mode = "{mode}"
        train_ids = "data/train.ids"
        epochs = {epochs}
        patience = {epochs}
        {batches}
        l2 = 0.01
        seed = {seed}
    """,
    "auditor": """
        ids = "data/{audited}.ids"
        seed = 7
        attacks = {attacks}
        metrics = []
        [coordinator]
        name = "coordinator"
        address = "{coordinator}"
        [active_party]
        name = "active"
        address = "{active}"
        [[passive_parties]]
        name = "passive-1"
        address = "{passive}"
        [[defenses]]
        name = "none"
        [[defenses]]
        name = "rounding"
        decimals = 2
    """,
}
# A training that ends by itself within some steps and an audit of cheap attacks; and a training that does not end, and an audit that
# takes some seconds.
_SHORT = {
    "seed": 7,
    "mode": "plain",
    "epochs": 2,
    "batches": "batch_size = 512\nlearning_rate = 0.05",
    "audited": "audit",
    "attacks": '["half", "least_squares", "half_star"]',
}
_LONG = {
    "seed": 7,
    "mode": "plain",
    "epochs": 100000,
    "batches": "batch_size = 64\nlearning_rate = 0.05",
    "audited": "stream",
    "attacks": '["least_squares", "half_star", "rcc1", "rcc2", "gradient_inversion"]',
}

# Computed on secret shares, by full batches.
_PRIVATE = {"mode": "private", "batches": ""}


def _address(name):
    return f"{network.ADDRESSES[name]}:{network.PORTS[name]}"


# Answers computed on secret shares.
_PRIVATELY = '[serving]\nmode = "private"\n'


def _config(name, size=_SHORT, private=False):
    addresses = {"coordinator": _address("coordinator"), "passive": _address("passive-1"), "active": _address("active")}
    waits = {"coordinator_ms": COORDINATOR_WAITS * 1000, "active_ms": ACTIVE_WAITS * 1000, "step": STEP}
    text = "\n" + "\n".join(line.strip() for line in _CONFIGS[name].strip().splitlines())
    served = "" if name == "auditor" else f'listen = "0.0.0.0:{network.PORTS[name]}"\nstate_dir = "state"\n'
    # Keys of no table come first.
    head, _, tables = text.format(**addresses, **waits, **size).partition("\n[")
    tls = f'[tls]\nca = "tls/ca.pem"\ncertificate = "tls/{name}.pem"\nkey = "tls/{name}.key"\n'
    serving = _PRIVATELY if private and name in ("coordinator", "passive-1") else ""
    return f"{served}{head}\n{tls}{serving}[{tables}"


def _write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Parties:
    """Directories, processes and books of the parties below `own`; logs go to `logs`."""

    def __init__(self, binaries, own, logs, private):
        self.private = private
        self.binaries, self.own, self.logs = binaries, own, logs
        self.processes = {}
        self.peaks = dict.fromkeys(NAMES, 0)
        self.environments = {}
        self._slow = None
        self._full = None
        self._seed = 7
        self._make_files()

    def directory(self, name):
        """Where a party keeps what is its own."""
        return os.path.join(self.own, name)

    def _make_files(self):
        for name in (*NAMES, "auditor"):
            for part in ("tls", "data", "state"):
                os.makedirs(os.path.join(self.directory(name), part))
            _write(os.path.join(self.directory(name), "config.toml"), _config(name, private=self.private))
        for name in ("active", "auditor"):
            _write(os.path.join(self.directory(name), "long.toml"), _config(name, _LONG))
            if name == "active":
                _write(os.path.join(self.directory(name), "private.toml"), _config(name, _SHORT | _PRIVATE))
                _write(os.path.join(self.directory(name), "private-long.toml"), _config(name, _LONG | _PRIVATE))
        for name in NAMES:
            state = os.path.join(self.directory(name), "state")
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_STATE},mode=0700", "tmpfs", state], check=True, timeout=20)
        roles = {"coordinator": "coordinator", "passive-1": "passive-party", "active": "active-party", "auditor": "auditor"}
        made = os.path.join(self.own, "certificates")
        parties = [part for name, role in roles.items() for part in ("--party", f"{role}/{name}")]
        subprocess.run(
            [self.program("cloison"), "certs", "--out", made, *parties], check=True, timeout=60, capture_output=True
        )
        for name in roles:
            for file in ("ca.pem", f"{name}.pem", f"{name}.key"):
                os.link(os.path.join(made, file), os.path.join(self.directory(name), "tls", file))
        self._make_data()

    def _make_data(self):
        draw = random.Random(7)
        count = TRAINING + PREDICTED + STREAMED + AUDITED
        ids = [f"customer-{i:05d}" for i in range(count)]
        rows = {"active": ["id,a,b,c,d,class"], "passive-1": ["id,e,f,g,h"]}
        for record in ids:
            values = [draw.random() for _ in range(8)]
            # Two features of each party tell, and not all: a training must find something, and not all of it.
            told = values[0] + values[1] + values[4] + values[5] + draw.gauss(0, 0.4)
            label = "low" if told < 1.8 else "middle" if told < 2.2 else "high"
            rows["active"].append(",".join([record, *(f"{v:.6f}" for v in values[:4]), label]))
            rows["passive-1"].append(",".join([record, *(f"{v:.6f}" for v in values[4:])]))
        for name, lines in rows.items():
            schema = 'id = "id"\n'
            if name == "active":
                schema += '[label]\ncolumn = "class"\nclasses = ["low", "middle", "high"]\n'
            for feature in ("abcd" if name == "active" else "efgh"):
                schema += f'[[features]]\nname = "{feature}"\nkind = "numeric"\nmin = 0.0\nmax = 1.0\n'
            data = os.path.join(self.directory(name), "data")
            _write(os.path.join(data, f"{name}.csv"), "\n".join(lines) + "\n")
            _write(os.path.join(data, f"{name}.schema.toml"), schema)
        self.lists, first = {}, 0
        for name, length in (("train", TRAINING), ("predict", PREDICTED), ("stream", STREAMED), ("audit", AUDITED)):
            self.lists[name] = ids[first : first + length]
            first += length
            for holder in ("active", "auditor"):
                path = os.path.join(self.directory(holder), "data", f"{name}.ids")
                _write(path, "\n".join(self.lists[name]) + "\n")

    def next_training(self):
        """Has the next short training come to another model than the one before. A private one does so by itself: it rounds at random."""
        self._seed += 1
        _write(os.path.join(self.directory("active"), "config.toml"), _config("active", {**_SHORT, "seed": self._seed}))

    # ---- processes ------------------------------------------------------------------------------------------------------------

    def program(self, name):
        """The path of a binary."""
        return os.path.join(self.binaries, name)

    def command(self, name, program, *arguments):
        """The command line that runs a binary on a party's machine."""
        return network.command(name, self.program(program), *arguments)

    def start(self, name):
        """Starts the service of a party."""
        with open(os.path.join(self.logs, f"{name}.log"), "ab") as log:
            self.processes[name] = subprocess.Popen(
                self.command(name, BINARIES[name], "serve", "--config", "config.toml"),
                cwd=self.directory(name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environments.get(name, {})},
            )

    def is_healthy(self, name):
        """Whether the service answers on its own machine."""
        check = self.command(name, BINARIES[name], "check", "--config", "config.toml", "--health")
        try:
            done = subprocess.run(check, cwd=self.directory(name), timeout=5, capture_output=True, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def wait_healthy(self, seconds=30):
        """Starts what is not running, and waits until all answer. Gives whether they do."""
        until = time.monotonic() + seconds
        for name in NAMES:
            if name not in self.processes or self.processes[name].poll() is not None:
                self.start(name)
        for name in NAMES:
            while not self.is_healthy(name):
                if time.monotonic() >= until:
                    return False
                time.sleep(0.1)
        return True

    def kill(self, name):
        """Ends a service as a loss of power would."""
        self.note_peaks()
        self.processes[name].kill()
        self.processes[name].wait(timeout=20)

    def stop(self, name):
        """Asks a service to end. Gives whether it ended within ten seconds, and without an error."""
        self.note_peaks()
        process = self.processes[name]
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            return process.wait(timeout=10) == 0
        except subprocess.TimeoutExpired:
            self.kill(name)
            return False

    def freeze(self, name):
        """The process does nothing, and its connections stay."""
        self.processes[name].send_signal(signal.SIGSTOP)

    def thaw(self, name):
        """The process goes on."""
        if self.processes[name].poll() is None:
            self.processes[name].send_signal(signal.SIGCONT)

    def slow_down(self, name):
        """The process runs, and so reads, for a twentieth of the time."""
        end = threading.Event()

        def alternate():
            while not end.is_set():
                self.freeze(name)
                time.sleep(_SLICE - _AWAKE)
                self.thaw(name)
                time.sleep(_AWAKE)

        thread = threading.Thread(target=alternate, daemon=True)
        thread.start()
        self._slow = (end, thread)

    def speed_up(self):
        """Ends `slow_down`."""
        if self._slow:
            self._slow[0].set()
            self._slow[1].join(timeout=5)
            self._slow = None

    def note_peaks(self):
        """Keeps the highest peak of memory of each party, over all its processes, in MiB."""
        for name, process in self.processes.items():
            try:
                with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
                    peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
            except (OSError, StopIteration):
                continue
            self.peaks[name] = max(self.peaks[name], peak / 1024)

    # ---- disks and clocks ------------------------------------------------------------------------------------------------------

    def _resize_disk(self, name, size):
        state = os.path.join(self.directory(name), "state")
        subprocess.run(["mount", "-o", f"remount,size={size}", state], check=True, timeout=20, capture_output=True)

    def _fill_up(self, name):
        """Makes the disk as small as what is on it. Not done if the party writes something in between."""
        disk = os.statvfs(os.path.join(self.directory(name), "state"))
        if disk.f_bfree == 0:
            return
        try:
            self._resize_disk(name, (disk.f_blocks - disk.f_bfree) * disk.f_frsize)
        except subprocess.CalledProcessError:
            pass

    def fill_disk(self, name):
        """No byte is left where the party keeps its state, also when the party frees some."""
        end = threading.Event()

        def keep_full():
            while not end.is_set():
                self._fill_up(name)
                time.sleep(0.002)

        self._fill_up(name)
        thread = threading.Thread(target=keep_full, daemon=True)
        thread.start()
        self._full = (end, thread)

    def disk_has_room(self, name):
        """Whether a byte can be written where the party keeps its state, a second long."""
        probe = os.path.join(self.directory(name), "state", "probe")
        until = time.monotonic() + 1
        while time.monotonic() < until:
            try:
                _write(probe, "x")
            except OSError:
                return False
            finally:
                if os.path.exists(probe):
                    os.remove(probe)
            time.sleep(0.02)
        return True

    def free_disk(self, name):
        """Ends `fill_disk`."""
        if self._full:
            self._full[0].set()
            self._full[1].join(timeout=25)
            self._full = None
        self._resize_disk(name, _STATE)

    @staticmethod
    def clock_library():
        """libfaketime for programs with threads, or `None`."""
        return next(iter(glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")), None)

    def take_clock(self, name):
        """Starts the party again with a clock that `set_clock` sets. Its clock for durations stays as it is."""
        self.stop(name)
        self.environments[name] = {
            "LD_PRELOAD": self.clock_library(),
            "FAKETIME_TIMESTAMP_FILE": os.path.join(self.own, "clock"),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        self.set_clock(0)

    def set_clock(self, seconds):
        """The clock is so many seconds off, once the library has read the file again: when more than one whole second has passed."""
        _write(os.path.join(self.own, "clock"), f"{seconds:+d}\n")
        time.sleep(2.2)

    def give_clock_back(self, name):
        """Ends `take_clock`."""
        self.stop(name)
        self.environments.pop(name, None)

    # ---- books -----------------------------------------------------------------------------------------------------------------

    def _told(self, name, *arguments):
        told = subprocess.run(
            [self.program(BINARIES[name]), *arguments, "--json"],
            cwd=self.directory(name),
            check=True,
            timeout=20,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
        return json.loads(told.stdout)

    def last_training_of_coordinator(self):
        """When the last training began, by the coordinator's clock."""
        return max(training["begun_at"] for training in self._told("coordinator", "trainings", "--config", "config.toml")[-1:])

    def books(self):
        """What the parties have written down of what was spent: counts, and when the last row was asked for by the coordinator's clock."""
        ledger = self._told("coordinator", "ledger", "show", "--ledger", "sqlite:state/ledger.sqlite")
        active = next((p for p in ledger["parties"] if p["party"] == "active"), {"queries": 0, "refused": 0, "last_at": 0})
        return {
            "rows": active["queries"],
            "refused": active["refused"],
            "last_at": active["last_at"] or 0,
            "scorings": sum(s["scorings"] for s in self._told("passive-1", "scorings", "--config", "config.toml")["sets"]),
            "trainings": len(self._told("passive-1", "trainings", "--config", "config.toml")),
            "alignments": len(self._told("passive-1", "alignments", "--config", "config.toml")),
        }
