"""The command lines that are run inside a sandbox at Modal.

Modal gives root in a container of gVisor's, without the right to make name spaces as root. So a command of the
project's is its user first, without any way back, and then makes a user name space, in which it may: a process name
space whose end is the end of all that it started, and, unless it has asked for the network, one of the network with
nothing in it but a loopback. That is there at once under gVisor, which knows no rights that outlive becoming another
program; under Linux (Modal's virtual machines) it is brought up by the right to, which is let go of then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from koda_ray.sandbox.e2b_machine import ENVIRONMENT, NO_HELPER, as_user
from koda_ray.sandbox.policy import PROJECT_ROOT

__all__ = ["NO_HELPER", "asking", "confined", "pid_of", "receiving", "terminal", "traceable"]

_RUNS = "/opt/koda/runs"
# the name space's first process is a shell, so that the command is an ordinary one to which signals do what they do
_FIRST = '"$@" 2>&3 3>&-; exit $?'
# what unshare has to say of a command that was killed is no output of the command's
_APART = 'exec "$@" 3>&2 2>/dev/null'
_ALONE = """
set -- --pid --fork --net -- "$@"
if unshare --user --map-current-user --keep-caps -- true 2>/dev/null; then
  exec unshare --user --map-current-user --keep-caps "$@"
fi
exec unshare --user --map-current-user "$@"
"""
_LOOPBACK = """
if ip link set lo up 2>/dev/null; then exec setpriv --ambient-caps=-all --inh-caps=-all -- "$@"; fi
exec "$@"
"""
_TRACEABLE = f'mkdir -p -m 700 {_RUNS} && echo $$ >{_RUNS}/"$1" || exit 70; shift; exec "$@"'
_THERE = f'[ -f "$1" ] || exit {NO_HELPER}; shift; exec "$@"'
_RECEIVING = 'umask 022 && mkdir -p "${1%/*}" && cat >"$1.new" && mv -f "$1.new" "$1"'


def confined(argv: Sequence[str], *, cwd: str, env: Mapping[str, str], pids: int, network: bool) -> list[str]:
    """Put the walls around a command of the project.

    Args:
        argv: The command.
        cwd: A checked path relative to the project.
        env: Checked variables, added to the small environment that every command starts with.
        pids: How many processes the project's user may have.
        network: Whether it has the sandbox's network, with its ports; else it has none.
    """
    where = PROJECT_ROOT if cwd == "." else f"{PROJECT_ROOT}/{cwd}"
    assignments = [f"{name}={value}" for name, value in {**ENVIRONMENT, **env}.items()]
    apart = ["unshare", "--user", "--map-current-user", "--pid", "--fork", "--"]
    if not network:
        apart = ["/bin/sh", "-c", _ALONE, "koda-alone", "/bin/sh", "-c", _LOOPBACK, "koda-loopback"]
    first = ["/bin/sh", "-c", _FIRST, "koda-first"]
    command = ["env", "-i", "-C", where, *assignments, *argv]
    limits = ["prlimit", f"--nproc={pids}", "--core=0", "--"]
    return ["/bin/sh", "-c", _APART, "koda-apart", *as_user([*apart, *limits, *first, *command])]


def traceable(argv: Sequence[str], *, key: str) -> list[str]:
    """Have a command leave its process id where ``pid_of`` finds it: Modal does not tell it."""
    return ["/bin/sh", "-c", _TRACEABLE, "koda-run", key, *argv]


def pid_of(key: str) -> list[str]:
    """Write the command that prints, and forgets, the process id of a command."""
    return ["/bin/sh", "-c", 'cat "$1" && rm -f "$1"', "koda-pid", f"{_RUNS}/{key}"]


def asking(part: str, *, helper: str) -> list[str]:
    """Write the command that asks the helper; the question is its input, the answer its output.

    It exits with NO_HELPER where that is not there: another version of this program made the sandbox.
    """
    line = ["python3", "-I", "-S", helper, part, "-"]
    there = ["/bin/sh", "-c", _THERE, "koda-ask", helper]
    return [*there, *(as_user(line) if part == "files" else line)]


def terminal(question: str, *, helper: str) -> list[str]:
    """Write the command that serves a terminal over its input and output, given a packed question in base64."""
    return ["python3", "-I", "-S", helper, "terminal", question]


def receiving(path: str) -> list[str]:
    """Write the command that puts its input into a file, whole or not at all."""
    return ["/bin/sh", "-c", _RECEIVING, "koda-receive", path]
