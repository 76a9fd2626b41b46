"""Links to videos: what who has one sees and says, and that it is no more than that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from koda_ray.client import KodaClient
from koda_ray.errors import Conflict, InvalidInput, KodaError, LimitReached, NotFound, StorageError
from koda_ray.serve.once import share_token
from koda_ray.state.rows import key_hash
from koda_ray.types import now
from koda_ray.wire import MAX_COMMENT_CHARS, MAX_SHARES, MakeShare, ShareCreated

from .test_sessions import PROMPT, until
from .test_versions import with_versions
from .world import World, world

KEY, OTHER = "k" * 32, "o" * 32


@pytest.fixture
async def closed(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path, KODA_API_KEYS=f"ann={KEY},bob={OTHER}") as found:
        yield found


@pytest.fixture
async def ann(closed: World) -> AsyncIterator[KodaClient]:
    async with KodaClient(closed.url, key=KEY) as client:
        yield client


@pytest.fixture
async def anybody(closed: World) -> AsyncIterator[httpx.AsyncClient]:
    """Has no key."""
    async with httpx.AsyncClient(base_url=closed.url, trust_env=False, timeout=60) as client:
        yield client


async def finished(koda: World, client: KodaClient) -> str:
    session_id = await with_versions(koda, client)
    await client.accept(session_id)
    await until(client, session_id, "complete")
    return session_id


def at(made: ShareCreated) -> str:
    """Where programs read what a link shows."""
    return f"/v1/shares/{made.token}"


async def end(koda: World, session_id: str, made: ShareCreated, token: str) -> None:
    """Have a link end a second ago, as a clock would."""
    share = await koda.store.share(session_id, made.id)
    await koda.store.remove_share(session_id, made.id)
    ended = replace(share, token_hash=key_hash(token), expires_at=now() - timedelta(seconds=1))
    await koda.store.create_share(ended, most=MAX_SHARES)


async def test_who_has_a_link_sees_the_video_and_nothing_else(
    closed: World, ann: KodaClient, anybody: httpx.AsyncClient, tmp_path: Path
) -> None:
    session_id = await finished(closed, ann)
    await ann.label(session_id, title="Ball")
    seq, activations = (await ann.session(session_id)).seq, closed.directory.activations
    made = await ann.share(session_id, label=" for  Bob ")
    assert made.url == f"/w/{made.token}" and made.label == "for Bob" and not made.comments
    seen = await anybody.get(at(made))
    assert seen.status_code == 200 and seen.headers["cache-control"] == "no-store"
    assert seen.json() == {
        "title": "Ball",
        "duration": 5.0,
        "width": 1920,
        "height": 1080,
        "fps": 60.0,
        "format": "mp4",
        "scenes": [
            {"number": 1, "title": "Drop in", "duration": 1.5},
            {"number": 2, "title": "Bounce", "duration": 2.0},
            {"number": 3, "title": "Rest", "duration": 1.5},
        ],
        "videoUrl": f"{at(made)}/video",
        "thumbnailUrl": f"{at(made)}/thumbnail",
        "comments": False,
        "expiresAt": None,
    }
    whole = await anybody.get(seen.json()["videoUrl"])
    assert whole.content == (await anybody.get(f"/v1/sessions/{session_id}/video", headers=bearer(KEY))).content
    part = await anybody.get(seen.json()["videoUrl"], headers={"Range": "bytes=1-2"})
    assert (part.status_code, part.content) == (206, whole.content[1:3])
    assert part.headers["content-range"] == f"bytes 1-2/{len(whole.content)}"
    assert (await anybody.head(seen.json()["videoUrl"])).headers["content-length"] == str(len(whole.content))
    poster = await anybody.get(seen.json()["thumbnailUrl"])
    assert poster.status_code == 200 and poster.headers["content-type"] == "image/jpeg"
    for answer in (seen, whole, poster):
        told = f"{answer.text}{answer.headers}" if answer is seen else str(answer.headers)
        assert session_id not in told and PROMPT not in told and made.job not in told
    assert (await anybody.get(f"/v1/sessions/{session_id}")).status_code == 401
    assert (await anybody.get(f"{at(made)}/files")).status_code == 404
    assert await ann.download_shared(made.token, tmp_path / "ball.mp4") == len(whole.content)
    assert (await ann.session(session_id)).seq == seq and closed.directory.activations == activations


async def test_a_version_is_shown_by_its_job_and_another_sessions_is_not(koda: World, client: KodaClient) -> None:
    session_id, other = await with_versions(koda, client, "red"), await with_versions(koda, client)
    second, first = (await client.versions(session_id)).versions
    foreign = (await client.versions(other)).versions[0].job_id
    made = await client.share(session_id, job=first.job_id)
    assert made.job == first.job_id != (await client.share(session_id)).job == second.job_id
    shown = await client.shared(made.token)
    assert shown.scenes == first.scenes and len(shown.scenes) == 3
    assert (shown.title, shown.height, shown.fps) == (None, 360, 15), "no title is made of the prompt"
    for job in (foreign, "job_none"):
        with pytest.raises(NotFound):
            await client.share(session_id, job=job)
    planned = (await client.create(PROMPT, style="playful")).session_id
    with pytest.raises(NotFound, match="no video yet"):
        await client.share(planned)


async def test_the_token_is_not_kept_and_not_told_again(
    koda: World,
    client: KodaClient,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session_id = await with_versions(koda, client)
    made = await client.share(session_id, comments=True)

    async def broken(*_: object) -> int:
        raise StorageError("the bucket does not answer")

    await client.comment(made.token, "nice")
    monkeypatch.setattr(koda.storage, "size", broken)
    async with httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http:
        assert (await http.get(f"{at(made)}/video")).status_code == 500
    logged = "".join(capsys.readouterr())
    assert "request failed" in logged and "/v1/shares/..." in logged
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    kept = b"".join(path.read_bytes() for path in files)
    assert made.id.encode() in kept and key_hash(made.token).encode() in kept
    assert made.token.encode() not in kept and made.token not in logged
    listed = (await client.shares(session_id)).model_dump_json()
    assert made.id in listed and made.token not in listed


async def test_revoked_ended_and_unknown_are_answered_alike(
    closed: World, ann: KodaClient, anybody: httpx.AsyncClient
) -> None:
    session_id = await with_versions(closed, ann)
    lasting, short, revoked = [await ann.share(session_id, comments=True, lasts_s=60) for _ in range(3)]
    assert lasting.expires_at is not None and timedelta(0) < lasting.expires_at - now() <= timedelta(seconds=60)
    assert (await anybody.get(at(revoked))).status_code == 200
    await ann.revoke_share(session_id, revoked.id)
    await end(closed, session_id, short, short.token)
    tokens = (revoked.token, short.token, "A" * 43, "short", "%20")
    for path, method in (("", "GET"), ("/video", "GET"), ("/thumbnail", "GET"), ("/comments", "POST")):
        answers = [
            await anybody.request(
                method, f"/v1/shares/{token}{path}", json={"text": "x"} if path == "/comments" else None
            )
            for token in tokens
        ]
        told = {(each.status_code, each.json()["code"], each.json()["detail"]) for each in answers}
        assert len(told) == 1 and next(iter(told))[:2] == (404, "NOT_FOUND")
        if method == "GET":
            assert (await anybody.get(f"{at(lasting)}{path}")).status_code == 200
    listed = (await ann.shares(session_id)).shares
    assert [(each.id, each.ended) for each in listed] == [(short.id, True), (lasting.id, False)]
    with pytest.raises(NotFound):
        await ann.revoke_share(session_id, revoked.id)
    await ann.delete(session_id, undo_s=600)
    assert (await anybody.get(at(lasting))).status_code == 404
    await ann.restore(session_id)
    assert (await anybody.get(at(lasting))).status_code == 200
    await ann.delete(session_id)
    assert (await anybody.get(at(lasting))).status_code == 404


async def test_links_are_their_owners(closed: World, ann: KodaClient, anybody: httpx.AsyncClient) -> None:
    session_id = await with_versions(closed, ann)
    made = await ann.share(session_id)
    places = [
        ("POST", f"/v1/sessions/{session_id}/shares"),
        ("GET", f"/v1/sessions/{session_id}/shares"),
        ("GET", f"/v1/sessions/{session_id}/shares/{made.id}"),
        ("DELETE", f"/v1/sessions/{session_id}/shares/{made.id}"),
    ]
    for method, path in places:
        body: dict[str, str] | None = {} if method == "POST" else None
        assert (await anybody.request(method, path, json=body)).status_code == 401
        assert (await anybody.request(method, path, json=body, headers=bearer(OTHER))).status_code == 404
    assert [each.id for each in (await ann.shares(session_id)).shares] == [made.id]
    other = await with_versions(closed, ann)
    with pytest.raises(NotFound):
        await ann.share_comments(other, made.id)


async def test_comments_are_plain_text_for_the_owner_alone(
    closed: World, ann: KodaClient, anybody: httpx.AsyncClient
) -> None:
    session_id = await with_versions(closed, ann)
    silent, made = await ann.share(session_id), await ann.share(session_id, comments=True)
    refused = await anybody.post(f"{at(silent)}/comments", json={"text": "hi"})
    assert (refused.status_code, refused.json()["code"]) == (403, "COMMENTS_CLOSED")
    said = await anybody.post(
        f"{at(made)}/comments", json={"text": " <b>slower</b>\x1b[31m\nhere 🎬 ", "name": "Bob\n B", "at": 1.5}
    )
    assert said.status_code == 201 and said.json()["text"] == "<b>slower</b>[31m\nhere 🎬"
    detail = await ann.share_comments(session_id, made.id)
    (kept,) = detail.said
    assert (kept.name, kept.text, kept.at) == ("Bob B", said.json()["text"], 1.5)
    assert detail.commented == 1 and (await ann.share_comments(session_id, silent.id)).said == ()
    assert "slower" not in (await anybody.get(at(made))).text
    wrong = [{}, {"text": " "}, {"text": "x" * (MAX_COMMENT_CHARS + 1)}, {"text": "x", "at": -1}, {"text": "\x1b"}]
    for body in wrong:
        refused = await anybody.post(f"{at(made)}/comments", json=body)
        assert refused.status_code == 422, body
        (named,) = refused.json()["fields"]
        assert named["field"] in ("text", "at") and named["problem"]
    assert named["problem"] == "there is nothing in it that can be read"
    large = await anybody.post(f"{at(made)}/comments", json={"text": "x" * 40_000})
    assert large.status_code == 413
    emoji = await anybody.post(f"{at(made)}/comments", json={"text": "🎬" * MAX_COMMENT_CHARS})
    assert emoji.status_code == 201


async def test_comments_come_so_fast_and_no_faster(koda: World, client: KodaClient) -> None:
    session_id = await with_versions(koda, client)
    made, other = await client.share(session_id, comments=True), await client.share(session_id, comments=True)
    with pytest.raises(LimitReached, match="within a minute") as refused:
        for number in range(40):
            await client.comment(made.token, str(number))
    assert refused.value.context["limit"] == 12
    await client.comment(other.token, "another link is another bucket")


async def test_what_was_said_is_told_again_however_fast(koda: World, client: KodaClient) -> None:
    session_id = await with_versions(koda, client)
    made = await client.share(session_id, comments=True)
    first = await client.comment(made.token, "0", key="key 0")
    for _ in range(20):
        assert await client.comment(made.token, "0", key="key 0") == first
    for number in range(1, 12):
        await client.comment(made.token, str(number), key=f"key {number}")
    with pytest.raises(LimitReached, match="within a minute"):
        await client.comment(made.token, "12", key="key 12")
    assert await client.comment(made.token, "0", key="key 0") == first
    with pytest.raises(Conflict):
        await client.comment(made.token, "1", key="key 0")


async def test_a_session_has_so_many_links(koda: World, client: KodaClient) -> None:
    session_id = await with_versions(koda, client)
    made = await client.share(session_id)
    share = await koda.store.share(session_id, made.id)
    for number in range(MAX_SHARES - 1):
        another = replace(share, id=f"shr_{number}", token_hash=key_hash(str(number)))
        await koda.store.create_share(another, most=MAX_SHARES)
    with pytest.raises(LimitReached, match="revoke one"):
        await client.share(session_id)
    await client.revoke_share(session_id, made.id)
    await client.share(session_id)
    with pytest.raises(InvalidInput):
        await client.share(session_id, lasts_s=1)
    with pytest.raises(KodaError):
        await client.share(session_id, label="x" * 101)


async def test_one_key_makes_one_link_and_tells_its_token_again(koda: World, client: KodaClient) -> None:
    session_id, other = await with_versions(koda, client, "red"), await with_versions(koda, client)
    first = await client.share(session_id, label="for Bob", lasts_s=600, key="one")
    await client.accept(session_id)
    await until(client, session_id, "complete")
    assert (await client.share(session_id)).job != first.job
    assert await client.share(session_id, label="for Bob", lasts_s=600, key="one") == first, "also of a video before"
    for else_asked in (
        client.share(session_id, label="for Ann", lasts_s=600, key="one"),
        client.share(session_id, label="for Bob", lasts_s=601, key="one"),
        client.share(session_id, label="for Bob", lasts_s=600, comments=True, key="one"),
        client.share(session_id, label="for Bob", lasts_s=600, job=first.job, key="one"),
    ):
        with pytest.raises(Conflict, match=f"used for another link \\({first.id}\\); use a new key"):
            await else_asked
    assert len((await client.shares(session_id)).shares) == 2
    assert (await client.share(other, label="for Bob", lasts_s=600, key="one")).id != first.id, "a key is a session's"


async def test_two_requests_at_once_make_one_link(koda: World, client: KodaClient) -> None:
    session_id = await with_versions(koda, client)
    made = await asyncio.gather(*(client.share(session_id, key="one") for _ in range(6)))
    assert len({each.token for each in made}) == 1
    assert [each.id for each in (await client.shares(session_id)).shares] == [made[0].id]


async def test_a_revoked_link_does_not_come_back_with_its_key(koda: World, client: KodaClient) -> None:
    session_id = await with_versions(koda, client)
    first = await client.share(session_id, key="one")
    await client.revoke_share(session_id, first.id)
    again = await client.share(session_id, key="one")
    assert again.id == first.id and again.token != first.token
    with pytest.raises(NotFound):
        await client.shared(first.token)


async def test_a_token_is_the_servers_own(koda: World, client: KodaClient) -> None:
    """Who knows the id, the key and what was asked for does not know the token."""
    session_id = await with_versions(koda, client)
    made = await client.share(session_id, key="one")
    asked = MakeShare()
    guessed = share_token(b"another server's key", made.id, made.created_at, key="one", asked=asked)
    ours = share_token(koda.deps.signer.key, made.id, made.created_at, key="one", asked=asked)
    assert ours == made.token != guessed


async def test_one_key_leaves_one_comment_with_its_link(koda: World, client: KodaClient) -> None:
    session_id = await with_versions(koda, client)
    made, other = await client.share(session_id, comments=True), await client.share(session_id, comments=True)
    said = await asyncio.gather(*(client.comment(made.token, "slower", at=1.5, key="one") for _ in range(3)))
    assert said[0] == said[1] == said[2] == await client.comment(made.token, "slower", at=1.5, key="one")
    for else_said in (
        client.comment(made.token, "faster", at=1.5, key="one"),
        client.comment(made.token, "slower", key="one"),
        client.comment(made.token, "slower", at=1.5, name="Bob", key="one"),
    ):
        with pytest.raises(Conflict, match="used for another comment with this link; use a new key") as refused:
            await else_said
        assert "slower" not in str(refused.value.context)
    assert (await client.comment(other.token, "slower", at=1.5, key="one")).id != said[0].id, "a key is a link's"
    detail = await client.share_comments(session_id, made.id)
    assert detail.said == (said[0],) and detail.commented == 1
    await client.comment(made.token, "slower", at=1.5)
    assert (await client.share_comments(session_id, made.id)).commented == 2, "without a key each is its own"


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}
