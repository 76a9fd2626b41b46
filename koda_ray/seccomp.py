"""A small system call filter for confined processes: what no build tool calls and an attack would.

Namespaces and lost capabilities already deny most of it; the filter narrows the kernel that hostile code can talk to
(new namespaces, io_uring, bpf, keyrings, ptrace, raw and vsock sockets: a vsock reaches the host of a virtual machine
through any network namespace). It is a list of refusals, so a program that needs a harmless new call keeps working.

The filter can ask somebody instead of refusing by itself (``heard``; ``denials`` is who then refuses and counts), so
that what was tried can be written down. Calls that are made only to look whether the kernel has something, as node's
for io_uring, are refused in silence. A few more are in it that the kernel would refuse anyway, to be heard: devices,
files that lend their owner's rights, another user's rights, raw sockets. And one kind is asked about and goes on to the
kernel whatever is found, since no filter sees a path: other names of a file (``call_refusal`` has 0 as its error).

Another kernel tells whoever watches it of calls (``told``; gVisor's, ``gvisor_trace``), but of none that a filter has
refused. So those are left to it that it refuses everybody who has no rights: nothing in a sandbox has any.

A browser confines its own parts once more, with namespaces (``nesting``). Whoever may make those has all rights in
them, so of what such rights open, the kernel's tables of networks and the like, less is left: netlink for looking at
networks and devices alone.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

__all__ = [
    "MACHINES",
    "Installing",
    "always_asked",
    "call_refusal",
    "filter_program",
    "install_filter",
    "installing",
    "left_to_kernel",
]

# struct sock_filter and the classic BPF opcodes; Source: linux/filter.h, linux/seccomp.h, linux/audit.h
_LD_ABS = 0x20
_JEQ = 0x15
_JGE = 0x35
_JSET = 0x45
_AND = 0x54
_RET = 0x06
_ALLOW = 0x7FFF0000
_ASK = 0x7FC00000
_KILL = 0x80000000
_ERRNO = 0x00050000
_NR, _ARCH, _ARGS = 0, 4, (16, 24, 32)
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2

_CLONE_NAMESPACES = 0x7E020000 | 0x00000080  # every CLONE_NEW*: mount, cgroup, uts, ipc, user, pid, net and time
_TIOCSTI = 0x5412
_TIOCLINUX = 0x541C
_SET_USER_ID = 0o4000
_DEVICE = 0o020000  # set in the kind of character and block devices alone, of what can be made
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCKET_TYPES, _SOCK_RAW = 0xF, 3
_NETLINK_ROUTE, _NETLINK_DEVICES = 0, 15

_Instruction = tuple[int, int, int, int]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


_COMMON = {  # numbers that every architecture shares
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "mount_setattr": 442,
    "quotactl_fd": 443,
}
_X86_64 = {
    "ptrace": 101, "syslog": 103, "personality": 135, "vhangup": 153, "modify_ldt": 154, "pivot_root": 155,
    "adjtimex": 159, "chroot": 161, "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167,
    "swapoff": 168, "reboot": 169, "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173,
    "init_module": 175, "delete_module": 176, "quotactl": 179, "lookup_dcookie": 212, "clock_settime": 227,
    "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272, "perf_event_open": 298,
    "fanotify_init": 300, "name_to_handle_at": 303, "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310,
    "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323,
    "sched_setaffinity": 203,
}  # fmt: skip
_AARCH64 = {
    "lookup_dcookie": 18, "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "vhangup": 58, "quotactl": 60,
    "acct": 89, "personality": 92, "unshare": 97, "kexec_load": 104, "init_module": 105, "delete_module": 106,
    "clock_settime": 112, "syslog": 116, "ptrace": 117, "reboot": 142, "sethostname": 161, "setdomainname": 162,
    "settimeofday": 170, "adjtimex": 171, "add_key": 217, "request_key": 218, "keyctl": 219, "swapon": 224,
    "swapoff": 225, "perf_event_open": 241, "fanotify_init": 262, "name_to_handle_at": 264, "open_by_handle_at": 265,
    "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273, "bpf": 280,
    "userfaultfd": 282, "kexec_file_load": 294,
    "sched_setaffinity": 122,
}  # fmt: skip
_CLONE3 = 435
_NESTING = frozenset({"unshare", "chroot"})
_QUIET = frozenset({  # what ordinary programs try, and do without
    "io_uring_setup", "io_uring_enter", "io_uring_register", "personality", "kcmp", "name_to_handle_at", "adjtimex",
    "sched_setaffinity",
})  # fmt: skip
_NEEDING_RIGHTS = frozenset({
    "acct", "chroot", "clock_settime", "delete_module", "finit_module", "init_module", "ioperm", "iopl", "kexec_load",
    "mount", "pivot_root", "reboot", "setdomainname", "sethostname", "settimeofday", "swapoff", "swapon", "umount2",
})  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Machine:
    """What one architecture calls things; of calls that are refused for an argument, also which one decides."""

    arch: int
    refused: Mapping[str, int]
    clone: int
    socket: int
    ioctl: int
    modes: Mapping[str, tuple[int, int]]
    """Calls that set a file's mode: the number, and which argument that is."""
    nodes: Mapping[str, tuple[int, int]]
    """The same for those that make a file of any kind."""
    links: Mapping[str, int]
    """Calls that give a file another name."""
    users: Mapping[str, tuple[int, int]]
    """Calls that take another user or group: the number, and how many arguments are ones."""
    install: Installing


@dataclass(frozen=True, kw_only=True)
class Installing:
    """The numbers of the calls by which a process takes a filter and hands its listener on."""

    seccomp: int
    sendmsg: int
    close: int


MACHINES = {
    "x86_64": _Machine(
        arch=0xC000003E, refused=_X86_64, clone=56, socket=41, ioctl=16,
        modes={"chmod": (90, 1), "fchmod": (91, 1), "fchmodat": (268, 2), "fchmodat2": (452, 2)},
        nodes={"mknod": (133, 1), "mknodat": (259, 2)},
        links={"link": 86, "linkat": 265},
        users={"setuid": (105, 1), "setgid": (106, 1), "setreuid": (113, 2), "setregid": (114, 2),
               "setresuid": (117, 3), "setresgid": (119, 3)},
        install=Installing(seccomp=317, sendmsg=46, close=3),
    ),
    "aarch64": _Machine(
        arch=0xC00000B7, refused=_AARCH64, clone=220, socket=198, ioctl=29,
        modes={"fchmod": (52, 1), "fchmodat": (53, 2), "fchmodat2": (452, 2)},
        nodes={"mknodat": (33, 2)},
        links={"linkat": 37},
        users={"setuid": (146, 1), "setgid": (144, 1), "setreuid": (145, 2), "setregid": (143, 2),
               "setresuid": (147, 3), "setresgid": (149, 3)},
        install=Installing(seccomp=277, sendmsg=211, close=57),
    ),
}  # fmt: skip


@lru_cache(maxsize=8)
def filter_program(
    machine: str | None = None, *, heard: bool = False, nesting: bool = False, told: bool = False
) -> bytes | None:
    """Assemble the filter as the kernel reads it; None for a machine whose call numbers are not known here.

    Args:
        machine: As of ``platform.machine()``; this machine when None.
        heard: Whether refusals are left to whoever has the filter's listener; without one they have another error.
        nesting: Whether a process may make namespaces and take another root, to confine what it starts.
        told: Whether the kernel tells of what it refuses itself, which is left to it then.
    """
    known = MACHINES.get(machine or platform.machine())
    if known is None:
        return None

    def refuse(name: str, number: int = errno.EPERM) -> _Instruction:
        return (_RET, 0, 0, _ASK if heard and name not in _QUIET else _ERRNO | number)

    code: list[_Instruction] = [
        (_LD_ABS, 0, 0, _ARCH),
        (_JEQ, 1, 0, known.arch),
        (_RET, 0, 0, _KILL),
        (_LD_ABS, 0, 0, _NR),
        (_JGE, 0, 1, 0x40000000),  # the x32 numbers, a second door to the same calls
        (_RET, 0, 0, _KILL),
    ]
    for name, number in sorted({**known.refused, **_COMMON}.items()):
        if not (nesting and name in _NESTING) and not (told and name in _NEEDING_RIGHTS):
            code += [(_JEQ, 0, 1, number), refuse(name)]
    if heard and _may_go_on():
        code += [step for number in known.links.values() for step in ((_JEQ, 0, 1, number), (_RET, 0, 0, _ASK))]
    # clone3 takes its flags by pointer, which a filter cannot read; told that it does not exist, libc uses clone
    code += [(_JEQ, 0, 1, _CLONE3), (_RET, 0, 0, _ERRNO | errno.ENOSYS)]
    allow: _Instruction = (_RET, 0, 0, _ALLOW)
    bits = {} if nesting else {known.clone: ("clone", 0, _CLONE_NAMESPACES)}
    bits |= {number: (name, at, _SET_USER_ID) for name, (number, at) in known.modes.items()}
    bits |= {number: (name, at, _DEVICE) for name, (number, at) in known.nodes.items()}
    for number, (name, at, mask) in bits.items():
        code += _when(number, [(_LD_ABS, 0, 0, _ARGS[at]), (_JSET, 0, 1, mask), refuse(name), allow])
    for name, (number, count) in () if told else known.users.items():
        asked = [[(_LD_ABS, 0, 0, _ARGS[at]), (_JEQ, 0, 1, 0), refuse(name)] for at in range(count)]
        code += _when(number, [*(step for steps in asked for step in steps), allow])
    code += _when(
        known.ioctl,
        [
            (_LD_ABS, 0, 0, _ARGS[1]),
            (_JEQ, 1, 0, _TIOCSTI),
            (_JEQ, 0, 1, _TIOCLINUX),
            refuse("ioctl"),
            allow,
        ],
    )
    netlink = [
        (_LD_ABS, 0, 0, _ARGS[2]),
        (_JEQ, 1, 0, _NETLINK_ROUTE),
        (_JEQ, 0, 1, _NETLINK_DEVICES),
        allow,
        refuse("socket", errno.EPROTONOSUPPORT),
    ]
    code += _when(
        known.socket,
        [
            (_LD_ABS, 0, 0, _ARGS[0]),
            (_JEQ, 8, 0, _AF_UNIX),
            (_JEQ, 8 if nesting else 7, 0, _AF_NETLINK),  # getifaddrs
            (_JEQ, 2, 0, _AF_INET),
            (_JEQ, 1, 0, _AF_INET6),
            refuse("socket", errno.EAFNOSUPPORT),
            (_LD_ABS, 0, 0, _ARGS[1]),
            (_AND, 0, 0, _SOCKET_TYPES),
            (_JEQ, 0, 1, _SOCK_RAW),
            allow if told else refuse("socket"),
            allow,
            *(netlink if nesting else ()),
        ],
    )
    code.append(allow)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def always_asked() -> frozenset[str]:
    """Name the calls that a filter which asks asks about whatever their arguments; none where there is no program."""
    known = MACHINES.get(platform.machine())
    return frozenset() if known is None else frozenset({*known.refused, *_COMMON} - _QUIET)


def left_to_kernel() -> Mapping[int, str]:
    """Name the calls of this machine that a filter leaves to a kernel which tells of them; none without a program."""
    known = MACHINES.get(platform.machine())
    if known is None:
        return {}
    found = {number: name for name, number in known.refused.items() if name in _NEEDING_RIGHTS}
    return {**found, known.socket: "socket", **{number: name for name, (number, _) in known.users.items()}}


def _when(number: int, steps: Sequence[_Instruction]) -> list[_Instruction]:
    """Do something about one call; the steps end with what is returned, for they forget which call it was."""
    return [(_JEQ, 0, len(steps), number), *steps]


def install_filter(program: bytes, *, heard: bool) -> int | None:
    """Give this process, and all that it starts from here on, a filter.

    Args:
        program: The filter.
        heard: Whether it asks.

    Returns:
        The listener of one that asks.

    Raises:
        OSError: The kernel does not take it; EINVAL or EBUSY for one that asks where that cannot be.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(program, len(program))
    filled = _Program(len(program) // 8, ctypes.addressof(buffer))
    if heard:
        number = installing().seccomp
        done = int(libc.syscall(number, _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(filled)))
    else:
        done = int(libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(filled), 0, 0))
    if done < 0:
        raise OSError(ctypes.get_errno(), "the kernel does not take a filter of system calls")
    return done if heard else None


def installing() -> Installing:
    """The numbers by which a filter is taken on this machine; there is a program for it."""
    return MACHINES[platform.machine()].install


@lru_cache(maxsize=1)
def _may_go_on() -> bool:
    """Whether a listener can have the kernel do what it was asked about: since Linux 5.5."""
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    return found is not None and (int(found[1]), int(found[2])) >= (5, 5)


@lru_cache(maxsize=1)
def _names() -> Mapping[int, str]:
    known = MACHINES[platform.machine()]
    found = {number: name for name, number in {**known.refused, **_COMMON}.items()}
    for calls in (known.modes, known.nodes, known.users):
        found |= {number: name for name, (number, _) in calls.items()}
    found |= {number: name for name, number in known.links.items()}
    return {**found, known.clone: "clone", known.socket: "socket", known.ioctl: "ioctl"}


def call_refusal(number: int, args: Sequence[int]) -> tuple[str, int]:
    """Say what a call of this machine that was asked about is named, and which error whoever made it gets; 0 for none.

    Args:
        number: The call's.
        args: Its arguments.
    """
    name = _names().get(number, "other")
    if name in MACHINES[platform.machine()].links:
        return name, 0
    other_family = name == "socket" and args[0] not in (_AF_INET, _AF_INET6)
    return name, errno.EAFNOSUPPORT if other_family else errno.EPERM
