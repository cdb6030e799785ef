"""What this process is told by whatever has started it and others, such as ``torchrun``."""

from __future__ import annotations

import os
import signal

_TOLD = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


def stop_signals() -> tuple[signal.Signals, ...]:
    """What asks a program to come to an end: Ctrl-C, a machine that shuts down, a lost terminal.

    A program that is to outlive its terminal (``nohup``) does not hear of the last.
    """
    told = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        told.append(signal.SIGHUP)
    return tuple(told)


def launched_as() -> tuple[int, int]:
    """The number of this process and how many there are; 0 of 1 where it is on its own."""
    if not all(os.environ.get(name, "") for name in _TOLD):
        return 0, 1
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
