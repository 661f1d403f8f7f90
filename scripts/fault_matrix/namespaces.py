"""Enters networks of other namespaces. Python has `os.setns` from 3.12 only."""

import contextlib
import ctypes
import os

_NEW_NETWORK = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def path(name):
    """Where `ip netns` keeps the network of this name."""
    return f"/run/netns/{name}"


def _enter(descriptor):
    if _libc.setns(descriptor, _NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), "setns")


@contextlib.contextmanager
def inside(name):
    """What this thread opens in here belongs to the network `name`, also afterwards."""
    ours = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    theirs = os.open(path(name), os.O_RDONLY)
    try:
        _enter(theirs)
        yield
    finally:
        _enter(ours)
        os.close(theirs)
        os.close(ours)
