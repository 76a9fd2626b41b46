"""Sessions whose agents are a script, where Ray actors stand otherwise.

They go through the same store, fence and phase machine; only what the agents and the renderer would think of is
written down here.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from fractions import Fraction

from pydantic import JsonValue

from koda_ray import commands, phases
from koda_ray.actors.command_parser import command_of
from koda_ray.actors.intake import new_command, record_command
from koda_ray.actors.leased_job import JobParts, LeasedJob
from koda_ray.actors.stills import still_clock
from koda_ray.actors.timeline import back_at, fork_session
from koda_ray.agent.approvals import announced
from koda_ray.commands import Command, Emit
from koda_ray.errors import Fenced, NotFound
from koda_ray.events import NewEvent
from koda_ray.render.protocol import RenderExecutor
from koda_ray.render.spec import RenderSpec
from koda_ray.sandbox.base import PreviewEndpoint, Sandbox
from koda_ray.sandbox.screenshot import screenshot
from koda_ray.state import checkpoint
from koda_ray.state.keys import picture_key, thumbnail_key, video_key
from koda_ray.state.records import (
    ApprovalRecord,
    Batch,
    CheckpointRecord,
    ChunkRecord,
    CommandRecord,
    JobRecord,
    SessionQuota,
    SessionRecord,
)
from koda_ray.state.sql import SqlStore
from koda_ray.state.storage import Storage
from koda_ray.tools.workbench import Picture
from koda_ray.types import (
    NodeState,
    Option,
    Output,
    PendingCall,
    Plan,
    Preview,
    Question,
    RenderOptions,
    Scene,
    Todo,
    new_id,
    now,
)

CODE = "export function Ball() {\n  return <mesh>{/* round */}</mesh>;\n}\n"
VIDEO = {
    "preview": b"preview " * 1000,
    "final": bytes(range(256)) * 4096,
    "thumbnail": b"\xff\xd8\xff\xe0 a picture",
}

__all__ = ["CODE", "VIDEO", "ScriptedDirectory"]


@dataclass
class ScriptedDirectory:
    """Sessions whose agents follow a script; ``hold`` names work that is begun and never finished."""

    store: SqlStore
    storage: Storage
    socket_path: str = ""
    sandbox: Sandbox | None = None
    elsewhere: PreviewEndpoint | None = None
    hold: set[str] = field(default_factory=set)
    asks: bool = True
    most_awake: int | None = None
    most_video_s: float | None = None
    shown_s: float = 5.0
    """How long a preview is, as sessions have it."""
    fork_quota: SessionQuota | None = None
    fails: dict[str, str] = field(default_factory=dict)
    pace_s: float = 0.0
    slow_s: float = 0.0
    deaf: asyncio.Event | None = None
    rendering: asyncio.Event | None = None
    """Renders go on from their middle once it is set."""
    activations: int = 0
    submits: int = 0
    asleep: bool = False
    previews: int = 0
    pings: int = 0
    watchers: dict[str, int] = field(default_factory=dict)
    executor: RenderExecutor | None = None
    bundle: str = "0" * 64
    renders: dict[str, LeasedJob] = field(default_factory=dict)
    _rows: dict[str, SessionRecord] = field(default_factory=dict)
    _work: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def submit(
        self, *, session_id: str, user_id: str, name: str, body: Mapping[str, JsonValue], key: str
    ) -> CommandRecord:
        self.submits += 1
        await asyncio.sleep(self.slow_s)
        if self.deaf is not None:  # until it is set
            await self.deaf.wait()
        asked = new_command(session_id=session_id, user_id=user_id, name=name, body=body, key=key)
        recorded, waits = await record_command(
            self.store, asked, most_awake=self.most_awake, most_video_s=self.most_video_s
        )
        if not waits:
            return recorded
        order = command_of(recorded)
        async with self._lock:
            if (taken := await self.store.find_command(session_id, key)) is not None:  # by who came with it first
                return taken
            row = await self._activated(session_id)
            if isinstance(order, commands.Rewind):
                return await self._rewind(row, order, asked=recorded)
            state, emits = _step(row.state, order)
            record = replace(recorded, result={"phase": state.phase, "owes": state.owes})
            decided = await self._decided(session_id, order)
            await self._store(row, Batch(state=state, events=emits, command=record, approvals=decided))
        if state.owes is None and session_id in self._work:
            self._work[session_id].cancel()
        self._go(session_id)
        return record

    async def _rewind(self, row: SessionRecord, order: commands.Rewind, *, asked: CommandRecord) -> CommandRecord:
        change, sent = await self.store.rewind(
            row.id, row.epoch, order.point, lambda past: back_at(past, command=asked, at=now())[0]
        )
        assert change is not None and change.batch.command is not None
        self._rows[row.id] = replace(row, state=change.state, seq=sent[-1].seq)
        return change.batch.command

    async def fork(self, *, session_id: str, user_id: str, point: str | None, key: str) -> str:
        return await fork_session(self.store, session_id, user_id=user_id, point=point, key=key, quota=self.fork_quota)

    async def wake(self, session_id: str) -> None:
        async with self._lock:
            await self._activated(session_id)
        self._go(session_id)

    async def preview(self, *, session_id: str, user_id: str) -> PreviewEndpoint:
        await self.store.get_session(session_id, user_id=user_id)
        self.previews += 1
        return self.elsewhere or PreviewEndpoint(socket_path=self.socket_path)

    async def picture(self, *, session_id: str, user_id: str, at_s: float, size: tuple[int, int]) -> Picture:
        row = await self.store.get_session(session_id, user_id=user_id)
        assert self.sandbox is not None
        made = await screenshot(self.sandbox, at_s, clock=still_clock(), width_px=size[0], height_px=size[1])
        digest = hashlib.sha256(made.png).hexdigest()
        await self.storage.put(picture_key(row.user_id, row.project_id, row.id, digest), made.png)
        url = f"/v1/sessions/{row.id}/pictures/{digest}"
        return Picture(url=url, at_s=made.at_s, duration_s=made.duration_s)

    async def shown(self, *, session_id: str, user_id: str) -> PreviewEndpoint | None:
        await self.store.get_session(session_id, user_id=user_id)
        self.pings += 1
        return None if self.asleep else self.elsewhere or PreviewEndpoint(socket_path=self.socket_path)

    def works_on(self, session_id: str) -> bool:
        """Whether the script of a session was begun."""
        return session_id in self._work

    def forget(self, session_id: str) -> None:
        """Know nothing of a session any more: whoever goes on activates it."""
        self._rows.pop(session_id, None)

    async def watch(self, session_id: str, watchers: int) -> None:
        self.watchers[session_id] = watchers

    async def passivate(self, session_id: str) -> None:
        await self._end(session_id)
        if (row := self._rows.pop(session_id, None)) is not None:
            await self.store.release(row.id, row.epoch)

    async def _end(self, session_id: str) -> None:
        if (work := self._work.pop(session_id, None)) is not None:
            work.cancel()
            await asyncio.wait({work})

    async def delete(self, *, session_id: str, user_id: str) -> None:
        await self.store.close_session(session_id, user_id=user_id)
        await self._end(session_id)
        self._rows.pop(session_id, None)
        await self.store.delete_session(session_id, user_id=user_id)

    async def wake_render(self, job_id: str) -> bool:
        """Render for real, with browsers of this process, which the test gives."""
        if self.executor is None:
            return False
        parts = JobParts(store=self.store, storage=self.storage, executor=self.executor)
        self.renders[job_id] = await LeasedJob.claim(job_id, parts, lease_s=4.0, ended=lambda: None)
        return True

    async def cancel_render(self, job_id: str, *, user_id: str) -> JobRecord:
        row = await self.store.cancel_job(job_id, user_id=user_id)
        if job_id in self.renders:
            await self.renders[job_id].stop()
        return row

    async def cancel_renders(self, *, user_id: str, id_prefix: str) -> None:
        for job_id in await self.store.cancel_renders(user_id, id_prefix=id_prefix):
            if job_id in self.renders:
                await self.renders[job_id].stop()

    async def close(self) -> None:
        for render in self.renders.values():
            await render.close()
        for work in self._work.values():
            work.cancel()
        await asyncio.gather(*self._work.values(), return_exceptions=True)

    async def move(self, session_id: str, *orders: Command, events: tuple[NewEvent, ...] = ()) -> NodeState:
        """Let the agents say something."""
        async with self._lock:
            row = await self._activated(session_id)
            state, emits = row.state, list(events)
            for order in orders:
                state, more = _step(state, order)
                emits += more
            await self._store(row, Batch(state=state, events=emits))
            return state

    async def show(self, session_id: str, preview: Preview) -> None:
        """Have a session show a preview, as if its agents had just made it."""
        async with self._lock:
            row = await self._activated(session_id)
            ready = NewEvent(type="preview_ready", data={"url": preview.video_url})
            await self._store(row, Batch(state=row.state.model_copy(update={"preview": preview}), events=[ready]))

    async def ask_agreement(self, session_id: str, payload: dict[str, JsonValue]) -> str:
        """Have a tool call wait for a person; return its approval's id."""
        approval_id = new_id("apr")
        call = PendingCall(
            approval_id=approval_id,
            call_id=new_id("cal"),
            agent=str(payload.get("agent", "orchestrator")),
            name=str(payload["name"]),
            reason=str(payload.get("reason", "")),
        )
        async with self._lock:
            row = await self._activated(session_id)
            state, emits = _step(row.state, commands.AskAgreement(call))
            approval = ApprovalRecord(
                id=approval_id,
                session_id=row.id,
                user_id=row.user_id,
                kind="tool_call",
                payload=payload,
                status="pending",
                call_id=call.call_id,
                created_at=now(),
            )
            await self._store(row, Batch(state=state, events=[*emits, announced(approval)], approvals=[approval]))
        return approval_id

    async def _decided(self, session_id: str, order: Command) -> list[ApprovalRecord]:
        if not isinstance(order, commands.Approve | commands.Refuse):
            return []
        status = "approved" if isinstance(order, commands.Approve) else "rejected"
        answer: dict[str, JsonValue]
        if isinstance(order, commands.Approve):
            answer = {} if order.arguments is None else {"approved": order.arguments, "edited": True}
        else:
            answer = {"reason": order.reason}
        return [
            replace(waits, status=status, answer=answer, resolved_at=now())
            for waits in await self.store.approvals(session_id, pending=True)
            if waits.id == order.approval_id
        ]

    async def put_video(self, row: SessionRecord, job_id: str, data: bytes, extension: str = "mp4") -> None:
        await self.storage.put(video_key(row.user_id, job_id, extension), data)
        await self.storage.put(thumbnail_key(row.user_id, job_id), VIDEO["thumbnail"])

    async def checkpoint(self, session_id: str, files: Mapping[str, bytes]) -> None:
        async with self._lock:
            row = await self._activated(session_id)
            manifest, key = await checkpoint.save(
                self.storage, checkpoint.CheckpointTree(files=files), state=row.state, event_seq=row.seq
            )
            record = CheckpointRecord(
                id=manifest.id,
                session_id=row.id,
                user_id=row.user_id,
                manifest_key=key,
                trigger="test",
                event_seq=row.seq,
                file_count=len(files),
                total_bytes=manifest.total_bytes,
                created_at=now(),
            )
            await self._store(row, Batch(checkpoint=record))

    async def _activated(self, session_id: str) -> SessionRecord:
        if session_id not in self._rows:
            self.activations += 1
            lease = now() + timedelta(seconds=60)
            self._rows[session_id] = await self.store.activate(session_id, host="test", lease_until=lease)
        return self._rows[session_id]

    async def _store(self, row: SessionRecord, batch: Batch) -> None:
        sent = await self.store.commit(row.id, row.epoch, batch)
        self._rows[row.id] = replace(row, state=batch.state or row.state, seq=sent[-1].seq if sent else row.seq)

    def _go(self, session_id: str) -> None:
        running = self._work.get(session_id)
        if running is None or running.done():
            self._work[session_id] = asyncio.create_task(self._script(session_id))

    async def _script(self, session_id: str) -> None:
        with suppress(Fenced, NotFound):
            while (row := self._rows[session_id]).state.owes is not None:
                owes = str(row.state.owes)
                if owes in self.hold:
                    return
                if owes in self.fails:
                    await self._fail_job(row, self.fails[owes])
                    await self.move(session_id, commands.Fail(self.fails.pop(owes), "RENDER_FAILED"))
                    return
                if row.state.unread:  # they hear what was said before they go on
                    await self.move(session_id, *(commands.Heed(each.id) for each in row.state.unread))
                    continue
                await getattr(self, f"_{owes}")(row)

    async def _fail_job(self, row: SessionRecord, why: str) -> None:
        if row.state.owes == "render_final" and row.state.output is not None:
            failed = self._job(row, "final", row.state.output.job_id)
            error: dict[str, JsonValue] = {"code": "RENDER_FAILED", "message": why}
            await self.tell(replace(failed, status="failed", error=error))

    async def _pause(self) -> None:
        if self.pace_s:
            await asyncio.sleep(self.pace_s)

    async def _analyze(self, row: SessionRecord) -> None:
        await self.move(row.id, commands.Think("Reading the prompt"))
        await self._pause()
        if self.asks and row.state.style is None:
            options = (
                Option(id="playful", label="Playful", description="Bright, bouncy, a little silly"),
                Option(id="minimal", label="Minimal", description="Calm and quiet"),
            )
            await self.move(row.id, commands.Ask(Question(text="Which style do you want?", options=options)))
        else:
            await self._plan(row)

    async def _plan(self, row: SessionRecord) -> None:
        await self.move(row.id, commands.Think("Planning the scenes"))
        await self._pause()
        scenes = (
            Scene(number=1, title="Drop in", duration=1.5, description="The ball falls from above"),
            Scene(number=2, title="Bounce", duration=2.0, description="It bounces"),
            Scene(number=3, title="Rest", duration=1.5, description="It rests"),
        )
        await self.move(
            row.id, commands.Propose(Plan(scenes=scenes, total_duration=5.0, style=row.state.style or "playful"))
        )

    async def _execute(self, row: SessionRecord) -> None:
        todos = (Todo(id="setup", label="Set up the project"), Todo(id="s1", label="Scene 1: Drop in"))
        await self.move(row.id, commands.SetTodos(todos))
        files: dict[str, bytes] = {}
        for todo in todos:
            path = f"src/scenes/{todo.id.title()}.tsx"
            await self.move(row.id, commands.SetTodoStatus(todo.id, "active"), commands.Think(f"Writing {path}"))
            for offset in range(0, len(CODE), 12):
                data: dict[str, JsonValue] = {"path": path, "offset": offset, "delta": CODE[offset : offset + 12]}
                await self.move(row.id, events=(NewEvent(type="code_chunk", data=data),))
                await self._pause()
            files[path] = (CODE + "".join(f"// {each}\n" for each in row.state.feedback)).encode()
            await self.move(row.id, commands.Wrote(((path, len(CODE)),)), commands.SetTodoStatus(todo.id, "done"))
        await self.checkpoint(row.id, files)
        job_id = await self._render(row, "preview", "mp4")
        url = f"/v1/sessions/{row.id}/video?kind=preview"
        seen = commands.Deliver(len(self._rows[row.id].state.feedback))
        saved = await self.store.latest_checkpoint(row.id)
        preview = Preview(
            video_url=url,
            job_id=job_id,
            bundle=self.bundle,
            duration=self.shown_s,
            checkpoint_id=None if saved is None else saved.id,
        )
        await self.move(row.id, seen, commands.Previewed(preview))

    async def _render_final(self, row: SessionRecord) -> None:
        assert row.state.output is not None
        options = row.state.render or RenderOptions()
        job_id = await self._render(row, "final", options.format, row.state.output.job_id)
        output = Output(
            job_id=job_id,
            video_url=f"/v1/sessions/{row.id}/video?kind=final",
            thumbnail_url=f"/v1/sessions/{row.id}/thumbnail",
            duration=5.0,
            resolution=options.resolution,
            file_size=1,
            format=options.format,
            transparent=options.transparent,
            fps=options.fps,
        )
        await self.move(row.id, commands.Finished(output))

    def _job(self, row: SessionRecord, kind: str, job_id: str) -> JobRecord:
        """Return a render's row as it begins."""
        options = row.state.render or RenderOptions()
        short = {"720p": 720, "1080p": 1080, "4k": 2160}[options.resolution] if kind == "final" else 360
        spec = RenderSpec(
            bundle=self.bundle,
            duration_s=5.0,
            width=short * 16 // 9,
            height=short,
            fps=Fraction(options.fps if kind == "final" else 15),
            format=options.format if kind == "final" else "mp4",
            alpha=kind == "final" and options.transparent,
        )
        at = now()
        return JobRecord(
            id=job_id,
            user_id=row.user_id,
            project_id=row.project_id,
            session_id=row.id,
            kind="final" if kind == "final" else "preview",
            spec=spec.to_json(),
            video_s=5.0,
            status="running",
            epoch=row.epoch,
            created_at=at,
            updated_at=at,
        )

    async def tell(self, job: JobRecord, *events: NewEvent, chunks: Sequence[ChunkRecord] = ()) -> None:
        """Write a render's row, with what is told of it, and with units of it."""
        async with self._lock:
            batch = Batch(jobs=[job], events=list(events), chunks=list(chunks))
            await self._store(self._rows[str(job.session_id)], batch)

    async def _render(self, row: SessionRecord, kind: str, extension: str, job_id: str | None = None) -> str:
        job = self._job(row, kind, job_id or new_id("job"))
        job_id = job.id
        start: dict[str, JsonValue] = {"jobId": job_id, "quality": kind, "frames": 75, "width": 640, "height": 360}
        await self.tell(job, NewEvent(type="render_start", data=start))
        try:
            for percent in (10.0, 55.0, 100.0):
                stage = "capturing" if percent < 100 else "joining"
                data: dict[str, JsonValue] = {"percent": percent, "stage": stage}
                data |= {"secondsLeft": round((100 - percent) / 20, 1), "framesDone": 1, "framesTotal": 75}
                job = replace(job, progress=data, updated_at=now())
                told: dict[str, JsonValue] = {"jobId": job_id, "quality": kind, **data}
                await self.tell(job, NewEvent(type="render_progress", data=told))
                if self.rendering is not None and percent < 100:
                    await self.rendering.wait()
                await asyncio.sleep(self.pace_s * 4)  # long enough to be drawn
        except asyncio.CancelledError:
            await self.tell(replace(job, status="cancelled", updated_at=now()))
            raise
        await self.put_video(row, job_id, VIDEO[kind], extension)
        result: dict[str, JsonValue] = {"duration": 5.0, "videoKey": video_key(row.user_id, job_id, extension)}
        result |= {"fileSize": len(VIDEO[kind])}
        await self.tell(replace(job, status="succeeded", progress={"percent": 100.0}, result=result, updated_at=now()))
        await self.move(row.id, events=(NewEvent(type="render_complete", data={"jobId": job_id, "quality": kind}),))
        return job_id


def _step(state: NodeState, order: Command) -> tuple[NodeState, list[NewEvent]]:
    new, effects = phases.apply(state, order, now())
    emits = [NewEvent(type=effect.type, data=dict(effect.data)) for effect in effects if isinstance(effect, Emit)]
    return new, emits
