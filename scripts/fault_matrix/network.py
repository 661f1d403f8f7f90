"""Three machines' networks, and what is wrong with them."""

import os
import re
import socket
import subprocess
import sys
import time

import namespaces

ADDRESSES = {"coordinator": "10.77.0.1", "passive-1": "10.77.0.2", "active": "10.77.0.3"}
PORTS = {"coordinator": 7100, "passive-1": 7101, "active": 7102}


def command(name, *arguments):
    """The command line that runs this command in the network of a machine."""
    return ["nsenter", f"--net={namespaces.path(name)}", "--", *arguments]


def _run(*arguments, text=None):
    subprocess.run(arguments, input=text, text=True, check=True, timeout=20, capture_output=True)


class Network:
    """The machines' networks on one wire. They end with this process's namespaces."""

    def __init__(self):
        # Names of networks are files below /run, here of this mount namespace alone.
        _run("mount", "-t", "tmpfs", "tmpfs", "/run")
        for name in ADDRESSES:
            _run("ip", "netns", "add", name)
        wire = os.path.join(os.path.dirname(__file__), "wire.py")
        self._wire = subprocess.Popen(
            [sys.executable, "-B", wire, *ADDRESSES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if self._wire.stdout.readline() != "ready\n":
            raise RuntimeError("the wire between the machines did not come up")
        for name, address in ADDRESSES.items():
            for arguments in (
                ("address", "add", f"{address}/24", "dev", "eth0"),
                ("link", "set", "eth0", "up"),
                ("link", "set", "lo", "up"),
            ):
                _run("ip", "-n", name, *arguments)

    def delay(self, name, milliseconds):
        """Frames from and to this machine take so long."""
        self._wire.stdin.write(f"{name} {milliseconds}\n")
        self._wire.stdin.flush()
        if self._wire.stdout.readline() != "set\n":
            raise RuntimeError("the wire between the machines is gone")

    def drop(self, name, *matches):
        """The machine gets none of the packets that match one of these, and nobody is told."""
        rules = "\n".join(f'iifname "eth0" {match} counter drop' for match in matches)
        _run(*command(name, "nft", "-f", "-"), text=f"""
            add table inet fault
            table inet fault {{
              chain lost {{
                type filter hook prerouting priority -300; policy accept;
                {rules}
              }}
            }}
        """)

    def lose(self, name, percent):
        """A part of the packets to this machine, and of those to the others from it, is lost."""
        self.drop(name, f"numgen random mod 100 < {percent}")
        for other in ADDRESSES:
            if other != name:
                self.drop(other, f"ip saddr {ADDRESSES[name]} numgen random mod 100 < {percent}")

    def cut(self, name):
        """Nothing comes to this machine, and nothing from it to the others."""
        self.drop(name, "")
        for other in ADDRESSES:
            if other != name:
                self.drop(other, f"ip saddr {ADDRESSES[name]}")

    def deafen(self, name, to):
        """The machine gets nothing from the other; the other gets all."""
        self.drop(name, f"ip saddr {ADDRESSES[to]}")

    def forget_connections(self, name, of):
        """The connections that a process on `name` has now are dead both ways, and nobody is told. New ones work."""
        ports = sorted(_ports(of))
        if not ports:
            raise RuntimeError(f"{name} has no connections to forget")
        ports = ", ".join(str(port) for port in ports)
        self.drop(name, f"tcp dport {{ {ports} }}")
        for other in ADDRESSES:
            if other != name:
                self.drop(other, f"ip saddr {ADDRESSES[name]} tcp sport {{ {ports} }}")

    def heal(self):
        """All is as it should be. Gives how many packets were dropped."""
        dropped = 0
        for name in ADDRESSES:
            rules = subprocess.run(command(name, "nft", "list", "ruleset"), capture_output=True, text=True, timeout=20, check=True)
            dropped += sum(int(packets) for packets in re.findall(r"counter packets (\d+)", rules.stdout))
            # `add` first: a table that is not there cannot be deleted.
            _run(*command(name, "nft", "add table inet fault; delete table inet fault"))
            self.delay(name, 0)
        return dropped

    def round_trip(self, name, to):
        """Seconds that a connection from machine to machine takes to come about; `None`: it does not within a second."""
        with namespaces.inside(name):
            probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        since = time.monotonic()
        with probe:
            probe.settimeout(1)
            try:
                probe.connect((ADDRESSES[to], PORTS[to]))
            except OSError:
                return None
        return time.monotonic() - since


def _ports(process):
    """Local ports of the connections to other machines that are established in the network of a process."""
    with open(f"/proc/{process}/net/tcp", encoding="ascii") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    served = set(PORTS.values())
    established = [row[1] for row in rows if row[3] == "01" and not row[1].startswith("0100007F")]
    ports = {int(local.split(":")[1], 16) for local in established}
    return ports - served
