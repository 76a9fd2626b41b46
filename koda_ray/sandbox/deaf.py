"""The signals that a container's first process is deaf to; whatever it starts hears them again.

Linux drops what is sent from inside to a first process that has no handler for it. But kernels since 4.15 (6.8 for one;
6.18.44 does not) look for that at one of its threads, the first: what this one blocks for a moment, as libc does around
the start of every process and thread, is given to another thread, and ends them all. So ``kill -HUP 1`` beside a
command that was about to start could end the container. What is ignored outright is dropped at any moment.

Source: ``sig_ignored`` and ``complete_signal`` in kernel/signal.c; their commit 426915796cca.
"""

from __future__ import annotations

import ctypes
import platform
import signal
import struct

__all__ = ["UNHEARD", "ignore_signals"]

UNHEARD = frozenset(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
"""All but what nobody can ignore, and what tells of children; to be given back to what is started."""

_OF_LIBC = (32, 33)  # libc's own, of which it lets nobody speak; what it starts ignores them anyway
_RT_SIGACTION = {"x86_64": 13, "aarch64": 134}
_IGNORED = struct.pack("=QQQQ", 1, 0, 0, 0)  # the kernel's struct sigaction: SIG_IGN, no flags, restorer or mask
_MASK_BYTES = 8


def ignore_signals() -> None:
    """Have this process ignore them from here on; before it has other threads, or anybody else is there.

    Raises:
        OSError: The kernel does not take it.
    """
    for number in UNHEARD:
        signal.signal(number, signal.SIG_IGN)
    call = _RT_SIGACTION.get(platform.machine())
    if call is None:
        return  # a machine whose call numbers are not known
    libc = ctypes.CDLL(None, use_errno=True)
    for number in _OF_LIBC:
        if libc.syscall(call, number, _IGNORED, None, _MASK_BYTES) != 0:
            raise OSError(ctypes.get_errno(), f"signal {number} cannot be ignored")
