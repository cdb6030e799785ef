"""Imported last by the process that starts others: from here on signals reach it as any other.

While it imports, Ctrl-C is kept from it (see ``_processes.py``). What came meanwhile was meant for
its parent and is dropped; its children shall be as those of any program.
"""

import signal

if hasattr(signal, "pthread_sigmask"):
    for _number in (signal.SIGINT, signal.SIGTERM):
        _before = signal.signal(_number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {_number})
        signal.signal(_number, _before)
