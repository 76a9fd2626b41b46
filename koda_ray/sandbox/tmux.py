r"""Processes with a terminal each, in one sandbox: a tmux session for every one, over the plain protocol.

One tmux server runs in the sandbox (``Sandbox.keep``), so its processes see each other's ports, and it is reached by
tmux's own client, a command like any other, through a socket in the sandbox. So every provider has it that runs
commands, and nothing of it depends on who is connected: a process runs on when whoever started it, or looks at its
terminal, goes away. Who is there, and how it ended, tmux says; nothing here remembers it.

What a process writes goes to files of 1 MiB beside the socket, of which the last four are kept, so whoever reads may
come late, and come back to where it was. A sequence that terminals do not show (``ESC ] 7770 ; CODE ESC \``) is the
last that a process writes: with it, whoever follows knows that this was all.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from koda_ray.errors import Conflict, InvalidInput, Missing, NotFound, SandboxError
from koda_ray.sandbox import policy
from koda_ray.sandbox.base import CommandResult, EndsMarked, Sandbox, Terminal
from koda_ray.sandbox.isolation import TERMINALS
from koda_ray.sandbox.terminal import check_size

__all__ = [
    "COLUMNS",
    "MAX_COMMAND_CHARS",
    "MAX_OUTPUT_BYTES",
    "ROWS",
    "SERVER",
    "OutputPiece",
    "Process",
    "Tmux",
    "check_command_line",
]

SERVER = "tmux"
"""The background process that is the server."""

ROWS, COLUMNS = 50, 200
"""The size of a terminal that nobody looks at."""

MAX_COMMAND_CHARS = 8000
"""tmux's client sends a whole command line in 16 KiB."""

MAX_OUTPUT_BYTES = 192 * 1024
"""How much of its end is read at once: what a command may print."""

_SEGMENT_BYTES = 1024 * 1024
_SEGMENTS = 4
_TIMEOUT_S = 30.0
_LOOK_S = 2.0
_PAUSE_S = 0.05
_CODE_TRIES = 3
_KILLED = 137
_CUT_OFF = (129, _KILLED)
_OVER_TRIES = 100
_NAME_TRIES = 5
_KILL_TRIES = 5
_QUIET = 2
_STARTS, _START_TRIES = 10, 20
_END = re.compile(rb"\x1b\]7770;(\d{1,3})\x1b\\")
_END_START = b"\x1b]7770;"
_END_BYTES = 16
_LAST_BYTES = 1024
"""Where the end is looked for: what a process leaves running may write after it."""
_KNOWN_TERMINALS = re.compile(r"(xterm|screen|tmux|linux|vt100|vt220|rxvt)(-256color|-unicode|-color)?")
_PLACE = re.compile(r"\d{1,15}", re.ASCII)
_NO_SERVER = re.compile(r"no server running|error connecting to .*\((No such file or directory|Connection refused)\)")
_STATES = (
    "#{session_name}\t#{pane_pid}\t#{pane_dead}\t#{pane_dead_status}\t#{pane_dead_signal}\t#{session_created}\t#{@run}"
)
# what is inside may answer in the server's place: what is not exactly this is no process of ours
_STATE = re.compile(
    r"([a-z0-9][a-z0-9_-]{0,62})\t(\d{1,10})\t(\d?)\t(\d{0,3})\t(\d{0,3})\t(\d{0,11})\t([0-9a-f]{32})", re.ASCII
)

# tmux 3.3 sometimes misses that a process has ended, and calls no hook: whoever sees a dead one leaves it all the same
# keys that come together over a slow way are keys all the same: nothing is taken for pasted
_CONFIGURATION = """
set -g remain-on-exit on
set -g history-limit 10000
set -g default-terminal tmux-256color
set -g escape-time 25
set -g assume-paste-time 0
set -g focus-events on
set -g window-size latest
set -g update-environment ''
set -g status-left '#S '
set -g status-right "#{?pane_dead,#(tmux detach-client -s '=#{session_name}'),leave it running: C-b d}"
set -g status-right-length 40
setenv -gr NO_COLOR
setenv -gr CI
# what a command of ours says of its failure would cover whatever another terminal shows, and take its keys
set-hook -g pane-died 'run-shell -b "tmux detach-client -s =#{session_name} 2>/dev/null || :"'
"""

# what a process of the server's runs under: says how it ended, where everything it wrote is said, and waits until that
# is in the files; tmux lets go of a terminal whose process has ended though the kernel still has some of its output
_RUN = rf"""
trap : INT QUIT
mkdir -p "$HOME/{TERMINALS}/$KODA_PROCESS"
/bin/sh -c "$1"
code=$?
printf '\033]7770;%s\033\\' "$code"
cd "$HOME/{TERMINALS}/$KODA_PROCESS" || exit "$code"
turn=0
until cat $(ls | sort -n | tail -n 2) </dev/null 2>/dev/null | tail -c {_LAST_BYTES} | grep -qa ']7770;' \
  || [ "$turn" -ge 100 ]; do
  turn=$((turn + 1))
  sleep 0.02
done
exit "$code"
"""

# takes what a terminal shows, in segments
_WRITE = f"""
cd "$HOME/{TERMINALS}/$1" || exit 1
i=0
while stdbuf -o0 head -c {_SEGMENT_BYTES} >"$i" && [ -s "$i" ]; do
  rm -f "$((i - {_SEGMENTS - 1}))"
  i=$((i + 1))
done
"""

# gives it out again from a place on, as it comes; ends where a segment is missing
_FOLLOW = f"""
stty raw -echo
exec 2>/dev/null
cd "$HOME/{TERMINALS}/$1" || exit 3
i=$(($2 / {_SEGMENT_BYTES})) at=$(($2 % {_SEGMENT_BYTES}))
while [ -e "$i" ]; do
  (until [ -e "$((i + 1))" ]; do sleep 0.2; done) </dev/null >/dev/null &
  tail -c "+$((at + 1))" -f -s 0.1 --pid=$! "$i" || exit 3
  i=$((i + 1)) at=0
done
"""

# prints where the oldest segment begins and where the newest ends, then the last bytes of all of them
# (by wc, since stat asks for more than gVisor answers)
_READ = f"""
cd "$HOME/{TERMINALS}/$1" || exit 3
first=$(ls | sort -n | head -n 1) last=$(ls | sort -n | tail -n 1)
[ -n "$first" ] || exit 3
echo "$((first * {_SEGMENT_BYTES})) $((last * {_SEGMENT_BYTES} + $(wc -c <"$last")))"
cat $(ls | sort -n) </dev/null | tail -c "$2"
"""

# ends all that has a mark, or belongs to a terminal's session: stopped first, so that nothing outruns it; the first
# process has none, and that its environment was read is told
_KILL = r"""
mark=KODA_PROCESS=$1 owner=$2
for turn in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  found=$(grep -lszxF -e "$mark" /proc/[2-9]*/environ /proc/1[0-9]*/environ | sed 's/[^0-9]//g')
  for file in /proc/[0-9]*/stat; do
    line=
    read -r line 2>/dev/null <"$file" || continue
    set -- ${line##*)}
    [ "$4" != "$owner" ] || [ "$1" = Z ] || { file=${file#/proc/}; found="$found ${file%/stat}"; }
  done
  [ -n "$found" ] || exit 0
  kill -STOP $found 2>/dev/null
  kill -KILL $found 2>/dev/null
  sleep 0.02
done
exit 1
"""

_SERVE = f"""
umask 077
place="$HOME/{TERMINALS}"
mkdir -p "$place" && rm -f "$place/tmux.sock" || exit 1
command -v tmux >/dev/null || exit 127
for name in configuration run write follow read kill; do
  printf '%s\\n' "$1" >"$place/$name" || exit 1
  shift
done
exec tmux -D -S "$place/tmux.sock" -f "$place/configuration"
"""
_WAIT = f"""
turn=0
until tmux -N -S "$HOME/{TERMINALS}/tmux.sock" list-sessions >/dev/null 2>&1; do
  turn=$((turn + 1))
  [ "$turn" -lt {_START_TRIES} ] || exit 1
  sleep 0.05
done
"""
_TMUX = f'exec tmux -N -S "$HOME/{TERMINALS}/tmux.sock" "$@"'


@dataclass(frozen=True, kw_only=True)
class Process:
    """A process with a terminal, as tmux knows it.

    ``exit_code`` is None while it runs, and where nobody knows; ``run`` tells it from others that had its name.
    """

    name: str
    pid: int
    running: bool
    exit_code: int | None
    started_at: datetime
    run: str


@dataclass(frozen=True, kw_only=True)
class OutputPiece:
    """A piece of what a process wrote, and where the next piece begins.

    ``exit_code`` is set in the last piece of a process that has ended by itself; one that was killed says 137, or
    nothing where it is forgotten already.
    """

    data: bytes
    stop: int
    exit_code: int | None = None


class Tmux:
    """The terminals of one sandbox.

    Args:
        sandbox: Where they are.
        network: Whether their processes may reach what the sandbox's way out allows.
    """

    def __init__(self, sandbox: Sandbox, *, network: bool = False) -> None:
        self._sandbox = sandbox
        self._network = network

    async def launch(self, name: str, command: str, *, rows: int = ROWS, columns: int = COLUMNS) -> Process:
        """Start a command in a terminal of its own; one of this name that has ended makes room.

        Args:
            name: Lower-case letters, digits, ``-`` and ``_``; unique in the sandbox.
            command: A line for ``/bin/sh``.
            rows: The terminal's size until somebody looks at it.
            columns: The same.

        Raises:
            InvalidInput: INVALID_INPUT, the name or the command.
            Conflict: CONFLICT, a process of this name runs.
            Missing: MISSING, the sandbox has no tmux.
            SandboxNotFound: SANDBOX_NOT_FOUND.
            SandboxError: PROVIDER_ERROR.
        """
        policy.check_process_name(name)
        check_command_line(command)
        check_size(rows=rows, columns=columns)
        run = secrets.token_hex(16)
        words = (
            *("new-session", "-d", "-s", name, "-x", str(columns), "-y", str(rows), "-e", f"KODA_PROCESS={run}"),
            *("--", "/bin/sh", "-c", f'exec /bin/sh "$HOME/{TERMINALS}/run" "$0"', _unsplit(command)),
            *(";", "set-option", "-t", f"={name}:", "@run", run),
            *(";", "pipe-pane", "-t", f"={name}:"),
            f'mkdir -p "$HOME/{TERMINALS}/{run}" && exec /bin/sh "$HOME/{TERMINALS}/write" {run}',
        )
        if self._network:
            await self._keep()  # one that runs on without its way out gets another
        made = await self._ask(*words)
        if made is None:
            await self._serve()
            made = await self._ask(*words)
        for _ in range(_NAME_TRIES):  # others may want the name that an ended one has, and be faster
            if made is None or "duplicate session" not in made.stderr:
                break
            there = await self.find(name)
            if there is not None and there.running:
                raise Conflict(
                    f"a process {name!r} runs in this sandbox; kill it first, or give the new one another name"
                )
            if there is not None:
                await self._end(there)
            made = await self._ask(*words)
        if made is None or made.exit_code != 0:
            raise _failed("start a process", made)
        started = await self.find(name)
        if started is None or started.run != run:
            raise SandboxError(f"the process {name!r} was started and is not there any more; try again")
        return started

    async def processes(self) -> list[Process]:
        """List all, sorted by name, those that ended and were not killed among them."""
        found: dict[str, _Found] = {}
        for _ in range(_CODE_TRIES):
            said = await self._ask("list-panes", "-a", "-F", _STATES)
            if said is None or "no current target" in said.stderr:  # no server, or one without sessions
                return []
            if said.exit_code != 0:
                raise _failed("list processes", said)
            found.clear()
            for one in filter(None, map(_found, said.stdout.splitlines())):
                # a person may have split the terminal, or opened others: the first is the process
                found.setdefault(one.process.name, one)
            # tmux sees a terminal's end a moment before it knows how its process ended
            if all(one.process.running or one.code is not None for one in found.values()):
                break
            await asyncio.sleep(_PAUSE_S)
        return [await self._with_code(found[name]) for name in sorted(found)]

    async def find(self, name: str) -> Process | None:
        """Look for one; None when it is not there."""
        return next((process for process in await self.processes() if process.name == name), None)

    async def get(self, name: str) -> Process:
        """Look for one.

        Raises:
            NotFound: NOT_FOUND, with the names that there are.
        """
        there = await self.processes()
        for process in there:
            if process.name == name:
                return process
        names = ", ".join(process.name for process in there)
        way = f"name one that there is: {names}" if names else "start one: koda process launch"
        raise NotFound(f"there is no process {name[:80]!r} in this sandbox; {way}")

    async def kill(self, name: str) -> None:
        """End a process and all that it started, and forget it and its output; nothing happens when it is not there.

        Raises:
            SandboxError: PROVIDER_ERROR, something of it does not end.
        """
        process = await self.find(name)
        if process is not None:
            await self._end(process)

    async def is_left(self, name: str, run: str) -> bool:
        """Whether that very process is there, also where it has ended, and nobody is at its terminal."""
        said = await self._ask("display-message", "-p", "-t", f"={name}:", "#{@run} #{session_attached}")
        return said is not None and said.stdout.split() == [run, "0"]

    async def output(self, name: str, *, max_bytes: int = 65536) -> bytes:
        """Read the end of what a process wrote, MAX_OUTPUT_BYTES at most; NotFound as `get`."""
        process = await self.get(name)
        _, _, data = await self._read(process, max_bytes=min(max_bytes, MAX_OUTPUT_BYTES))
        return _END.sub(b"", data)

    async def follow(self, name: str, *, after: int = 0) -> AsyncGenerator[OutputPiece]:
        """Yield what a process wrote from a place on, then what it writes, until it has ended.

        Args:
            name: The process's.
            after: The ``stop`` of the last piece that was seen; what is not kept any more is left out.

        Raises:
            NotFound: As `get`.
        """
        process = await self.get(name)
        place, quiet = after, 0
        while True:
            first, _, _ = await self._read(process, max_bytes=0)
            place = max(place, first)
            async with aclosing(self._follow(process, place)) as pieces:
                async for piece in pieces:
                    yield piece
                    place, quiet = piece.stop, 0
                    if piece.exit_code is not None:
                        return
            now = await self.find(name)
            if now is None or now.run != process.run:
                return  # killed meanwhile
            first, stop, _ = await self._read(process, max_bytes=0)
            # one that was killed has not said that this was all; what it wrote may still be on its way to the files
            quiet = quiet + 1 if not now.running and first <= place and stop <= place else 0
            if quiet >= _QUIET:
                yield OutputPiece(data=b"", stop=place, exit_code=now.exit_code)
                return
            await asyncio.sleep(_PAUSE_S)

    async def attach(self, name: str, *, rows: int, columns: int, term: str = "") -> Terminal:
        """Open a process's terminal to a person; what is typed goes to it, and ``C-b d`` leaves it running.

        Args:
            name: The process's.
            rows: The size of the person's terminal.
            columns: The same.
            term: Its kind (TERM); a common one when the sandbox may not know it.

        Raises:
            NotFound: As `get`.
            Conflict: CONFLICT, it has ended.
        """
        process = await self.get(name)
        if not process.running:
            raise Conflict(
                f"the process {name!r} has ended with code {process.exit_code}: there is nothing to type to; read its "
                "output, or launch it again"
            )
        kind = term if _KNOWN_TERMINALS.fullmatch(term) else "xterm-256color"
        argv = ["/bin/sh", "-c", _TMUX, "koda-attach", "attach-session", "-t", f"={name}"]
        return await self._sandbox.terminal(argv, rows=rows, columns=columns, env={"TERM": kind})

    # inside

    async def _end(self, process: Process) -> None:
        """End that very process, and leave alone what may have its name by now."""
        ended = None
        if isinstance(self._sandbox, EndsMarked):
            await self._sandbox.end_marked(f"KODA_PROCESS={process.run}")
        else:
            # what tmux runs has a session's environment, and with it the mark of what is to be ended
            command = f'exec env -u KODA_PROCESS /bin/sh "$HOME/{TERMINALS}/kill" {process.run} {process.pid}'
            for _ in range(_KILL_TRIES):
                ended = await self._ask("run-shell", command)
                # until its mark is off, another one that ends the same process takes this for a part of it; and it is
                # hung up on where that one is through first, and the session goes
                if ended is None or ended.exit_code not in _CUT_OFF:
                    break
        # one command to the server, so nobody can take the name between its two halves
        is_it = f"#{{==:#{{@run}},{process.run}}}"
        target = f"={process.name}:"
        forgotten = await self._ask("if-shell", "-F", "-t", target, is_it, f"kill-session -t '={process.name}'")
        if ended is not None and ended.exit_code != 0:
            raise _failed(f"end all of process {process.name!r}", ended)
        if forgotten is not None and forgotten.exit_code != 0 and "can't find" not in forgotten.stderr:
            raise _failed(f"end process {process.name!r}", forgotten)
        await self._sandbox.run(["/bin/sh", "-c", f'rm -rf "$HOME/{TERMINALS}/$0"', process.run], timeout_s=_TIMEOUT_S)

    async def _with_code(self, found: _Found) -> Process:
        """Add how a process ended: where tmux has missed it, or saw it killed, what it wrote last comes first.

        What it runs under may be killed after it has ended by itself; one that was killed itself wrote nothing.
        """
        process, code = found.process, found.code
        if process.running:
            return process
        if found.killed or code is None:
            _, _, data = await self._read(process, max_bytes=_LAST_BYTES)
            ends = _END.findall(data)
            code = int(ends[-1]) if ends else code if code is not None else _KILLED
        return replace(process, exit_code=code)

    async def _keep(self) -> None:
        parts = (_CONFIGURATION, _RUN, _WRITE, _FOLLOW, _READ, _KILL)
        argv = ("/bin/sh", "-c", _SERVE, "koda-terminals", *parts)
        await self._sandbox.keep(SERVER, argv, network=self._network)

    async def _serve(self) -> None:
        waited: CommandResult | None = None
        for _ in range(_STARTS):  # whoever held a server that has just ended may hold its name a moment longer
            await self._keep()
            waited = await self._sandbox.run(["/bin/sh", "-c", _WAIT], timeout_s=_TIMEOUT_S)
            if waited.exit_code == 0:
                return
        raise _failed("start tmux's server", waited)

    async def _ask(self, *words: str) -> CommandResult | None:
        """Ask the server something; None where there is none."""
        argv = ["/bin/sh", "-c", _TMUX, "koda-tmux", *words]
        said = await self._sandbox.run(argv, timeout_s=_TIMEOUT_S)
        if said.exit_code in (126, 127):
            raise Missing(
                "there is no tmux in this sandbox, and every process has a tmux session: "
                f"{_WAYS[self._sandbox.provider]}"
            )
        return None if said.exit_code != 0 and _NO_SERVER.search(said.stderr) else said

    async def _read(self, process: Process, *, max_bytes: int) -> tuple[int, int, bytes]:
        """Read where the output that is kept begins and ends, and its last bytes."""
        argv = ["/bin/sh", "-c", _script("read"), "koda-read", process.run, str(max(0, max_bytes))]
        said = await self._sandbox.run(argv, timeout_s=_TIMEOUT_S)
        line, _, text = said.stdout.partition("\n")
        places = line.split()
        if said.exit_code != 0 or len(places) != 2 or not all(map(_PLACE.fullmatch, places)):
            return 0, 0, b""  # nothing was written yet
        return int(places[0]), int(places[1]), text.encode()

    async def _follow(self, process: Process, place: int) -> AsyncGenerator[OutputPiece]:
        argv = ["/bin/sh", "-c", _script("follow"), "koda-follow", process.run, str(place)]
        terminal = await self._sandbox.terminal(argv)
        held = b""
        try:
            while True:
                try:
                    async with asyncio.timeout(_LOOK_S):
                        data = await terminal.read()
                except TimeoutError:
                    now = await self.find(process.name)
                    if now is None or now.run != process.run or not now.running:
                        break
                    continue
                if not data:
                    break
                held += data
                end = _END.search(held)
                if end is not None:
                    await self._until_over(process)
                    yield OutputPiece(data=held[: end.start()], stop=place + end.end(), exit_code=int(end[1]))
                    return
                kept = _beginning(held)
                ready, held = held[: len(held) - kept], held[len(held) - kept :]
                if ready:
                    place += len(ready)
                    yield OutputPiece(data=ready, stop=place)
            if held:
                yield OutputPiece(data=held, stop=place + len(held))
        finally:
            await terminal.close()

    async def _until_over(self, process: Process) -> None:
        """Wait a moment for tmux to see that a process has ended that has said so itself."""
        for _ in range(_OVER_TRIES):
            now = await self.find(process.name)
            if now is None or now.run != process.run or not now.running:
                return
            await asyncio.sleep(_PAUSE_S)


_WAYS = {
    "local": "install the package tmux on this machine (apt-get install tmux)",
    "docker": "build the image again (koda image build), or add tmux to the one that you made",
    "e2b": "add tmux to the template (apt-get install tmux) and build it again",
    "modal": "build the image again (koda image build --provider modal)",
}


def _script(name: str) -> str:
    return f'exec /bin/sh "$HOME/{TERMINALS}/{name}" "$@"'


def check_command_line(command: str) -> None:
    """Check a line for a shell.

    Raises:
        InvalidInput: INVALID_INPUT, it is empty, too long, or holds a NUL character.
    """
    if not command.strip():
        raise InvalidInput("there is no command to run; give a line for a shell, such as 'npm start'")
    if "\0" in command:
        raise InvalidInput("a command cannot hold a NUL character; remove it")
    if len(command.encode("utf-8", "replace")) > MAX_COMMAND_CHARS:
        raise InvalidInput(
            f"the command has {len(command)} characters, more than {MAX_COMMAND_CHARS}; put it into a file of the "
            "sandbox and run that"
        )


def _unsplit(word: str) -> str:
    """Write a word so that tmux does not take a semicolon at its end for its own."""
    return f"{word[:-1]}\\;" if word.endswith(";") else word


def _beginning(data: bytes) -> int:
    """How many of the last bytes may be the beginning of the end."""
    at = data.rfind(b"\x1b", len(data) - _END_BYTES if len(data) > _END_BYTES else 0)
    if at < 0:
        return 0
    rest = data[at:]
    if rest == b"\x1b" and (before := data.rfind(b"\x1b", 0, at)) >= 0 and len(data) - before < _END_BYTES:
        rest = data[before:] if data[before:].startswith(_END_START) else rest
    return len(rest) if _END_START.startswith(rest) or rest.startswith(_END_START) else 0


@dataclass(frozen=True)
class _Found:
    """A process as tmux has it: with the code by which it ended, None where that is not known, and if by a signal."""

    process: Process
    code: int | None
    killed: bool


def _found(line: str) -> _Found | None:
    state = _STATE.fullmatch(line)
    if state is None:
        return None
    name, pid, dead, code, number, created, run = state.groups()
    process = Process(
        name=name,
        pid=int(pid),
        running=dead != "1",
        exit_code=None,
        started_at=datetime.fromtimestamp(int(created or 0), UTC),
        run=run,
    )
    killed = not code and bool(number)
    return _Found(process, int(code) if code else 128 + int(number) if killed else None, killed)


def _failed(doing: str, said: CommandResult | None) -> SandboxError:
    if said is None:
        return SandboxError(
            f"the sandbox could not {doing}: its tmux server has ended; try again, which starts another"
        )
    words = (said.stderr or said.stdout).strip()[-300:] or "it did not say why"
    return SandboxError(
        f"the sandbox could not {doing} (code {said.exit_code}): {words}; if it may be full of processes, memory or "
        "files, kill what is not needed, else try again or terminate the sandbox and make another"
    )
