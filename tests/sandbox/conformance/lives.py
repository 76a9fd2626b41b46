"""How a sandbox is made, found, used and ended, also by several at once."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from koda_ray.errors import (
    InvalidInput,
    SandboxError,
    SandboxNotFound,
)
from koda_ray.sandbox.base import Sandbox, SandboxProvider
from koda_ray.types import new_id
from tests.sandbox.conformance.seen import exists, until
from tests.sandbox.leftovers import Leftovers

__all__ = ["Lives"]


class Lives:
    """From its making to its end."""

    @pytest.mark.quick
    async def test_it_starts_as_the_template(self, box: Sandbox, provider: SandboxProvider) -> None:
        assert await box.is_alive()
        assert box.provider == provider.name
        paths = [entry.path for entry in await box.list_files(recursive=True)]
        assert paths == sorted(paths)
        assert {"package.json", "public/logo.svg", "src", "src/App.tsx", "src/scenes", "src/scenes/one.tsx"} <= set(
            paths
        )
        assert not any(path.startswith(("node_modules", "dist")) for path in paths)

    async def test_one_that_was_made_can_be_found_and_listed(self, box: Sandbox, provider: SandboxProvider) -> None:
        again = await provider.connect(box.id)
        assert (await again.read_file("public/logo.svg")) == b"<svg/>\n"
        info = next(info for info in await provider.list() if info.id == box.id)
        assert (info.session_id, info.user_id, info.alive) == ("ses_a", "usr_a", True)
        assert info.provider_id == box.provider_id == again.provider_id != ""

    async def test_making_one_twice_gives_the_same(self, box: Sandbox, provider: SandboxProvider) -> None:
        await box.write_files({"src/kept.ts": b"1"})
        again = await provider.create(sandbox_id=box.id, session_id="ses_a", user_id="usr_a")
        assert await again.read_file("src/kept.ts") == b"1"

    @pytest.mark.quick
    async def test_a_destroyed_one_is_gone_for_everybody(self, box: Sandbox, provider: SandboxProvider) -> None:
        await box.destroy()
        await box.destroy()
        await provider.destroy(box.id)
        assert not await box.is_alive()
        assert box.id not in [info.id for info in await provider.list()]
        for call in (
            box.read_file("src/App.tsx"),
            box.write_files({"src/a.ts": b""}),
            box.list_files(),
            box.run(("true",)),
            box.start("server", ("true",)),
            box.snapshot(),
            provider.connect(box.id),
        ):
            with pytest.raises(SandboxNotFound):
                await call

    async def test_an_unknown_one_is_not_found(self, provider: SandboxProvider) -> None:
        with pytest.raises(SandboxNotFound):
            await provider.connect(new_id("sbx"))
        await provider.destroy(new_id("sbx"))

    async def test_whoever_connects_at_once_gets_the_same(self, box: Sandbox, provider: SandboxProvider) -> None:
        await provider.close()  # as the next program finds it
        found = await asyncio.gather(*(provider.connect(box.id) for _ in range(8)))
        assert {id(one) for one in found} == {id(found[0])}
        done = await asyncio.gather(*(one.run(("sh", "-c", f"echo {turn}")) for turn, one in enumerate(found)))
        assert [one.stdout for one in done] == [f"{turn}\n" for turn in range(8)], done
        await asyncio.gather(*(one.start(f"idle{turn}", ("sleep", "60")) for turn, one in enumerate(found)))
        assert len(await found[0].processes()) == 8
        await provider.destroy(box.id)
        assert [await one.is_alive() for one in found] == [False] * 8

    async def test_made_and_found_at_once_it_is_one(self, provider: SandboxProvider, leftovers: Leftovers) -> None:
        name = leftovers.new_id()
        made = await asyncio.gather(
            *(provider.create(sandbox_id=name, session_id="ses_a", user_id="usr_a") for _ in range(3))
        )
        assert {id(one) for one in made} == {id(await provider.connect(name))}
        assert [info.id for info in await provider.list()].count(name) == 1
        await provider.destroy(name)

    async def test_found_while_it_is_made_it_is_whole(self, provider: SandboxProvider, leftovers: Leftovers) -> None:
        name = leftovers.new_id()
        making = asyncio.create_task(provider.create(sandbox_id=name, session_id="ses_a", user_id="usr_a"))
        asking: list[asyncio.Task[tuple[Sandbox, str]]] = []

        async def ask() -> tuple[Sandbox, str]:
            found = await provider.connect(name)
            return found, found.state

        while not making.done():
            await asyncio.sleep(0.02)
            asking.append(asyncio.create_task(ask()))
        found = await asyncio.gather(*asking)
        assert {state for _, state in found} == {"ready"}
        assert {id(one) for one, _ in found} == {id(await making)}
        await provider.destroy(name)

    async def test_closed_while_one_is_made_it_is_closed_too(
        self, provider: SandboxProvider, leftovers: Leftovers
    ) -> None:
        name = leftovers.new_id()
        making = asyncio.create_task(provider.create(sandbox_id=name, session_id="ses_a", user_id="usr_a"))
        await asyncio.sleep(0)  # it has begun
        await provider.close()
        again = await provider.connect(name)
        assert again is not await making
        assert (await again.run(("true",))).exit_code == 0
        await provider.destroy(name)

    async def test_closed_while_others_ask_for_it_they_get_one_that_is_open(
        self, box: Sandbox, provider: SandboxProvider
    ) -> None:
        before = [asyncio.create_task(provider.connect(box.id)) for _ in range(4)]
        closing = asyncio.create_task(provider.close())
        await asyncio.sleep(0)
        after = await asyncio.gather(*(provider.connect(box.id) for _ in range(4)))
        await closing
        assert {id(one) for one in after} == {id(after[0])} and after[0] is not box
        assert {id(one) for one in await asyncio.gather(*before)} <= {id(box), id(after[0])}
        assert (await after[0].run(("true",))).exit_code == 0

    async def test_what_was_let_go_of_does_nothing_more(self, box: Sandbox, provider: SandboxProvider) -> None:
        await provider.close()
        for call in (
            box.run(("true",)),
            box.start("idle", ("sleep", "60")),
            box.read_file("package.json"),
            box.write_files({"src/late.ts": b"late"}),
            box.snapshot(),
        ):
            with pytest.raises(SandboxError, match=r"let go of the sandbox \w+; connect to it again") as caught:
                await call
            assert caught.value.code == "PROVIDER_ERROR"
        again = await provider.connect(box.id)
        assert "src/late.ts" not in [entry.path for entry in await again.list_files("src")]
        await again.write_files({"src/late.ts": b"late"})

    @pytest.mark.parametrize("open_already", [False, True], ids=["closed", "open"])
    async def test_destroyed_while_others_connect(
        self, box: Sandbox, provider: SandboxProvider, open_already: bool
    ) -> None:
        if not open_already:
            await provider.close()
        before = [asyncio.create_task(provider.connect(box.id)) for _ in range(3)]
        ending = [asyncio.create_task(provider.destroy(box.id)) for _ in range(2)]
        after = [asyncio.create_task(provider.connect(box.id)) for _ in range(3)]
        await asyncio.gather(*ending)
        for connecting in (*before, *after):
            with suppress(SandboxNotFound):
                found = await connecting
                assert not await found.is_alive()
                with pytest.raises(SandboxNotFound):
                    await found.run(("true",))
        with pytest.raises(SandboxNotFound):
            await provider.connect(box.id)

    @pytest.mark.quick
    async def test_destroyed_during_a_command(self, box: Sandbox, provider: SandboxProvider) -> None:
        running = asyncio.create_task(box.run(("sh", "-c", "echo started > src/started.ts; sleep 60"), timeout_s=90))
        await until(lambda: exists(box, "src/started.ts"))
        await provider.destroy(box.id)
        with pytest.raises(SandboxNotFound):
            await running

    async def test_it_is_busy_while_commands_run_and_then_stopped(self, box: Sandbox) -> None:
        assert box.state == "ready"
        first, second = (
            asyncio.create_task(box.run(("sh", "-c", f"echo 1 > src/{name}.ts; while [ ! -e src/{name}.end ]; do "
                                         "sleep 0.02; done")))
            for name in ("one", "two")
        )  # fmt: skip
        await until(lambda: exists(box, "src/one.ts"))
        await until(lambda: exists(box, "src/two.ts"))
        assert box.state == "busy"
        await box.run(("touch", "src/one.end"))
        await first
        assert box.state == "busy"
        await box.run(("touch", "src/two.end"))
        await second
        assert box.state == "ready"
        await box.destroy()
        assert not await box.is_alive()
        assert box.state == "stopped"

    async def test_its_lifetime_can_be_extended(self, box: Sandbox) -> None:
        left_s = await box.extend(7000)
        assert left_s is None or 6900 < left_s <= 7000
        shorter_s = await box.extend(60)
        assert shorter_s is None or shorter_s > 6800
        for wrong in (0, -1, 0.5, float("nan"), float("inf"), 86_401):
            with pytest.raises(InvalidInput):
                await box.extend(wrong)
        await box.destroy()
        with pytest.raises(SandboxNotFound):
            await box.extend(60)
