from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from koda_ray.config import REPO_ROOT, Settings
from koda_ray.console.server import MARK, OwnServer, ServerNotStarted, running_url, stop_running
from koda_ray.errors import InvalidInput, StorageError
from koda_ray.serve import ray_folder, runfile
from koda_ray.serve.connections import MOST_HEADERS
from koda_ray.serve.ray_auth import choose_ray_auth


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
        path.chmod(0o600)
        assert runfile.read(path) is None
    runfile.remove(path)
    assert path.exists()


def test_a_runfile_is_believed_where_nobody_else_can_have_written_it(tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    made = runfile.write(path, url="http://127.0.0.1:1", preview_url=None)
    assert path.stat().st_mode & 0o777 == 0o600 and runfile.read(path) == made
    for mode in (0o644, 0o660, 0o666, 0o700):
        path.chmod(mode)
        with pytest.raises(InvalidInput, match=rf"server\.json .* not believed: its mode is {mode:04o}.*remove it"):
            runfile.read(path)
    runfile.remove(path)
    assert path.exists()
    path.chmod(0o600)
    real = path.rename(tmp_path / "real.json")
    path.symlink_to(real)
    with pytest.raises(InvalidInput, match="no regular file"):
        runfile.read(path)
    path.unlink()
    os.mkfifo(path, 0o600)  # nobody writes to it, and nobody waits for that
    with pytest.raises(InvalidInput, match="no regular file"):
        runfile.read(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_runfile_of_another_user_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    runfile.write(path, url="http://127.0.0.1:1", preview_url=None)
    os.chown(path, 65534, 65534)
    with pytest.raises(InvalidInput, match="belongs to user 65534"):
        runfile.read(path)


def test_where_the_file_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KODA_RUNFILE", "DATABASE_PATH", "KODA_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert runfile.runfile_path() == REPO_ROOT / "data" / "server.json"
    monkeypatch.setenv("DATABASE_PATH", "/x/koda.db")
    assert runfile.runfile_path() == runfile.runfile_path(Settings()) == Path("/x/server.json")
    monkeypatch.setenv("KODA_RUNFILE", "/y/run.json")
    assert runfile.runfile_path() == runfile.runfile_path(Settings()) == Path("/y/run.json")


_ASKED = """
from koda_ray.config import Settings
from koda_ray.console.server import running_url
from koda_ray.serve import runfile
print(runfile.runfile_path(Settings()), runfile.runfile_path(), running_url())
"""


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        pytest.param({}, "kept", marks=pytest.mark.full),
        ({"DATABASE_PATH": "{}/said/koda.db"}, "said"),
        pytest.param({"KODA_DATA_DIR": "{}/data"}, "kept", marks=pytest.mark.full),
    ],
)
def test_a_server_is_looked_for_where_its_settings_have_it_announced(
    tmp_path: Path, variables: dict[str, str], place: str
) -> None:
    (tmp_path / "mine.env").write_text(f"DATABASE_PATH={tmp_path}/kept/koda.db\n")
    path = tmp_path / place / "server.json"
    runfile.write(path, url="http://127.0.0.1:9", preview_url=None)
    environment = {name: value for name, value in os.environ.items() if name not in ("KODA_RUNFILE", "KODA_SERVER")}
    environment |= {"KODA_ENV_FILE": str(tmp_path / "mine.env"), "PYTHONPATH": str(REPO_ROOT)}
    environment |= {name: value.format(tmp_path) for name, value in variables.items()}
    asked = [sys.executable, "-P", "-c", _ASKED]
    said = subprocess.run(asked, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert said.stdout.split() == [str(path), str(path), "None"], said.stderr  # nobody listens at that port


def test_the_address_is_given_or_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KODA_RUNFILE", str(tmp_path / "none.json"))
    monkeypatch.delenv("KODA_SERVER", raising=False)
    assert running_url() is None
    assert running_url("http://a") == "http://a"
    monkeypatch.setenv("KODA_SERVER", "http://b")
    assert running_url() == "http://b"


@pytest.mark.full
def test_a_server_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KODA_RUNFILE", str(tmp_path / "server.json"))
    monkeypatch.setenv("KODA_HOST", "0.0.0.0")
    monkeypatch.setenv("DATABASE_PATH", str(tmp_path / "koda.db"))
    (tmp_path / "server.log").write_text("words of an earlier server\n")
    own = OwnServer(tmp_path / "server.log")
    with pytest.raises(ServerNotStarted, match="KODA_API_KEYS") as raised:
        own.start()
    own.stop()
    assert "earlier" not in raised.value.message
    assert (tmp_path / "server.log").read_text().startswith("words of an earlier server")


def test_a_data_folder_that_cannot_be_made_is_told_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(StorageError, match=r"note\.txt/data could not be written: .*KODA_DATA_DIR"):
        OwnServer(tmp_path / "note.txt/data/server.log").start()


@pytest.mark.ray
@pytest.mark.full
def test_a_server_of_ones_own_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {
        "KODA_RUNFILE": tmp_path / "server.json",
        "DATABASE_PATH": tmp_path / "koda.db",
        "STORAGE_PATH": tmp_path / "storage",
        "SANDBOX_PATH": tmp_path / "sandboxes",
    }.items():
        monkeypatch.setenv(name, str(value))
    heard = hostile_folder(monkeypatch, tmp_path / "cloned")
    own = OwnServer(tmp_path / "server.log")
    try:
        seen: list[float] = []
        url = own.start(waiting=seen.append)
        assert running_url() == url and seen
        mark, folder = own.mark, Path(f"/tmp/koda-ray-{own.pid}-{runfile.start_of(own.pid or 0)}")
        assert len(marked(mark)) > 3  # the server, and Ray's daemons and workers
        assert folder.stat().st_mode & 0o777 == 0o700
        assert "InvalidAuthToken" in intruder(own.pid or 0)
        with httpx.Client(base_url=url, trust_env=False, timeout=30) as http:
            through_serve(http, url)
            session_id = http.post("/v1/sessions", json={"prompt": "a ball"}).json()["sessionId"]
            with http.stream("GET", f"/v1/sessions/{session_id}/events") as events:
                assert next(events.iter_bytes()).startswith(b"event: STATE_CHANGE")
                own.stop()
        assert marked(mark) == []
        assert not folder.exists()
        assert running_url() is None
        assert not heard.exists()
    finally:
        own.stop()


def hostile_folder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Stand in a page's folder that brings modules by the names of ours; return what one of them leaves as it runs."""
    heard = folder / "heard"
    for name in ("koda_ray", "structlog", "httpx"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"open({str(heard)!r}, 'a').write({name!r})")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(REPO_ROOT), os.environ.get("PYTHONPATH", "")]).strip(":"))
    monkeypatch.chdir(folder)
    return heard


def through_serve(http: httpx.Client, url: str) -> None:
    """What the tests of the API see under uvicorn holds in Ray Serve's replica too."""
    assert http.get("/v1/ready").json()["ready"] is True
    assert http.get("/v1/sessions/ses_unknown").json()["code"] == "NOT_FOUND"
    assert http.post("/v1/sessions", content=b"x" * (1024 * 1024 + 1)).status_code == 413
    many = {f"x-{number}": "v" for number in range(MOST_HEADERS + 1)}
    assert http.get("/v1/ready", headers=many).status_code == 431, "its connections are ours"
    with pytest.raises(InvalidStatus) as refused, connect(f"{url.replace('http', 'ws')}/v1/sessions/ses_unknown/ws"):
        pass
    assert refused.value.response.status_code == 404


def intruder(pid: int) -> str:
    """Try to join the server's cluster from a process that it did not start; return what it is told."""
    gcs = next(child for child in psutil.Process(pid).children(recursive=True) if child.name() == "gcs_server")
    port = next(one.laddr.port for one in gcs.net_connections("tcp") if one.status == psutil.CONN_LISTEN)
    # as `ray.init` does first; that itself takes the machine's own address for loopback's, where nobody listens
    code = f"from ray._raylet import GcsClient; print('joined', GcsClient(address='127.0.0.1:{port}').cluster_id)"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "RAY_AUTH_MODE": "disabled"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        return next((line for line in process.stdout if "InvalidAuthToken" in line or "joined" in line), "")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.ray
@pytest.mark.full
def test_a_server_does_not_outlive_the_one_it_was_started_for(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from koda_ray.console.server import OwnServer\n"
        f"own = OwnServer(Path({str(tmp_path)!r}) / 'server.log'); own.start(); print(own.mark, flush=True)\n"
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
    deadline = time.monotonic() + 60
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert marked(mark) == []


def test_a_cluster_of_ones_own_has_a_secret_of_its_own() -> None:
    first = {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN_PATH": "/somewhere"}
    second: dict[str, str] = {}
    choose_ray_auth(first, address=None)
    choose_ray_auth(second, address=None)
    assert first["RAY_AUTH_MODE"] == second["RAY_AUTH_MODE"] == "token"
    assert len(first["RAY_AUTH_TOKEN"]) == 64 and first["RAY_AUTH_TOKEN"] != second["RAY_AUTH_TOKEN"]
    assert "RAY_AUTH_TOKEN_PATH" not in first


def test_a_cluster_of_somebody_elses_keeps_its_own(tmp_path: Path) -> None:
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        theirs = {name: "theirs"}  # its address may come from a file of settings
        choose_ray_auth(theirs, address="10.0.0.1:6379")
        assert (theirs["RAY_AUTH_MODE"], theirs[name]) == ("token", "theirs")
    plain = {"HOME": str(tmp_path)}
    choose_ray_auth(plain, address="10.0.0.1:6379")
    assert plain["RAY_AUTH_MODE"] == "disabled"
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("theirs")
    for mode in ({}, {"RAY_AUTH_MODE": "disabled"}):
        found = {"HOME": str(tmp_path), **mode}
        choose_ray_auth(found, address="auto")
        assert found["RAY_AUTH_MODE"] == mode.get("RAY_AUTH_MODE", "token") and "RAY_AUTH_TOKEN" not in found


def test_folders_of_killed_servers_are_swept() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    stale, mine = Path(f"/tmp/koda-ray-{child.pid}-1"), ray_folder.make()
    stale.mkdir()
    try:
        assert stale.name in ray_folder.sweep()
        assert not stale.exists() and Path(mine).is_dir()
    finally:
        ray_folder.remove(mine)


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
