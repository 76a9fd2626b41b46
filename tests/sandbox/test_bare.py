"""Machines that cannot isolate: refused by default, allowed and announced when somebody says so."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from koda_ray.config import Settings
from koda_ray.errors import InvalidInput, Missing, TemplateNotFound
from koda_ray.sandbox import isolation
from koda_ray.sandbox.limits import ResourceLimits
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.node import find_node
from koda_ray.sandbox.service import provider_from
from koda_ray.sandbox.template import TemplateProject
from tests.sandbox.begun import timed_out
from tests.sandbox.leftovers import Leftovers


@pytest.fixture
def no_bwrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A PATH on which everything is but bubblewrap."""
    node = find_node()
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "env", "prlimit", "setpriv", "sleep", "rm", "chmod"):
        (programs / name).symlink_to(Path("/usr/bin") / name)
    (programs / "node").symlink_to(node.host_path)
    monkeypatch.setenv("PATH", str(programs))
    isolation.check_isolation.cache_clear()
    yield
    isolation.check_isolation.cache_clear()


async def test_without_bubblewrap_nothing_runs(
    no_bwrap: None, provider: LocalProvider, boxes: Path, leftovers: Leftovers
) -> None:
    with pytest.raises(Missing) as caught:
        await provider.create(sandbox_id=leftovers.new_id(), session_id="s", user_id="u")
    assert "`bubblewrap`" in caught.value.message and "SANDBOX_LOCAL_UNSAFE=1" in caught.value.message
    assert await provider.list() == []


@pytest.mark.needs("node")
async def test_without_isolation_when_somebody_asks_for_it(
    no_bwrap: None, boxes: Path, template: Path, node_modules: Path, limits: ResourceLimits, leftovers: Leftovers
) -> None:
    provider = LocalProvider(
        root=boxes, template=TemplateProject(folder=template, node_modules=node_modules), limits=limits, unsafe=True
    )
    with capture_logs() as logs:
        sandbox = await provider.create(sandbox_id=leftovers.new_id(), session_id="s", user_id="u")
    assert any("WITHOUT ISOLATION" in entry["event"] and entry["log_level"] == "warning" for entry in logs)
    try:
        await sandbox.write_files({"src/a.ts": b"a"})
        done = await sandbox.run(("sh", "-c", "cat src/a.ts; node -p \"require('left-pad')('x')\"; env"))
        assert done.stdout.startswith("a x\n") and done.exit_code == 0, done
        assert "KODA_TEST_RUN" not in done.stdout
        assert (await sandbox.run(("bun", "run", "hello"))).stdout == "hello from a script\n"
        script = "(setsid sh -c 'while :; do date +%s%N > src/beat.ts; sleep 0.02; done' &) ; sleep 60"
        await timed_out(sandbox, ("sh", "-c", script), begun=["src/beat.ts"])
        last = await sandbox.read_file("src/beat.ts")
        await asyncio.sleep(0.2)
        assert await sandbox.read_file("src/beat.ts") == last
        await sandbox.start("ticker", ("sh", "-c", "while :; do sleep 0.05; done"))
        assert (await sandbox.processes())[0].running
        assert "node_modules" not in str(await sandbox.list_files(recursive=True))
    finally:
        await sandbox.destroy()


@pytest.mark.needs("node")
async def test_the_dev_server_without_isolation(no_bwrap: None, boxes: Path, leftovers: Leftovers) -> None:
    settings = Settings()
    provider = LocalProvider(
        root=boxes,
        template=TemplateProject(folder=settings.template_path, node_modules=settings.node_modules_path),
        unsafe=True,
    )
    sandbox = await provider.create(sandbox_id=leftovers.new_id(), session_id="s", user_id="u")
    try:
        endpoint = await sandbox.start_preview()
        transport = httpx.AsyncHTTPTransport(uds=endpoint.socket_path)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            assert "/src/main.tsx" in (await http.get(endpoint.base)).text
            assert (await http.get(f"{endpoint.base}src/main.tsx")).status_code == 200
    finally:
        await sandbox.destroy()


@pytest.mark.needs("bwrap", "node")
async def test_isolation_is_used_wherever_it_works(
    boxes: Path, template: Path, node_modules: Path, limits: ResourceLimits, leftovers: Leftovers
) -> None:
    provider = LocalProvider(
        root=boxes, template=TemplateProject(folder=template, node_modules=node_modules), limits=limits, unsafe=True
    )
    sandbox = await provider.create(sandbox_id=leftovers.new_id(), session_id="s", user_id="u")
    assert (await sandbox.run(("pwd",))).stdout == "/home/user/project\n"
    await sandbox.destroy()


async def test_what_is_missing_is_named(
    boxes: Path, template: Path, node_modules: Path, tmp_path: Path, leftovers: Leftovers
) -> None:
    for wrong, variable in (
        (
            LocalProvider(root=boxes, template=TemplateProject(folder=tmp_path / "no", node_modules=node_modules)),
            "KODA_TEMPLATE_PATH",
        ),
        (
            LocalProvider(root=boxes, template=TemplateProject(folder=template, node_modules=tmp_path / "no")),
            "KODA_NODE_MODULES_PATH",
        ),
    ):
        with pytest.raises(TemplateNotFound, match=variable):
            await wrong.create(sandbox_id=leftovers.new_id(), session_id="s", user_id="u")


async def test_ids_that_are_none_of_ours(provider: LocalProvider, tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    for name in ("", "..", "../..", "sbx_1", "/etc", "sbx_" + "g" * 32):
        with pytest.raises(InvalidInput):
            await provider.create(sandbox_id=name, session_id="s", user_id="u")
        await provider.destroy(name)
    assert (tmp_path / "kept").exists()


def test_settings_choose_the_provider(tmp_path: Path) -> None:
    assert provider_from(Settings(SANDBOX_PATH=tmp_path), deployment="dep_test").name == "local"  # pyright: ignore
