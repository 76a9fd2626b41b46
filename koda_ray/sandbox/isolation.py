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
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from koda_ray.errors import InvalidInput, Missing
from koda_ray.sandbox.limits import Limits
from koda_ray.sandbox.node import NodeRuntime
from koda_ray.sandbox.policy import PROJECT_ROOT

__all__ = ["GUEST", "Jail", "base_environment", "check_isolation", "checked_environment", "launcher", "system_binds"]

GUEST = Path(__file__).parent / "guest"
_HOME = "/home/user"
_INSIDE_USER = 1000
_SHM_BYTES = 64 * 1024 * 1024
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_TOP_LEVEL = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d")
_LAUNCH = (
    "echo 700 2>/dev/null >/proc/$$/oom_score_adj; "
    'while [ "$1" != -- ]; do echo $$ >"$1" || exit 125; shift; done; shift; exec "$@"'
)


@dataclass(frozen=True, kw_only=True)
class Jail:
    """One sandbox's walls.

    Args:
        project: The project on this machine.
        etc: A directory with ``passwd``, ``group`` and ``hosts`` for the inside.
        node_modules: Installed packages, shown read-only in the project.
        node: The node to run.
        limits: Sizes of what is writable, and the process limit.
        user: The user id to drop to when this process is root; None for a user namespace.
    """

    project: Path
    etc: Path
    node_modules: Path
    node: NodeRuntime
    limits: Limits
    user: int | None

    @property
    def inside_user(self) -> int:
        """The user id that processes see themselves as."""
        return _INSIDE_USER if self.user is None else self.user

    def command(
        self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], info_fd: int, seccomp_fd: int | None
    ) -> list[str]:
        """Build the whole ``bwrap`` command line around a command.

        Args:
            argv: The command as it is seen inside.
            cwd: A checked path relative to the project.
            env: Added to the small environment that every process starts with.
            info_fd: Where bubblewrap writes the process id of the namespace's first process.
            seccomp_fd: The system call filter, or None.
        """
        size = str(self.limits.scratch_bytes)
        line = ["bwrap", "--die-with-parent", "--new-session", "--info-fd", str(info_fd)]
        line += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
        line += ["--hostname", "koda", "--cap-drop", "ALL"]
        if self.user is None:
            line += ["--unshare-user", "--uid", str(_INSIDE_USER), "--gid", str(_INSIDE_USER)]
        else:
            line += [word for cap in ("SETUID", "SETGID", "SETPCAP") for word in ("--cap-add", f"CAP_{cap}")]
        # parents that bubblewrap makes by itself are closed to everyone but root
        line += [word for path in ("/etc", "/opt", "/home") for word in ("--perms", "0755", "--dir", path)]
        line += system_binds()
        line += ["--proc", "/proc", "--dev", "/dev"]
        line += ["--perms", "1777", "--size", str(_SHM_BYTES), "--tmpfs", "/dev/shm"]
        line += ["--perms", "1777", "--size", size, "--tmpfs", "/tmp"]
        line += ["--perms", "0777", "--size", size, "--tmpfs", _HOME]
        line += ["--bind", str(self.project), PROJECT_ROOT]
        line += ["--ro-bind", str(self.node_modules), f"{PROJECT_ROOT}/node_modules"]
        for name in ("passwd", "group", "hosts"):
            line += ["--ro-bind", str(self.etc / name), f"/etc/{name}"]
        line += ["--ro-bind", str(GUEST), "/opt/koda"]
        if self.node.prefix is not None:
            line += ["--ro-bind", str(self.node.prefix), "/opt/node"]
        line += ["--remount-ro", "/dev", "--remount-ro", "/", "--clearenv"]
        for name, value in self.environment(env).items():
            line += ["--setenv", name, value]
        line += ["--chdir", PROJECT_ROOT if cwd == "." else f"{PROJECT_ROOT}/{cwd}"]
        if seccomp_fd is not None:
            line += ["--seccomp", str(seccomp_fd)]
        line.append("--")
        if self.user is not None:
            user = str(self.user)
            line += ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--inh-caps", "-all"]
            line += ["--bounding-set", "-all", "--no-new-privs", "--"]
        # inside the user namespace, or as a user id of its own, the count is the sandbox's alone
        return [*line, "prlimit", f"--nproc={self.limits.pids}", "--", *argv]

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of a process inside; nothing of this process's own is in it."""
        return {**base_environment(self.node, self.limits), **checked_environment(extra)}


def base_environment(node: NodeRuntime, limits: Limits) -> dict[str, str]:
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


def launcher(command: Sequence[str], *, groups: Sequence[Path], limits: Limits, hard_disk: bool) -> list[str]:
    """Wrap a command line so that it first joins its control groups and takes its resource limits.

    A shell does it before anything is forked, and is replaced by the command; its text is constant.
    """
    rlimits = ["prlimit", "--core=0", f"--nofile={limits.open_files}"]
    if not hard_disk:
        rlimits.append(f"--fsize={limits.disk_bytes}")
    return ["/bin/sh", "-c", _LAUNCH, "koda-launch", *(str(file) for file in groups), "--", *rlimits, "--", *command]


@lru_cache(maxsize=1)
def check_isolation() -> None:
    """Check once, for real, that a process can be isolated here.

    Raises:
        Missing: MISSING, with the package or the setting that is in the way.
    """
    for program, package in (("bwrap", "bubblewrap"), ("prlimit", "util-linux"), ("setpriv", "util-linux")):
        if shutil.which(program) is None:
            raise Missing(
                f"{program} is not installed, so generated code cannot be isolated: install the package `{package}` "
                f"(apt-get install {package}), or set SANDBOX_LOCAL_UNSAFE=1 to run it without any isolation"
            )
    line = ["bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", *system_binds()]
    line += ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--size", "65536", "--tmpfs", "/tmp"]
    done = subprocess.run([*line, "--", "true"], capture_output=True, text=True, check=False, timeout=20)
    if done.returncode != 0:
        raise Missing(
            f"bubblewrap cannot isolate processes here ({done.stderr.strip()[-200:] or 'no message'}). For an "
            "ordinary user: sysctl kernel.unprivileged_userns_clone=1 (Debian), or an AppArmor profile that allows "
            "`userns` to /usr/bin/bwrap (Ubuntu 24.04 and newer). In a container: give it CAP_SYS_ADMIN or allow user "
            "namespaces. SANDBOX_LOCAL_UNSAFE=1 runs generated code without any isolation"
        )
