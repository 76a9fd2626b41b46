"""Pages that would fill the process that serves them: what is on its way to a page is made as the browser takes it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from koda_ray.errors import PageError, RenderError
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.cdp import BrowserConnection
from koda_ray.render.memory import MemoryLimit
from koda_ray.render.outbox import Outbox
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup
from tests.render.conftest import until

MIB = 1 << 20
SETUP = PageSetup(width=160, height=90)


def most_bytes() -> int:
    """The most memory that this process has held since it was last asked. Source: proc_pid_status(5), clear_refs(5)."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    Path("/proc/self/clear_refs").write_text("5")
    return int(line.split()[1]) * 1024


@pytest.fixture
def pipe() -> tuple[int, int]:
    return os.pipe()


async def test_what_nobody_reads_yet_takes_no_room(pipe: tuple[int, int]) -> None:
    ours = Outbox()
    connection = BrowserConnection(ours.put)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_write_pipe(lambda: ours, os.fdopen(pipe[1], "wb", 0))
    body = os.urandom(4 * MIB)
    most_bytes()
    before = most_bytes()
    for number in range(16):
        connection.post_body("Fetch.fulfillRequest", {"requestId": str(number)}, body, session="page")
    last = connection.post("Browser.getVersion", session=None)
    assert most_bytes() - before < 16 * MIB
    reader = asyncio.StreamReader(limit=8 * MIB)
    end, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(pipe[0], "rb", 0))
    for number in range(16):
        message = json.loads((await reader.readuntil(b"\0"))[:-1])
        assert (message["id"], message["sessionId"], message["params"]["requestId"]) == (
            number + 1,
            "page",
            str(number),
        )
        assert base64.b64decode(message["params"]["body"]) == body
    assert json.loads((await reader.readuntil(b"\0"))[:-1]) == {"id": 17, "method": "Browser.getVersion", "params": {}}
    connection.end("over")
    assert last.done()
    transport.close()
    end.close()


async def test_what_is_on_its_way_is_let_go_with_the_pipe(pipe: tuple[int, int]) -> None:
    ours = Outbox()
    loop = asyncio.get_running_loop()
    await loop.connect_write_pipe(lambda: ours, os.fdopen(pipe[1], "wb", 0))
    for _ in range(3):
        ours.put([bytes(MIB)])
    assert ours.waiting
    os.close(pipe[0])
    await until(lambda: not ours.waiting)
    ours.put([bytes(MIB)])
    assert not ours.waiting


FLOOD = """<!doctype html><body><script>
(async () => { for (let n = 0; n < 120; n++) fetch("/big.bin?" + n).then((got) => got.body.cancel(), () => {}); })();
</script>"""


@pytest_asyncio.fixture
async def small_browser() -> AsyncIterator[Browser]:
    async with await Browser.launch(memory=MemoryLimit(600)) as running:
        yield running


@pytest.mark.browser
@pytest.mark.full
async def test_a_page_that_asks_for_much_again_and_again_fills_its_browser_alone(small_browser: Browser) -> None:
    big = 32 * MIB
    bundle = Bundle({"index.html": FLOOD.encode(), "big.bin": bytes(big)})
    most_bytes()
    before = most_bytes()
    page = await LoadedPage.open(small_browser, bundle, SETUP)
    with pytest.raises(RenderError):  # it fills its browser with answers until that has enough, or its time is over
        await page.wait_ready(5.0)
    grown = most_bytes() - before
    await page.close()
    assert grown < 150 * MIB, f"{grown >> 20} MiB"


@pytest.mark.browser
@pytest.mark.full
async def test_a_page_with_an_endless_source_map_is_said_to_fail_where_it_was_built(small_browser: Browser) -> None:
    script = b"throw new Error('on purpose')\n//# sourceMappingURL=a.js.map"
    mapped = b'{"version":3,"sources":["a.ts"],"mappings":"' + b"AAAA," * (12 * MIB) + b'"}'
    never = b"window.__koda = { ready: new Promise(() => 0), seek() {} }"
    html = b"<!doctype html><script>" + never + b"</script><script src=a.js></script>"
    bundle = Bundle({"index.html": html, "a.js": script, "a.js.map": mapped})
    most_bytes()
    before = most_bytes()
    page = await LoadedPage.open(small_browser, bundle, SETUP)
    with pytest.raises(PageError, match=r"on purpose .* at a.js:1:7"):
        await page.wait_ready(60.0)
    await page.close()
    assert most_bytes() - before < 150 * MIB
