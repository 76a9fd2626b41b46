from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from koda_ray.console.server import MARK, OwnServer, ServerFailed, running_url, stop_running
from koda_ray.serve import runfile


def test_a_runfile_says_who_runs(tmp_path: Path) -> None:
    path = tmp_path / "data" / "server.json"
    assert runfile.read(path) is None
    made = runfile.write(path, url="http://127.0.0.1:1", preview_url=None)
    assert runfile.read(path) == made and made.pid == os.getpid()
    runfile.remove(path)
    assert not path.exists()


def test_a_runfile_of_the_dead_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    body = {"url": "http://127.0.0.1:1", "pid": child.pid, "started": 5}
    for text in (json.dumps(body), json.dumps({**body, "pid": os.getpid()}), "{", "[]", '{"pid": 1}'):
        path.write_text(text)
        assert runfile.read(path) is None
    runfile.remove(path)
    assert path.exists()


def test_where_the_file_lies(tmp_path: Path) -> None:
    assert runfile.runfile_path({}) == Path("data/server.json")
    assert runfile.runfile_path({"DATABASE_PATH": "/x/koda.db"}) == Path("/x/server.json")
    assert runfile.runfile_path({"KODA_RUNFILE": "/y/run.json", "DATABASE_PATH": "/x/koda.db"}) == Path("/y/run.json")


def test_the_address_is_given_or_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KODA_RUNFILE", str(tmp_path / "none.json"))
    monkeypatch.delenv("KODA_SERVER", raising=False)
    assert running_url() is None
    assert running_url("http://a") == "http://a"
    monkeypatch.setenv("KODA_SERVER", "http://b")
    assert running_url() == "http://b"


def test_a_server_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KODA_RUNFILE", str(tmp_path / "server.json"))
    monkeypatch.setenv("KODA_HOST", "0.0.0.0")
    monkeypatch.setenv("DATABASE_PATH", str(tmp_path / "koda.db"))
    own = OwnServer(tmp_path / "server.log")
    with pytest.raises(ServerFailed, match="KODA_API_KEYS"):
        own.start()
    own.stop()


@pytest.mark.ray
@pytest.mark.slow
def test_a_server_of_ones_own_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {
        "KODA_RUNFILE": tmp_path / "server.json",
        "DATABASE_PATH": tmp_path / "koda.db",
        "STORAGE_PATH": tmp_path / "storage",
        "SANDBOX_PATH": tmp_path / "sandboxes",
    }.items():
        monkeypatch.setenv(name, str(value))
    own = OwnServer(tmp_path / "server.log")
    seen: list[float] = []
    url = own.start(waiting=seen.append)
    assert running_url() == url and seen
    mark = own._mark
    assert len(marked(mark)) > 3  # the server, and Ray's daemons and workers
    own.stop()
    assert marked(mark) == []
    assert running_url() is None
    own.stop()


@pytest.mark.ray
@pytest.mark.slow
def test_a_server_does_not_outlive_the_one_it_was_started_for(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from koda_ray.console.server import OwnServer\n"
        f"own = OwnServer(Path({str(tmp_path)!r}) / 'server.log'); own.start(); print(own._mark, flush=True)\n"
        "sys.stdin.read()"
    )
    environment = {**os.environ, "KODA_RUNFILE": str(tmp_path / "server.json"), "DATABASE_PATH": str(tmp_path / "k.db")}
    environment |= {"STORAGE_PATH": str(tmp_path / "storage"), "SANDBOX_PATH": str(tmp_path / "sandboxes")}
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    )
    assert parent.stdout is not None and parent.stdin is not None
    mark = parent.stdout.readline().strip()
    assert marked(mark)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    parent.stdin.close()
    deadline = time.monotonic() + 40
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert marked(mark) == []


def test_nothing_to_stop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KODA_RUNFILE", str(tmp_path / "server.json"))
    assert stop_running() is None


def marked(mark: str) -> list[str]:
    found: list[str] = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.name())
        except psutil.Error:
            continue
    return found
