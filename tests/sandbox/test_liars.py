"""What a sandbox prints is looked at before it is believed: a number that is none stops nobody."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import cast

import pytest

from koda_ray.sandbox.base import CommandResult, Sandbox
from koda_ray.sandbox.screenshot import PageClock, screenshot
from koda_ray.sandbox.tmux import Tmux

HEAD = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 1920, 1080)


class LyingSandbox:
    """Answers every command with what it likes."""

    id = "sbx_1"

    def __init__(self, said: str) -> None:
        self._said = said

    async def run(self, argv: Sequence[str], *, timeout_s: float = 0) -> CommandResult:
        return CommandResult(exit_code=0, stdout=self._said, stderr="", duration_s=0.1)

    async def read_files(self, paths: Sequence[str], *, most_bytes: int) -> dict[str, bytes]:
        return {paths[0]: HEAD}


@pytest.mark.parametrize(
    ("said", "duration_s"),
    [
        ('{"duration": 4.5}', 4.5), ("", None), ("[" * 100_000, None), ("[3]", None), ('{"duration": NaN}', None),
        (f'{{"duration": 1{"0" * 400}}}', None), ('{"duration": "\\ud800"}', None),
        ('{"duration": 2, "refused": ["\\ud800\\u001b", {"a": 1}, 7]}', 2.0), ('{"duration": -1, "refused": 3}', None),
    ],
)  # fmt: skip
async def test_what_is_said_of_a_picture(said: str, duration_s: float | None) -> None:
    box = cast("Sandbox", LyingSandbox(said))
    taken = await screenshot(box, 1.0, clock=PageClock(page="", unscripted="", worker=""))
    assert taken.duration_s == duration_s and taken.png == HEAD


@pytest.mark.parametrize("places", [f"{'9' * 5000} {'9' * 5000}", "\u0661 \u0662", "-1 2", "1 2 3", ""])
async def test_where_output_lies_is_a_place(places: str) -> None:
    class Terminals(LyingSandbox):
        async def run(self, argv: Sequence[str], *, timeout_s: float = 0) -> CommandResult:
            listed = f"dev\t12\t\t\t\t1700000000\t{'a' * 32}\n{'9' * 9999}\t1\t1"
            said = listed if "list-panes" in argv else f"{places}\nwords"
            return CommandResult(exit_code=0, stdout=said, stderr="", duration_s=0.1)

    tmux = Tmux(cast("Sandbox", Terminals("")))
    assert [process.pid for process in await tmux.processes()] == [12]
    assert await tmux.output("dev") == b""
