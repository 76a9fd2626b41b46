"""What the machine allows: isolation, limits, memory, room, graphics."""

from __future__ import annotations

import asyncio
import os
import platform
import resource
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from koda_ray import seccomp
from koda_ray.doctor.finding import Examination, Finding
from koda_ray.errors import Missing

if TYPE_CHECKING:
    from koda_ray.render.graphics import Graphics

__all__ = ["capacity", "graphics", "isolation", "limits", "page_sizes", "sandboxes", "webgl"]

_ISOLATION = "Isolation"
_MACHINE = "Machine"
_GIB = 1024**3
_MIB = 1024**2

_OPEN_FILES_WANTED = 8192
"""Half of which a server has for connections (`koda_ray.serve.connections`)."""
_OPEN_FILES_LEAST = 512
_DISK_WANTED_BYTES = 5 * _GIB
_DISK_LEAST_BYTES = _GIB // 2
_MEMORY_WANTED_BYTES = 4 * _GIB
_MEMORY_LEAST_BYTES = 3 * _GIB // 2
_SHM_WANTED_BYTES = _GIB // 2
_PAGE_SIZES = Path("/sys/kernel/mm/transparent_hugepage")
_GOOD_PAGES = "hugepages-64kB/enabled"


def isolation(examination: Examination) -> list[Finding]:
    """Check that bubblewrap really cuts a process off from the network, as whoever runs this."""
    from koda_ray.render.isolation import trial_arguments

    program = examination.find("bwrap")
    if program is None:
        remedy = "install the package bubblewrap (Debian: apt-get install bubblewrap), or run ./koda setup"
        return [Finding(_ISOLATION, "bubblewrap", "missing", "bwrap not found on PATH", remedy)]
    version = examination.run([program, "--version"]).last_line
    # the names of the interfaces it sees: in a name space of its own there is nothing but its own loopback
    ran = examination.run([program, *trial_arguments(), "--dev", "/dev", "cat", "/proc/net/dev"])
    if not ran.ok:
        detail = f"{version} cannot make name spaces here: {ran.last_line}"
        return [Finding(_ISOLATION, "bubblewrap", "missing", detail, _allow_name_spaces())]
    interfaces = [line.partition(":")[0].strip() for line in ran.output.splitlines() if ":" in line]
    if interfaces != ["lo"]:
        detail = f"{version} still shows the network: {', '.join(interfaces) or 'nothing readable'}"
        return [Finding(_ISOLATION, "bubblewrap", "missing", detail, "use bubblewrap 0.8 or newer")]
    return [
        Finding(_ISOLATION, "bubblewrap", "ok", f"{version} ({program}): no network inside"),
        _calls(),
        *_browsers_own(examination),
    ]


def _calls() -> Finding:
    """Check whether there is a filter of system calls for this machine."""
    name, machine = "system calls", platform.machine()
    if seccomp.filter_program() is not None:
        return Finding(_ISOLATION, name, "ok", f"a filter for {machine} refuses what no build and no page needs")
    remedy = "use a machine with x86-64 or 64-bit ARM, or let gVisor hold sandboxes (SANDBOX_RUNTIME=runsc)"
    return Finding(_ISOLATION, name, "warning", f"no filter is known for {machine}: name spaces alone hold", remedy)


def _browsers_own(examination: Examination) -> list[Finding]:
    """Check whether a browser can confine its own parts inside bubblewrap; none where there is no browser."""
    from koda_ray.render.isolation import nested_sandbox_works
    from koda_ray.render.programs import find_browser

    name = "Chromium's sandbox"
    try:
        nests = nested_sandbox_works(find_browser(examination.settings.chromium_path).path)
    except Missing:
        return []
    if nests:
        return [Finding(_ISOLATION, name, "ok", "a second wall around pages, inside bubblewrap's")]
    remedy = "raise user.max_user_namespaces, allow namespaces within namespaces, install util-linux (unshare)"
    return [
        Finding(_ISOLATION, name, "warning", "browsers run with --no-sandbox: bubblewrap alone holds pages", remedy)
    ]


def _allow_name_spaces() -> str:
    if _kernel("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor keeps ordinary users from making name spaces (Ubuntu 24.04 and newer). Allow bwrap alone: write\n"
            "  abi <abi/4.0>,\n"
            "  include <tunables/global>\n"
            "  profile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }\n"
            "to /etc/apparmor.d/bwrap and run: sudo apparmor_parser -r /etc/apparmor.d/bwrap. Or allow everybody:\n"
            "  sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
        )
    if _kernel("kernel/unprivileged_userns_clone") == "0":
        return "allow user name spaces: sudo sysctl -w kernel.unprivileged_userns_clone=1"
    if _kernel("user/max_user_namespaces") == "0":
        return "allow user name spaces: sudo sysctl -w user.max_user_namespaces=10000"
    return (
        "a container's seccomp profile or a chroot forbids them: start the container with "
        "--security-opt seccomp=unconfined (Docker), or run koda on the machine itself"
    )


def _kernel(name: str) -> str:
    try:
        return Path("/proc/sys", name).read_text().strip()
    except OSError:
        return ""


def sandboxes(examination: Examination) -> list[Finding]:
    """Say which limits of a sandbox the kernel holds here, and which a watchdog does."""
    from koda_ray.sandbox.limits import ResourceLimits, limit_report

    settings = examination.settings
    findings: list[Finding] = []
    for line in limit_report(ResourceLimits.of(settings), root=_existing(settings.sandbox_path)):
        detail = f"{line.value}: {line.how}" if line.kind == "none" else f"{line.value}, {line.kind}: {line.how}"
        if line.kind == "hard":
            findings.append(Finding(_ISOLATION, f"limit of {line.name}", "ok", detail))
        else:
            remedy = "run as root, or with a cgroup of your own (systemd-run --user --scope -p Delegate=yes ./koda ...)"
            findings.append(Finding(_ISOLATION, f"limit of {line.name}", "warning", detail, remedy))
    return findings


def limits(examination: Examination) -> list[Finding]:
    """Check limits of the process that Ray and many browsers run into."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    detail = f"{_count(soft)} (may be raised to {_count(hard)})"
    name = "open files"
    remedy = f"run: ulimit -n {_OPEN_FILES_WANTED}, or raise LimitNOFILE of the service: half are for connections"
    if _below(soft, _OPEN_FILES_LEAST):
        finding = Finding(_MACHINE, name, "missing", detail, remedy)
    elif _below(soft, _OPEN_FILES_WANTED):
        finding = Finding(_MACHINE, name, "warning", detail, remedy)
    else:
        finding = Finding(_MACHINE, name, "ok", detail)
    return [finding]


def _below(value: int, bound: int) -> bool:
    return value != resource.RLIM_INFINITY and value < bound


def _count(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def capacity(examination: Examination) -> list[Finding]:
    """Check processors, memory, shared memory and disk."""
    settings = examination.settings
    cores = len(os.sched_getaffinity(0))
    findings = [Finding(_MACHINE, "processors", "ok", str(cores))]
    memory = psutil.virtual_memory()
    usable = min(memory.available, _cgroup_left())
    findings.append(
        _amount(
            "memory",
            usable,
            f"{_size(usable)} free of {_size(memory.total)}",
            wanted=_MEMORY_WANTED_BYTES,
            least=_MEMORY_LEAST_BYTES,
            remedy="end other programs, or give the machine 4 GiB or more",
        )
    )
    if (pages := page_sizes(_PAGE_SIZES)) is not None:
        findings.append(pages)
    shared = Path("/dev/shm")
    if shared.is_dir():
        total = shutil.disk_usage(shared).total
        findings.append(
            _amount(
                "/dev/shm",
                total,
                _size(total),
                wanted=_SHM_WANTED_BYTES,
                least=0,
                remedy="Ray keeps objects there: start the container with --shm-size=2g",
            )
        )
    least = max(_DISK_LEAST_BYTES, settings.node_room_mb << 20)  # with less, a node of a cluster gets no work
    for label, path in (("disk for storage", settings.storage_path), ("disk for sandboxes", settings.sandbox_path)):
        free = shutil.disk_usage(_existing(path)).free
        findings.append(
            _amount(
                label,
                free,
                f"{_size(free)} free at {path}",
                wanted=_DISK_WANTED_BYTES,
                least=least,
                remedy="free some space, or set STORAGE_PATH and SANDBOX_PATH to a larger disk",
            )
        )
    return findings


def page_sizes(folder: Path) -> Finding | None:
    """Say in which pieces the kernel gives memory: a browser takes and returns 50 MB for a frame of many layers.

    Args:
        folder: The kernel's settings of large pages.

    Returns:
        Nothing where the kernel knows no sizes to choose from (before 6.8).
    """
    setting = folder / _GOOD_PAGES
    try:
        chosen = setting.read_text().partition("[")[2].partition("]")[0]
        whole = (folder / "enabled").read_text().partition("[")[2].partition("]")[0]
    except OSError:
        return None
    if chosen == "always" or (chosen == "inherit" and whole == "always"):
        return Finding(_MACHINE, "memory pages", "ok", "64 KiB and larger")
    faster = f"a tenth less time for each frame: echo always | sudo tee {setting}"
    return Finding(_MACHINE, "memory pages", "ok", f"4 KiB; with 64 KiB, {faster}")


def _amount(name: str, value: int, detail: str, *, wanted: int, least: int, remedy: str) -> Finding:
    if value < least:
        return Finding(_MACHINE, name, "missing", detail, remedy)
    if value < wanted:
        return Finding(_MACHINE, name, "warning", f"{detail}, {_size(wanted)} would be comfortable", remedy)
    return Finding(_MACHINE, name, "ok", detail)


def _cgroup_left() -> int:
    """Memory that a container's limit leaves, in bytes; beyond any machine's where there is no limit."""
    for limit_file, used_file in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            return max(int(Path(limit_file).read_text()) - int(Path(used_file).read_text()), 0)
        except (OSError, ValueError):  # no such file, or the word "max"
            continue
    return 2**62


def _existing(path: Path) -> Path:
    """The path itself, or the nearest folder above it that is there."""
    path = path.expanduser().absolute()
    return next(place for place in (path, *path.parents) if place.exists())


def _size(value: int) -> str:
    return f"{value / _GIB:.1f} GiB" if value >= _GIB else f"{value / _MIB:.0f} MiB"


def graphics(examination: Examination) -> list[Finding]:
    """Say what draws WebGL and what is chosen to draw and encode with, found out as a render finds it out."""
    from koda_ray.render.gpu import choose_graphics
    from koda_ray.render.programs import find_browser

    settings, name = examination.settings, "graphics"
    try:
        binary = find_browser(settings.chromium_path).path
        chosen = asyncio.run(choose_graphics(binary, settings.render_graphics))
    except Missing as error:
        if error.context.get("program") != "gpu":
            return []  # no browser or no isolation: other checks say so
        return [Finding(_MACHINE, name, "missing", error.message, "set KODA_RENDER_GRAPHICS to auto or software")]
    return [webgl(chosen), Finding(_MACHINE, name, "ok", str(chosen))]


def webgl(chosen: Graphics) -> Finding:
    """Say who draws WebGL.

    Args:
        chosen: What renders draw with, as `koda_ray.render.gpu.choose_graphics` found out by drawing.
    """
    name, remedy = "WebGL", "install the packages libegl1 and libgl1-mesa-dri"
    if chosen.kind == "gpu":
        return Finding(_MACHINE, name, "ok", f"{chosen.renderer} draws it")
    refused = "; ".join(f"{who}: {why}" for who, why in chosen.refused)
    if not chosen.draws_webgl:
        return Finding(_MACHINE, name, "warning", f"nothing draws it: {refused}", remedy)
    drawn_by = f"{chosen.rasterizer} draws it, on the processor"
    if refused:
        return Finding(_MACHINE, name, "warning", f"{drawn_by}; {refused}", f"{remedy}: what draws then is faster")
    return Finding(_MACHINE, name, "ok", drawn_by)
