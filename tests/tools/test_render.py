from __future__ import annotations

import httpx
import pytest

from tests.actors.script import GOOD_FILES
from tests.tools.conftest import Tools

pytestmark = pytest.mark.sandbox


async def test_the_live_page_is_started_once_and_shows_the_project(tools: Tools) -> None:
    await tools.keep(GOOD_FILES)
    url = f"/v1/sessions/{tools.session.session_id}/preview"
    assert await tools.json("sandbox_start_preview") == {"streamUrl": url}
    assert await tools.json("sandbox_start_preview") == {"streamUrl": url}
    assert {event["url"] for event in await tools.studio.events(tools.session, "stream_ready")} == {url}
    assert [process.name for process in await (await tools.sandbox()).processes()] == ["preview"]
    endpoint = await tools.session.preview("local")
    async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=endpoint.socket_path)) as client:
        page = await client.get(f"http://preview{endpoint.base}src/App.tsx")
    assert page.status_code == 200 and "useCurrentTime" in page.text
