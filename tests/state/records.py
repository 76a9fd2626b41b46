"""Records to store in tests."""

from __future__ import annotations

from datetime import timedelta

from koda_ray.events import NewEvent
from koda_ray.state.boxes import ImageRecord, ProcessRecord, SandboxRecord
from koda_ray.state.charges import Bound
from koda_ray.state.records import (
    ApprovalRecord,
    AssetRecord,
    BeadRecord,
    CheckpointRecord,
    ChunkRecord,
    CommandRecord,
    JobRecord,
    MessageRecord,
    SessionRecord,
    ToolCallRecord,
)
from koda_ray.state.store import Store
from koda_ray.types import Execution as ExecutionState
from koda_ray.types import NodeState, Todo, new_id, now

NAME = "Fast élan 日本語 🎬 \u2028 'quoted' \"twice\" % ? :name"
WORDS = f"{NAME} \x00"
SOON = timedelta(seconds=30)


def state(user_id: str = "ann", project_id: str = "", **fields: object) -> NodeState:
    ids = {"node_id": new_id("nod"), "session_id": new_id("ses"), "user_id": user_id}
    return NodeState.model_validate({**ids, "project_id": project_id or f"prj-{user_id}", "prompt": WORDS, **fields})


def working(of: NodeState) -> NodeState:
    execution = ExecutionState(todos=(Todo(id="1", label=WORDS, status="active"),), thinking="…")
    return of.model_copy(update={"owes": "execute", "execution": execution})


async def new_session(store: Store, user_id: str = "ann", **fields: object) -> SessionRecord:
    made, created = await store.create_session(state(user_id, **fields), key=new_id("cmd"), body={})
    assert created
    return made


async def active_session(store: Store, user_id: str = "ann", **fields: object) -> SessionRecord:
    made = await new_session(store, user_id, **fields)
    return await store.activate(made.id, host="test", lease_until=now() + SOON)


def say(text: str, **data: object) -> NewEvent:
    return NewEvent.model_validate({"type": "message", "data": {"text": text, **data}})


def command(of: SessionRecord, key: str = "key-1", name: str = "message", **body: object) -> CommandRecord:
    return CommandRecord(
        id=new_id("cmd"),
        session_id=of.id,
        user_id=of.user_id,
        key=key,
        name=name,
        body=body,  # type: ignore[arg-type]
        result={"ok": True},
        created_at=now(),
    )


def message(of: SessionRecord, position: int, agent: str = "orchestrator") -> MessageRecord:
    return MessageRecord(
        id=new_id("msg"),
        session_id=of.id,
        user_id=of.user_id,
        agent=agent,
        position=position,
        role="user",
        content=[{"type": "text", "text": WORDS, "n": None, "x": [1, 2.5, True]}],
        created_at=now(),
    )


def tool_call(of: SessionRecord, call_id: str = "") -> ToolCallRecord:
    return ToolCallRecord(
        id=call_id or new_id("cal"),
        session_id=of.id,
        user_id=of.user_id,
        message_id="msg-1",
        name="set_todos",
        input={"todos": [{"id": "1", "label": WORDS}]},
        effect="idempotent",
        status="started",
        attempt=1,
        result=None,
        started_at=now(),
    )


def approval(of: SessionRecord) -> ApprovalRecord:
    return ApprovalRecord(
        id=new_id("apr"),
        session_id=of.id,
        user_id=of.user_id,
        kind="plan",
        payload={"plan": WORDS},
        status="pending",
        created_at=now(),
    )


def bead(of: SessionRecord, bead_id: str, position: int) -> BeadRecord:
    return BeadRecord(
        id=bead_id,
        session_id=of.id,
        user_id=of.user_id,
        type="task",
        title=NAME,
        status="open",
        position=position,
        depends_on=["0"],
        data={"a": 1},
        created_at=now(),
    )


def checkpoint(of: SessionRecord, event_seq: int) -> CheckpointRecord:
    return CheckpointRecord(
        id=new_id("ckp"),
        session_id=of.id,
        user_id=of.user_id,
        manifest_key=f"m/{event_seq}",
        trigger="todo",
        event_seq=event_seq,
        file_count=2,
        total_bytes=5_000_000_000,
        created_at=now(),
    )


def sandbox(of: SessionRecord) -> SandboxRecord:
    return SandboxRecord(
        id=new_id("sbx"),
        session_id=of.id,
        user_id=of.user_id,
        provider="local",
        provider_id=None,
        status="creating",
        created_at=now(),
        expires_at=now() + SOON,
    )


def own_sandbox(user_id: str = "ann", image_id: str | None = None) -> SandboxRecord:
    return SandboxRecord(
        id=new_id("sbx"),
        session_id=None,
        user_id=user_id,
        provider="local",
        provider_id=None,
        status="creating",
        created_at=now(),
        image_id=image_id,
        network=True,
        place="0123.4567",
        host="büro:/srv/koda",
    )


def image(user_id: str = "ann") -> ImageRecord:
    return ImageRecord(
        id=new_id("img"),
        user_id=user_id,
        name="notes",
        provider="local",
        provider_id=None,
        source="/home/ann/n\u00f6tes",
        digest="ab" * 32,
        size_bytes=5_000_000_000,
        status="creating",
        created_at=now(),
        expires_at=now() + SOON,
        place="0123.4567",
        host="büro:/srv/koda",
    )


def process(of: SandboxRecord, name: str = "server") -> ProcessRecord:
    return ProcessRecord(
        sandbox_id=of.id, name=name, user_id=of.user_id, command="npm start", run="0f" * 16, created_at=now()
    )


def job(user_id: str = "ann", of: SessionRecord | None = None) -> JobRecord:
    at = now()
    return JobRecord(
        id=new_id("job"),
        user_id=user_id,
        project_id=of.project_id if of else f"prj-{user_id}",
        session_id=of.id if of else None,
        kind="final",
        spec={"fps": 60, "size": [1920, 1080]},
        status="queued",
        created_at=at,
        updated_at=at,
    )


def chunk(of: JobRecord, unit: int) -> ChunkRecord:
    return ChunkRecord(
        job_id=of.id,
        user_id=of.user_id,
        unit=unit,
        start=unit * 120,
        stop=unit * 120 + 120,
        key=f"u/{unit}",
        status="done",
        attempts=1,
        total_bytes=1234,
        wall_ms=99,
        worker="w1",
        created_at=now(),
    )


def asset(user_id: str = "ann", of: SessionRecord | None = None) -> AssetRecord:
    asset_id = new_id("ast")
    return AssetRecord(
        id=asset_id,
        user_id=user_id,
        project_id=of.project_id if of else f"prj-{user_id}",
        session_id=of.id if of else None,
        name="猫 cat.png",
        media_type="image/png",
        size_bytes=123,
        sha256="a" * 64,
        key=f"k/{asset_id}",
        created_at=now(),
    )


def bounds(of: SessionRecord, *, tokens: int | None = None) -> tuple[Bound, ...]:
    return (Bound(account=of.id, limits={} if tokens is None else {"tokens": tokens}), Bound(account="month:2026-11"))
