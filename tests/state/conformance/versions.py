"""What every Store must do about a session's versions: keep each preview, and go back to any of them."""

from __future__ import annotations

import pytest

from koda_ray.errors import NotFound
from koda_ray.events import NewEvent
from koda_ray.state.past import UNDO
from koda_ray.state.records import Batch, SessionRecord
from koda_ray.state.store import Store
from koda_ray.state.versions import MAX_ASKED_CHARS, VersionLabel, VersionRecord
from koda_ray.types import NodeState, Output, Plan, Preview, Scene
from tests.state import records
from tests.state.conformance.history import back, forked, past_at, told
from tests.state.records import active_session

__all__ = ["VersionConformance", "shown"]


def _state(mine: SessionRecord, number: int, *feedback: str) -> NodeState:
    preview = Preview(
        video_url="/v", job_id=f"job_{number}", bundle=f"{number}" * 64, duration=number, checkpoint_id=f"ckp_{number}"
    )
    scene = Scene(number=1, title=f"Drop {number}", duration=number, description="A ball comes in.")
    plan = Plan(scenes=(scene,), total_duration=number, style="calm")
    changes = {"feedback": feedback, "feedback_seen": len(feedback), "plan": plan}
    return mine.state.model_copy(update={"prompt": "A ball", "phase": "preview", "preview": preview, **changes})


async def shown(store: Store, mine: SessionRecord, number: int, *feedback: str) -> VersionRecord:
    """Have a session show a preview; return the version that it is."""
    ready = NewEvent(type="preview_ready", data={"url": "/v"})
    pointer = records.checkpoint(mine, number)
    batch = Batch(state=_state(mine, number, *feedback), events=[ready], checkpoint=pointer)
    await store.commit(mine.id, mine.epoch, batch)
    (newest, *_) = await store.versions(mine.id, limit=1)
    return newest


class VersionConformance:
    async def test_each_preview_is_a_version_with_what_was_asked_for_it(self, store: Store) -> None:
        mine = await active_session(store)
        first = await shown(store, mine, 1)
        await store.commit(mine.id, mine.epoch, Batch(state=_state(mine, 1)))  # nothing is shown anew
        second = await shown(store, mine, 2, "red", "larger")
        third = await shown(store, mine, 3, "red", "larger", "x" * 5_000)
        again = await shown(store, mine, 3, "red", "larger", "x" * 5_000)
        assert again == third, "the same video is no other version"
        assert [each.number for each in (first, second, third)] == [1, 2, 3]
        assert (first.asked, second.asked) == ("A ball", "red\nlarger")
        assert len(third.asked) == MAX_ASKED_CHARS and third.asked.endswith("…")
        assert (second.job_id, second.bundle, second.checkpoint_id, second.duration_s) == (
            "job_2",
            "2" * 64,
            "ckp_2",
            2,
        )
        assert second.scenes == [{"number": 1, "title": "Drop 2", "duration": 2}]
        assert await store.versions(mine.id, limit=2) == [third, second]
        assert await store.versions(mine.id, limit=9, before=2) == [first]
        assert await store.versions(mine.id, limit=1, job_id="job_1") == [first]
        assert await store.versions(mine.id, limit=9, job_id="job_none") == []
        assert await store.version(mine.id, second.id) == second
        final = Output(job_id="job_final", video_url="/f")
        complete = _state(mine, 3).model_copy(update={"phase": "complete", "output": final})
        await store.commit(mine.id, mine.epoch, Batch(state=complete))
        assert [each.final_job_id for each in await store.versions(mine.id, limit=9)] == ["job_final", None, None]

    async def test_a_note_and_a_star_are_kept_and_a_version_of_nobody_is_not_there(self, store: Store) -> None:
        mine, other = await active_session(store), await active_session(store)
        first = await shown(store, mine, 1)
        starred = await store.label_version(mine.id, first.id, VersionLabel(starred=True))
        assert starred.starred and starred.note == ""
        noted = await store.label_version(mine.id, first.id, VersionLabel(note="the calm one\0"))
        assert noted.starred and noted.note == "the calm one�"
        assert await store.label_version(mine.id, first.id, VersionLabel()) == noted
        for session_id, version_id in ((other.id, first.id), (mine.id, "ver_none")):
            with pytest.raises(NotFound):
                await store.version(session_id, version_id)
            with pytest.raises(NotFound):
                await store.label_version(session_id, version_id, VersionLabel(note="x"))
            with pytest.raises(NotFound):
                await past_at(store, session_id, point=version_id)
        with pytest.raises(NotFound):
            await store.checkpoint(mine.id, "ckp_none")
        await store.delete_session(mine.id, user_id="ann")
        assert await store.versions(mine.id, limit=9) == []

    async def test_at_a_version_a_session_is_what_it_was_when_that_was_shown(self, store: Store) -> None:
        mine = await active_session(store)
        said = await told(store, mine, 1, calls=1)
        first = await shown(store, mine, 1)
        later = await told(store, mine, 2, state="later", calls=1)
        second = await shown(store, mine, 2, "red")
        past = await past_at(store, mine.id, point=first.id)
        assert past.state.preview is not None and past.state.preview.job_id == "job_1"
        assert past.messages == [said] and len(past.tool_calls) == 1 and past.head is None
        assert [each.event_seq for each in past.checkpoints] == [1]
        present = await past_at(store, mine.id, point=second.id)
        assert present.messages == [said, later] and present.state == (await store.get_session(mine.id)).state

    async def test_a_version_that_was_left_can_be_gone_to_again(self, store: Store) -> None:
        mine = await active_session(store)
        first = await shown(store, mine, 1)
        said = await told(store, mine, 1, calls=2)
        second = await shown(store, mine, 2, "red")
        third = await shown(store, mine, 3, "red", "blue")
        await store.rewind(mine.id, mine.epoch, first.id, back)
        live = {each.number: each.live for each in await store.versions(mine.id, limit=9)}
        assert live == {1: True, 2: False, 3: False}
        kept = (await store.latest_checkpoint(mine.id)) is not None
        assert kept and await store.messages(mine.id) == []
        pointer = await store.checkpoint(mine.id, (await past_at(store, mine.id, point=second.id)).checkpoints[-1].id)
        assert pointer.event_seq == 2, "what does not count now can be read"

        fourth = await shown(store, mine, 4, "green")
        assert fourth.number == 4 and fourth.asked == "green"
        await store.rewind(mine.id, mine.epoch, second.id, back)
        live = {each.number: each.live for each in await store.versions(mine.id, limit=9)}
        assert live == {1: True, 2: True, 3: False, 4: False}
        assert await store.messages(mine.id) == [said] and len(await store.tool_calls(mine.id)) == 2
        state = (await store.get_session(mine.id)).state
        assert state.preview is not None and state.preview.job_id == "job_2" and state.feedback == ("red",)

        await store.rewind(mine.id, mine.epoch, fourth.id, back)
        await store.rewind(mine.id, mine.epoch, third.id, back)
        live = {each.number: each.live for each in await store.versions(mine.id, limit=9)}
        assert live == {1: True, 2: True, 3: True, 4: False}
        await store.rewind(mine.id, mine.epoch, UNDO, back)
        state = (await store.get_session(mine.id)).state
        assert state.preview is not None and state.preview.job_id == "job_4"

    async def test_a_fork_at_a_version_has_those_up_to_it(self, store: Store) -> None:
        mine = await active_session(store)
        first = await shown(store, mine, 1)
        await store.label_version(mine.id, first.id, VersionLabel(note="calm"))
        second = await shown(store, mine, 2, "red")
        await shown(store, mine, 3, "red", "blue")
        await store.rewind(mine.id, mine.epoch, first.id, back)
        made, _ = await store.fork(mine.id, user_id="ann", point=second.id, key="k", body={}, plan=forked)
        assert made.state.preview is not None and made.state.preview.job_id == "job_2"
        found = await store.versions(made.id, limit=9)
        assert [(each.number, each.note, each.live) for each in found] == [(2, "", True), (1, "calm", True)]
        there = await store.activate(made.id, host="test", lease_until=records.now() + records.SOON)
        assert (await shown(store, there, 5, "red", "tall")).number == 3
        await store.rewind(made.id, there.epoch, first.id, back)
        state = (await store.get_session(made.id)).state
        assert state.preview is not None and state.preview.job_id == "job_1"
