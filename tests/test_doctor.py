"""The doctor, on this machine and on this machine with something taken away."""

from __future__ import annotations

import json
import os
import re
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from pydantic import SecretStr

from koda_ray import doctor
from koda_ray.config import REPO_ROOT, Settings
from koda_ray.doctor import Examination, Finding, containers, machine, programs, services
from koda_ray.render import isolation
from koda_ray.render.programs import find_program
from koda_ray.wire import Health


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        database_path=tmp_path / "data" / "koda.db",
        storage_path=tmp_path / "data" / "storage",
        sandbox_path=tmp_path / "data" / "sandboxes",
        port=0,
        preview_port=0,
    )


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    folder = tmp_path / "tools"
    folder.mkdir()
    return folder


def only(findings: list[Finding], name: str) -> Finding:
    (found,) = [finding for finding in findings if finding.name == name]
    return found


def without(tools: Path, *names: str) -> dict[str, str]:
    """An environment whose PATH has everything that this one has, but for some programs."""
    for folder in reversed(os.environ["PATH"].split(":")):
        for program in Path(folder).iterdir() if Path(folder).is_dir() else ():
            link = tools / program.name
            if program.name not in names:
                link.unlink(missing_ok=True)
                link.symlink_to(program)
    return {**os.environ, "PATH": str(tools)}


@pytest.mark.needs("ffmpeg", "bwrap", "node", "chromium")
@pytest.mark.full
def test_a_complete_machine_is_ready_and_nothing_is_left(settings: Settings, tmp_path: Path) -> None:
    findings = doctor.examine(settings)
    assert [finding for finding in findings if finding.status == "missing"] == []
    assert {finding.group for finding in findings} == {"Programs", "Isolation", "Machine", "Settings", "Places"}
    assert all(finding.remedy for finding in findings if finding.status == "warning")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("program", "package"),
    [("ffmpeg", "ffmpeg"), ("bwrap", "bubblewrap"), ("node", "node 20.19"), ("ffprobe", "ffmpeg")],
)
def test_a_missing_program_is_named_with_its_package_and_fails(
    program: str,
    package: str,
    settings: Settings,
    tools: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", without(tools, program)["PATH"])
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", "ffmpeg")  # the one on PATH
    checks = (programs.ffmpeg, programs.node, machine.isolation)
    assert doctor.run(settings, checks=checks) == 1
    shown = capsys.readouterr().out
    assert "The main job cannot run here" in shown and package in shown and "not found on PATH" in shown


def test_an_ffmpeg_that_was_named_and_is_not_there(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", "/nowhere/ffmpeg")
    finding = only(programs.ffmpeg(Examination(settings)), "ffmpeg")
    assert finding.status == "missing" and "IMAGEIO_FFMPEG_EXE=/nowhere/ffmpeg" in finding.detail
    assert "leave it out" in finding.remedy


def test_without_tmux_the_main_job_runs(settings: Settings, tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", without(tools, "tmux")["PATH"])
    (finding,) = programs.tmux(Examination(settings))
    assert finding.status == "warning" and "tmux" in finding.remedy
    assert doctor.run(settings, checks=(programs.tmux,)) == 0


@pytest.mark.full
def test_nothing_of_the_folder_that_one_stands_in_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ray", "playwright"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('theirs')")
    monkeypatch.chdir(tmp_path)
    examination = Examination(Settings())
    found = [*programs.python(examination), *programs.playwright(examination)]
    assert {finding.name: finding.status for finding in found} == dict.fromkeys(("Python", "Ray", "Playwright"), "ok")


@pytest.mark.parametrize(
    ("soft", "status"), [(256, "missing"), (4096, "warning"), (8192, "ok"), (resource.RLIM_INFINITY, "ok")]
)
def test_too_few_open_files_are_told_with_what_they_are_for(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, soft: int, status: str
) -> None:
    def limit(_: int) -> tuple[int, int]:
        return soft, resource.RLIM_INFINITY

    monkeypatch.setattr(resource, "getrlimit", limit)
    (finding,) = machine.limits(Examination(settings))
    assert finding.status == status
    assert status == "ok" or "half are for connections" in finding.remedy


def test_a_node_that_vite_does_not_take(settings: Settings, tools: Path) -> None:
    (tools / "node").write_text("#!/bin/sh\necho v18.20.4\n")
    (tools / "node").chmod(0o755)
    (finding,) = programs.node(Examination(settings, {"PATH": str(tools)}))
    assert finding.status == "missing" and "v18.20.4" in finding.detail and "20.19" in finding.remedy


@pytest.mark.needs("ffmpeg")
def test_an_ffmpeg_without_x264_cannot_make_mp4(
    settings: Settings, tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = find_program("ffmpeg")
    (tools / "ffmpeg").write_text(f'#!/bin/sh\n{real} "$@" | sed s/libx264/other/g\n')
    (tools / "ffmpeg").chmod(0o755)
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(tools / "ffmpeg"))
    found = programs.ffmpeg(Examination(settings))
    assert only(found, "mp4 (libx264)").status == "missing"
    assert only(found, "webm (libvpx-vp9)").status == "ok"


def test_a_configured_browser_that_does_not_start_is_named(tmp_path: Path) -> None:
    path = tmp_path / "no-such-browser"
    (finding,) = programs.browser(Examination(Settings(chromium_path=path)))
    assert finding.status == "missing" and str(path) in finding.detail and "KODA_CHROMIUM_PATH" in finding.remedy


@pytest.mark.needs("bwrap", "chromium")
def test_a_browser_that_cannot_confine_its_own_parts_is_warned_of(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "nested_sandbox_works", lambda _: False)
    finding = only(machine.isolation(Examination(settings)), "Chromium's sandbox")
    assert finding.status == "warning" and "--no-sandbox" in finding.detail and "unshare" in finding.remedy


ELSEWHERE = """
from koda_ray.seccomp_file import filter_fd
from koda_ray.config import Settings
from koda_ray.doctor import Examination, machine
assert filter_fd() is None and filter_fd(nesting=True) is None
print(*machine.isolation(Examination(Settings())))
"""


@pytest.mark.needs("bwrap")
def test_a_machine_for_whose_calls_there_is_no_filter_is_warned_of() -> None:
    """The kernel names another one to programs that ask it to, i686 on x86-64. Source: personality(2), PER_LINUX32."""
    argv = ["linux32", sys.executable, "-c", ELSEWHERE]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120, cwd=REPO_ROOT)
    (named,) = re.findall(r"no filter is known for (\S+):", done.stdout)
    said = done.stdout + done.stderr
    assert said.count("no filter of system calls") == 1 and f"{named}'s calls are not known" in said
    assert "x86_64 and aarch64" in said and "SANDBOX_RUNTIME=runsc" in said


def test_a_template_without_its_packages(settings: Settings, tmp_path: Path) -> None:
    bare = settings.model_copy(update={"node_modules_path": tmp_path / "nowhere"})
    found = programs.template(Examination(bare))
    assert only(found, "Vite").status == "missing" and "./koda setup" in only(found, "Vite").remedy


def test_without_the_browsers_page_everything_else_works(settings: Settings, tmp_path: Path) -> None:
    (told,) = programs.page(Examination(settings.model_copy(update={"web_path": tmp_path / "nowhere"})))
    assert told.status == "warning" and "./koda setup" in told.remedy
    (tmp_path / "index.html").write_text("<!doctype html>")
    (told,) = programs.page(Examination(settings.model_copy(update={"web_path": tmp_path})))
    assert (told.status, told.detail) == ("ok", f"{tmp_path}; ./koda open shows it")


def test_a_bubblewrap_that_may_not_isolate(settings: Settings, tools: Path) -> None:
    (tools / "bwrap").write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied'; exit 1\n")
    (tools / "bwrap").chmod(0o755)
    (finding,) = machine.isolation(Examination(settings, {"PATH": f"{tools}:{os.environ['PATH']}"}))
    assert finding.status == "missing" and "setting up uid map: Permission denied" in finding.detail
    assert finding.remedy


def test_a_bubblewrap_that_leaves_the_network_open(settings: Settings, tools: Path) -> None:
    (tools / "bwrap").write_text("#!/bin/sh\nexec cat /proc/net/dev\n")
    (tools / "bwrap").chmod(0o755)
    found = machine.isolation(Examination(settings, {"PATH": f"{tools}:{os.environ['PATH']}"}))
    interfaces = {name for _, name in socket.if_nameindex()}
    assert found[0].status == ("ok" if interfaces == {"lo"} else "missing")


def test_without_an_engine_sandboxes_are_local_unless_docker_is_asked_for(settings: Settings, tmp_path: Path) -> None:
    nobody = {"docker_host": f"unix://{tmp_path}/nobody.sock"}
    found, chosen = containers.containers(Examination(settings.model_copy(update=nobody)))
    assert (chosen.name, chosen.status) == ("Sandbox provider", "ok")
    assert chosen.detail.startswith("local, because no Docker engine answers at unix:") and "auto" in chosen.detail
    assert found.status == "ok" and "sandboxes are local" in found.detail and "nobody.sock" in found.detail
    asked = settings.model_copy(update={**nobody, "sandbox_provider": "docker"})
    (found,) = containers.containers(Examination(asked))
    assert found.status == "missing" and "docker.io" in found.remedy and "SANDBOX_PROVIDER=local" in found.remedy
    assert containers.containers(Examination(settings.model_copy(update={"sandbox_provider": "local"}))) == []


def test_a_folder_that_cannot_be_written(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file in the way")
    found = services.stores(Examination(settings))
    assert [finding.status for finding in found] == ["missing", "missing"]
    assert str(settings.database_path) in found[0].detail and "DATABASE_PATH" in found[0].remedy
    assert "STORAGE_PATH" in found[1].remedy


def test_a_store_that_no_server_can_use_is_named(settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    found = services.stores(Examination(settings.model_copy(update={"database_url": SecretStr(f"json:{folder}")})))
    database = only(found, "database")
    assert database.status == "warning" and str(folder) in database.detail and "SQLite" in database.remedy
    assert not folder.exists()


def test_what_was_there_stays(settings: Settings) -> None:
    settings.storage_path.mkdir(parents=True)
    (settings.storage_path / "kept").write_text("kept")
    assert {finding.status for finding in services.stores(Examination(settings))} == {"ok"}
    assert [path.name for path in settings.storage_path.iterdir()] == ["kept"]


def test_keys_are_shown_as_set_or_unset_only(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    secret = settings.model_copy(update={"anthropic_api_key": SecretStr("sk-very-secret")})
    doctor.run(secret, checks=(services.settings, services.agents))
    shown = capsys.readouterr().out
    assert "ANTHROPIC_API_KEY set" in shown and "R2_SECRET_KEY unset" in shown and "very-secret" not in shown


def test_agents_whose_models_lack_their_package_are_told_how_to_get_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"gemini_api_key": SecretStr("a-key"), "director": "gemini", "orchestrator_model": "gemini-1"}
    chosen = settings.model_copy(update={**asked, "codegen_model": "gemini-1", "subagent_model": "gemini-1"})
    monkeypatch.setitem(sys.modules, "google.genai", None)
    (finding,) = services.agents(Examination(chosen))
    assert (finding.status, finding.remedy) == ("missing", "pip install 'koda-ray[gemini]'")


def test_hooks_that_are_named_have_to_be_there(settings: Settings) -> None:
    chosen = settings.model_copy(update={"hooks": "koda_ray.agent.hooks:Nobody"})
    *_, finding = services.agents(Examination(chosen))
    assert (finding.name, finding.status) == ("hooks", "missing") and "koda_ray.agent.hooks:Nobody" in finding.detail


def test_settings_that_contradict_each_other_are_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STORAGE_PROVIDER", "r2")
    assert doctor.run(checks=()) == 1
    assert "STORAGE_PROVIDER=r2 needs R2_BUCKET" in capsys.readouterr().out


def test_a_value_that_is_no_setting_names_variable_and_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KODA_PORT", "eighty")
    assert doctor.run(checks=()) == 1
    shown = capsys.readouterr().out
    assert "KODA_PORT" in shown and "'eighty'" in shown


def test_a_misspelt_variable_is_noticed(settings: Settings) -> None:
    found = services.settings(Examination(settings, {"KODA_PROT": "80"}))
    assert only(found, "KODA_PROT").remedy == "did you mean KODA_PORT?"


def test_every_variable_that_the_program_reads_is_known(settings: Settings) -> None:
    sources = [REPO_ROOT / "koda", *(REPO_ROOT / "koda_ray").rglob("*.py")]
    names = {name for path in sources for name in re.findall(r"\bKODA_[A-Z][A-Z_]*[A-Z]\b", path.read_text())}
    found = services.settings(Examination(settings, dict.fromkeys(names, "x")))
    assert [finding.name for finding in found if finding.name in names] == []


def test_an_open_server_without_keys_is_warned_about(settings: Settings) -> None:
    found = services.settings(Examination(settings.model_copy(update={"host": "0.0.0.0"}), {}))
    assert only(found, "access").status == "warning"


class _OurHealth(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = Health(version="9.9.9").model_dump_json().encode() if self.path == "/v1/health" else b"{}"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Stay quiet."""


@pytest.fixture
def server() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _OurHealth) as listening:
        thread = Thread(target=listening.serve_forever)
        thread.start()
        yield listening.server_port
        listening.shutdown()
        thread.join()


def test_our_own_server_may_hold_the_port(settings: Settings, server: int) -> None:
    found = services.ports(Examination(settings.model_copy(update={"port": server})))
    assert found[0].status == "ok" and "koda server 9.9.9" in found[0].detail


def test_somebody_elses_server_is_a_warning(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        listener.close()
        with socket.create_server(("127.0.0.1", port)):
            found = services.ports(Examination(settings.model_copy(update={"preview_port": port})))
    assert found[1].status == "warning" and "KODA_PREVIEW_PORT" in found[1].remedy


def test_a_check_that_breaks_hides_nothing(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(examination: Examination) -> list[Finding]:
        raise RuntimeError("half a check")

    assert doctor.run(settings, json=True, checks=(broken, services.agents)) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["ready"] is False
    assert [finding["status"] for finding in report["findings"]] == ["missing", "ok"]
    assert "half a check" in report["findings"][0]["detail"]


def test_warnings_do_not_fail(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    def careful(examination: Examination) -> list[Finding]:
        return [Finding("Machine", "thing", "warning", "is small", "get a larger one")]

    assert doctor.run(settings, checks=(careful,)) == 0
    assert "Ready" in (shown := capsys.readouterr().out) and "1 warning" in shown and "get a larger one" in shown


@pytest.mark.needs("ffmpeg", "bwrap", "node", "chromium")
def test_it_needs_neither_ray_nor_a_server_and_never_imports_ray(tmp_path: Path) -> None:
    script = "import sys; from koda_ray import doctor; code = doctor.run(json=True); print('ray' in sys.modules, code)"
    environment = {**os.environ, "KODA_PORT": "0", "KODA_PREVIEW_PORT": "0"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("False 0\n")


@pytest.mark.full
def test_its_json_is_one_document_and_what_is_logged_stays_out_of_it(tmp_path: Path) -> None:
    environment = {**os.environ, "KODA_PORT": "0", "KODA_PREVIEW_PORT": "0"}
    command = [sys.executable, "-P", "-m", "koda_ray", "doctor", "--json"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert {finding["status"] for finding in json.loads(done.stdout)["findings"]} <= {"ok", "warning", "missing"}
    assert "sandbox provider chosen" not in done.stderr


def _pages(folder: Path, *, small: str, whole: str) -> Path:
    choices = ("always", "inherit", "madvise", "never")
    (folder / "hugepages-64kB").mkdir(parents=True)
    (folder / "hugepages-64kB" / "enabled").write_text(" ".join(f"[{w}]" if w == small else w for w in choices) + "\n")
    (folder / "enabled").write_text(" ".join(f"[{w}]" if w == whole else w for w in choices if w != "inherit") + "\n")
    return folder


@pytest.mark.parametrize(
    ("small", "whole", "good"),
    [("always", "never", True), ("inherit", "always", True), ("inherit", "madvise", False), ("never", "always", False)],
)
def test_pages_that_cost_time_are_told_with_the_command(tmp_path: Path, small: str, whole: str, good: bool) -> None:
    found = machine.page_sizes(_pages(tmp_path / "pages", small=small, whole=whole))
    assert found is not None and found.status == "ok"
    assert ("sudo tee" in found.detail) is not good
    assert machine.page_sizes(tmp_path / "an-older-kernel") is None
