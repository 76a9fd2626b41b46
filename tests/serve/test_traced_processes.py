"""One trace across the processes of a real server: who is asked, whose session it is, who coordinates, who captures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.server import Server
from tests.otlp import Collector, KeptSpan, collecting

from .test_renders import SMALL, events, post

pytestmark = [
    pytest.mark.full, pytest.mark.alone, pytest.mark.ray, pytest.mark.sandbox, pytest.mark.browser,
    pytest.mark.needs("otlp", "node"), pytest.mark.timeout(600),
]  # fmt: skip
PROMPT = "a dot crosses, smooth, 2 seconds"
_IN_TIME_S = 300.0


def header(number: int) -> dict[str, str]:
    """A trace that a request is part of, as whoever asks says so."""
    return {"traceparent": f"00-{number:032x}-{number:016x}-01"}


async def comes_true(what: Callable[[], Any]) -> Any:
    """Wait until something is there, and return it."""
    deadline = time.monotonic() + _IN_TIME_S
    while not (found := what()):
        assert time.monotonic() < deadline, "not in time"
        await asyncio.sleep(0.1)
    return found


async def phase(http: httpx.AsyncClient, session_id: str, wanted: str) -> None:
    """Wait until a session rests in a phase."""
    deadline = time.monotonic() + _IN_TIME_S
    while True:
        state = (await http.get(f"/v1/sessions/{session_id}")).json()["state"]
        if (state["phase"], state["owes"]) == (wanted, None):
            return
        assert state["phase"] != "error" and time.monotonic() < deadline, state
        await asyncio.sleep(0.1)


def units(collector: Collector, trace: int) -> list[KeptSpan]:
    """The units of a trace that were told of."""
    return [span for span in collector.spans if span.name == "unit" and int(span.trace, 16) == trace]


async def test_a_request_and_what_other_processes_do_for_it_are_one_trace(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with collecting() as collector:
        server = Server(tmp_path, KODA_DIRECTOR="offline", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
        async with server, httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as http:
            http.headers.update(header(1))
            made = (await post(http, **{**SMALL, "duration": 2.5})).json()
            assert (await events(http, made["id"]))[-1]["data"] == {"status": "succeeded"}
            await comes_true(lambda: len(units(collector, 1)) == 3 and collector.named("page render"))
            for unit in units(collector, 1):
                assert collector.under(unit) == ["capture", "render", "page render", "POST /v1/renders"]

            body = {"prompt": PROMPT, "options": {"duration": 2}}
            http.headers.update(header(2))
            created = await http.post("/v1/sessions", json=body)
            session_id = created.json()["sessionId"]
            await phase(http, session_id, "plan")
            http.headers.update(header(3))
            await http.post(f"/v1/sessions/{session_id}/accept", json={})
            await phase(http, session_id, "preview")
            await comes_true(lambda: len(units(collector, 3)) >= 2 and _over(collector, 3))
            for unit in units(collector, 3):
                under = collector.under(unit)
                assert under[0] == "capture" and "session work" in under, under
                assert under[-1] == "POST /v1/sessions/{session_id}/accept"
            asked = [span for span in collector.spans if int(span.trace, 16) == 2]
            assert {"POST /v1/sessions", "session work"} <= {span.name for span in asked}
            assert not units(collector, 2), "what was accepted later is of that request"


def _over(collector: Collector, trace: int) -> bool:
    """Whether the work that a request began has ended, and was told of."""
    work = [span for span in collector.spans if span.name == "session work" and int(span.trace, 16) == trace]
    return bool(work) and any(span.attributes["koda.owes"] == "execute" for span in work)
