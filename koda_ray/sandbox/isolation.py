"""The walls: what a bubblewrap command line has to say so that a process sees the project and nothing else.

Every command gets namespaces of its own (pid, mount, network, ipc, uts, cgroup), so its end is the end of everything it
started, and no command can wait in ambush for the next. The machine's user decides how it loses its rights:

- root: bubblewrap sets up as root, then ``setpriv`` drops to a user id that only this sandbox has. No user namespace is
  needed, so it works where ordinary users may not make one (Ubuntu's AppArmor), and the process limit binds.
- anyone else: a user namespace in which the process is user 1000 without any capability.

What is writable is of fixed size: the project, ``/home/user``, ``/tmp``, ``/dev/shm``. Root and ``/dev`` are sealed.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from koda_ray import seccomp
from koda_ray.errors import InvalidInput, Missing, SandboxError
from koda_ray.sandbox.baits import BAITED, bait
from koda_ray.sandbox.invocation import Invocation
from koda_ray.sandbox.limits import ResourceLimits
from koda_ray.sandbox.node import NodeRuntime
from koda_ray.sandbox.policy import PROJECT_ROOT
from koda_ray.sandbox.proxied import EGRESS_PORT, proxy_environment
from koda_ray.sandbox.triggers import covering
from koda_ray.sandbox.unreached import FILES
from koda_ray.seccomp_file import filter_fd

__all__ = [
    "GUEST",
    "SCRATCH",
    "TERMINALS",
    "CallFilter",
    "Jail",
    "base_environment",
    "can_be_baited",
    "can_be_heard",
    "check_isolation",
    "checked_environment",
    "launcher",
    "system_binds",
]

GUEST = Path(__file__).parent / "guest"
TERMINALS = ".terminals"
"""Below the home directory: what terminals that outlive a command share, the one place but the project that stays."""

_HOME = "/home/user"
_SHM = "/dev/shm"
_INSIDE_USER = 1000
SCRATCH = ("/tmp", _HOME, _SHM)
"""The file systems in memory that each command has to itself."""

_EGRESS_SOCKET = "/opt/egress.sock"
_SHM_BYTES = 64 * 1024 * 1024
_NICER = 5
"""How much nicer than its session what runs in a sandbox is: a build leaves two thirds of a processor's time to whoever
answers people. A step is a factor of 1.25: sched(7)."""
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_TOP_LEVEL = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = ("alternatives", "fonts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d")
_LAUNCH = (
    'echo "$1" 2>/dev/null >/proc/$$/oom_score_adj; shift; '
    'while [ "$1" != -- ]; do echo $$ >"$1" || exit 125; shift; done; shift; exec "$@"'
)
_JOINING = 'exec {namespace}<"$1" || exit 125; shift; exec "$@"'
_ENDED_FIRST, _ENDED_LAST = "700", "0"
_PERL = "/usr/bin/perl"
# stays as the namespace's first process, reaps what is orphaned in it, and ends as the command does. What it would say
# of a command that a signal ended is nobody's output
_FIRST = 'exec {spare}>&2 2>/dev/null; (exec "$@" 2>&{spare} {spare}>&-); exit $?'
# the same, and writes into what was its input how many processes are left that are in another session than the command.
# What is in its own, such as a build's helper that is about to end, is no daemon; nor is what is dead already
_TELLING = r"""
exec {spare}>&2 {told}>&0 0</dev/null 2>/dev/null
(exec "$@" 2>&{spare} {spare}>&- {told}>&-); code=$?; daemons=0
for at in /proc/[0-9]*; do
  [ "$at" != /proc/1 ] || continue
  read -r said <"$at/stat" || continue
  set -- ${{said##*') '}}
  case "$1:$4" in [ZX]:* | ?:1 | :*) ;; *) daemons=$((daemons + 1)) ;; esac
done
echo "$daemons" >&{told}; exit "$code"
"""
# takes the filter, sends its listener out with what counts in the network, and becomes the command; the structs are
# sock_fprog, cmsghdr, iovec and msghdr
_HEARD = r"""
sub give_up { print STDERR "the filter of system calls could not be taken: $!\n"; exit 125 }
my ($seccomp, $sendmsg, $close, $filter, $door) = map {$_ + 0} splice @ARGV, 0, 5;
open(my $file, "<&=", $filter) or give_up;
sysread($file, my $program, 65536) or give_up;
my $listener = syscall($seccomp, 1, 8, pack("Sx6P", length($program) / 8, $program));
$listener >= 0 or give_up;
my @counts = map { open(my $count, "<", $_); defined fileno $count ? $count : () } splice @ARGV, 0, 2;
my @sent = ($listener, map { fileno $_ } @counts);
my ($byte, $rights) = ("l", pack("QiiI*", 16 + 4 * @sent, 1, 1, @sent) . "\0" x (4 * @sent % 8));
my $piece = pack("PQ", $byte, 1);
my $message = pack("Qx8PQPQx8", 0, $piece, 1, $rights, length $rights);
syscall($sendmsg, $door, $message, 0) == 1 or give_up;
syscall($close, $_) for ($listener, $door, $filter);
exec {$ARGV[0]} @ARGV or give_up;
"""


@dataclass(frozen=True, kw_only=True)
class CallFilter:
    """The filter of system calls that a command takes.

    Args:
        fd: The descriptor that it is read from.
        door_fd: Where the listener of one that asks is sent to; None for one that does not.
    """

    fd: int
    door_fd: int | None = None

    @property
    def fds(self) -> tuple[int, ...]:
        """The descriptors that the command line needs for it."""
        return (self.fd,) if self.door_fd is None else (self.fd, self.door_fd)


@dataclass(frozen=True, kw_only=True)
class Jail:
    """One sandbox's walls.

    Args:
        project: The project on this machine.
        etc: A directory with ``passwd``, ``group`` and ``hosts`` for the inside.
        terminals: What the inside sees as ``TERMINALS`` in its home.
        decoys: What it sees in place of this program's own, by where.
        baits: What it sees as ``BAITED`` there; one of its files is what the first process had for an environment.
        trigger: The file that it sees in place of those of ``triggers``.
        node_modules: Installed packages, shown read-only in the project; None where the project has its own.
        node: The node to run.
        limits: Sizes of what is writable, and the process limit.
        user: The user id to drop to when this process is root; None for a user namespace.
    """

    project: Path
    terminals: Path
    decoys: Mapping[str, Path]
    baits: Path
    trigger: Path
    etc: Path
    node_modules: Path | None
    node: NodeRuntime
    limits: ResourceLimits
    user: int | None

    @property
    def inside_user(self) -> int:
        """The user id that processes see themselves as."""
        return _INSIDE_USER if self.user is None else self.user

    def command(
        self,
        called: Invocation,
        *,
        info_fd: int,
        calls: CallFilter | None = None,
        egress: str | None = None,
        telling: bool = False,
        users: str | None = None,
    ) -> list[str]:
        """Build the whole ``bwrap`` command line around a command.

        Args:
            called: The command.
            info_fd: Where bubblewrap writes the process id of the namespace's first process.
            calls: The system call filter, or None.
            egress: The egress proxy's socket, for a command that may use the way out.
            telling: Whether its input is where the number of daemons is written that it leaves; its own is empty then.
            users: The user namespace that it is to be in; one of its own when None. Only without a user to drop to.
        """
        argv, env = called.argv, called.env
        size = str(self.limits.scratch_bytes)
        # the shells in between take descriptors of one digit
        taken = (info_fd, *called.pass_fds, *(() if calls is None else calls.fds))
        spare, told, namespace, *_ = (fd for fd in range(3, 10) if fd not in taken)
        line = [] if users is None else ["/bin/sh", "-c", _JOINING.format(namespace=namespace), "koda-join", users]
        line += ["bwrap", "--as-pid-1", "--die-with-parent", "--new-session", "--info-fd", str(info_fd)]
        line += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
        line += ["--hostname", "koda", "--cap-drop", "ALL"]
        if self.user is None:
            line += ["--unshare-user"] if users is None else ["--userns", str(namespace)]
            line += ["--uid", str(_INSIDE_USER), "--gid", str(_INSIDE_USER)]
        else:
            line += [word for cap in ("SETUID", "SETGID", "SETPCAP") for word in ("--cap-add", f"CAP_{cap}")]
        # parents that bubblewrap makes by itself are closed to everyone but root
        line += [word for path in ("/etc", "/opt", "/home") for word in ("--perms", "0755", "--dir", path)]
        line += system_binds()
        line += ["--proc", "/proc", "--dev", "/dev"]
        if can_be_baited():
            line += covering(bait=bait(self.baits), trigger=self.trigger)
        line += ["--perms", "1777", "--size", str(_SHM_BYTES), "--tmpfs", _SHM]
        line += ["--perms", "1777", "--size", size, "--tmpfs", "/tmp"]
        line += ["--perms", "0777", "--size", size, "--tmpfs", _HOME]
        line += ["--bind", str(self.project), PROJECT_ROOT]
        line += ["--bind-try", str(self.terminals), f"{_HOME}/{TERMINALS}"]
        line += ["--bind-try", str(self.baits), f"{_HOME}/{BAITED}"]  # read-only, nobody would keep when one is read
        line += _standing(self.decoys)
        if self.node_modules is not None:
            line += ["--ro-bind", str(self.node_modules), f"{PROJECT_ROOT}/node_modules"]
        for name in ("passwd", "group", "hosts"):
            line += ["--ro-bind", str(self.etc / name), f"/etc/{name}"]
        line += ["--ro-bind", str(GUEST), "/opt/koda"]
        line += self.node.arguments()
        if egress is not None:
            line += ["--ro-bind", egress, _EGRESS_SOCKET]
            argv = [self.node.inside_path, "/opt/koda/egress.mjs", _EGRESS_SOCKET, str(EGRESS_PORT), *argv]
            env = {**proxy_environment(), **env}
        line += ["--remount-ro", "/dev", "--remount-ro", "/", "--clearenv"]
        for name, value in self.environment(env).items():
            line += ["--setenv", name, value]
        line += ["--chdir", PROJECT_ROOT if called.cwd == "." else f"{PROJECT_ROOT}/{called.cwd}"]
        if calls is not None and calls.door_fd is None:
            line += ["--seccomp", str(calls.fd)]
        # bubblewrap waits for the first process that it is given, and reaps it. It does not wait for one of its own, so
        # each command would leave a zombie, a process of this sandbox until whoever adopts it looks
        first = (_TELLING if telling else _FIRST).format(spare=spare, told=told)
        if users is not None:
            first = f"exec {namespace}<&-; {first}"
        line += ["--", "/bin/sh", "-c", first, "koda-first"]
        if self.user is not None:
            user = str(self.user)
            line += ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--inh-caps", "-all"]
            line += ["--bounding-set", "-all", "--no-new-privs", "--"]
        if calls is not None and calls.door_fd is not None:
            line += _taking(calls.fd, calls.door_fd)
        # inside the user namespace, or as a user id of its own, the count is the sandbox's alone
        return [*line, "prlimit", f"--nproc={self.limits.pids}", "--", *argv]

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of a process inside; nothing of this process's own is in it."""
        return {**base_environment(self.node, self.limits), **checked_environment(extra)}


def _standing(decoys: Mapping[str, Path]) -> list[str]:
    """Have bubblewrap show files and folders of ours, each in folders that all may pass through."""
    line: list[str] = []
    for place, ours in decoys.items():
        for folder in reversed(Path(place).parents[:-1]):
            line += ["--perms", "0755", "--dir", str(folder)]
        line += ["--bind-try", str(ours), place]  # read-only, nobody would keep when one is read
    return line


def _taking(filter_fd: int, door_fd: int) -> list[str]:
    """Begin a command line that takes a filter that asks."""
    calls = seccomp.installing()
    return [_PERL, "-e", _HEARD, *map(str, (calls.seccomp, calls.sendmsg, calls.close, filter_fd, door_fd)), *FILES]


@lru_cache(maxsize=1)
def can_be_heard() -> bool:
    """Try once, for real, whether a command can take a filter that asks; blocks.

    It takes Linux 5.0, no listener around this program already, and Perl: bubblewrap and setpriv load no such filter.
    """
    fd = filter_fd(heard=True)
    if fd is None:
        return False
    ours, theirs = socket.socketpair()
    try:
        line = ["setpriv", "--no-new-privs", "--", *_taking(fd, theirs.fileno()), "true"]
        done = subprocess.run(line, pass_fds=(fd, theirs.fileno()), capture_output=True, check=False, timeout=20)
        return done.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
    finally:
        os.close(fd)
        ours.close()
        theirs.close()


@lru_cache(maxsize=1)
def can_be_baited() -> bool:
    """Try once, for real, whether files of ours can stand in ``/proc``, which a kernel may forbid; blocks."""
    here = Path(__file__)
    line = ["bwrap", "--as-pid-1", "--unshare-pid", *system_binds(), "--proc", "/proc", "--dev", "/dev"]
    try:
        done = subprocess.run(
            [*line, *covering(bait=here, trigger=here), "--", "true"], capture_output=True, check=False, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def base_environment(node: NodeRuntime, limits: ResourceLimits) -> dict[str, str]:
    """The environment that every sandboxed process starts with."""
    path = [
        f"{PROJECT_ROOT}/node_modules/.bin",
        str(Path(node.inside_path).parent),
        "/usr/local/bin",
        "/usr/bin",
        "/bin",
    ]
    return {
        "PATH": ":".join(dict.fromkeys(["/opt/koda/bin", *path])),
        "HOME": _HOME,
        "TMPDIR": "/tmp",
        "USER": "user",
        "LOGNAME": "user",
        "SHELL": "/bin/sh",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "CI": "1",
        "npm_config_update_notifier": "false",
        "VITE_CONFIG_NATIVE_IGNORE_WARNING": "true",
        # node asks the machine how much memory there is, not the sandbox: told, it collects instead of being killed
        "NODE_OPTIONS": f"--max-old-space-size={limits.memory_bytes * 3 // 4 // (1024 * 1024)}",
    }


def checked_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Check the names and values of environment variables that a caller adds.

    Raises:
        InvalidInput: INVALID_INPUT with the name.
    """
    for name, value in extra.items():
        if not _ENV_NAME.fullmatch(name) or "\0" in value:
            raise InvalidInput(
                f"{name[:80]!r} cannot be set in a sandbox; use letters, digits and '_', no NUL in the value"
            )
    return dict(extra)


@lru_cache(maxsize=1)
def system_binds() -> tuple[str, ...]:
    """Show the system's programs and libraries, read-only, and what the loader needs of ``/etc``."""
    line = ["--ro-bind", "/usr", "/usr"]
    for name in _TOP_LEVEL:
        path = Path("/") / name
        if path.is_symlink():
            line += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            line += ["--ro-bind", str(path), str(path)]
    for name in _ETC:
        if (Path("/etc") / name).exists():
            line += ["--ro-bind", f"/etc/{name}", f"/etc/{name}"]
    return tuple(line)


def launcher(
    command: Sequence[str],
    *,
    groups: Sequence[Path],
    limits: ResourceLimits,
    hard_disk: bool,
    ended_last: bool = False,
    processors: Sequence[int] = (),
) -> list[str]:
    """Wrap a command line so that it first joins its control groups and takes its resource limits.

    A shell does it before anything is forked, and is replaced by the command; its text is constant.

    Args:
        command: The command line.
        groups: The files by which the control groups are entered.
        limits: The resource limits.
        hard_disk: Whether the disk has a size of its own.
        processors: Those that it may use; any when empty.
        ended_last: Whether the kernel, where memory is short, ends what else is in those groups before it.
    """
    rlimits = ["nice", "-n", str(_NICER), "prlimit", "--core=0", f"--nofile={limits.open_files}"]
    if not hard_disk:
        rlimits.append(f"--fsize={limits.disk_bytes}")
    if processors:
        rlimits = ["taskset", "--cpu-list", ",".join(map(str, processors)), *rlimits]
    words = [_ENDED_LAST if ended_last else _ENDED_FIRST, *map(str, groups), "--", *rlimits, "--", *command]
    return ["/bin/sh", "-c", _LAUNCH, "koda-launch", *words]


@lru_cache(maxsize=1)
def check_isolation() -> None:
    """Check once, for real, that a process can be isolated here.

    Raises:
        Missing: MISSING, with the package or the setting that is in the way.
        SandboxError: PROVIDER_ERROR, the machine is too busy to say.
    """
    for program, package in (("bwrap", "bubblewrap"), ("prlimit", "util-linux"), ("setpriv", "util-linux")):
        if shutil.which(program) is None:
            raise Missing(
                f"{program} is not installed, so generated code cannot be isolated: install the package `{package}` "
                f"(apt-get install {package}), or set SANDBOX_LOCAL_UNSAFE=1 to run it without any isolation"
            )
    line = ["bwrap", "--as-pid-1", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", *system_binds()]
    line += ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--size", "65536", "--tmpfs", "/tmp"]
    try:
        done = subprocess.run([*line, "--", "true"], capture_output=True, text=True, check=False, timeout=20)
    except subprocess.TimeoutExpired:
        raise SandboxError("bubblewrap isolated nothing within 20 s; the machine may be busy: try again") from None
    if done.returncode != 0:
        raise Missing(
            f"bubblewrap cannot isolate processes here ({done.stderr.strip()[-200:] or 'no message'}). For an "
            "ordinary user: sysctl kernel.unprivileged_userns_clone=1 (Debian), or an AppArmor profile that allows "
            "`userns` to /usr/bin/bwrap (Ubuntu 24.04 and newer). In a container: give it CAP_SYS_ADMIN or allow user "
            "namespaces. SANDBOX_LOCAL_UNSAFE=1 runs generated code without any isolation"
        )
