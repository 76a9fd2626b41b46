"""The session as its tools see it: the workbench, on top of project, code generator and renders."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal, cast

from pydantic import JsonValue

from koda_ray.actors.core import SessionCore
from koda_ray.actors.project import Project
from koda_ray.actors.renders import Renders
from koda_ray.commands import Think, Wrote
from koda_ray.errors import InvalidPath, KodaError, Missing, NotFound, StorageError
from koda_ray.events import NewEvent
from koda_ray.llm.base import Usage
from koda_ray.render.bundle import Bundle, store_bundle
from koda_ray.render.protocol import PageProblem, ProbeTask, RenderExecutor
from koda_ray.render.spec import RenderSpec
from koda_ray.sandbox.base import PreviewEndpoint, Sandbox
from koda_ray.sandbox.build import build
from koda_ray.sandbox.policy import writable
from koda_ray.state.storage import Storage, bundle_key
from koda_ray.state.store import Batch
from koda_ray.studio.codegen import CodeGenerator
from koda_ray.studio.orchestrator import request_context
from koda_ray.studio.verify import Problem, Verified, correct_until_good, describe
from koda_ray.tools.code import code_kept, is_template_owned
from koda_ray.tools.workbench import Failure, Generated
from koda_ray.types import MAX_DURATION_S, NodeState, Preview

__all__ = ["BUILD_TIMEOUT_S", "SessionBench"]

BUILD_TIMEOUT_S = 120.0


class SessionBench:
    """Implements `koda_ray.tools.workbench.Workbench` for one session."""

    def __init__(
        self,
        core: SessionCore,
        *,
        project: Project,
        renders: Renders,
        generator: CodeGenerator,
        executor: RenderExecutor,
        storage: Storage,
        ready_timeout_s: float,
    ) -> None:
        self._core = core
        self._project = project
        self._renders = renders
        self._generator = generator
        self._executor = executor
        self._storage = storage
        self._ready_timeout_s = ready_timeout_s
        self._last_built: tuple[str, str] | None = None

    @property
    def state(self) -> NodeState:
        """The session's state as last committed."""
        return self._core.state

    async def sandbox(self) -> Sandbox:
        """Return the session's sandbox."""
        return await self._project.sandbox()

    async def emit(self, event: NewEvent) -> None:
        """Store one event."""
        await self._core.emit(event)

    async def checkpoint(self, trigger: str) -> Batch:
        """Store the project; the batch holds the pointer."""
        return await self._project.checkpoint(trigger)

    async def generate(self, task: Mapping[str, JsonValue], *, cause_id: str) -> Generated:
        """Ask the code generator, with all the files it may need to see."""
        request: dict[str, JsonValue] = {k: v for k, v in task.items() if k != "files"}
        request["targets"] = task.get("files") or []
        request |= request_context(self.state, await self._project.place_assets())
        request["files"] = cast("JsonValue", await self._project.use(self._read_written))
        answer = await self._generator.generate(request, emit=self.emit, on_usage=self._usage, cause_id=cause_id)
        return Generated(files={file.path: file.content for file in answer.files}, summary=answer.summary)

    async def _usage(self, usage: Usage) -> None:
        data: dict[str, JsonValue] = {
            "agent": "code_generator",
            "inputTokens": usage.input_tokens,
            "outputTokens": usage.output_tokens,
            "cacheReadTokens": usage.cache_read_tokens,
            "cacheWriteTokens": usage.cache_write_tokens,
        }
        await self.emit(NewEvent(type="usage", data=data))

    async def _read_written(self, sandbox: Sandbox) -> dict[str, str]:
        execution = self.state.execution
        found: dict[str, str] = {}
        for path in execution.files if execution else ():
            with contextlib.suppress(NotFound):  # a command may have removed it
                found[path] = (await sandbox.read_file(path)).decode("utf-8", errors="replace")
        return found

    async def keep(self, files: Mapping[str, str]) -> Batch:
        """Write generated files and store the project with them; the batch holds the pointer and says what was written.

        With the first files there is something to see, so the live preview is announced with them, whether or not
        the agents start it: it starts when somebody opens it.

        Raises:
            InvalidPath: A path leaves the project or belongs to the template; nothing was written.
        """
        data: dict[str, bytes] = {}
        for path, content in files.items():
            clean = writable(path)
            if is_template_owned(clean):
                raise InvalidPath(
                    f"{clean} belongs to the template and cannot be replaced; write under src/components, src/scenes, "
                    "src/theatre, src/App.tsx or public/",
                    context={"path": clean},
                )
            data[clean] = content.encode()
        batch = await self._project.keep(data, "files")
        execution = self.state.execution
        if data and not (execution and execution.files):
            batch.events.append(self._stream_ready())
        if data:
            batch.moves.append(Wrote(tuple((path, len(body)) for path, body in sorted(data.items()))))
        return batch

    @asynccontextmanager
    async def code_kept(self) -> AsyncGenerator[tuple[Sandbox, list[str]]]:
        """Give the sandbox for a command; what the command does to the code is undone before anything is saved."""
        sandbox = await self._project.sandbox()
        async with self._project.unsaved(), code_kept(sandbox) as put_back:
            yield sandbox, put_back

    async def endpoint(self) -> PreviewEndpoint:
        """Return the running dev server, started where needed."""
        return await self._project.use(lambda sandbox: sandbox.start_preview())

    async def open_endpoint(self) -> PreviewEndpoint | None:
        """Return the dev server of the sandbox that there is; None without one. Makes none."""
        sandbox = self._project.held
        return None if sandbox is None else await sandbox.start_preview()

    async def start_stream(self) -> str:
        """Start the dev server and announce where people ask for a link to it."""
        await self.endpoint()
        await self.emit(self._stream_ready())
        return self._stream_url

    @property
    def _stream_url(self) -> str:
        return f"/v1/sessions/{self._core.session_id}/preview"

    def _stream_ready(self) -> NewEvent:
        return NewEvent(type="stream_ready", data={"url": self._stream_url})

    async def preview(self, *, cause_id: str) -> Preview | Failure:
        """Build, probe, correct and render the preview."""

        async def correct(request: Mapping[str, JsonValue]) -> None:
            errors = cast("list[dict[str, JsonValue]]", request["errors"])
            place = next((str(e["file"]) for e in errors if e["file"]), "the project")
            await self._core.commit(Batch(moves=[Think(f"Correcting {place}")]))
            try:
                made = await self.generate(request, cause_id=cause_id)
                await self._core.commit(await self.keep(made.files))
            except InvalidPath as error:
                await self._core.commit(Batch(moves=[Think(error.message)]))

        await self._core.commit(Batch(moves=[Think("Building and trying the page")]))
        try:
            verdict = await correct_until_good(self._attempt, correct)
        except (Missing, StorageError) as error:  # nothing that agents could mend: they are not asked to go in circles
            return Failure(code=error.code, message=error.message)
        if verdict.good is None:
            return Failure(
                code=verdict.code,
                message=f"after {verdict.corrections} corrections the animation still fails: "
                + describe(verdict.problems, most=1),
                details=describe(verdict.problems),
            )
        good = verdict.good
        job_id = "job_" + hashlib.sha256(f"{cause_id}:{good.bundle}".encode()).hexdigest()[:32]
        spec = RenderSpec.from_preset(
            "preview",
            bundle=good.bundle,
            duration_s=good.duration_s,
            size=(good.width, good.height),
            moves=good.moves,
        )
        try:
            result = await self._renders.run(spec, job_id=job_id, kind="preview", cause_id=cause_id)
        except KodaError as error:
            return Failure(code=error.code, message=error.message)
        base = f"/v1/sessions/{self._core.session_id}"
        return Preview(
            video_url=f"{base}/video?kind=preview&job={job_id}",
            thumbnail_url=f"{base}/thumbnail?kind=preview&job={job_id}",
            job_id=job_id,
            bundle=good.bundle,
            duration=result.duration_s,
            stream_url=self._stream_url,
        )

    async def _built(self) -> str | list[Problem]:
        """Build the project and store its bundle, where that was not done for the very same files just before."""
        project = _digest(await self._project.files())
        if self._last_built is not None and self._last_built[0] == project:
            digest = self._last_built[1]
            if await self._storage.exists(bundle_key(self._core.user_id, digest)):
                return digest
        built = await self._project.use(lambda sandbox: build(sandbox, timeout_s=BUILD_TIMEOUT_S))
        if not built.ok:
            return [
                Problem(stage="build", file=p.file, line=p.line, column=p.column, message=p.message)
                for p in built.problems
            ]
        digest = await store_bundle(self._storage, self._core.user_id, Bundle(built.files))
        self._last_built = (project, digest)
        return digest

    async def _attempt(self) -> Verified | Sequence[Problem]:
        """Build the project and try it in a browser, once."""
        digest = await self._built()
        if not isinstance(digest, str):
            return digest
        plan = self.state.plan
        report = await self._executor.probe(
            ProbeTask(
                storage=self._storage,
                user_id=self._core.user_id,
                bundle=digest,
                duration_s=plan.total_duration if plan else None,
                ready_timeout_s=self._ready_timeout_s,
            )
        )
        if report.problems:
            return [_page_problem(problem) for problem in report.problems]
        duration_s = report.duration_s or (plan.total_duration if plan else 0.0)
        if not 0 < duration_s <= MAX_DURATION_S:
            limit = f"the page says it lasts {duration_s:g} s; between 0 and {MAX_DURATION_S:g} s can be rendered"
            return [Problem(stage="page", message=limit)]
        return Verified(
            bundle=digest,
            duration_s=duration_s,
            width=report.width or (plan.width if plan else 1920),
            height=report.height or (plan.height if plan else 1080),
            moves=report.moves,
        )


def _digest(files: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    for path, data in sorted(files.items()):
        whole.update(f"{path}\0{len(data)}\0".encode() + data)
    return whole.hexdigest()


def _page_problem(problem: PageProblem) -> Problem:
    stage: Literal["ready", "page"] = "ready" if problem.kind == "not_ready" else "page"
    return Problem(stage=stage, file=problem.file, line=problem.line, column=problem.column, message=problem.message)
