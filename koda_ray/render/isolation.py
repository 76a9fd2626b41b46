"""A browser without a network: the bubblewrap command it runs under, and the folders it leaves nothing in.

The page is generated code, so its browser gets its own network, process, IPC and host name spaces, an ordinary user,
an empty environment, a filter of system calls, and only the folders a browser reads. Loopback is the dangerous place
(Ray's dashboard and GCS listen there); inside there is none but its own. It dies with the process that started it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from functools import cache
from pathlib import Path

from koda_ray.errors import Missing
from koda_ray.render.installed import browser_files
from koda_ray.render.programs import find_program
from koda_ray.seccomp_file import filter_fd
from koda_ray.temporary import temporary_folder

__all__ = [
    "CAPTURE",
    "WorkFolder",
    "browser_command",
    "call_filter",
    "captures_at_work",
    "check_isolation",
    "device_refusal",
    "nested_sandbox_works",
    "own_folder",
    "program_command",
    "sweep_dead_folders",
    "trial_arguments",
    "write_whole",
]

NOBODY = 65534
CAPTURE = "units"
"""What a folder is for that a capture works in."""
_ROOT = "koda-render"
_READ_ONLY = (
    "/usr",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/glvnd",
    "/etc/drirc",
    "/var/cache/fontconfig",
    "/opt/google",
)
# what a GPU's driver reads besides its device files: which it has, of what make, and which Vulkan driver is theirs
_READ_BY_DRIVERS = ("/sys/dev/char", "/sys/devices", "/sys/bus/pci", "/sys/class/drm", "/etc/vulkan")
_LINKS = ("bin", "sbin", "lib", "lib32", "lib64")
_TRIAL_TIMEOUT_S = 20
_TMP_BYTES = 256 << 20
_SHM_BYTES = 256 << 20
_LEAST_DESCRIPTOR = 10  # 3 and 4 are the browser's protocol
# Chromium's protocol lies on 3 and 4; a shell may name no others. Should the machine's memory end before a browser's
# share of it does, the kernel ends a browser rather than whoever works with it.
_PROTOCOL_PIPES = 'exec 3<&0 4>&1 </dev/null >/dev/null; echo 900 2>/dev/null >/proc/self/oom_score_adj; exec "$@"'
# what bubblewrap itself starts with can be read inside as the first process's: --clearenv is for those after it
_WITHOUT_ENVIRONMENT = ("/usr/bin/env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin")


def browser_command(
    binary: Path,
    folder: Path,
    *,
    filter_fd: int | None = None,
    shm_bytes: int = _SHM_BYTES,
    devices: Sequence[Path] = (),
    more: Sequence[str] = (),
) -> list[str]:
    """Return the command that runs a browser in isolation, to which the browser's arguments are added.

    The browser's protocol comes in on the command's standard input and goes out on its standard output.

    Args:
        binary: The browser.
        folder: The one folder it may write to: its profile, in the place where the caller knows it.
        filter_fd: The filter of system calls, as `call_filter` opens it.
        shm_bytes: How large its folder of shared memory is.
        devices: A GPU's device files that it may use; with them come the parts of /sys that drivers read.
        more: Further arguments of bubblewrap.

    Raises:
        Missing: bubblewrap is not installed, or the machine does not let it make namespaces.
    """
    command = [*_WITHOUT_ENVIRONMENT, "/bin/sh", "-c", _PROTOCOL_PIPES, "sh", *_drop_user(binary)]
    command += [find_program("bwrap"), *_isolation_arguments(binary, shm_bytes), *_device_arguments(devices), *more]
    if filter_fd is not None:
        command += ["--seccomp", str(filter_fd)]
    for part in browser_files(binary):
        if not part.is_relative_to("/usr"):
            command += ["--ro-bind", str(part), str(part)]
    return [*command, "--bind", str(folder), str(folder), "--chdir", str(folder), str(binary)]


def program_command(program: Path, *, filter_fd: int | None) -> list[str]:
    """Return the command that runs a program in isolation, with the standard descriptors that it is given.

    Args:
        program: What is run; its arguments are added.
        filter_fd: The filter of system calls, as `call_filter` opens it.

    Raises:
        Missing: bubblewrap is not installed.
    """
    command = [*_WITHOUT_ENVIRONMENT, *_drop_user(program), find_program("bwrap"), *_isolation_arguments(program)]
    if filter_fd is not None:
        command += ["--seccomp", str(filter_fd)]
    if not program.is_relative_to("/usr"):
        command += ["--ro-bind", str(program), str(program)]
    return [*command, "--chdir", "/tmp", str(program)]


@contextlib.contextmanager
def call_filter(*, nesting: bool) -> Generator[int | None]:
    """Open a filter of system calls for one start of bubblewrap, which must inherit it.

    Args:
        nesting: Whether what runs under it may make namespaces, as a browser does for its own sandbox.

    Yields:
        The descriptor; None where the numbers of the machine's calls are not known.
    """
    made = filter_fd(nesting=nesting)
    if made is None:
        yield None
        return
    try:
        descriptor = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, _LEAST_DESCRIPTOR)
    finally:
        os.close(made)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@cache
def _isolation_arguments(binary: Path, shm_bytes: int = _SHM_BYTES) -> tuple[str, ...]:
    arguments = ["--unshare-user", "--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    arguments += ["--unshare-cgroup-try", "--die-with-parent", "--new-session", "--hostname", "koda"]
    if os.geteuid() == 0 and not _drop_user(binary):
        arguments += ["--uid", str(NOBODY), "--gid", str(NOBODY), "--cap-drop", "ALL"]
    for path in _READ_ONLY:
        if Path(path).exists():
            arguments += ["--ro-bind", path, path]
    arguments += _link_arguments()
    # a shared memory folder of its own: browsers of other jobs share the machine's
    arguments += ["--dev", "/dev", "--proc", "/proc", "--size", str(_TMP_BYTES), "--tmpfs", "/tmp"]
    arguments += ["--size", str(shm_bytes), "--tmpfs", "/dev/shm"]
    arguments += ["--clearenv", "--setenv", "HOME", "/tmp", "--setenv", "PATH", "/usr/bin:/bin"]
    arguments += ["--setenv", "LANG", "C.UTF-8", "--setenv", "TZ", "UTC"]
    return tuple(arguments)


def _link_arguments() -> list[str]:
    """Return what puts the names beside ``/usr`` where programs seek them."""
    arguments: list[str] = []
    for name in _LINKS:
        top = Path("/", name)
        if top.is_symlink():
            arguments += ["--symlink", os.readlink(top), str(top)]
        elif top.is_dir():
            arguments += ["--ro-bind", str(top), str(top)]
    return arguments


def trial_arguments(*files: Path) -> tuple[str, ...]:
    """Return bubblewrap's arguments for a first try: no network, and programs and some files where they lie.

    Not the whole root: what others mount and unmount meanwhile, as an engine of containers does, would make it fail.
    """
    arguments = ["--unshare-user", "--unshare-net", "--unshare-pid", "--ro-bind", "/usr", "/usr", *_link_arguments()]
    tops = {f"/{path.parts[1]}" for file in files for path in (file.absolute(), file.resolve())}
    for top in sorted(tops - {"/usr", *(f"/{name}" for name in _LINKS)}):
        if not Path(top).is_symlink():
            arguments += ["--ro-bind", top, top]
    # the machine's own programs, wherever the caller's PATH finds its
    return (*arguments, "--proc", "/proc", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin")


def _device_arguments(devices: Sequence[Path]) -> list[str]:
    if not devices:
        return []
    read = [part for path in _READ_BY_DRIVERS if Path(path).exists() for part in ("--ro-bind", path, path)]
    return [*read, *(part for path in devices for part in ("--dev-bind", str(path), str(path)))]


def device_refusal(binary: Path, device: Path) -> str | None:
    """Return why an isolated browser may not open a device file to read and write; None when it may.

    It is opened as the browser would open it: by the same user, in the same isolation.

    Raises:
        Missing: bubblewrap is not installed.
    """
    isolated = (*_drop_user(binary), find_program("bwrap"), *_isolation_arguments(binary), *_device_arguments([device]))
    try:
        done = subprocess.run(
            (*isolated, "/bin/sh", "-c", 'exec 3<>"$1"', "sh", str(device)),
            capture_output=True,
            text=True,
            timeout=_TRIAL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    said = done.stderr.strip().rpartition("\n")[2].rpartition(": ")[2]
    return None if done.returncode == 0 else f"{said or 'it cannot be opened'}, for the user that browsers run as"


@cache
def _drop_user(binary: Path) -> tuple[str, ...]:
    """Return the command that stops being root, where there is root to lose and others may isolate and run the browser.

    Others may not where a launcher put it into root's own folder, which nobody else can enter: there a user namespace
    gives root another number instead.
    """
    if os.geteuid() != 0:
        return ()
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return ()
    drop = (setpriv, "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--no-new-privs")
    return drop if _runs((*drop, *_trial(binary))) else ()


def _trial(binary: Path) -> tuple[str, ...]:
    return ("bwrap", *trial_arguments(binary), "test", "-x", str(binary))


def _runs(command: tuple[str, ...], inherited: tuple[int, ...] = ()) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TRIAL_TIMEOUT_S, check=False, pass_fds=inherited)
        return done.returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def check_isolation(binary: Path) -> None:
    """Find out early whether a browser, or another program, can be isolated here.

    Args:
        binary: The program.

    Raises:
        Missing: bubblewrap is missing, the machine refuses namespaces, or the program cannot be reached from inside
            one; the message says what allows it.
    """
    find_program("bwrap")
    if _drop_user(binary) or _runs(_trial(binary)):
        return
    if not _runs(("bwrap", *trial_arguments(), "true")):
        raise Missing(
            "bubblewrap may not make namespaces here: in a container allow user namespaces (seccomp), on Ubuntu 24.04 "
            "add an AppArmor profile for bwrap or set kernel.apparmor_restrict_unprivileged_userns=0",
            context={"program": "bwrap"},
        )
    raise Missing(
        f"{binary} lies where an isolated program may not read it: run koda as the owner of that folder, or use one in "
        "a folder that every user may enter (of browsers, KODA_CHROMIUM_PATH names one)",
        context={"program": binary.name},
    )


@cache
def nested_sandbox_works(binary: Path) -> bool:
    """Whether Chromium's own sandbox can be made inside ours: a second wall where the machine allows it."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    ours = (*_drop_user(binary), find_program("bwrap"), *_isolation_arguments(binary))
    with call_filter(nesting=True) as filter_fd:
        filtered = () if filter_fd is None else ("--seccomp", str(filter_fd))
        inherited = () if filter_fd is None else (filter_fd,)
        return _runs((*ours, *filtered, unshare, "-U", "-p", "-n", "-f", "true"), inherited)


class WorkFolder:
    """A temporary folder that is known to belong to this process, so that a later start can clean up after a kill.

    Its name holds the owner's machine, process id and start time; `close` removes it.
    """

    def __init__(self, purpose: str) -> None:
        root = own_folder(_ROOT)
        owner = f"{_host()}-{os.getpid()}-{_start_time(os.getpid())}"
        self.path = Path(tempfile.mkdtemp(prefix=f"{owner}-{purpose}-", dir=root))

    def writable_by_browser(self, name: str, binary: Path) -> Path:
        """Make a folder inside that the browser's user owns; the way to it can be walked but not read."""
        folder = self.path / name
        folder.mkdir(mode=0o700)
        if _drop_user(binary):
            self.path.chmod(0o711)
            os.chown(folder, NOBODY, NOBODY)
        return folder

    def close(self) -> None:
        """Remove the folder with everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)


def captures_at_work() -> int:
    """Count the captures of this user that are under way on this machine, whichever process has them."""
    root = _root()
    found = 0
    for folder in root.iterdir() if root.is_dir() else ():
        host, pid, started, purpose = (*folder.name.split("-"), "", "", "", "")[:4]
        running = pid.isdecimal() and _start_time(int(pid)) == started
        found += running and (host, purpose) == (_host(), CAPTURE)
    return found


def sweep_dead_folders() -> int:
    """Remove work folders whose owner is gone, and end what works in them; return how many folders there were."""
    swept = 0
    root = _root()
    for folder in root.iterdir() if root.is_dir() else ():
        host, pid, started, *_ = (*folder.name.split("-"), "", "")
        if host == _host() and pid.isdecimal() and _start_time(int(pid)) != started:
            _end_strays(folder)
            shutil.rmtree(folder, ignore_errors=True)
            swept += 1
    return swept


def _end_strays(folder: Path) -> None:
    """End the processes that name a folder: a bubblewrap killed while it starts leaves its inner half, which waits."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is somebody else's
            if os.fsencode(folder) in (process / "cmdline").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)


def own_folder(name: str) -> Path:
    """Return a folder of this user for temporary files, which others can walk but not read.

    Args:
        name: What its name begins with.

    Raises:
        Missing: Somebody else made one of that name.
    """
    folder = temporary_folder() / f"{name}-{os.geteuid()}"
    folder.mkdir(mode=0o711, parents=True, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        raise Missing(f"{folder} belongs to somebody else: remove it, or set TMPDIR to a folder of your own")
    return folder


def write_whole(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, also where others write it too; nothing of one that fails stays."""
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _root() -> Path:
    return temporary_folder() / f"{_ROOT}-{os.geteuid()}"


@cache
def _host() -> str:
    """Name this machine or container; others may share the temporary folder, and their process ids mean nothing."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _start_time(pid: int) -> str:
    """Return when a process started, in clock ticks since boot, or nothing when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
