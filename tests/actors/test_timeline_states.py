"""Whatever is said to a session, in whatever order it goes back, forward and another way: it is whole there."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from koda_ray import commands
from koda_ray.actors.core import SessionCore
from koda_ray.actors.timeline import back_at, fork_session
from koda_ray.commands import Command
from koda_ray.errors import InvalidInput, InvalidTransition
from koda_ray.phases import check
from koda_ray.state.json_store import JSONStore
from koda_ray.state.past import UNDO
from koda_ray.state.records import Batch, MessageRecord
from koda_ray.types import NodeState, Output, Todo, new_id, now
from tests import tiers
from tests.phases.story import COMMANDS, PLAN, QUESTION, preview
from tests.state import records
from tests.state.records import SOON, new_session

_MEMORY = Path("/dev/shm")
_STATUS = {"pending": "open", "active": "in_progress", "done": "closed"}


def seen(state: NodeState) -> dict[str, Any]:
    """What is of a moment; what may be done and used is the session's, and nothing more is said there by itself."""
    return state.model_dump(exclude={"updated_at", "permissions", "budget", "closing"})


def rests(state: NodeState) -> bool:
    """Whether nothing is under way, nor waits in the middle of work."""
    return state.owes is None and state.approval is None and state.paused is None


class Sessions(RuleBasedStateMachine):
    """A session's state under its fence, with a message beside most of what is said."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=_MEMORY if _MEMORY.is_dir() else None))
        self.runner = asyncio.Runner()
        self.store = JSONStore(self.folder / "store")
        self.runner.run(self.store.open())
        self.position = 0

    def teardown(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()
        shutil.rmtree(self.folder)

    @initialize()
    def begin(self) -> None:
        row = self.runner.run(new_session(self.store, prompt="a bouncing ball", owes="analyze"))
        self.core = self.activated(row.id)
        self.said: list[str] = []

    def activated(self, session_id: str) -> SessionCore:
        row = self.runner.run(self.store.activate(session_id, host="h", lease_until=now() + SOON))
        return SessionCore(
            store=self.store, record=row, after=lambda _: None, changed=lambda: None, fenced=lambda: None
        )

    @rule(command=COMMANDS, with_message=st.booleans())
    def says(self, command: Command, with_message: bool) -> None:
        self.tell(command, with_message=with_message)

    def tell(self, command: Command, *, with_message: bool = True) -> None:
        batch = Batch(phase_commands=[command])
        if with_message:
            self.position += 1
            row = self.runner.run(self.store.get_session(self.core.session_id))
            message: MessageRecord = records.message(row, self.position)
            batch.messages.append(message)
        try:
            self.runner.run(self.core.commit(batch))
        except (InvalidTransition, InvalidInput):
            return
        self.said += [message.id for message in batch.messages]

    @precondition(lambda self: self.core.state.phase == "executing")
    @rule(status=st.sampled_from(["pending", "active", "done"]), todo=st.sampled_from(["t1", "t2"]))
    def works(self, status: Any, todo: str) -> None:
        execution = self.core.state.execution
        if execution is not None and not execution.todos:
            self.tell(commands.SetTodos((Todo(id="t1", label="Set up"), Todo(id="t2", label="Scene 1"))))
        else:
            self.tell(commands.SetTodoStatus(todo, status))

    @rule(asks=st.booleans())
    def goes_on(self, asks: bool) -> None:
        """Say what brings it further: left to chance it would seldom get there."""
        state = self.core.state
        usual: dict[tuple[str, str | None], Command] = {
            ("idle", None): commands.Start("a ball"),
            ("idle", "analyze"): commands.Ask(QUESTION) if asks else commands.Propose(PLAN),
            ("question", "analyze"): commands.Ask(QUESTION) if asks else commands.Propose(PLAN),
            ("question", None): commands.Answer("playful"),
            ("plan", "plan"): commands.Propose(PLAN),
            ("plan", None): commands.Accept("job_1"),
            ("executing", "execute"): commands.Deliver(99) if asks else commands.Previewed(preview("job_p")),
            ("preview", None): commands.Accept("job_1") if asks else commands.Say("make it red"),
            ("preview", "render_final"): commands.Finished(Output(job_id="job_1", video_url="/v", duration=5)),
            ("complete", None): commands.Say("make it blue"),
            ("error", None): commands.Retry(),
        }
        if (usually := usual.get((state.phase, state.owes))) is not None:  # else a call waits for a person
            self.tell(usually)

    async def goes(self, point: str) -> None:
        asked = records.command(await self.store.get_session(self.core.session_id), new_id("cmd"), "rewind", to=point)
        await self.core.rewind(point, lambda past: back_at(past, command=asked, at=now()))

    def live(self) -> list[str]:
        async def read() -> list[str]:
            heads = [head.id for head in await self.store.heads(self.core.session_id)]
            return [message.id for message in await self.store.messages(self.core.session_id)] + heads

        return self.runner.run(read())

    @precondition(lambda self: self.said)
    @rule(data=st.data())
    def goes_back_and_that_is_undone(self, data: st.DataObject) -> None:
        before = self.core.state
        point = data.draw(st.sampled_from(self.live()))
        was = self.runner.run(self.store.past(self.core.session_id, point=point)).state
        self.runner.run(self.goes(point))
        assert self.core.state.owes is None
        if rests(was):
            assert seen(self.core.state) == seen(was)
        self.is_whole()
        if not point.startswith("hed_"):
            todos = self.core.state.execution.todos if self.core.state.execution else ()
            beads = self.runner.run(self.store.beads(self.core.session_id))
            mine = {f"{self.core.session_id}:{todo.id}" for todo in todos}  # those of earlier lists stay beside them
            listed = [(bead.title, bead.position) for bead in beads if bead.id in mine]
            assert listed == [(todo.label, place) for place, todo in enumerate(todos)]
        if data.draw(st.booleans()):
            self.runner.run(self.goes(UNDO))
            if rests(before):
                assert seen(self.core.state) == seen(before)

    @precondition(lambda self: self.said)
    @rule(data=st.data())
    def goes_another_way(self, data: st.DataObject) -> None:
        point = data.draw(st.sampled_from([None, *self.live()]))
        was = self.runner.run(self.store.past(self.core.session_id, point=point)).state
        before = self.runner.run(self.store.get_session(self.core.session_id))
        made = self.runner.run(
            fork_session(self.store, self.core.session_id, user_id="ann", point=point, key=new_id("cmd"))
        )
        assert self.runner.run(self.store.get_session(self.core.session_id)) == before
        row = self.runner.run(self.store.get_session(made))
        assert row.state.forked_from == self.core.session_id and row.state.owes is None
        if rests(was):
            assert (row.state.phase, row.state.plan, row.state.execution) == (was.phase, was.plan, was.execution)
        if data.draw(st.booleans()):  # and goes on there
            self.core = self.activated(made)

    @invariant()
    def is_whole(self) -> None:
        if not hasattr(self, "core"):
            return
        session_id, state = self.core.session_id, self.core.state

        async def read() -> tuple[list[str], dict[str, str], NodeState, list[int]]:
            return (
                [approval.kind for approval in await self.store.approvals(session_id, pending=True)],
                {bead.id: bead.status for bead in await self.store.beads(session_id)},
                (await self.store.get_session(session_id)).state,
                [event.seq for event in await self.store.events(session_id, limit=10_000)],
            )

        pending, beads, stored, numbers = self.runner.run(read())
        assert check(state) == [] and stored == state
        if rests(state) and state.phase in ("question", "plan", "preview"):
            assert pending == [state.phase]
        for todo in state.execution.todos if state.execution else ():
            assert beads[f"{session_id}:{todo.id}"] == _STATUS[todo.status]
        assert numbers == list(range(1, len(numbers) + 1))


TestSessions = Sessions.TestCase
TestSessions.settings = settings(
    deadline=None, max_examples=tiers.examples(20), stateful_step_count=25, suppress_health_check=list(HealthCheck)
)
