"""How much one user may have at once, over HTTP: 429 with the time to come back, and nobody else is kept out."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from koda_ray.client import KodaClient
from koda_ray.errors import Conflict, LimitReached, NotFound
from koda_ray.serve.quotas import SPARE_REQUESTS
from koda_ray.types import Preview, now
from tests.state import records

from .test_assets import picture
from .test_batches import PAGE
from .test_renders import SMALL, zipped
from .test_sessions import PROMPT
from .world import World, reached, world

KEYS = f"ada={'a' * 32},bob={'b' * 32}"


def head(user: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {user[0] * 32}"}


def is_refused(response: httpx.Response) -> bool:
    problem = response.json()
    assert response.status_code != 429 or int(response.headers["Retry-After"]) > 0
    return (response.status_code, problem.get("code"), problem.get("retryable")) == (429, "LIMIT_REACHED", True)


async def test_sessions_awake(tmp_path: Path) -> None:
    async with (
        world(tmp_path, KODA_API_KEYS=KEYS, KODA_USER_SESSIONS=2) as koda,
        KodaClient(koda.url, key="a" * 32) as ada,
        KodaClient(koda.url, key="b" * 32) as bob,
    ):
        koda.directory.hold = {"analyze"}
        made = [await ada.create(PROMPT, key=f"k{index}") for index in range(2)]
        with pytest.raises(LimitReached, match=r"more than 2 sessions that are awake.*KODA_USER_SESSIONS"):
            await ada.create(PROMPT)
        assert (await ada.create(PROMPT, key="k0")).session_id == made[0].session_id, "a repeat is no other"
        await bob.create(PROMPT)
        await ada.delete(made[0].session_id)
        await ada.create(PROMPT)
        await ada.cancel(made[1].session_id)  # one that is awake is spoken to
        row = await koda.store.get_session(made[1].session_id)
        await koda.store.release(row.id, row.epoch)
        await bob.say(next(iter(await sessions_of(bob))), "hello")
        await ada.create(PROMPT)
        with pytest.raises(LimitReached):
            await ada.say(row.id, "go on")
        with pytest.raises(LimitReached):
            await ada.preview(row.id)


async def test_pages_and_what_sessions_keep_count_as_stored(tmp_path: Path) -> None:
    async with (
        world(tmp_path, KODA_API_KEYS=KEYS, KODA_USER_STORED_MB=1) as koda,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http,
        KodaClient(koda.url, key="a" * 32) as ada,
    ):

        async def upload(text: bytes) -> httpx.Response:
            files = {"file": ("page.zip", zipped({"index.html": PAGE, "text": text}), "application/zip")}
            return await http.post("/v1/renders", files=files, data={"options": json.dumps(SMALL)}, headers=head("ada"))

        async def pages() -> int:
            found = await koda.storage.look_below("users/ada/bundles")
            return sum([await koda.storage.size(each.key) for each in found])

        assert (await upload(b"one")).status_code == 202
        assert (await ada.usage()).stored_bytes == await pages() > 0
        session_id = (await ada.create(PROMPT)).session_id
        await koda.store.hold("ada", {"a checkpoint's file": 1 << 20}, holder=session_id)
        before = await pages()
        assert is_refused(await upload(b"two"))
        assert await pages() == before, "nothing was stored of what is refused"
        dot = {"file": ("dot.png", picture("PNG"), "image/png")}
        assert is_refused(await http.post("/v1/assets", files=dot, headers=head("ada")))
        row = await koda.store.get_session(session_id)
        await reached_asking(koda, session_id)
        held = await koda.store.get_session(session_id)
        await koda.store.release(row.id, held.epoch)
        with pytest.raises(LimitReached, match="KODA_USER_STORED_MB"):
            await ada.preview(session_id)
        assert (await ada.session(session_id)).state.phase == "question", "what is there is shown"
        await koda.store.forget("ada", ["a checkpoint's file"])
        assert (await upload(b"two")).status_code == 202


async def test_sessions_in_all(tmp_path: Path) -> None:
    async with (
        world(tmp_path, KODA_API_KEYS=KEYS, KODA_MAX_SESSIONS_PER_USER=3) as koda,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http,
        KodaClient(koda.url, key="a" * 32) as ada,
        KodaClient(koda.url, key="b" * 32) as bob,
    ):
        first = await ada.create(PROMPT, key="first")
        await ada.create(PROMPT)
        takes = {"prompt": PROMPT, "takes": 2}
        assert is_refused(await http.post("/v1/takes", json=takes, headers=head("ada") | {"Idempotency-Key": "t"}))
        assert len(await sessions_of(ada)) == 2, "of takes that have no room, none is made"
        await ada.fork(first.session_id)
        with pytest.raises(LimitReached, match=r"more than 3 sessions.*delete one.*KODA_MAX_SESSIONS_PER_USER"):
            await ada.create(PROMPT)
        assert is_refused(await http.post(f"/v1/sessions/{first.session_id}/fork", json={}, headers=head("ada")))
        assert (await ada.create(PROMPT, key="first")).session_id == first.session_id, "a repeat is no other"
        used = await ada.usage()
        assert (used.sessions, used.most_sessions) == (3, 3) and (await bob.usage()).sessions == 0
        await bob.create(PROMPT)
        for session_id in (await sessions_of(ada))[:2]:
            await ada.delete(session_id)
        made = await http.post("/v1/takes", json=takes, headers=head("ada") | {"Idempotency-Key": "t"})
        assert made.status_code == 202 and len(await sessions_of(ada)) == 3
    async with world(tmp_path, KODA_MAX_SESSIONS_PER_USER=0) as koda, KodaClient(koda.url) as client:
        await client.create(PROMPT)
        assert (await client.usage()).most_sessions is None


async def test_sessions_that_are_woken_at_once(tmp_path: Path) -> None:
    async with (
        world(tmp_path, KODA_API_KEYS=KEYS, KODA_USER_SESSIONS=2) as koda,
        KodaClient(koda.url, key="a" * 32) as ada,
    ):
        asleep: list[str] = []
        for _ in range(5):
            row = await koda.store.get_session((await ada.create(PROMPT)).session_id)
            await reached_asking(koda, row.id)
            held = await koda.store.get_session(row.id)
            await koda.store.release(row.id, held.epoch)
            asleep.append(row.id)
        koda.directory.slow_s = 0.3  # all are looked at before one of them is awake
        said = await asyncio.gather(*(ada.answer(each, text="a red one") for each in asleep), return_exceptions=True)
        assert sum(isinstance(each, LimitReached) for each in said) == 3, said


async def test_commands_that_are_waited_for_leave_others_their_places(tmp_path: Path) -> None:
    """A session that is slow to take what it is told is told so much at once that nobody else could ask."""
    async with (
        world(tmp_path, KODA_API_KEYS=KEYS, KODA_USER_STREAMS=1) as koda,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60, limits=httpx.Limits()) as http,
        KodaClient(koda.url, key="a" * 32) as ada,
    ):
        session_id = (await ada.create(PROMPT)).session_id
        await reached_asking(koda, session_id)
        koda.directory.deaf = asyncio.Event()
        headers = {**head("ada"), "Idempotency-Key": "same"}

        async def say() -> int:
            url = f"/v1/sessions/{session_id}/messages"
            return (await http.post(url, json={"text": "bigger"}, headers=headers)).status_code

        waiting = [asyncio.create_task(say()) for _ in range(1 + SPARE_REQUESTS)]
        try:
            async with asyncio.timeout(60):
                while not is_refused(await http.get("/v1/sessions", headers=head("ada"))):
                    waiting.append(asyncio.create_task(say()))  # one was refused for the look itself
                    await asyncio.sleep(0.01)
            assert (await http.get("/v1/sessions", headers=head("bob"))).status_code == 200
            waiting[0].cancel()  # who hangs up has it go on, and keeps its place
            assert is_refused(await http.get("/v1/sessions", headers=head("ada")))
        finally:
            koda.directory.deaf.set()
            await asyncio.wait(waiting)
        assert (await http.get("/v1/sessions", headers=head("ada"))).status_code == 200


async def reached_asking(koda: World, session_id: str) -> None:
    """Wait until a session asks its person, and owes nothing."""
    async with asyncio.timeout(60):
        while (await koda.store.get_session(session_id)).state.owes is not None:
            await asyncio.sleep(0.01)


async def sessions_of(client: KodaClient) -> list[str]:
    return [session.id for session in (await client.sessions()).sessions]


async def test_renders_waiting(tmp_path: Path) -> None:
    async with (
        world(tmp_path, KODA_API_KEYS=KEYS, KODA_USER_RENDERS=5) as koda,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http,
    ):

        async def batch(user: str, rows: int, key: str) -> httpx.Response:
            form = {"rows": json.dumps([{"row": index} for index in range(rows)]), "options": json.dumps(SMALL)}
            files = {"file": ("page.zip", zipped({"index.html": PAGE}), "application/zip")}
            headers = {**head(user), "Idempotency-Key": key}
            return await http.post("/v1/renders/batches", files=files, data=form, headers=headers)

        assert (await batch("ada", 4, "one")).status_code == 202
        assert is_refused(await batch("ada", 2, "two"))
        assert (await batch("ada", 4, "one")).status_code == 202, "a repeat is no other"
        made = await batch("ada", 1, "three")
        assert made.status_code == 202
        bundle = {"bundle": made.json()["bundle"], "options": SMALL}
        assert is_refused(await http.post("/v1/renders", json=bundle, headers=head("ada")))
        assert (await batch("bob", 2, "one")).status_code == 202
        later = now() + timedelta(seconds=60)
        users = [work.user_id for work in await koda.store.owed(later)]
        assert users == ["ada", "bob", "ada", "bob", "ada", "ada", "ada"], "bob came last and does not wait for all"


async def test_seconds_of_video_waiting_and_bytes_stored(tmp_path: Path) -> None:
    limits = {"KODA_USER_RENDER_S": 61.5, "KODA_USER_STORED_MB": 1}
    async with (
        world(tmp_path, KODA_API_KEYS=KEYS, **limits) as koda,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http,
    ):

        async def render(user: str, options: dict[str, object]) -> httpx.Response:
            files = {"file": ("page.zip", zipped({"index.html": PAGE}), "application/zip")}
            return await http.post(
                "/v1/renders", files=files, data={"options": json.dumps(options)}, headers=head(user)
            )

        first = (await render("ada", {})).json()  # only its page knows for how long, so it counts as a minute
        answers = await asyncio.gather(*(render("ada", SMALL) for _ in range(4)))
        assert sorted(each.status_code for each in answers) == [202, 429, 429, 429]
        assert all(is_refused(each) for each in answers if each.status_code == 429)
        assert (await render("bob", SMALL)).status_code == 202
        running = await koda.store.claim_job(first["id"], lease_until=now() + timedelta(seconds=60))
        await koda.store.update_job(replace(running, status="succeeded", stored_bytes=1 << 20))
        refused = await render("ada", SMALL)
        assert is_refused(refused) and "KODA_USER_STORED_MB" in refused.json()["detail"]
        asked = {"prompt": PROMPT}
        assert is_refused(await http.post("/v1/sessions", json=asked, headers=head("ada")))
        assert (await http.delete(f"/v1/renders/{first['id']}", headers=head("ada"))).status_code == 204
        assert (await render("ada", SMALL)).status_code == 202


async def test_seconds_of_video_that_sessions_are_asked_for(tmp_path: Path) -> None:
    async with (
        world(tmp_path, KODA_API_KEYS=KEYS, KODA_USER_RENDER_S=10) as koda,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http,
    ):

        async def final(user: str, seconds: float) -> httpx.Response:
            shown = Preview(video_url="v", job_id="job-p", bundle="b", duration=seconds)
            session = await records.new_session(
                koda.store, user, phase="preview", execution={}, plan_accepted=True, preview=shown
            )
            koda.directory.hold.add("render_final")
            return await http.post(f"/v1/sessions/{session.id}/accept", json={}, headers=head(user))

        assert (await final("ada", 6.0)).status_code == 202
        refused = await final("ada", 6.0)
        assert is_refused(refused) and "KODA_USER_RENDER_S" in refused.json()["detail"]
        assert (await final("bob", 6.0)).status_code == 202
        assert (await final("ada", 4.0)).status_code == 202


async def test_a_new_render_does_not_overtake_one_that_waits(tmp_path: Path) -> None:
    async with (
        world(tmp_path, KODA_API_KEYS=KEYS) as koda,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http,
    ):
        woken: list[str] = []

        async def wake(job_id: str) -> bool:
            woken.append((await koda.store.get_job(job_id)).user_id)
            return False

        koda.directory.wake_render = wake  # type: ignore[method-assign]

        async def render(user: str) -> str:
            files = {"file": ("page.zip", zipped({"index.html": PAGE}), "application/zip")}
            data = {"options": json.dumps(SMALL)}
            return (await http.post("/v1/renders", files=files, data=data, headers=head(user))).json()["id"]

        waits = await render("ada")
        await reached(lambda: woken == ["ada"])
        row = await koda.store.claim_job(waits, lease_until=now() - timedelta(seconds=1))
        assert row.status == "running", "its process is gone, so it waits for another"
        await render("bob")
        await render("ada")
        await reached(lambda: len(woken) == 2)
        assert woken == ["ada", "ada"]


async def test_uploads(tmp_path: Path) -> None:
    file, other = tmp_path / "a.png", tmp_path / "b.png"
    file.write_bytes(picture("PNG"))
    other.write_bytes(picture("PNG") + bytes(900 << 10))
    async with (
        world(tmp_path, KODA_API_KEYS=KEYS, KODA_USER_ASSETS=3, KODA_USER_ASSET_MB=1) as koda,
        KodaClient(koda.url, key="a" * 32) as ada,
        KodaClient(koda.url, key="b" * 32) as bob,
    ):
        koda.directory.hold = {"analyze"}
        first, second, third = [await ada.upload(file) for _ in range(3)]
        with pytest.raises(LimitReached, match=r"more than 3 uploaded files.*koda asset remove"):
            await ada.upload(file)
        assert len(await koda.storage.list("users/ada/projects")) == 3, "nothing is left of what was refused"
        await bob.upload(file)
        with pytest.raises(NotFound):
            await bob.remove_upload(first.id)
        await ada.remove_upload(first.id)
        assert len(await koda.storage.list("users/ada/projects")) == 2
        await ada.upload(other)
        with pytest.raises(LimitReached, match="more than 3 uploaded files"):
            await ada.upload(file)
        await ada.remove_upload(second.id)
        with pytest.raises(LimitReached, match="more than 1 MB of uploaded files"):
            await ada.upload(other)
        made = await ada.create(PROMPT, asset_ids=(third.id,))
        with pytest.raises(Conflict, match=f"belongs to session {made.session_id}"):
            await ada.remove_upload(third.id)
        page = await ada.uploads(limit=1)
        rest = await ada.uploads(before=page.next)
        assert [asset.session_id for asset in (*page.assets, *rest.assets)] == [None, made.session_id]
        assert rest.next is None
