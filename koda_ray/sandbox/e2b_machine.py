"""The command lines that are run inside an E2B sandbox: how rights are dropped, and how nothing outlives its command.

E2B gives root in a virtual machine of one's own. That is the wall to the outside; inside there are two more parties,
the project's hostile code and what serves us. So every command starts as root and is the project's user before
anything of the project runs: no capabilities, no way to gain them (``sudo`` included), a limit on processes, and a
process namespace of its own, whose end is the end of all that the command started.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from koda_ray.sandbox.policy import PROJECT_ROOT

__all__ = ["ENVIRONMENT", "FOLDER", "INLINE_BYTES", "NO_HELPER", "as_user", "call", "command", "confined"]

FOLDER = "/opt/koda"
"""Root's folder for what serves us: the helper, questions, answers, keepers of background processes."""

INLINE_BYTES = 64 * 1024
"""The largest question that is part of a command line; larger ones are uploaded (Linux takes 128 KiB an argument)."""

NO_HELPER = 69
"""The exit code that says: the helper is not there."""

_PRINTED_BYTES = 16 * 1024  # a larger answer is downloaded: that cannot lose its end
_USER = "user"
_DROP = (
    *("setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"),
    *("--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "--"),
)
ENVIRONMENT = {
    "PATH": f"{PROJECT_ROOT}/node_modules/.bin:/usr/local/bin:/usr/bin:/bin",
    "HOME": "/home/user",
    "TMPDIR": "/tmp",
    "USER": _USER,
    "LOGNAME": _USER,
    "SHELL": "/bin/sh",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "CI": "1",
    "npm_config_update_notifier": "false",
    "VITE_CONFIG_NATIVE_IGNORE_WARNING": "true",
}
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# the namespace's first process is a shell, so that the command is an ordinary one to which signals do what they do
# E2B closes a command's output as soon as it has ended, also what it has not read yet: a moment is left for that
_FIRST = 'ip link set lo up 2>/dev/null; "$@" 2>&3 3>&-; code=$?; sleep 0.02; exit $code'
# what unshare has to say of a command that was killed is no output of the command's
_APART = 'exec "$@" 3>&2 2>/dev/null'
_CALL = f"""
[ -f "$2" ] || exit {NO_HELPER}
in={FOLDER}/in/$1 out={FOLDER}/out/$1
shift 2
mkdir -p {FOLDER}/out && chmod 755 {FOLDER} && chmod 700 {FOLDER}/out && : >"$out" || exit 70
[ ! -e "$in" ] || chmod 644 "$in"
"$@" >"$out"
code=$?
rm -f "$in"
if [ $code -ne 0 ]; then rm -f "$out"; exit $code; fi
size=$(stat -c %s "$out")
if [ "$size" -gt {_PRINTED_BYTES} ]; then echo "$size."; else echo inline; base64 -w 0 "$out"; echo .; rm -f "$out"; fi
sleep 0.02
"""


def confined(argv: Sequence[str], *, cwd: str, env: Mapping[str, str], pids: int, network: bool) -> list[str]:
    """Put the walls around a command of the project.

    Args:
        argv: The command.
        cwd: A checked path relative to the project.
        env: Checked variables, added to the small environment that every command starts with.
        pids: How many processes the project's user may have.
        network: Whether it has the sandbox's network, with its ports; else it has a loopback of its own.
    """
    where = PROJECT_ROOT if cwd == "." else f"{PROJECT_ROOT}/{cwd}"
    assignments = [f"{name}={value}" for name, value in {**ENVIRONMENT, **env}.items()]
    walls = [
        "/bin/sh",
        "-c",
        _APART,
        "koda-apart",
        "unshare",
        *(() if network else ("--net",)),
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--",
        "/bin/sh",
        "-c",
        _FIRST,
        "koda-first",
    ]
    limits = ["prlimit", f"--nproc={pids}", "--core=0", "--"]
    return [*walls, *limits, *_DROP, "env", "-i", "-C", where, *assignments, *argv]


def as_user(argv: Sequence[str]) -> list[str]:
    """Drop root's rights before one of our own commands."""
    return [*_DROP, *argv]


def command(argv: Sequence[str]) -> str:
    """Write a command line for the shell through which E2B runs everything; that shell is replaced by it."""
    return f"export PATH={_SYSTEM_PATH}; exec {shlex.join(argv)}"


def call(argv: Sequence[str], *, key: str, helper: str) -> str:
    """Write the command line that runs the helper and brings its answer out.

    It prints ``inline`` and the answer in base64, or how many bytes lie in ``out/KEY``, and a full stop at the end, so
    that it can be seen whether all of it arrived; it exits with NO_HELPER, or as
    the helper does when that fails.

    Args:
        argv: The helper's own command line.
        key: Names this call's question (``in/KEY``, removed afterwards) and answer.
        helper: The archive's path.
    """
    return command(["/bin/sh", "-c", _CALL, "koda-call", key, helper, *argv])
