"""Copies of an FFmpeg that is loaded: they are as those that are started, and without one nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from koda_ray.errors import EncodeFailed
from koda_ray.render import ffmpeg, zygote
from koda_ray.render.compiling import compile_library
from koda_ray.render.programs import find_program
from koda_ray.render.zygote import CopiedProcess, Zygote, forget_all, zygote_of

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

PICTURES = ["-f", "lavfi", "-i", "testsrc=s=64x48:r=10:d=1"]
ENDLESS = ["-v", "error", "-re", "-f", "lavfi", "-i", "testsrc=s=64x48:r=10", "-f", "null", "-"]


@pytest.fixture
def program() -> Iterator[str]:
    forget_all()
    yield find_program("ffmpeg")
    forget_all()


@pytest.fixture
def loaded(program: str) -> Zygote:
    return there(program)


def there(program: str) -> Zygote:
    deadline = time.monotonic() + 120
    while (found := zygote_of(program)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def waiting() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if child.name() == "koda-zygote"]


def held_by(pid: int) -> list[str]:
    folder = Path(f"/proc/{pid}/fd")
    held: list[str] = []
    for entry in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # it may close some meanwhile
            held.append(os.readlink(entry))
    return held


async def started(*arguments: str, heard: bool = True) -> ffmpeg.Child:
    return await ffmpeg.start("ffmpeg", arguments, heard=heard)


@pytest.mark.usefixtures("loaded")
async def test_a_copy_writes_what_a_started_one_writes(program: str) -> None:
    for line in (
        [*PICTURES, "-c:v", "libx264", "-fflags", "+bitexact", "-f", "matroska", "-"],
        [*PICTURES, "-vf", "scale=32:24", "-f", "framemd5", "-"],
        ["-version"],
    ):
        process = await started("-v", "error", "-threads", "1", *line)
        assert isinstance(process, CopiedProcess)
        output, errors = await process.communicate()
        expected = subprocess.run([program, "-v", "error", "-threads", "1", *line], capture_output=True, check=True)
        assert (process.returncode, output, errors) == (0, expected.stdout, expected.stderr)


@pytest.mark.usefixtures("loaded")
async def test_a_copy_is_a_child_that_ps_shows_as_what_it_is(program: str) -> None:
    process = await started(*ENDLESS)
    child = psutil.Process(process.pid)
    try:
        assert child.ppid() == os.getpid()
        assert child.name().startswith(Path(program).name[:10])
        assert child.cmdline() == [program, *ENDLESS]
        assert child.environ().get("HOME") == os.environ.get("HOME")
        deadline = time.monotonic() + 60
        while [name for name in held_by(process.pid) if name.startswith("socket:") or name.endswith(".so")]:
            assert time.monotonic() < deadline  # it lets go once it has said that it is there
            await asyncio.sleep(0.01)
    finally:
        process.kill()
    assert await process.wait() == -signal.SIGKILL
    assert not child.is_running()
    with pytest.raises(ProcessLookupError):
        process.kill()


@pytest.mark.usefixtures("loaded")
async def test_a_copy_works_in_the_folder_of_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    await ffmpeg.run("ffmpeg", [*ffmpeg.QUIETLY, *PICTURES, "here.mp4"], timeout_s=60)
    assert (tmp_path / "here.mp4").stat().st_size > 1000


@pytest.mark.usefixtures("loaded")
async def test_a_copy_is_fed_and_fails_as_a_started_one(tmp_path: Path) -> None:
    async def feed() -> AsyncGenerator[bytes]:
        for _ in range(40):
            yield bytes(64 * 48 * 3 // 2)

    raw = ["-f", "rawvideo", "-s", "64x48", "-r", "10", "-i", "pipe:"]
    sums = await ffmpeg.run("ffmpeg", [*ffmpeg.QUIETLY, *raw, "-f", "framemd5", "pipe:"], timeout_s=60, feed=feed())
    assert len([line for line in sums.splitlines() if not line.startswith(b"#")]) == 40
    with pytest.raises(EncodeFailed, match=r"ended with \d+: .*No such file or directory"):
        await ffmpeg.run("ffmpeg", [*ffmpeg.QUIETLY, "-i", str(tmp_path / "nothing.mp4"), "x.mp4"], timeout_s=60)
    with pytest.raises(EncodeFailed, match="did not end in") as caught:
        await ffmpeg.run("ffmpeg", ENDLESS, timeout_s=0.3)
    assert caught.value.retryable


@pytest.mark.usefixtures("loaded")
async def test_copies_at_once_leave_nothing() -> None:
    children = set(psutil.Process().children())
    before = set(os.listdir("/proc/self/fd"))
    line = ["-v", "error", *PICTURES, "-f", "framemd5", "-"]

    async def one(number: int) -> bytes:
        if number % 4:
            return await ffmpeg.run("ffmpeg", line, timeout_s=60)
        process = await started(*ENDLESS)
        await ffmpeg.ensure_ended(process)
        return b""

    outputs = await asyncio.gather(*(one(number) for number in range(24)))
    assert len(set(outputs)) == 2
    assert set(psutil.Process().children()) <= children
    await asyncio.sleep(0)  # pipes that have ended are closed
    assert set(os.listdir("/proc/self/fd")) == before
    (waits,) = waiting()
    forget_all()
    assert not waits.is_running()


@pytest.mark.usefixtures("loaded")
async def test_a_copy_has_the_environment_of_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FFREPORT", "file=/dev/stderr")
    process = await started(*ENDLESS)
    assert isinstance(process, CopiedProcess)
    shown = psutil.Process(process.pid).environ()
    await ffmpeg.ensure_ended(process)
    assert shown == dict(os.environ)
    reports = await started("-version")
    assert b"ffmpeg started on" in (await reports.communicate())[1]


async def test_a_copy_has_the_priority_of_the_thread_that_starts_it(loaded: Zygote, program: str) -> None:
    nice = os.getpriority(os.PRIO_PROCESS, 0)

    def work() -> int:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice + 1)
        assert there(program) is not loaded
        return asyncio.run(priority())

    async def priority() -> int:
        process = await started(*ENDLESS)
        assert isinstance(process, CopiedProcess)
        try:
            return os.getpriority(os.PRIO_PROCESS, process.pid)
        finally:
            await ffmpeg.ensure_ended(process)

    with ThreadPoolExecutor(1) as other:
        assert await asyncio.wrap_future(other.submit(work)) == nice + 1
    assert await priority() == nice
    assert there(program) is loaded


@pytest.mark.usefixtures("program")
async def test_until_one_is_loaded_programs_are_started() -> None:
    process = await started("-version")
    assert isinstance(process, asyncio.subprocess.Process)
    assert (await process.communicate())[0].startswith(b"ffmpeg version")


async def test_one_that_was_killed_is_loaded_again(loaded: Zygote, program: str) -> None:
    (waits,) = waiting()
    waits.kill()
    waits.wait()
    process = await started("-version")
    assert isinstance(process, asyncio.subprocess.Process)
    assert (await process.communicate())[0].startswith(b"ffmpeg version")
    assert there(program) is not loaded
    again = await started("-version")
    assert isinstance(again, CopiedProcess)
    await again.communicate()


async def test_one_that_does_not_answer_is_given_up_and_nothing_is_mistaken(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zygote, "_REPLY_S", 0.2)
    there(program)
    (waits,) = waiting()
    waits.suspend()
    lines = [[*ffmpeg.QUIETLY, "-f", "lavfi", "-i", f"testsrc=s=64x48:r=10:d={second}"] for second in (1, 2, 3)]
    works = [ffmpeg.run("ffmpeg", [*line, "-f", "framemd5", "-"], timeout_s=60) for line in lines]
    outputs = await asyncio.gather(*works)
    assert [output.count(b"\n0,") for output in outputs] == [10, 20, 30]
    assert not waits.is_running()


@pytest.mark.parametrize("told", [False, True])
def test_an_interrupt_leaves_no_copy(told: bool, loaded: Zygote, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes when a copy was asked for, and that has told its number or has not."""

    def interrupted(control: socket.socket, *message: list[bytes] | list[int]) -> None:
        send(control, *message)
        if told:
            assert select.select([control], [], [], 60)[0]
        raise KeyboardInterrupt

    send = socket.send_fds

    (waits,) = waiting()
    if not told:
        waits.suspend()
    monkeypatch.setattr(socket, "send_fds", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loaded.copy(ENDLESS, stdin=0, stdout=1, stderr=2)
    monkeypatch.undo()
    with pytest.raises(OSError, match=r"."):
        loaded.copy(ENDLESS, stdin=0, stdout=1, stderr=2)

    forget_all()
    assert not [child for child in psutil.Process().children() if ENDLESS[-4] in child.cmdline()]


async def test_what_does_not_fit_is_started(loaded: Zygote, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [word for number in range(5000) for word in ("-metadata", f"k{number}=v")]
    long = ["-metadata", "k=" + "v" * 100_000]
    monkeypatch.setenv("KODA_LONG", "v" * 60_000)
    for words in (many, long):
        process = await started("-v", "error", *PICTURES, *words, "-f", "null", "-")
        assert isinstance(process, asyncio.subprocess.Process)
        await process.communicate()
        assert process.returncode == 0
    with pytest.raises(ValueError, match="null byte"):
        await started("-i", "no\0-such")
    assert there(program) is loaded
    process = await started("-version")
    assert isinstance(process, CopiedProcess)
    await process.communicate()


async def test_where_nothing_can_be_copied_it_is_tried_once(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[str] = []

    def folder(name: str) -> Path:
        loads.append(name)
        return tmp_path

    def compiled(source: bytes, *, packages: str) -> bytes:
        return compile_library(source.replace(b"SYS_clone3", b"100000"), packages=packages)

    monkeypatch.setattr(zygote, "own_folder", folder)
    monkeypatch.setattr(zygote, "compile_library", compiled)
    for _ in range(3):
        process = await started("-version")
        assert isinstance(process, asyncio.subprocess.Process)
        await process.communicate()
        await asyncio.to_thread(loading_ended)
    assert zygote_of(program) is None
    assert len(loads) == 1
    assert not waiting()


def loading_ended() -> None:
    for thread in threading.enumerate():
        if thread.name == "zygote":
            thread.join(60)


def test_one_that_is_not_loaded_yet_is_ended_too(program: str) -> None:
    for _ in range(3):
        assert zygote_of(program) is None
        forget_all()
    loading_ended()
    assert not waiting()


@pytest.mark.usefixtures("loaded")
def test_a_fork_of_ours_keeps_none_from_ending() -> None:
    (waits,) = waiting()
    sleeper = os.fork()
    if sleeper == 0:
        time.sleep(60)
        os._exit(0)
    forget_all()
    assert not waits.is_running()
    os.kill(sleeper, signal.SIGKILL)
    os.waitpid(sleeper, 0)


THREADED = """
#include <pthread.h>
#include <unistd.h>
static void *wait(void *nothing) { pause(); return nothing; }
__attribute__((constructor)) static void begin(void) { pthread_t thread; pthread_create(&thread, 0, wait, 0); }
int main(int count, char **line) { return count > 1 ? 0 : 1; }
"""


@pytest.mark.parametrize("kind", ["script", "not linked", "has threads", "no compiler"])
async def test_without_one_programs_are_started(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    path = tmp_path / "ffmpeg"
    if kind == "script":
        path.write_text(f'#!/bin/sh\nexec "{program}" "$@"\n')
        path.chmod(0o755)
    elif kind in {"not linked", "has threads"}:
        linked = ["-static"] if kind == "not linked" else ["-pthread"]
        subprocess.run(["cc", *linked, "-x", "c", "-", "-o", str(path)], input=THREADED.encode(), check=True)
    else:
        path.symlink_to(program)
        monkeypatch.setattr(zygote, "own_folder", lambda _name: tmp_path)
        monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ffmpeg, "find_program", lambda _name: str(path))
    assert zygote_of(str(path)) is None
    await asyncio.to_thread(loading_ended)
    assert zygote_of(str(path)) is None
    assert not waiting()
    process = await started("-version")
    assert isinstance(process, asyncio.subprocess.Process)
    await process.communicate()
    assert process.returncode == 0


@pytest.mark.usefixtures("loaded")
def test_threads_that_start_programs_at_once_get_each_their_own(program: str) -> None:
    outputs: list[bytes] = []

    def work(second: int) -> None:
        line = ["-v", "error", "-f", "lavfi", "-i", f"testsrc=s=64x48:r=10:d={second}", "-f", "framemd5", "-"]
        outputs.append(asyncio.run(ffmpeg.run("ffmpeg", line, timeout_s=60)))

    threads = [threading.Thread(target=work, args=(second,)) for second in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = sorted(len([line for line in output.splitlines() if not line.startswith(b"#")]) for output in outputs)
    assert counts == [10, 20, 30, 40]


@pytest.mark.parametrize("how", ["", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_it_ends_with_its_process(how: str) -> None:
    code = (
        "import os, sys, time, psutil\n"
        "from koda_ray.render.programs import find_program\n"
        "from koda_ray.render.zygote import zygote_of\n"
        "while (zygote := zygote_of(find_program('ffmpeg'))) is None: time.sleep(0.01)\n"
        "print(*[child.pid for child in psutil.Process().children()], flush=True)\n" + how
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    (number,) = map(int, done.stdout.split())
    deadline = time.monotonic() + 60
    while psutil.pid_exists(number) and psutil.Process(number).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.01)
