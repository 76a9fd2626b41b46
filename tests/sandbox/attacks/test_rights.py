"""Rights that hostile code has not, and system calls by which it would get them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from koda_ray.errors import CommandBlocked
from tests.sandbox.attacks.doing import perl, sh
from tests.sandbox.conftest import AnySandbox, gvisor_too
from tests.sandbox.refusals import refusals, refused_calls

pytestmark = pytest.mark.sandbox


async def test_no_rights_and_no_way_to_get_them(sandbox: AnySandbox) -> None:
    _, text = await sh(sandbox, "cat /proc/self/status")
    status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[kind], 16) == 0, kind
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert "0" not in status["Uid"].split() and "0" not in status["Gid"].split()
    assert status["Groups"].strip() in ("", "65534", "1000")


_CALLS = {  # of x86_64
    "101, 0, 0, 0, 0": "ptrace",
    "310, 1, 0, 0, 0, 0, 0": "process_vm_readv",
    "165, 0, 0, 0, 0, 0": "mount",
    "161, 0": "chroot",
    "272, 0x10000000": "unshare",  # CLONE_NEWUSER
    "56, 0x10000011, 0, 0, 0, 0": "clone",  # the same
    "308, 0, 0": "setns",
    "250, 0, 0, 0, 0, 0": "keyctl",
    "321, 0, 0, 0": "bpf",
    "323, 0": "userfaultfd",
    "298, 0, 0, 0, 0, 0": "perf_event_open",
    "175, 0, 0, 0": "init_module",
    "313, 0, 0, 0": "finit_module",
    "169, 0, 0, 0": "reboot",
    "41, 40, 1, 0": "socket",  # AF_VSOCK
    "41, 17, 3, 0": "socket",  # AF_PACKET, SOCK_RAW
    "41, 2, 3, 255": "socket",  # AF_INET, SOCK_RAW
    "16, 0, 0x5412, 0": "ioctl",  # TIOCSTI
    "133, $path, 0x21b6, 0x103": "mknod",  # a character device
    "90, $path, 04755": "chmod",
    "105, 0": "setuid",
    "114, 0, -1": "setregid",
    "119, -1, 0, -1": "setresgid",
}
_SILENT = ("425, 8, 0", "312, 1, 1, 0, 0, 0")  # io_uring_setup, kcmp: ordinary programs try these


_TOLD_BY_GVISOR = {"mount", "chroot", "init_module", "finit_module", "reboot", "socket", "setuid", "setregid",
                   "setresgid"}  # fmt: skip


@gvisor_too
async def test_calls_that_attacks_are_made_of(
    sandbox: AnySandbox, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is refused; gVisor's kernel tells of what it refuses itself, and not of what the filter does."""
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers are those of x86_64")
    tries = [f"$! = 0; $r = syscall({call}); print $r, ' ', $!+0, qq(\\n);" for call in (*_CALLS, *_SILENT)]
    text = await perl(sandbox, f"my ($path, $r) = ('src/App.tsx'); {' '.join(tries)}")
    told = dict(zip((*_CALLS, *_SILENT), text.splitlines(), strict=True))
    assert {call: said for call, said in told.items() if said not in ("-1 1", "-1 97")} == {}  # EPERM, EAFNOSUPPORT
    assert refused_calls(capsys, sandbox.id) == (_TOLD_BY_GVISOR if kind == "gvisor" else set(_CALLS.values()))
    # who does it without end waits, and nobody else
    call, name = ("165, 0, 0, 0, 0, 0", "mount") if kind == "gvisor" else ("101, 0, 0, 0, 0", "ptrace")
    many = f"syscall({call}) for 1 .. 250; print 'done'"
    assert (await perl(sandbox, many), await sh(sandbox, "true")) == ("done", (0, ""))
    assert f"call={name}" in (said := capsys.readouterr().out) and "times=250" in said
    await sandbox.start("tries", ("perl", "-e", f"syscall({call}); sleep 600"))
    said = ""
    async with asyncio.timeout(60):
        while f"call={name}" not in said:  # what is in the background is looked at by the way
            await asyncio.sleep(0.02)
            await sandbox.processes()
            said += capsys.readouterr().out


async def test_a_second_door_to_the_same_calls_ends_whoever_uses_it(
    sandbox: AnySandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("only x86_64 has one")
    assert await perl(sandbox, "syscall(0x40000000 + 165, 0, 0, 0, 0, 0); print 'NOT ENDED'") == ""  # x32's numbers
    assert refusals(capsys, sandbox.id) == {"call"}


async def test_what_has_a_filter_of_its_own_is_refused_all_the_same(sandbox: AnySandbox) -> None:
    """It can have its calls answered before anybody hears, or ask a listener that is not there: none is let through."""
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers are those of x86_64")
    for answer in ("0x7fc00000", "0x7fff0000", "0x7ffc0000"):  # ask, allow, allow and log
        take = f"my $p = pack('SCCL', 6, 0, 0, {answer}); syscall(317, 1, 0, pack('Sx6P', 1, $p)); $! = 0;"
        done = await perl(sandbox, f"syscall(157, 38, 1, 0, 0, 0); {take} print syscall(101, 0, 0, 0, 0)")
        assert done in ("-1", ""), done
    listener = "syscall(317, 1, 8, pack('Sx6P', 1, pack('SCCL', 6, 0, 0, 0x7fff0000)))"
    assert await perl(sandbox, f"print {listener}, ' ', $!+0") == "-1 16", "there is a listener, and it is not theirs"


@gvisor_too
async def test_what_takes_a_machine_down_or_over_is_not_reached(
    sandbox: AnySandbox, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    for place in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe"):
        # from a file, as below
        await sandbox.write_files({"attack.sh": f"echo b > {place}".encode()})
        for _ in range(2):
            code, text = await sh(sandbox, "sh attack.sh")
            told = refusals(capsys, sandbox.id)
            if kind != "gvisor" and os.path.exists(place):  # there it is a file that nobody acts upon
                assert (code, told) == (0, {"trigger"}), text
            else:
                assert code != 0 and told == ({"path"} if kind == "gvisor" else set()), text
    await sh(sandbox, "cat /proc/sys/kernel/core_pattern; cat /proc/version; ls -l /proc/sysrq-trigger")
    assert refusals(capsys, sandbox.id) == set()
    assert Path("/proc/sys/kernel/core_pattern").read_text() == pattern


@gvisor_too
async def test_what_the_system_has_is_sealed(
    sandbox: AnySandbox, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # from a file, so that the list of refused commands plays no part: the walls alone must hold
    attacks = [
        "touch /x", "touch /usr/x", "touch /etc/x", "touch /dev/x", "touch /opt/koda/x", "touch /home/x",
        "mknod src/null c 1 3", "dd if=/dev/vda count=1", "chmod u+s /usr/bin/env", "hostname evil",
        "date -s 2001-01-01",
        "mount -t tmpfs none /tmp", "unshare -U true", "unshare -m true", "chroot / true",
        "ls -d /proc/1/root/var /proc/1/cwd/var",
        r"cp /usr/bin/cat src/c && chmod 4755 src/c && src/c /proc/self/status | grep -P 'Uid:.*\t0'",
    ]  # fmt: skip
    await sandbox.write_files({f"scripts/{number}.sh": attack.encode() for number, attack in enumerate(attacks)})
    run = "for n in $(seq 0 $1); do sh scripts/$n.sh >/dev/null 2>&1; echo $?; done"
    done = await sandbox.run(("sh", "-c", run, "sh", str(len(attacks) - 1)))
    codes = dict(zip(attacks, done.stdout.split(), strict=True))
    assert [attack for attack, code in codes.items() if code == "0"] == []
    heard = refused_calls(capsys, sandbox.id, beside="path")
    assert heard >= ({"clock_settime", "setuid"} if kind == "gvisor" else {"mknodat", "fchmodat", "setuid"})
    for words in ("echo b > /proc/sysrq-trigger", "mount -t tmpfs none /tmp", "chmod u+s /usr/bin/env", "insmod x.ko"):
        with pytest.raises(CommandBlocked):
            await sandbox.run(("sh", "-c", words))
        assert refusals(capsys, sandbox.id) == {"command"}
