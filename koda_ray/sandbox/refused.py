"""What hostile code tried and did not get: one warning in the log for each kind of attempt, with the sandbox's id.

What reaches this program as an error is told to whoever asked, and here as well: paths, commands, limits, what a page
asked for, what the way out refused. So are links (``link``) that lead to what is not the sandbox's own, which a list or
a checkpoint is made without: once for each, however it came about, by hand or out of an archive. What only the code
inside hears of is looked for after each command and whenever processes are listed or stopped, where the kernel keeps
something about it at no cost to those that try nothing:

- ``call``: system calls that the filter refuses, hard links to what is not the sandbox's own, which the kernel refuses
  (``denials``), and programs that the filter ended;
- ``network``: packets that found no way (``unreached``);
- ``memory``, ``processes``, ``disk``: counters of the control group, and file systems that are full (``counts``);
- ``listen``: ports that are offered to everybody, such as a server's on 0.0.0.0, which only the sandbox itself reaches
  (``offered``). Many servers that are told no address do so, node's among them: this alone is no attack;
- ``bait``: keys in the home's ``.ssh`` that are none, and were read (``baits``): who does looks for somebody else's, as
  an install script may; the same of the first process's environment (``ps`` does that as well);
- ``bait`` as well: what stands in a sandbox where the database and the folder of sandboxes are outside, and was read
  (``decoys``): locally, and in containers of runc's where this program is root on the engine's machine;
- ``trigger``: what takes a machine down or over (``/proc/sysrq-trigger`` and the like), and was written: it is a file
  that nobody acts upon (``triggers``). That and the environment locally, and in containers of runc's where this program
  is root on the engine's machine (``docker_covers``);
- ``daemon``: processes that left their command's session to outlive it, and were ended with it;
- ``time``, ``output``: commands that did not end, or did not end to write.

Under gVisor root hears more (``gvisor_trace``): which calls its kernel refuses for want of a right, as ``call``, and as
``path`` which files it refuses outside of the sandbox's own, or somebody looks for that are private, there or not.

What is not seen, though it is refused all the same (README.md tells operators of it in short):

- a file that may not be read or written (a device, what an archive with absolute names or an install script would
  write; in a container whose ``/proc`` is the engine's, what stands there): it is opened by the same call as any other,
  and no filter sees a path. To have every open asked about makes it six times as long (35 us instead of 6), makes the
  first process wait for itself, since it has the filter too, and locally ends what outlives whoever answers. The kernel
  tells nobody of an open that it refuses. Where a command's own words or a path given to this program say it, that is
  noted;
- what is simply not there, such as a file of another sandbox whose id somebody knows, whoever looks for it, an install
  script or a command: there is nothing that refuses it. Where nobody may lay bait that goes for the database, too;
- in a container of somebody's own image, or where somebody has set the engine's filter of system calls, those that it
  refuses (mounts, namespaces, kernel modules): a refusal outranks a question (``engine_filter``). Under gVisor the
  calls that the filter refuses (``ptrace``, namespaces, files that lend their owner's rights): its kernel tells of none
  of these; all calls and files where this program is not root, or the engine not on this machine; and what comes faster
  than it is read, of which there is a number alone (``sandbox not heard``);
- calls and networks of local commands where no filter can ask (``isolation.can_be_heard``), and calls of a process
  that has put a filter of its own before ours;
- processes that are refused where there is no control group; what outlives its command in the command's own session,
  as a build's helper that is about to end does, or a terminal's command, or one that was ended itself;
- ports that a command offers to everybody while it runs alone and nobody lists processes: at its end they are gone;
- at E2B and Modal, what their kernels and networks refuse, and what runs there: calls, packets, memory, processes,
  ports, daemons; of the rest there is what is asked for here, how long commands take and how much they write;
- a connection to the sandbox's own loopback where nobody listens: waiting for a server of one's own looks the same;
- a disk that was full and is not any more when the command ends, and one file that would have been too large at once.
"""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Literal

from koda_ray.errors import CommandBlocked, InvalidPath, KodaError, QuotaExceeded, SandboxError
from koda_ray.sandbox.base import Skip
from koda_ray.sandbox.counts import Counted
from koda_ray.sandbox.gvisor_points import Tried

__all__ = ["LinksOut", "Refusal", "note", "note_end", "note_told", "noted"]

Refusal = Literal["call", "command", "egress", "limit", "link", "output", "page", "path", "time"] | Counted

_LINKS_NAMED = 5
_PATHS_NAMED, _PATH_CHARS = 5, 200
_LINKS_KNOWN = 1000  # who makes more is told of twice
_OUTSIDE = frozenset({"absolute", "escape", "parent"})
_ENDED_BY: Mapping[int, Refusal] = {128 + signal.SIGSYS: "call", 128 + signal.SIGXFSZ: "disk"}


def note(sandbox_id: str, refused: Refusal, **facts: object) -> None:
    """Write down one attempt, or several of a kind."""
    from koda_ray.logs import get_logger  # imported by the first who has something to say

    get_logger(__name__).warning("sandbox refused", sandbox_id=sandbox_id, refused=refused, **facts)


def note_end(sandbox_id: str, *, exit_code: int, truncated: bool) -> None:
    """Write down what the way in which a command ended says."""
    refused = _ENDED_BY.get(exit_code)
    if refused is not None:
        note(sandbox_id, refused, exit_code=exit_code)
    if truncated:
        note(sandbox_id, "output")


def note_told(sandbox_id: str, told: Mapping[Tried, int]) -> None:
    """Write down what a container's kernel has told: each call, paths together, and how much was not heard."""
    paths = sorted(one.what for one in told if one.kind == "path")
    if paths:
        words = ", ".join(repr(path[:_PATH_CHARS]) for path in paths[:_PATHS_NAMED])
        note(sandbox_id, "path", times=sum(told[one] for one in told if one.kind == "path"), words=words)
    for one, times in told.items():
        if one.kind == "call":
            note(sandbox_id, "call", call=one.what, times=times)
        elif one.kind == "dropped":
            from koda_ray.logs import get_logger

            get_logger(__name__).info("sandbox not heard", sandbox_id=sandbox_id, times=times)


@contextmanager
def noted(sandbox_id: str) -> Generator[None]:
    """Write down what is refused within the block; errors go on to whoever asked."""
    try:
        yield
    except KodaError as error:
        refused = _refusal(error)
        if refused is not None:
            note(sandbox_id, refused, code=error.code, words=error.message[:300], raised=True)
        raise


class LinksOut:
    """The links of one project that lead out of its sandbox: no file of ours follows them, and no checkpoint has them.

    Args:
        sandbox_id: Whose they are.
    """

    def __init__(self, sandbox_id: str) -> None:
        self._id = sandbox_id
        self._seen: set[str] = set()

    def left_out(self, paths: Iterable[str]) -> None:
        """Write down those that a list was made without, and none was before."""
        found = set(paths)
        if more := sorted(found - self._seen):
            note(self._id, "link", times=len(more), words=", ".join(map(repr, more[:_LINKS_NAMED])))
        self._seen = found if len(self._seen) > _LINKS_KNOWN else self._seen | found

    def skipped(self, skipped: Mapping[str, Skip]) -> None:
        """The same of a snapshot."""
        self.left_out(path for path, why in skipped.items() if why == "outside")


def _refusal(error: KodaError) -> Refusal | None:
    match error:
        case CommandBlocked():
            return "command"
        case InvalidPath() if error.context.get("rule") in _OUTSIDE:
            return "path"
        case QuotaExceeded():
            return "limit"
        case SandboxError() if error.context.get("reason") == "disk_full":
            return "disk"
        case _:
            return None
