"""Processes with a terminal in local sandboxes: the suite of all providers, and what is the local provider's own."""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from koda_ray.errors import Missing, QuotaExceeded
from koda_ray.sandbox import isolation
from koda_ray.sandbox.isolation import system_binds
from koda_ray.sandbox.limits import ResourceLimits
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.local_sandbox import LocalSandbox
from koda_ray.sandbox.template import TemplateProject
from koda_ray.sandbox.tmux import SERVER, Tmux
from tests.sandbox.conftest import small_limits
from tests.sandbox.leftovers import HOLDER, Leftovers
from tests.sandbox.refusals import refusals
from tests.sandbox.terminals import TerminalConformance, all_of, until

pytestmark = [pytest.mark.sandbox, pytest.mark.needs("tmux")]


@pytest.fixture
def limits() -> ResourceLimits:
    """Room for two programs of node beside the terminals: one has a dozen threads."""
    return replace(small_limits(), pids=160)


class TestLocalTerminals(TerminalConformance):
    """As this machine and user allow it."""


def holders(of: str) -> list[int]:
    """Find who holds something of a sandbox."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if HOLDER in words and any(of.encode() in word for word in words):
                found.append(int(entry.name))
    return found


async def test_a_killed_holder_leaves_nothing_running(sandbox: LocalSandbox, leftovers: Leftovers) -> None:
    tmux = Tmux(sandbox)
    await tmux.launch("one", "setsid sleep 1000 & sleep 1000")
    (holder,) = holders(sandbox.id)
    assert leftovers.processes(sandbox.id) != []
    os.kill(holder, signal.SIGKILL)

    async def is_empty() -> bool:
        return leftovers.processes(sandbox.id) == []

    await until(is_empty)
    assert await tmux.processes() == []
    await tmux.launch("one", "echo back")  # and another takes its place
    assert (await all_of(tmux, "one"))[0] == b"back\r\n"


async def test_the_holder_goes_when_the_sandbox_does(sandbox: LocalSandbox, provider: LocalProvider) -> None:
    await Tmux(sandbox).launch("one", "sleep 1000")
    assert len(holders(sandbox.id)) == 1
    await provider.destroy(sandbox.id)

    async def is_gone() -> bool:
        return holders(sandbox.id) == []

    await until(is_gone)


async def test_without_tmux_the_way_out_is_named(
    boxes: Path, template: Path, node_modules: Path, leftovers: Leftovers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "system_binds", _without_tmux)
    provider = LocalProvider(root=boxes, template=TemplateProject(folder=template, node_modules=node_modules))
    box = await provider.create(sandbox_id=leftovers.new_id(), session_id="", user_id="usr_a")
    try:
        with pytest.raises(Missing, match="apt-get install tmux"):
            await Tmux(box).launch("one", "true")
    finally:
        await box.destroy()


def _without_tmux() -> tuple[str, ...]:
    program = shutil.which("tmux")
    assert program is not None
    return (*system_binds(), "--ro-bind", "/dev/null", program)


async def test_what_terminals_keep_counts_as_disk(
    boxes: Path, template: Path, node_modules: Path, limits: ResourceLimits, leftovers: Leftovers
) -> None:
    soft = LocalProvider(
        root=boxes,
        template=TemplateProject(folder=template, node_modules=node_modules),
        limits=replace(limits, soft=True),
    )
    box = await soft.create(sandbox_id=leftovers.new_id(), session_id="", user_id="usr_a")
    try:
        tmux = Tmux(box)
        fill = "for i in 1 2 3 4 5; do head -c 20000000 /dev/zero >$HOME/.terminals/f$i; done; sleep 1000"
        await tmux.launch("one", fill)

        with pytest.raises(QuotaExceeded, match=r"disk: .* MB are used, 64 MB are allowed"):
            await box.run(("sleep", "60"), timeout_s=90)

        async def is_ended() -> bool:
            return leftovers.processes(box.id) == []

        await until(is_ended)
    finally:
        await box.destroy()


async def test_what_a_launched_process_was_refused_is_told_at_the_end(
    sandbox: LocalSandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    tmux = Tmux(sandbox)
    await tmux.launch("caller", "node -e \"require('net').connect(80, '192.0.2.1').on('error', () => {})\"; sleep 1000")
    log = Path(sandbox.provider_id) / f"{SERVER}.log"

    async def is_noticed() -> bool:
        await sandbox.processes()
        return log.exists() and "sandbox refused" in log.read_text()

    await until(is_noticed)
    assert "network" not in refusals(capsys, sandbox.id)
    await sandbox.destroy()
    assert "network" in refusals(capsys, sandbox.id)
