"""The leak check itself: a check that cannot fail is none."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from koda_ray.config import REPO_ROOT
from koda_ray.serve import runfile
from tests import disks, leaks, services


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "_DEADLINE_S", 0.2)


@contextmanager
def waiting(**environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits, called as a test run would be."""
    command = [sys.executable, "-c", "print(flush=True); input()", "pytest"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, env=environment, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()  # before that the kernel may not say yet with which words it was started, and where
        yield process
        process.communicate()


def test_a_process_that_is_left_is_named_and_ended(quick: None) -> None:
    before = leaks.ProcessSnapshot.take()
    with subprocess.Popen([sys.executable, "-c", "input('a stray')"], stdin=subprocess.PIPE) as process:
        assert any("a stray" in line for line in before.left_behind())
        assert process.wait(timeout=60) == -9


def test_what_a_longer_lived_process_starts_is_its_own_business(quick: None) -> None:
    parent = "import subprocess, sys; input(); p = subprocess.Popen(['cat']); print(flush=True); p.wait()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", parent], **pipes) as process:
        before = leaks.ProcessSnapshot.take()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        assert before.left_behind() == []
        process.stdin.close()  # ends its cat, which ends it


def test_what_a_fixture_starts_anew_ends_with_the_fixture(quick: None) -> None:
    before, older = leaks.ProcessSnapshot.take(), leaks.ours()
    with waiting(**os.environ) as process:
        leaks.adopt(process.pid)
        assert before.left_behind() == []
        assert any(line.startswith(f"process {process.pid}") for line in leaks.strays(spare=older))  # but not later


def test_a_process_that_left_the_family_is_found(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    away = "os.setsid(), os.close(1), os.execvp('sleep', ['sleep', '3600'])"
    fork = f"import os\nif pid := os.fork(): print(pid)\nelse: {away}"
    older = leaks.ours()
    forked = subprocess.run([sys.executable, "-c", fork], check=True, stdout=subprocess.PIPE)
    left = psutil.Process(int(forked.stdout))
    deadline = time.monotonic() + 60
    # who forked it may end before it is another program; whose words may be there before its environment is
    while left.cmdline() != ["sleep", "3600"] or not leaks.is_marked(left):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert any("sleep 3600" in line for line in leaks.strays(spare=older))
    monkeypatch.setattr(leaks, "_DEADLINE_S", 60)  # what was killed goes when it is its turn
    assert leaks.strays(spare=older) == []


def test_a_temporary_folder_that_is_left_is_named_and_removed(quick: None) -> None:
    before = leaks.ProcessSnapshot.take()
    folder = Path(tempfile.mkdtemp(prefix="stray-"))
    assert before.left_behind() == [str(folder)]
    assert not folder.exists()


def test_folders_outside_count_by_whose_they_are(quick: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(leaks, "_OUTSIDE", (tmp_path,))
    with waiting() as other, waiting(**os.environ) as older:
        before = leaks.ProcessSnapshot.take()
        with waiting(**os.environ) as process:
            for named in (other, older, process):
                (tmp_path / f"koda-ray-{named.pid}-{runfile.start_of(named.pid)}" / "r").mkdir(parents=True)
            (tmp_path / f"session_2026-11-22_03-05-44_460806_{os.getpid()}").mkdir()
            (tmp_path / f"session_2026-11-22_03-05-44_460806_{other.pid}").mkdir()
            (tmp_path / "something-else").mkdir()
            left = before.left_behind()  # ends the process as well
            assert any(line.startswith(f"process {process.pid}") for line in left)
            names = [Path(line).name for line in left if line.startswith(str(tmp_path))]
            assert [name.partition("-")[0] for name in names] == ["koda", "session_2026"]
            assert names[0].split("-")[2] == str(process.pid) and names[1].endswith(f"_{os.getpid()}")
            assert len(list(tmp_path.iterdir())) == 4
        (tmp_path / f"koda-ray-{process.pid}-1").mkdir()
        assert before.left_behind() == []  # it may be the other's
        monkeypatch.setattr(leaks, "others", lambda: False)
        assert before.left_behind() == [str(tmp_path / f"koda-ray-{process.pid}-1")]
        run = leaks.ProcessSnapshot.take(whole=True)
        (tmp_path / "koda-a1b2c3_d").mkdir()  # the socket of a sandbox
        assert before.left_behind() == []
        assert run.left_behind() == [str(tmp_path / "koda-a1b2c3_d")]


def test_others_are_other_runs_and_servers() -> None:
    with waiting(**os.environ) as mine, waiting() as other:
        assert leaks.is_marked(psutil.Process(mine.pid)) and not leaks.is_marked(psutil.Process(other.pid))
        assert leaks.others()


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_port_that_is_left_open_is_named(quick: None, address: str) -> None:
    before = leaks.ProcessSnapshot.take()
    with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as server:
        port = server.getsockname()[1]
        assert before.left_behind() == [f"port {address}:{port} of this process"]
        with socket.create_connection((address, port)):  # a connection is no port
            assert leaks.ProcessSnapshot.take().left_behind() == []
    assert before.left_behind() == []


def test_a_missing_service_skips_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(services.SERVICES, "absent", lambda: "it was never there")
    monkeypatch.delenv("KODA_TEST_REQUIRE", raising=False)
    with pytest.raises(pytest.skip.Exception, match="needs absent: it was never there"):
        services.need("absent")


def test_a_missing_service_fails_where_it_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(services.SERVICES, "wanted", lambda: "it was never there")
    monkeypatch.setenv("KODA_TEST_REQUIRE", "ffmpeg, wanted")
    with pytest.raises(pytest.fail.Exception, match="KODA_TEST_REQUIRE asks for: it was never there"):
        services.need("wanted")


@pytest.mark.parametrize("asked", ["mount", "all", "ffmpeg, mount"])
def test_a_disk_that_cannot_be_mounted_skips_or_fails_as_every_service(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no mount program
    services.why_missing.cache_clear()
    try:
        monkeypatch.delenv("KODA_TEST_REQUIRE", raising=False)
        with pytest.raises(pytest.skip.Exception, match="needs mount: mount cannot be run"), disks.small(tmp_path, 1):
            pass
        monkeypatch.setenv("KODA_TEST_REQUIRE", asked)
        with pytest.raises(pytest.fail.Exception, match="KODA_TEST_REQUIRE asks for"), disks.small(tmp_path, 1):
            pass
    finally:
        services.why_missing.cache_clear()


def test_what_the_whole_run_installs_it_requires() -> None:
    """A service that is required nowhere is skipped wherever it is missing, and nobody hears of it."""
    script = (REPO_ROOT / ".ci" / "run").read_text()
    required = {name for line in re.findall(r"services\+?=,?([\w,]+)", script) for name in line.split(",")}
    # a kernel of one's own to start in a machine of one's own: larger than all else that tests need
    assert set(services.SERVICES) - required == {"virtual_machine"}
    assert required <= set(services.SERVICES)


def test_an_unknown_service_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown service 'ffmpge'"):
        services.need("ffmpge")


FAILING = """
import asyncio, gc

def test_that_leaves_a_loop_open():
    loop = asyncio.new_event_loop()
    assert not loop

def test_that_leaves_a_loop_running():
    asyncio._set_running_loop(asyncio.new_event_loop())

async def test_after_them():
    gc.collect()
"""


def run_tests(folder: Path, text: str) -> str:
    """Run tests of their own with this suite's conftest; return what pytest said."""
    (folder / "test_them.py").write_text(text)
    settings = ("-c", str(REPO_ROOT / "pyproject.toml"), "-p", "tests.conftest", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *settings, str(folder)]
    return subprocess.run(command, cwd=REPO_ROOT, capture_output=True, text=True, check=False, timeout=60).stdout


@pytest.mark.full
def test_a_test_that_fails_takes_no_other_with_it(tmp_path: Path) -> None:
    said = run_tests(tmp_path, FAILING)
    told = [line.split(" - ")[0].split("::")[-1] for line in said.splitlines() if line.startswith(("F", "E"))]
    assert "runs in this thread" in said
    assert {name for name in told if name.startswith("test_")} == {
        "test_that_leaves_a_loop_open",
        "test_that_leaves_a_loop_running",
    }
    assert "1 failed, 2 passed, 1 error" in said


LASTING = """
import socket
import pytest
from tests import leaks

leaks._DEADLINE_S = 0.2

@pytest.fixture(scope="session")
def port():
    server = socket.create_server(("127.0.0.1", 0))
    yield server.getsockname()[1]
    {ends}

def test_that_asks_first(request):
    assert request.getfixturevalue("port")

def test_that_asks_next(port):
    pass
"""


@pytest.mark.full
def test_a_port_of_a_longer_lived_fixture_is_left_until_the_run_is_over(tmp_path: Path) -> None:
    assert "2 passed in" in run_tests(tmp_path, LASTING.format(ends="server.close()"))
    said = run_tests(tmp_path, LASTING.format(ends="leaks.kept = server"))
    assert "2 passed, 1 error" in said and "of this process" in said
