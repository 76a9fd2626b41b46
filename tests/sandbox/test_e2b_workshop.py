"""Own images, sandboxes and processes at E2B: by its real SDK, at the protocol server, which builds and runs all."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from koda_ray.config import Settings
from koda_ray.errors import InvalidInput, KodaError, NotFound, QuotaExceeded, SandboxNotFound, TemplateNotFound
from koda_ray.sandbox.e2b_sandbox import E2BSandbox
from koda_ray.sandbox.providers import Providers
from koda_ray.sandbox.service import other_providers, provider_from
from koda_ray.sandbox.unfinished import clear_own
from koda_ray.sandbox.workshop import Workshop
from koda_ray.state.json_store import JSONStore
from koda_ray.types import now
from tests.sandbox.e2b import server
from tests.sandbox.e2b_server import API_KEY, E2BServer, Fault
from tests.sandbox.terminals import shown, until
from tests.sandbox.workshops import BuildsConformance, World

__all__ = ["server"]

pytestmark = [pytest.mark.full, pytest.mark.sandbox, pytest.mark.needs("e2b", "tmux")]


class _World:
    def __init__(self, server: E2BServer) -> None:
        self._server = server

    @property
    def sandboxes(self) -> list[str]:
        return [str(kept.wanted.metadata["koda_sandbox_id"]) for kept in self._server.kept.values()]  # type: ignore[index]

    async def end(self, sandbox_id: str) -> None:
        await self._server.end(self._server.of(sandbox_id).id)

    def forget_image(self, provider_id: str) -> None:
        del self._server.images[provider_id]


@pytest.fixture
def world(server: E2BServer) -> World:
    return _World(server)


@pytest.fixture
def settings(server: E2BServer, tmp_path: Path) -> Settings:
    return Settings.model_validate(
        {
            "SANDBOX_PROVIDER": "e2b", "E2B_API_KEY": API_KEY, "E2B_API_URL": server.url, "E2B_TEMPLATE": "koda",
            "E2B_SANDBOX_URL": server.url, "SANDBOX_PATH": tmp_path / "boxes", "SANDBOX_LIFETIME_S": 300,
            "DATABASE_PATH": tmp_path / "koda.db",
        }
    )  # fmt: skip


class TestE2BWorkshop(BuildsConformance):
    """At the protocol server."""

    async def test_a_sandbox_lives_while_somebody_looks_at_a_process_and_not_longer(
        self, settings: Settings, store: JSONStore, world: World
    ) -> None:
        providers = Providers(settings.model_copy(update={"sandbox_lifetime_s": 6}), store)
        ann = Workshop(store, providers, user_id="ann")
        box = await ann.create_sandbox()
        said = [piece async for piece in ann.launch_and_follow(box.id, "slow", "sleep 8; echo done; exit 3")]
        assert (b"".join(piece.data for piece in said), said[-1].exit_code) == (b"done\r\n", 3)
        await ann.launch(box.id, "shell", "exec sh")
        terminal = await ann.attach(box.id, "shell", rows=24, columns=80)
        await asyncio.sleep(8)
        await terminal.write(b"echo still-$((6 * 7))\r")
        await shown(terminal, b"still-42")
        await terminal.close()

        async def is_over() -> bool:
            return world.sandboxes == []

        await until(is_over)
        with pytest.raises(NotFound, match=f"{box.id}.*not at its provider.*make another") as caught:
            await ann.launch(box.id, "late", "true")
        assert caught.value.code == "SANDBOX_NOT_FOUND"
        assert await ann.sandboxes() == []
        await providers.close()

    async def test_when_one_ends_that_nobody_uses_is_said_where_nothing_else_was_asked_for(
        self, ann: Workshop, settings: Settings, store: JSONStore, world: World
    ) -> None:
        unasked, asked = await ann.create_sandbox(), await ann.create_sandbox(lifetime_s=3600)
        assert [one.record.unused_s for one in await ann.sandboxes()] == [300, None]
        opened = await ann.connect(unasked.id)
        await world.end(unasked.id)  # as E2B does then
        with pytest.raises(SandboxNotFound):
            await opened.read_file("package.json")
        with pytest.raises(NotFound, match=r"not at its provider.*any more, which ends it 300 s after its last use"):
            await ann.connect(unasked.id)
        pausing = Providers(settings.model_copy(update={"e2b_on_timeout": "pause"}), store)
        kept = await Workshop(store, pausing, user_id="ann").create_sandbox()
        assert kept.unused_s is None
        await pausing.close()
        assert {one.record.id for one in await ann.sandboxes()} == {asked.id, kept.id}

    async def test_one_that_sleeps_is_listed_so_and_wakes_when_it_is_used(self, ann: Workshop) -> None:
        box = await ann.create_sandbox()
        opened = await ann.connect(box.id)
        assert isinstance(opened, E2BSandbox)
        await opened.pause()
        assert [(one.record.id, one.state) for one in await ann.sandboxes()] == [(box.id, "paused")]
        assert (await (await ann.connect(box.id)).run(("echo", "awake"))).stdout == "awake\n"
        assert [one.state for one in await ann.sandboxes()] == ["running"]

    async def test_one_whose_time_is_over_is_ended_though_the_server_makes_its_own_elsewhere(
        self, settings: Settings, store: JSONStore, world: World
    ) -> None:
        """Nobody lists it, and the reaper of the server's provider does not see it."""
        settings = settings.model_copy(update={"sandbox_provider": "local"})
        providers = Providers(settings, store)
        ann = Workshop(store, providers, user_id="ann")
        over, left = [await ann.create_sandbox(provider="e2b") for _ in range(2)]
        await ann.launch(over.id, "one", "sleep 600")
        await store.put_sandbox(replace(over, expires_at=now() - timedelta(seconds=1)))
        deployment = await store.deployment()
        local = provider_from(settings, deployment=deployment)
        assert local.name == "local" and other_providers(settings, local, deployment=deployment) == []
        assert await clear_own(store, providers) == [over.id]
        assert world.sandboxes == [left.id] and await store.sandbox_processes(over.id) == []
        assert await clear_own(store, providers) == []
        [other] = other_providers(settings, local, deployment=deployment, named={"local", "e2b", "modal"})
        assert [info.id for info in await other.list()] == [left.id]  # and that is where sessions' are looked for
        named = {"local", "e2b"}
        assert other_providers(settings, local, deployment=deployment, named=named, known={"e2b"}) == []
        await ann.terminate(left.id)
        await providers.close()

    async def test_what_e2b_cannot_build_is_refused_with_the_way_out(
        self, ann: Workshop, settings: Settings, store: JSONStore, project: Path, server: E2BServer
    ) -> None:
        dockerfile = project / "Dockerfile"
        for lines, says in (
            ("ARG BASE_IMAGE\nFROM ${BASE_IMAGE} AS one\nFROM ${BASE_IMAGE}\n", "Multi-stage.*--provider docker"),
            ("ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY nothing /opt/nothing\n", "Dockerfile cannot be built.*nothing"),
            ("ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY a/**/../../outside /x\n", r"goes up by '\.\.'"),
            ("ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY a/**/\\.\\./../outside /x\n", r"goes up by '\.\.'"),
        ):
            dockerfile.write_text(lines)
            with pytest.raises(InvalidInput, match=says):
                await ann.create_image(dockerfile)
        dockerfile.unlink()
        without = Providers(settings.model_copy(update={"e2b_template": "elsewhere"}), store)
        with pytest.raises(TemplateNotFound, match=r"'elsewhere'.*koda image build --provider e2b"):
            await Workshop(store, without, user_id="ann").create_image(project)
        await without.close()
        assert await ann.images() == [] and set(server.images) == {"koda", "base"}

    async def test_a_stream_that_breaks_is_followed_from_where_it_broke(
        self, ann: Workshop, server: E2BServer, world: World
    ) -> None:
        box = await ann.create_sandbox()
        lines = "for n in $(seq 1 400); do echo line-$n; sleep 0.005; done"
        await ann.launch(box.id, "many", lines)
        server.gateway.faults.append(Fault("POST /process.Process/Start", times=40, cut_after=3000))
        said = b"".join([piece.data async for piece in ann.follow(box.id, "many")])
        assert server.gateway.cuts > 1, "nothing was broken"
        assert said.decode().splitlines() == [f"line-{number}" for number in range(1, 401)]

    async def test_refusals_have_codes_and_leave_nothing(
        self, ann: Workshop, server: E2BServer, store: JSONStore, world: World
    ) -> None:
        busy = {"times": 9, "status": 429, "headers": {"Retry-After": "0"}}
        for fault, code in (
            (Fault("POST /v2/sandboxes$", **busy), "QUOTA_EXCEEDED"),  # type: ignore[arg-type]
            (Fault("POST /v2/sandboxes$", times=9, cut_after=0), "PROVIDER_ERROR"),  # it was made, and nobody told
            (Fault("POST /files", times=9, status=507, message="not enough disk space"), "WRITE_FAILED"),
        ):
            server.gateway.faults[:] = [fault]
            with pytest.raises(KodaError) as caught:
                await ann.create_sandbox()
            server.gateway.faults.clear()
            assert caught.value.code == code, caught.value
            assert world.sandboxes == [] and await ann.sandboxes() == []
        box = await ann.create_sandbox()
        server.gateway.faults[:] = [Fault("GET /v2/sandboxes", **busy)]  # type: ignore[arg-type]
        assert [one.state for one in await ann.sandboxes()] == ["unknown"]
        server.gateway.faults.clear()
        assert [(one.record.id, one.state) for one in await ann.sandboxes()] == [(box.id, "running")]
        server.limit = 1
        with pytest.raises(QuotaExceeded, match="limit of the plan"):
            await ann.create_sandbox()

    async def test_a_killed_creation_is_known_by_its_row_and_labels(
        self, settings: Settings, tmp_path: Path, server: E2BServer, world: World
    ) -> None:
        at_it = asyncio.Event()
        go_on = asyncio.Event()

        async def hold() -> None:
            at_it.set()
            await go_on.wait()

        server.gateway.faults.append(Fault("POST /v2/sandboxes$", before=hold))
        koda = [sys.executable, "-m", "koda_ray"]
        environment = {**os.environ, **_environment(settings)}
        pipe = asyncio.subprocess.PIPE
        making = await asyncio.create_subprocess_exec(
            *koda, "sandbox", "create", "--provider", "e2b", cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe
        )
        async with asyncio.timeout(60):
            await at_it.wait()
        making.kill()
        await making.communicate()
        go_on.set()  # it is made all the same, and nobody hears of it

        async def is_there() -> bool:
            return len(world.sandboxes) == 1

        await until(is_there)
        listing = await asyncio.create_subprocess_exec(
            *koda, "sandbox", "list", "--all", cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe
        )
        out, errors = await listing.communicate()
        assert listing.returncode == 0, errors
        [name] = world.sandboxes
        assert out.decode().split("\t")[0] == name
        labels = server.of(name).wanted.metadata
        assert labels["koda_user_id"] == "local"  # type: ignore[index]
        ending = await asyncio.create_subprocess_exec(
            *koda, "sandbox", "terminate", name, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe
        )
        await ending.communicate()
        assert world.sandboxes == []


def _environment(settings: Settings) -> dict[str, str]:
    assert settings.e2b_api_key is not None
    return {
        "SANDBOX_PROVIDER": "local", "E2B_API_KEY": settings.e2b_api_key.get_secret_value(),
        "E2B_API_URL": str(settings.e2b_api_url), "E2B_SANDBOX_URL": str(settings.e2b_sandbox_url),
        "E2B_TEMPLATE": settings.e2b_template, "DATABASE_PATH": str(settings.database_path),
        "SANDBOX_PATH": str(settings.sandbox_path),
    }  # fmt: skip
