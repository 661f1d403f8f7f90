"""The wire between the machines: a switch of tap devices, one in each network, that can hold frames back.

A program of its own: `wire.py NAME...`. Each line on its standard input, `NAME MILLISECONDS`, sets how long frames from and to that
machine take. It stands in for `tc netem`, which many kernels are built without.
"""

import fcntl
import heapq
import itertools
import os
import selectors
import struct
import sys
import time

import namespaces

_TUNSETIFF = 0x400454CA
_TAP = 0x0002
_NO_HEADER = 0x1000
_FRAME = 65536
# Frames that wait: what a machine could still have on its way with 64 MiB of buffers. More are lost.
_WAITING = 50_000


def open_tap(name):
    """The device `eth0` of the network `name`; it is there as long as this process."""
    with namespaces.inside(name):
        tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", b"eth0", _TAP | _NO_HEADER))
    return tap


class Wire:
    """Carries frames to where their address was last seen, and to all where it was not."""

    def __init__(self, names):
        self.names = names
        self.taps = [open_tap(name) for name in names]
        self.delays = [0.0] * len(names)
        self.seen = {}
        self.waiting = []
        self.order = itertools.count()

    def take(self, source):
        """Reads what a machine has sent."""
        while True:
            try:
                frame = os.read(self.taps[source], _FRAME)
            except BlockingIOError:
                return
            self.seen[frame[6:12]] = source
            target = self.seen.get(frame[:6])
            targets = [i for i in range(len(self.taps)) if i != source] if target is None else [target]
            for to in targets:
                delay = self.delays[source] + self.delays[to]
                if delay == 0:
                    self.give(to, frame)
                elif len(self.waiting) < _WAITING:
                    heapq.heappush(self.waiting, (time.monotonic() + delay, next(self.order), to, frame))

    def give(self, to, frame):
        """Hands a frame to a machine. A device that is full or down loses it, as a network does."""
        try:
            os.write(self.taps[to], frame)
        except OSError:
            pass

    def give_what_is_due(self):
        """Hands over what has waited long enough; gives the seconds until the next frame is due."""
        now = time.monotonic()
        while self.waiting and self.waiting[0][0] <= now:
            _, _, to, frame = heapq.heappop(self.waiting)
            self.give(to, frame)
        return max(0.0, self.waiting[0][0] - now) if self.waiting else None

    def run(self):
        """Until standard input ends."""
        selector = selectors.DefaultSelector()
        for number, tap in enumerate(self.taps):
            selector.register(tap, selectors.EVENT_READ, number)
        selector.register(sys.stdin.buffer.raw, selectors.EVENT_READ, None)
        print("ready", flush=True)
        while True:
            for key, _ in selector.select(self.give_what_is_due()):
                if key.data is not None:
                    self.take(key.data)
                    continue
                lines = os.read(sys.stdin.fileno(), 4096)
                if not lines:
                    return
                for line in lines.decode().splitlines():
                    name, milliseconds = line.split()
                    self.delays[self.names.index(name)] = float(milliseconds) / 1000
                print("set", flush=True)


if __name__ == "__main__":
    Wire(sys.argv[1:]).run()
