"""Reading output that does not end, and telling files that change at awkward moments apart."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koda_ray.config import REPO_ROOT
from koda_ray.errors import SandboxError
from koda_ray.sandbox.kept import KeptOutput
from koda_ray.sandbox.process import Capture, Confined
from koda_ray.seccomp import filter_program

_ASK = 0x7FC00000.to_bytes(4, sys.byteorder)


async def captured(pieces: list[bytes], *, head: int, tail: int) -> Capture:
    read, write = os.pipe()
    capture = Capture(read, KeptOutput(head_bytes=head, tail_bytes=tail))
    for piece in pieces:
        os.write(write, piece)
        await asyncio.sleep(0)
    os.close(write)
    await capture.drained()
    return capture


@given(
    pieces=st.lists(st.binary(min_size=1, max_size=50).map(lambda b: b.hex().encode()), max_size=20),
    head=st.integers(0, 200),
    tail=st.integers(1, 200),
)
def test_the_first_and_the_last_bytes_are_kept(pieces: list[bytes], head: int, tail: int) -> None:
    whole = b"".join(pieces).decode()
    capture = asyncio.run(captured(pieces, head=head, tail=tail))
    if len(whole) <= head + tail:
        assert not capture.truncated and capture.text() == whole
    else:
        left_out = len(whole) - head - tail
        assert capture.truncated and f"{left_out} bytes of output left out" in capture.text()
        assert capture.text().startswith(whole[:head]) and capture.text().endswith(whole[-tail:])


async def test_half_a_character_does_not_break_the_text() -> None:
    capture = await captured(["é".encode()[:1], b"x"], head=10, tail=10)
    assert capture.text() == "\ufffdx"


async def test_a_pipe_that_somebody_keeps_open_is_let_go() -> None:
    read, write = os.pipe()
    capture = Capture(read, KeptOutput(head_bytes=10, tail_bytes=10))
    os.write(write, b"so far")
    async with asyncio.timeout(60):
        await capture.drained()
    capture.close()
    os.close(write)
    assert capture.text() == "so far"


async def test_a_launcher_that_does_not_exist() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(SandboxError, match="no-such-launcher"):
        Confined.start(lambda _: ["no-such-launcher"], kept=KeptOutput(head_bytes=10, tail_bytes=10))
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_launcher_that_never_isolates() -> None:
    process = Confined.start(
        lambda _: ["/bin/sh", "-c", "echo no walls >&2; exit 9"], kept=KeptOutput(head_bytes=100, tail_bytes=100)
    )
    assert await process.wait() == 9
    assert process.stderr.text() == "no walls\n"
    await process.kill()


def test_the_filter_is_well_formed() -> None:
    for machine, heard, nesting, told in itertools.product(("x86_64", "aarch64"), *[(False, True)] * 3):
        program = filter_program(machine, heard=heard, nesting=nesting, told=told)
        assert program is not None and len(program) % 8 == 0 and len(program) // 8 < 4096
        codes = [program[at : at + 8] for at in range(0, len(program), 8)]
        for number, code in enumerate(codes):
            kind, yes, no = int.from_bytes(code[:2], sys.byteorder), code[2], code[3]
            if kind & 0x07 == 0x05:  # a jump lands on an instruction
                assert number + 1 + max(yes, no) < len(codes)
        assert codes[-1][:2] == (6).to_bytes(2, sys.byteorder)
        asks = [code for code in codes if code[:2] == (6).to_bytes(2, sys.byteorder) and code[4:] == _ASK]
        assert bool(asks) == heard
    assert filter_program("pdp11") is None


def test_imports_are_cheap() -> None:
    """Session actors import these; what is only needed to make a sandbox comes when one is made."""
    script = """
import sys, pydantic
before = set(sys.modules)
import koda_ray.sandbox.base, koda_ray.sandbox.build, koda_ray.sandbox.local, koda_ray.sandbox.service
heavy = {"docker", "e2b", "modal", "ray", "httpx", "websockets", "structlog", "psutil", "sqlalchemy"}
print(sorted(heavy & (set(sys.modules) - before)))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=REPO_ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_guest_programs_are_there_and_can_be_run() -> None:
    guest = Path(REPO_ROOT) / "koda_ray" / "sandbox" / "guest"
    for name in ("bin/bun", "bin/bunx", "bin/npm"):
        assert os.access(guest / name, os.X_OK), f"{name} lost its mode"
    assert {path.name for path in guest.iterdir()} >= {"forward.mjs", "scripts.cjs", "bin"}


@pytest.mark.sandbox
@pytest.mark.needs("bwrap", "mount", "node")
@pytest.mark.full
def test_commands_leave_no_zombies_where_nobody_reaps_them(tmp_path: Path) -> None:
    """They would count as processes of their sandbox, until it could start no more."""
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-m"]
    done = subprocess.run(
        [*command, "tests.sandbox.unreaped", str(tmp_path)],
        cwd=REPO_ROOT, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told == {"codes": [3], "signalled": [139, "said\n"], "zombies": [], "given": "heard\n"}
