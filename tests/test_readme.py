"""What the README and CONTRIBUTING tell people is so: commands exist, examples run, promises hold."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import typer.main
from typer.core import TyperGroup

from koda_ray.cli import app
from koda_ray.client import Koda, KodaClient
from koda_ray.config import REPO_ROOT, Settings
from koda_ray.model_names import FALLBACK_CODES
from koda_ray.render.local import LocalExecutor
from koda_ray.render.presets import PRESET_NAMES
from koda_ray.serve import routes
from tests.llm.server import Json, ModelServer, Reply, ScriptedModel, call, reply, results
from tests.serve.scripted import VIDEO
from tests.serve.test_sessions import until
from tests.serve.world import World, world

_README = (REPO_ROOT / "README.md").read_text()
_CONTRIBUTING = (REPO_ROOT / "CONTRIBUTING.md").read_text()
_LAUNCHER = {"setup": {"--dev"}, "test": {"--full", "-m", "-x", "-n", "--dist"}}
_ELSEWHERE = {
    "IMAGEIO_FFMPEG_EXE",
    "KODA_DATA_DIR",
    "KODA_ENV_FILE",
    "KODA_SERVER",
    "KODA_TEST_E2B_API_KEY",
    "KODA_TEST_E2B_TEMPLATE",
    "KODA_TEST_MODAL_TOKEN_ID",
    "KODA_TEST_REQUIRE",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "RAY_AUTH_TOKEN",
}


def _blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def _commands() -> list[str]:
    lines = [line for text in (_README, _CONTRIBUTING) for block in _blocks(text, "sh") for line in block.splitlines()]
    inline = re.findall(r"`(\./koda [^`]+)`", _README)
    return [command for command in (*lines, *inline) if command.startswith("./koda ")]


@pytest.mark.parametrize("command", _commands())
def test_each_command_exists_with_its_options(command: str) -> None:
    _, name, *words = shlex.split(command, comments=True)
    options = {word.partition("=")[0] for word in words if word.startswith("-")}
    if name in _LAUNCHER:
        assert options <= _LAUNCHER[name]
        return
    commands = typer.main.get_group(app).commands
    assert name in commands, f"{name} is not a command of the CLI"
    found = commands[name]
    if isinstance(found, TyperGroup):
        assert words[0] in found.commands, f"{name} {words[0]} is not a command of the CLI"
        found = found.commands[words[0]]
    assert options - {"--"} <= {text for parameter in found.params for text in parameter.opts}


def test_there_are_commands_to_check() -> None:
    assert len(_commands()) > 10
    assert {"./koda demo", "./koda test"} <= {command.split("#")[0].strip() for command in _commands()}


def test_each_address_is_an_operation_of_the_api() -> None:
    paths = {
        re.sub(r"\{[^}]+\}", "*", str(getattr(route, "path", "")))
        for module in pkgutil.iter_modules(routes.__path__, f"{routes.__name__}.")
        for route in importlib.import_module(module.name).router.routes
    }
    shell = "\n".join(_blocks(_README, "sh"))
    named = {re.sub(r"\$\w+", "*", found) for found in re.findall(r"localhost:8420(/v1/[\w/$]+)", shell)}
    assert named and named <= paths


@pytest.fixture
async def koda(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as found:
        yield found


async def _run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    def run() -> subprocess.CompletedProcess[str]:
        env = {**os.environ, **environment}
        return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)

    return await asyncio.to_thread(run)


@pytest.mark.parametrize(
    ("asks", "fails", "ends_with"),
    [(False, {}, ""), (True, {}, "it asks: text='Which style"), (False, {"execute": "out of paint"}, "out of paint")],
)
async def test_the_python_example_ends_with_a_video_or_a_reason(
    koda: World, tmp_path: Path, asks: bool, fails: dict[str, str], ends_with: str
) -> None:
    code, *_ = _blocks(_README, "python")
    koda.directory.asks, koda.directory.fails = asks, fails
    ran = await _run([sys.executable, "-W", "error", "-c", code], tmp_path, KODA_SERVER=koda.url)
    assert ran.returncode == (1 if ends_with else 0) and ends_with in ran.stderr and "Traceback" not in ran.stderr
    video = tmp_path / "ball.mp4"
    assert not video.exists() if ends_with else video.read_bytes() == VIDEO["final"]


def test_the_plain_client_does_what_the_example_does() -> None:
    used = set(re.findall(r"koda\.(\w+)\(", _blocks(_README, "python")[0]))
    assert {"create", "follow", "download", "answer", "retry"} <= used
    assert all(hasattr(KodaClient, name) and hasattr(Koda, name) for name in used)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl: not on PATH")
async def test_the_http_example_leads_from_a_prompt_to_a_video(koda: World, tmp_path: Path) -> None:
    koda.directory.asks = False
    (example,) = (block for block in _blocks(_README, "sh") if "v1/sessions" in block)
    lines = example.replace("\\\n", " ").splitlines()
    serve, create, session, events, accept, state, video, found, share, watch, canvases, deleted = lines
    assert serve == "./koda serve --background" and session.startswith("SESSION=ses_...")
    session_id = token = ""

    def typed(command: str) -> list[str]:
        return ["sh", "-c", f"SESSION={session_id} TOKEN={token}; exec {command.replace('localhost:8420', koda.url)}"]

    async def type_in(command: str) -> str:
        ran = await _run(typed(command), tmp_path)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    async with KodaClient(koda.url) as client:
        session_id = json.loads(await type_in(create))["sessionId"]
        assert json.loads(await type_in(create))["sessionId"] == session_id
        for phase in ("plan", "preview"):
            await until(client, session_id, phase)
            assert json.loads(await type_in(accept))["command"] == "accept"
        await until(client, session_id, "complete")
        assert json.loads(await type_in(state))["state"]["phase"] == "complete"
        await type_in(video)
        assert (tmp_path / "ball.mp4").read_bytes() == VIDEO["final"]
        last = (await client.session(session_id)).seq
        assert [each["id"] for each in json.loads(await type_in(found))["sessions"]] == [session_id]
        token = json.loads(await type_in(share))["token"]
        assert json.loads(await type_in(watch))["comments"] is True
        assert json.loads(await type_in(canvases)) == {"canvases": []}
        await type_in(deleted)
        assert (await client.sessions()).sessions == ()
        assert (await client.restore(session_id)).seq == last
    following = await asyncio.create_subprocess_exec(*typed(events), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert following.stdout is not None
    async with asyncio.timeout(60):
        told = [await following.stdout.readline()]
        while told[-1] != f"id: {last}\n".encode():
            told.append(await following.stdout.readline())
    following.terminate()
    await following.wait()
    assert sum(line.startswith(b"id: ") for line in told) == last


_PAGE = "<style>body{margin:0;background:#246} h1{animation:a 1s infinite} @keyframes a{to{color:red}}</style><h1>Hi"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    (tmp_path / "page").mkdir()
    (tmp_path / "page/index.html").write_text(_PAGE)
    shutil.make_archive(str(tmp_path / "page"), "zip", tmp_path / "page")
    return tmp_path


@pytest.mark.browser
async def test_the_python_example_renders_a_page(page: Path) -> None:
    _, code, *_ = _blocks(_README, "python")
    ran = await _run([sys.executable, "-W", "error", "-c", code], page, KODA_DATA_DIR=str(page / "data"))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("page.mp4 60 ") and (page / "page.mp4").stat().st_size > 0


_HEAVY = ("ray", "koda_ray.sandbox", "koda_ray.serve", "koda_ray.render")
_LOADED = f"""
import sys
print([name for name in sys.modules if f"{{name}}.".startswith({tuple(f"{name}." for name in _HEAVY)})])
"""


@pytest.mark.full
async def test_the_agent_example_answers_and_remembers_and_loads_neither_ray_nor_sandbox_nor_server(
    tmp_path: Path,
) -> None:
    *_, code, _, _ = _blocks(_README, "python")

    def answered(request: Json) -> Reply:
        (found,) = results(request, "stock")
        return reply(f"There are {found['content']}.")

    with ModelServer(ScriptedModel([call("stock", {"item": "chair"}), answered])) as server:
        for _ in range(2):
            ran = await _run(
                [sys.executable, "-W", "error", "-c", code + _LOADED],
                tmp_path,
                ANTHROPIC_API_KEY="test-key",
                ANTHROPIC_BASE_URL=server.base_url,
            )
            assert (ran.returncode, ran.stdout) == (0, "There are 4.\n[]\n"), ran.stderr


@pytest.mark.full
async def test_the_example_of_permissions_asks_and_writes_what_was_agreed_to(tmp_path: Path) -> None:
    *_, code, _ = _blocks(_README, "python")
    poem = {"path": "poem.txt", "text": "White."}
    with ModelServer(ScriptedModel([call("write", poem), reply("It is written.")])) as server:
        said = {"ANTHROPIC_API_KEY": "test-key", "ANTHROPIC_BASE_URL": server.base_url}
        ran = await _run([sys.executable, "-W", "error", "-c", code], tmp_path, **said)
    assert (ran.returncode, ran.stdout) == (0, "+++ poem.txt\nWhite.\nIt is written.\n"), ran.stderr
    assert (tmp_path / "poem.txt").read_text() == "White."


@pytest.mark.full
async def test_the_example_of_many_agents_answers(tmp_path: Path) -> None:
    *_, code = _blocks(_README, "python")
    with ModelServer(ScriptedModel([reply("Five."), reply("With paper.")])) as server:
        said = {"ANTHROPIC_API_KEY": "test-key", "ANTHROPIC_BASE_URL": server.base_url}
        ran = await _run([sys.executable, "-W", "error", "-c", code], tmp_path, **said)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("Five.\n") and "With paper." in ran.stdout


@pytest.mark.full
@pytest.mark.browser
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl: not on PATH")
async def test_the_http_example_renders_a_page(koda: World, page: Path) -> None:
    (example,) = (block for block in _blocks(_README, "sh") if "v1/renders" in block)
    upload, render, events, state, footage, video, listed, cancel, delete = example.splitlines()
    assert render.startswith("RENDER=job_...")
    render_id = ""

    async def type_in(command: str) -> str:
        sent = f"RENDER={render_id}; exec {command.replace('localhost:8420', koda.url)}"
        ran = await _run(["sh", "-c", sent], page)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    async with LocalExecutor(workers=1) as koda.directory.executor:
        render_id = json.loads(await type_in(upload))["id"]
        assert "succeeded" in await type_in(events)
        assert json.loads(await type_in(state))["status"] == "succeeded"
        assert int(await type_in(footage.replace("ffplay -", "wc -c"))) > 1000
        await type_in(video)
        assert json.loads(await type_in(listed.replace("running", "succeeded")))["renders"][0]["id"] == render_id
        assert json.loads(await type_in(cancel))["status"] == "succeeded"  # over: it stays as it is
        assert await type_in(delete) == ""
        assert json.loads(await type_in(state))["code"] == "NOT_FOUND"
        await koda.directory.close()
    assert (page / "page.mp4").read_bytes()[4:8] == b"ftyp"


def test_the_presets_are_all_named() -> None:
    section = _README.partition("## Any web page to a video")[2].partition("\n## ")[0]
    assert set(PRESET_NAMES) <= set(re.findall(r"`([\w-]+)`", section))


async def test_the_page_of_operations_needs_no_network(koda: World) -> None:
    named = re.findall(r"localhost:8420(/(?:docs|v1/openapi\.json))", _README)
    assert named == ["/docs", "/v1/openapi.json"]
    async with httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http:
        page = (await http.get("/docs")).text
        parts = re.findall(r"(?:src|href)=\"([^\"]+)\"", page)
        assert len(parts) >= 2 and "//" not in "".join(parts)
        for part in [*parts, *named]:
            found = await http.get(part)
            assert found.status_code == 200 and len(found.content) > 900, part


_POISON = """
import os, subprocess, sys
from types import SimpleNamespace
from tests import conftest
nothing = SimpleNamespace(register=lambda plugin: None)
conftest.pytest_configure(SimpleNamespace(pluginmanager=nothing, getoption=lambda *_: None, args=[]))
try:
    code = "import os; from koda_ray.config import Settings; print(dict(os.environ), Settings())"
    subprocess.run([sys.executable, "-c", code], check=True)
finally:
    conftest.pytest_unconfigure(None)
"""


@pytest.mark.full
def test_settings_and_keys_of_ones_own_never_reach_a_test(tmp_path: Path) -> None:
    sdk = Path(str(importlib.import_module("anthropic").__file__)).parent
    names = {name for file in sdk.rglob("*.py") for name in re.findall(r"\bANTHROPIC_[A-Z_]+", file.read_text())}
    names |= {str(field.validation_alias) for field in Settings.model_fields.values()}
    names |= {"KODA_SERVER", "KODA_RUNFILE", "KODA_API_KEY", "AWS_PROFILE", "RAY_ADDRESS", "https_proxy"}
    names -= {"KODA_CHROMIUM_PATH", "KODA_NODE_MODULES_PATH", "KODA_WEB_PATH"}
    assert {"ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "KODA_DIRECTOR"} <= names
    (tmp_path / ".env").write_text("KODA_HOST=poison\n")
    environment = {**os.environ, **dict.fromkeys(names, "poison"), "PYTHONPATH": str(REPO_ROOT)}
    environment["KODA_ENV_FILE"] = str(tmp_path / ".env")
    ran = subprocess.run([sys.executable, "-c", _POISON], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "poison" not in ran.stdout and "host='127.0.0.1'" in ran.stdout


def test_each_variable_is_a_setting() -> None:
    known = {str(field.validation_alias) for field in Settings.model_fields.values()} | _ELSEWHERE | {*FALLBACK_CODES}
    named = set(re.findall(r"`((?:[A-Z0-9]+_)+[A-Z0-9]+)`", _README))
    assert named and named <= known


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_each_link_and_path_leads_somewhere(page: str) -> None:
    text = (REPO_ROOT / page).read_text()
    linked = {target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target}
    named = set(re.findall(r"`((?:koda_ray|tests|sandbox_image|benchmarks|\.ci)/[\w./]+)`", text))
    within = {f"koda_ray/{path}" for path in re.findall(r"`((?:actors|render|roles|serve|state)/\w+\.py)`", text)}
    lost = sorted(path for path in linked | named | within if not Path(REPO_ROOT, path).exists())
    assert lost == []
