"""One trace from a request to each unit of its video: a real server, a real browser, a collector that speaks OTLP."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from koda_ray import tracing
from koda_ray.client import KodaClient
from koda_ray.logs import get_logger, to_file
from koda_ray.render.local import LocalExecutor
from tests.otlp import Collector, collecting

from .test_renders import SMALL, events, post
from .test_sessions import PROMPT
from .world import World, world

ASKED = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        tracing._provider.cache_clear()
        yield collector
        provider = tracing._provider()
        assert provider is not None
        provider.shutdown()
        tracing._provider.cache_clear()


@pytest.mark.browser
@pytest.mark.needs("otlp")
async def test_a_request_and_each_unit_of_its_video_are_one_trace(collector: Collector, tmp_path: Path) -> None:
    async with (
        world(tmp_path) as koda,
        LocalExecutor(workers=1) as executor,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60, headers={"traceparent": ASKED}) as http,
    ):
        koda.directory.executor = executor
        made = (await post(http, **{**SMALL, "duration": 2.5})).json()
        assert (await events(http, made["id"]))[-1]["data"] == {"status": "succeeded"}
        await koda.directory.close()
        units = collector.named("unit")
        assert sorted(span.attributes["koda.unit"] for span in units) == [0, 1, 2]
        for span in units:
            assert collector.under(span) == ["capture", "render", "page render", "POST /v1/renders"]
            assert span.took_s > 0 and span.attributes["koda.frames"] in (5, 10)
        (join,) = collector.named("join")
        (request,) = collector.named("POST /v1/renders")
        assert {span.trace for span in (*units, join, request)} == {"ab" * 16}
        assert request.parent == "cd" * 8 and request.attributes["http.response.status_code"] == 202
        (page,) = collector.named("page render")
        assert page.attributes == {"koda.job": made["id"]}
        told = json.dumps([span.attributes for span in collector.spans])
        assert "local" not in told and made["bundle"] not in told


@pytest.mark.needs("otlp")
async def test_a_command_carries_its_trace_to_whoever_takes_it(collector: Collector, tmp_path: Path) -> None:
    async with world(tmp_path) as koda, KodaClient(koda.url) as client:
        koda.directory.hold = {"analyze"}
        session_id = (await client.create(PROMPT)).session_id
        made = await koda.store.get_session(session_id)
        await client.cancel(session_id, key="stop")
        told = await koda.store.get_session(session_id)
        command = await koda.store.find_command(session_id, "stop")
        (created,) = collector.named("POST /v1/sessions")
        (cancelled,) = collector.named("POST /v1/sessions/{session_id}/cancel")
        assert made.trace is not None and made.trace.startswith(f"00-{created.trace}-{created.id}-")
        assert command is not None and command.trace is not None and command.trace == told.trace
        assert command.trace.startswith(f"00-{cancelled.trace}-{cancelled.id}-")
        assert created.trace != cancelled.trace


@pytest.mark.needs("otlp")
async def test_who_has_no_key_writes_into_no_trace(collector: Collector, tmp_path: Path) -> None:
    key = "k" * 32
    async with (
        world(tmp_path, KODA_API_KEYS=f"ada={key}") as koda,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60, headers={"traceparent": ASKED}) as http,
    ):
        for headers in ({}, {"Authorization": f"Bearer {'x' * 32}"}):
            assert (await http.get("/v1/sessions", headers=headers)).status_code == 401
        assert (await http.get("/v1/renders", headers={"Authorization": f"Bearer {key}"})).status_code == 200
    (span,) = collector.named("GET /v1/renders")
    assert (span.trace, span.parent) == ("ab" * 16, "cd" * 8)
    assert [each.name for each in collector.spans] == ["GET /v1/renders"]


@pytest.mark.needs("otlp")
def test_what_is_logged_names_its_trace(collector: Collector) -> None:
    lines = io.StringIO()
    to_file(lines)
    get_logger().info("before")
    with tracing.span("work"):
        get_logger().info("within", job_id="job_1")
    before, within = map(json.loads, lines.getvalue().splitlines())
    (span,) = collector.named("work")
    assert "trace_id" not in before and (within["trace_id"], within["job_id"]) == (span.trace, "job_1")


async def test_where_nobody_takes_traces_there_are_none(koda: World, client: KodaClient) -> None:
    made = await client.create(PROMPT)
    assert (await koda.store.get_session(made.session_id)).trace is None
    with tracing.span("work") as span:
        assert span is None and tracing.trace_parent() is None
