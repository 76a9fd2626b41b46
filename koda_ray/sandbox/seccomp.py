"""A small system call filter for sandboxed processes: what no build tool calls and an attack would.

Namespaces and lost capabilities already deny most of it; the filter narrows the kernel that hostile code can talk to
(new namespaces, io_uring, bpf, keyrings, ptrace, raw and vsock sockets: a vsock reaches the host of a virtual machine
through any network namespace). It is a list of refusals, so a program that needs a harmless new call keeps working.
"""

from __future__ import annotations

import errno
import os
import platform
import struct
from functools import lru_cache

__all__ = ["filter_fd", "filter_program"]

# struct sock_filter and the classic BPF opcodes; Source: linux/filter.h, linux/seccomp.h, linux/audit.h
_LD_ABS = 0x20
_JEQ = 0x15
_JGE = 0x35
_JSET = 0x45
_RET = 0x06
_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_ERRNO = 0x00050000
_NR, _ARCH, _ARG0, _ARG1 = 0, 4, 16, 24

_CLONE_NAMESPACES = 0x7E020000 | 0x00000080  # every CLONE_NEW*: mount, cgroup, uts, ipc, user, pid, net and time
_TIOCSTI = 0x5412
_TIOCLINUX = 0x541C
_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK (getifaddrs)

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
}  # fmt: skip
_AARCH64 = {
    "lookup_dcookie": 18, "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "vhangup": 58, "quotactl": 60,
    "acct": 89, "personality": 92, "unshare": 97, "kexec_load": 104, "init_module": 105, "delete_module": 106,
    "clock_settime": 112, "syslog": 116, "ptrace": 117, "reboot": 142, "sethostname": 161, "setdomainname": 162,
    "settimeofday": 170, "adjtimex": 171, "add_key": 217, "request_key": 218, "keyctl": 219, "swapon": 224,
    "swapoff": 225, "perf_event_open": 241, "fanotify_init": 262, "name_to_handle_at": 264, "open_by_handle_at": 265,
    "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273, "bpf": 280,
    "userfaultfd": 282, "kexec_file_load": 294,
}  # fmt: skip
_CLONE3 = 435
_MACHINES = {  # audit architecture, refused calls, clone, socket, ioctl
    "x86_64": (0xC000003E, _X86_64, 56, 41, 16),
    "aarch64": (0xC00000B7, _AARCH64, 220, 198, 29),
}


@lru_cache(maxsize=1)
def filter_program(machine: str | None = None) -> bytes | None:
    """Assemble the filter as the kernel reads it; None for a machine whose call numbers are not known here.

    Args:
        machine: As of ``platform.machine()``; this machine when None.
    """
    known = _MACHINES.get(machine or platform.machine())
    if known is None:
        return None
    arch, refused, clone, socket, ioctl = known
    code: list[tuple[int, int, int, int]] = [
        (_LD_ABS, 0, 0, _ARCH),
        (_JEQ, 1, 0, arch),
        (_RET, 0, 0, _KILL),
        (_LD_ABS, 0, 0, _NR),
        (_JGE, 0, 1, 0x40000000),  # the x32 numbers, a second door to the same calls
        (_RET, 0, 0, _KILL),
    ]
    for number in sorted({*refused.values(), *_COMMON.values()}):
        code += [(_JEQ, 0, 1, number), (_RET, 0, 0, _ERRNO | errno.EPERM)]
    # clone3 takes its flags by pointer, which a filter cannot read; told that it does not exist, libc uses clone
    code += [(_JEQ, 0, 1, _CLONE3), (_RET, 0, 0, _ERRNO | errno.ENOSYS)]
    code += [
        (_JEQ, 0, 4, clone),
        (_LD_ABS, 0, 0, _ARG0),
        (_JSET, 0, 1, _CLONE_NAMESPACES),
        (_RET, 0, 0, _ERRNO | errno.EPERM),
        (_RET, 0, 0, _ALLOW),
    ]
    code += [
        (_JEQ, 0, 5, ioctl),
        (_LD_ABS, 0, 0, _ARG1),
        (_JEQ, 1, 0, _TIOCSTI),
        (_JEQ, 0, 1, _TIOCLINUX),
        (_RET, 0, 0, _ERRNO | errno.EPERM),
        (_RET, 0, 0, _ALLOW),
    ]
    code += [(_JEQ, 0, len(_FAMILIES) + 2, socket), (_LD_ABS, 0, 0, _ARG0)]
    code += [(_JEQ, len(_FAMILIES) - at, 0, family) for at, family in enumerate(_FAMILIES)]
    code += [(_RET, 0, 0, _ERRNO | errno.EAFNOSUPPORT), (_RET, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def filter_fd() -> int | None:
    """Put the filter into a memory file for ``bwrap --seccomp``; the caller closes it. None as for the program."""
    program = filter_program()
    if program is None:
        return None
    fd = os.memfd_create("koda-seccomp", os.MFD_CLOEXEC)
    os.write(fd, program)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
