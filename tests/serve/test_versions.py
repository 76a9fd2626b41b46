"""The versions of a session over HTTP: listed, starred, gone to and back from, forked, and told apart."""

from __future__ import annotations

import httpx
import pytest

from koda_ray.client import KodaClient
from koda_ray.errors import InvalidInput, NotFound

from .test_sessions import PROMPT, until
from .world import World


async def with_versions(koda: World, client: KodaClient, *changes: str) -> str:
    """Make a session with a version for its prompt, and one for each change."""
    session_id = (await client.create(PROMPT, style="playful")).session_id
    await until(client, session_id, "plan")
    await client.accept(session_id)
    await until(client, session_id, "preview")
    for change in changes:
        await client.changes(session_id, change)
        await until(client, session_id, "preview")
    return session_id


async def test_each_preview_is_a_version_with_a_note_and_a_star_of_its_own(koda: World, client: KodaClient) -> None:
    session_id = await with_versions(koda, client, "make the ball red")
    second, first = (await client.versions(session_id)).versions
    state = (await client.session(session_id)).state
    assert state.preview is not None and second.job_id == state.preview.job_id
    assert [(each.number, each.asked) for each in (first, second)] == [(1, PROMPT), (2, "make the ball red")]
    assert (first.current, second.current, first.undone, second.undone) == (False, True, False, False)
    assert state.plan is not None
    planned = [(each.number, each.title, each.duration) for each in state.plan.scenes]
    assert [(each.number, each.title, each.duration) for each in first.scenes] == planned
    assert second.video_url == f"/v1/sessions/{session_id}/video?job={second.job_id}" and second.final_url is None
    seq, activations = (await client.session(session_id)).seq, koda.directory.activations
    starred = await client.label_version(session_id, first.id, starred=True)
    assert starred.starred and (await client.label_version(session_id, first.id, note=" calm ")).note == "calm"
    noted = (await client.versions(session_id)).versions[1]
    assert (noted.starred, noted.note) == (True, "calm")
    assert (await client.label_version(session_id, first.id, note="")).note == ""
    assert (await client.session(session_id)).seq == seq and koda.directory.activations == activations
    page = await client.versions(session_id, limit=1)
    assert [each.id for each in page.versions] == [second.id] and page.next == 2
    assert [each.id for each in (await client.versions(session_id, before=2)).versions] == [first.id]
    await client.accept(session_id)
    await until(client, session_id, "complete")
    finished = (await client.versions(session_id)).versions
    output = (await client.session(session_id)).state.output
    assert output is not None
    assert [each.final_url for each in finished] == [f"/v1/sessions/{session_id}/video?job={output.job_id}", None]
    with pytest.raises(InvalidInput):
        await client.label_version(session_id, first.id, note="x" * 501)
    with pytest.raises(NotFound):
        await client.label_version(session_id, "ver_none", starred=True)


async def test_one_goes_to_a_version_and_to_those_that_were_left(
    koda: World, client: KodaClient, http: httpx.AsyncClient
) -> None:
    session_id = await with_versions(koda, client, "red", "large")
    third, second, first = (await client.versions(session_id)).versions
    path = "src/scenes/S1.tsx"
    said = len((await client.messages(session_id)).messages)
    await client.rewind(session_id, first.id)
    view = await client.session(session_id)
    assert view.state.phase == "preview" and view.state.feedback == ()
    assert view.state.preview is not None and view.state.preview.job_id == first.job_id
    assert b"// red" not in await client.read_file(session_id, path)
    found = (await client.versions(session_id)).versions
    assert [(each.current, each.undone) for each in found] == [(False, True), (False, True), (True, False)]
    assert (await http.get(third.video_url)).status_code == 200, "what was left can be looked at"
    assert third.checkpoint_id is not None
    assert b"// large" in await client.read_file(session_id, path, checkpoint=third.checkpoint_id)
    assert (await client.files(session_id, checkpoint=third.checkpoint_id)).checkpoint_id == third.checkpoint_id

    await client.rewind(session_id, second.id)
    assert b"// red" in await client.read_file(session_id, path)
    assert (await client.session(session_id)).state.feedback == ("red",)
    await client.changes(session_id, "blue")
    await until(client, session_id, "preview")
    found = (await client.versions(session_id)).versions
    assert [(each.number, each.asked, each.undone) for each in found[:3]] == [
        (4, "blue", False),
        (3, "large", True),
        (2, "red", False),
    ]
    await client.rewind(session_id, third.id)
    assert b"// large" in await client.read_file(session_id, path)
    assert len((await client.messages(session_id)).messages) == said
    with pytest.raises(NotFound, match=r"\.\.\./versions"):
        await client.rewind(session_id, "ver_none")


async def test_another_session_is_made_at_a_version(koda: World, client: KodaClient) -> None:
    session_id = await with_versions(koda, client, "red")
    second, first = (await client.versions(session_id)).versions
    await client.label_version(session_id, first.id, note="calm")
    made = (await client.fork(session_id, at=first.id)).session_id
    view = await client.session(made)
    assert view.state.phase == "preview" and view.state.preview is not None and view.state.forked_from == session_id
    (only,) = (await client.versions(made)).versions
    assert only.note == "calm" and only.current and only.job_id == view.state.preview.job_id != first.job_id
    kept = (await client.session(session_id)).state.preview
    assert kept is not None and kept.job_id == second.job_id
    await client.delete(session_id)
    assert b"// red" not in await client.read_file(made, "src/scenes/S1.tsx")
    await client.changes(made, "green")
    await until(client, made, "preview")
    assert [each.number for each in (await client.versions(made)).versions] == [2, 1]


async def test_the_files_of_two_versions_are_told_apart(
    koda: World, client: KodaClient, http: httpx.AsyncClient
) -> None:
    session_id = await with_versions(koda, client, "red")
    second, first = (await client.versions(session_id)).versions
    diff = await client.version_diff(session_id, second.id)
    assert (diff.version, diff.against, diff.left_out) == (second.id, first.id, 0)
    assert [(each.path, each.change, each.added, each.removed) for each in diff.files] == [
        ("src/scenes/S1.tsx", "changed", 1, 0),
        ("src/scenes/Setup.tsx", "changed", 1, 0),
    ]
    assert diff.files[0].diff is not None and diff.files[0].diff.splitlines()[-1] == "+// red"
    back = await client.version_diff(session_id, first.id, against=second.id)
    assert [(each.added, each.removed) for each in back.files] == [(0, 1), (0, 1)]
    begun = await client.version_diff(session_id, first.id)
    assert begun.against is None and [each.change for each in begun.files] == ["added", "added"]
    other = await with_versions(koda, client)
    assert (await http.get(f"/v1/sessions/{other}/versions/{first.id}/diff")).status_code == 404
    foreign = (await client.versions(other)).versions[0].checkpoint_id
    assert (await http.get(f"/v1/sessions/{session_id}/files?checkpoint={foreign}")).status_code == 404


async def test_what_is_no_text_or_too_long_is_only_named(koda: World, client: KodaClient) -> None:
    session_id = (await client.create(PROMPT, style="playful")).session_id
    await until(client, session_id, "plan")
    long = b"a line\n" * 4_000
    await koda.directory.checkpoint(session_id, {"logo.png": b"\x89PNG\xff", "long.txt": long, "gone.txt": b"1\n2\n"})
    earlier = await koda.store.latest_checkpoint(session_id)
    await client.accept(session_id)
    await until(client, session_id, "preview")
    (version,) = (await client.versions(session_id)).versions
    row = await koda.store.get_session(session_id)
    assert earlier is not None and row.state.preview is not None
    shown = row.state.preview.model_copy(update={"job_id": "job_before", "checkpoint_id": earlier.id})
    await koda.directory.show(session_id, shown)
    diff = await client.version_diff(session_id, version.id, against=(await client.versions(session_id)).versions[0].id)
    told = {each.path: (each.change, each.added, each.removed, each.diff is None) for each in diff.files}
    assert told["logo.png"] == ("removed", 0, 0, True) and told["long.txt"] == ("removed", 0, 0, True)
    assert told["gone.txt"] == ("removed", 0, 2, False)
