"""Machines as somebody has them for Ray's launcher: on each an sshd, a Docker engine, and a user who may use it.

Each is a network name space with files of its own: ``/run``, ``/tmp``, the user's home, and who and what is called how.
Who starts the cluster is on none of them: its home and its names are its own, too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.cluster.machines import HERE, ON_A_DISK, join_bridge
from tests.cluster.node_image import USER_ID

__all__ = ["NAMES", "Launcher", "SshMachine"]

NAMES = ("head.example.internal", "worker1.example.internal", "worker2.example.internal")
"""As `own-machines.yaml` calls them; the first is the head's."""
_ROOT = Path("/run/own")
_USER, _HOME = "koda", "/run/koda"
_START_S = 120.0
_SSHD = """
HostKey /run/host_key
ListenAddress {address}
AuthorizedKeysFile .ssh/authorized_keys
PasswordAuthentication no
UsePAM no
UseDNS no
PidFile none
"""
_MACHINE = (
    "sh", "-ec",
    'for name in passwd group hosts; do mount --bind "$0/$name" "/etc/$name"; done; '
    'cat "$0/name" > /proc/sys/kernel/hostname; mount --bind "$0/run" /run; '
    "/usr/sbin/sshd -f /run/sshd_config -E /run/sshd.log; "
    "exec dockerd --data-root /run/docker-data --bridge=none --iptables=false --ip6tables=false --group docker",
)  # fmt: skip
_CLIENT = (
    "sh", "-ec",
    'for name in passwd hosts; do mount --bind "$0/$name" "/etc/$name"; done; cd "$0/home"; exec "$@"',
)  # fmt: skip


class SshMachine:
    """One of them, which has an engine and nothing in it.

    Args:
        number: Its address comes of it, and its name.
        public_key: Whose owner may log in.
    """

    def __init__(self, number: int, public_key: str) -> None:
        self.name = NAMES[number]
        self.short = self.name.partition(".")[0]
        self._space = f"m{number}"
        self.address = join_bridge(number)
        self._files = _ROOT / self._space
        self.run = self._files / "run"
        self._make_files(public_key)
        # not by `ip netns exec`, which puts another /sys in the place of the one with the groups of processes
        line = ["nsenter", f"--net=/run/netns/{self._space}", "unshare", "--mount", "--uts", *ON_A_DISK, "50%"]
        with (self._files / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*line, *_MACHINE, str(self._files)], env={"PATH": os.environ["PATH"]}, cwd="/", stdout=log,
                stderr=log,
            )  # fmt: skip

    def _make_files(self, public_key: str) -> None:
        home = self._files / _HOME.lstrip("/")
        (home / ".ssh").mkdir(parents=True)
        (self.run / "sshd").mkdir()
        for name in (".bashrc", ".profile"):
            shutil.copy(f"/etc/skel/{name}", home / name)
        (home / ".ssh" / "authorized_keys").write_text(public_key)
        for path in (home, *home.rglob("*")):
            os.chown(path, USER_ID, USER_ID)
        for path in (home, home / ".ssh"):
            path.chmod(0o700)
        make_key(self.run / "host_key")
        (self.run / "sshd_config").write_text(_SSHD.format(address=self.address))
        accounts = _without("passwd", lambda fields: fields[0] == _USER or fields[2] == str(USER_ID))
        groups = _without("group", lambda fields: fields[0] in (_USER, "docker") or fields[2] == str(USER_ID))
        files = {
            "name": self.short,
            "passwd": f"{accounts}{_USER}:*:{USER_ID}:{USER_ID}::{_HOME}:/bin/bash\n",
            "group": f"{groups}{_USER}:x:{USER_ID}:\ndocker:x:{USER_ID + 1}:{_USER}\n",
            "hosts": _hosts(),
        }
        for name, text in files.items():
            (self._files / name).write_text(text)

    @property
    def socket(self) -> Path:
        """Where its engine listens, as it is seen from here."""
        return self.run / "docker.sock"

    def wait(self) -> None:
        """Wait until it lets somebody in, and has an engine."""
        deadline = time.monotonic() + _START_S
        while not (self._listens() and self.docker("version", check=False).returncode == 0):
            assert self._process.poll() is None and time.monotonic() < deadline, self.log
            time.sleep(0.1)

    def _listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((self.address, 22), timeout=5):
            return True
        return False

    def docker(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Ask its engine."""
        line = ["docker", "--host", f"unix://{self.socket}", *words]
        return subprocess.run(line, capture_output=True, text=True, check=check)

    @property
    def containers(self) -> list[str]:
        """What its engine has, running or not."""
        return self.docker("ps", "--all", "--format", "{{.Names}}").stdout.split()

    @property
    def log(self) -> str:
        """What its sshd and its engine said."""
        files = (self._files / "log", self.run / "sshd.log")
        return "\n".join(path.read_text(errors="replace")[-4000:] for path in files if path.exists())


class Launcher:
    """Who starts the cluster: with a key, a home and the names of the machines."""

    def __init__(self) -> None:
        self._files = _ROOT / "launcher"
        self.home = self._files / "home"
        (self.home / ".ssh").mkdir(parents=True, mode=0o700)
        make_key(self.home / ".ssh" / "id_ed25519")
        accounts = _without("passwd", lambda fields: fields[2] == "0")
        # ssh asks this for its user's home, Python the environment
        (self._files / "passwd").write_text(f"root:x:0:0:root:{self.home}:/bin/bash\n{accounts}")
        (self._files / "hosts").write_text(_hosts())

    @property
    def public_key(self) -> str:
        """Whose machines let it in."""
        return (self.home / ".ssh" / "id_ed25519.pub").read_text()

    def run(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command as it does, in its home; what it says is one text."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8", **(env or {})}
        return subprocess.run(
            ["unshare", "--mount", *_CLIENT, str(self._files), *words], env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
        )  # fmt: skip


def make_key(path: Path) -> None:
    """Make a key of ssh, and beside it what is public of it."""
    words: Sequence[str] = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path))
    subprocess.run(words, check=True)


def _hosts() -> str:
    lines = [f"10.88.0.{10 + number} {name} {name.partition('.')[0]}" for number, name in enumerate(NAMES)]
    return "\n".join(["127.0.0.1 localhost", f"{HERE} launcher", *lines, ""])


def _without(file: str, leaves_out: Callable[[list[str]], bool]) -> str:
    """Return the lines of a file of ``/etc``, but for some."""
    lines = Path("/etc", file).read_text().splitlines()
    return "".join(f"{line}\n" for line in lines if not leaves_out(line.split(":")))
