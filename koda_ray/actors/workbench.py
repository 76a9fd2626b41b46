"""The session as its tools see it: the workbench, on top of project, code generator and renders."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, cast

from pydantic import JsonValue

from koda_ray.actors.core import SessionCore
from koda_ray.actors.moments import Moments, hashes
from koda_ray.actors.permits import check_written, judged, own_path
from koda_ray.actors.project import Project
from koda_ray.actors.session_jobs import JobRequest, SessionJob, SessionJobs
from koda_ray.actors.warmup import is_preview_near
from koda_ray.agent.runner import MAX_SHOWN_CHARS
from koda_ray.agent.toolkit import Agreement
from koda_ray.cancellation import OneTask
from koda_ray.commands import Previewed, Think, Wrote
from koda_ray.errors import (
    BudgetExceeded,
    InvalidInput,
    InvalidPath,
    KodaError,
    Missing,
    NotFound,
    PageError,
    PageNotReady,
    QuotaExceeded,
    StorageError,
)
from koda_ray.events import NewEvent
from koda_ray.llm.base import Usage
from koda_ray.render.bundle import Bundle, store_bundle
from koda_ray.render.protocol import PageProblem, ProbeTask, RenderExecutor
from koda_ray.render.spec import RenderSpec
from koda_ray.roles.codegen import CodeGenerator
from koda_ray.roles.orchestrator import request_context
from koda_ray.roles.verify import ProjectProblem, Verification, Verified, correct_until_good, describe_problems
from koda_ray.sandbox.base import PreviewEndpoint, Sandbox
from koda_ray.sandbox.build import build, export
from koda_ray.state.keys import bundle_key, picture_key, proposal_key
from koda_ray.state.records import Batch
from koda_ray.state.storage import Storage, sha256
from koda_ray.tools.code import code_kept, diff_of
from koda_ray.tools.workbench import Failure, Generated, Picture, with_phase_commands
from koda_ray.types import MAX_DURATION_S, NodeState, Preview

__all__ = ["BUILD_TIMEOUT_S", "PageTrial", "SessionWorkbench"]

BUILD_TIMEOUT_S = 120.0
_UNSEEN = "unseen"
"""In place of the key of an agreement: nobody has agreed to a proposal that could not be shown."""

_PUT_BACK = "The files are again those of the last preview that worked, without what was changed since"


@dataclass(frozen=True, slots=True)
class PageTrial:
    """Who tries a built page in a browser, and how long the page may take to become ready, in seconds."""

    executor: RenderExecutor
    ready_timeout_s: float


class SessionWorkbench:
    """Implements `koda_ray.tools.workbench.Workbench` for one session.

    Attributes:
        trial: How a built page is tried.
    """

    def __init__(
        self,
        core: SessionCore,
        *,
        project: Project,
        jobs: SessionJobs,
        generator: CodeGenerator,
        storage: Storage,
        trial: PageTrial,
    ) -> None:
        self._core = core
        self._project = project
        self._jobs = jobs
        self._generator = generator
        self._storage = storage
        self.trial = trial
        self._moments = Moments(core, project=project, storage=storage)
        self._last_built: tuple[str, str] | None = None
        self._warmup = OneTask(trial.executor.prepare)
        self._answer_s: float | None = None

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

    async def generate(self, task: Mapping[str, JsonValue], *, cause_id: str, agreed: str = "") -> Generated:
        """Ask the code generator, with all the files it may need to see; what was proposed is not made anew."""
        if (proposal := await self._proposal(_digest_of(task, cause_id), agreed=agreed)) is not None:
            return proposal[0]
        request: dict[str, JsonValue] = {k: v for k, v in task.items() if k != "files"}
        request["targets"] = task.get("files") or []
        request |= request_context(self.state, await self._project.place_assets())
        request["files"] = cast("JsonValue", await self._project.use(self._read_written))
        began = time.monotonic()
        answer = await self._generator.generate(
            request, emit=self.emit, on_usage=self._usage, cause_id=cause_id, commit=self._core.commit
        )
        self._answer_s = time.monotonic() - began
        files = {file.path: file.content for file in answer.files}
        return Generated(files=files, summary=answer.summary, charges=answer.charges)

    async def propose(self, task: Mapping[str, JsonValue], *, cause_id: str) -> str:
        """Have files generated and kept aside for the call, and show what they would change, as a diff.

        Raises:
            InvalidInput: TOO_LONG, the diff is longer than a person is shown.
        """
        return await self._show(await self.generate(task, cause_id=cause_id), task, cause_id=cause_id)

    async def _show(self, made: Generated, task: Mapping[str, JsonValue], *, cause_id: str) -> str:
        """Keep an answer aside for the call, and show what it would change; raises as `propose`."""
        before = await self._texts_of(made)
        diff = diff_of(before, made.files)
        seen = "" if len(diff) <= MAX_SHOWN_CHARS else _UNSEEN
        await self._put_aside(made, before, task, cause_id=cause_id, key=seen)
        if made.charges:
            await self._core.commit(Batch(charges=[*made.charges]))
        return _shown(diff)

    async def unseen(self, made: Generated, task: Mapping[str, JsonValue], *, cause_id: str) -> Agreement | None:
        """Say what a person has to see before it is written; None where they saw it, need not, or it is forbidden.

        They have not where the code generator chose a file that they are to be asked about and the call did not name
        it, where they changed the call's input, where it could not be shown to them then, and where a file is another
        by now than the one that they were shown.

        Raises:
            InvalidInput: TOO_LONG, the diff is longer than a person is shown.
            InvalidPath: A path leaves the project or belongs to the template.
        """
        verdict = judged(self.state, task, made.files)
        before = await self._texts_of(made)
        if verdict.decision == "deny" or (made.shown and _is_as_shown(made, before)):
            return None
        if not made.shown and verdict.decision != "ask":
            return None
        why = "files are others by now than the ones that you were shown" if made.shown else verdict.reason
        shown = _shown(diff_of(before, made.files))
        key = sha256(json.dumps([cause_id, dict(made.files), hashes(before)], sort_keys=True).encode())
        await self._put_aside(made, before, task, cause_id=cause_id, key=key)
        return Agreement(key=key, reason=f"this is what would be written now: {why}", shown=shown)

    async def _texts_of(self, made: Generated) -> dict[str, str]:
        async def read(sandbox: Sandbox) -> dict[str, str]:
            return await _read_texts(sandbox, made.files)

        return await self._project.use(read)

    async def _put_aside(
        self,
        made: Generated,
        before: Mapping[str, str],
        task: Mapping[str, JsonValue],
        *,
        cause_id: str,
        key: str = "",
    ) -> None:
        """Keep a proposal; one with a ``key`` was shown to whoever agrees to that."""
        kept = {"files": dict(made.files), "summary": made.summary, "task": dict(task), "before": hashes(before)}
        await self._storage.put(
            self._proposal_key(_digest_of(task, cause_id)), json.dumps({**kept, "key": key}).encode()
        )

    async def _proposal(self, digest: str, *, agreed: str = "") -> tuple[Generated, dict[str, JsonValue]] | None:
        """Read what was proposed and shown, and for which task."""
        key = self._proposal_key(digest)
        if not await self._storage.exists(key):
            return None
        kept = json.loads(await self._storage.get(key))
        shown = kept.get("key", "") in ("", agreed)
        made = Generated(files=kept["files"], summary=kept["summary"], shown=shown, before=kept.get("before"))
        return made, kept["task"]

    def _proposal_key(self, digest: str) -> str:
        return proposal_key(self._core.user_id, self._core.project_id, self._core.session_id, digest)

    async def _usage(self, usage: Usage, cost_usd: float | None) -> None:
        data: dict[str, JsonValue] = {
            "agent": "code_generator",
            "inputTokens": usage.input_tokens,
            "outputTokens": usage.output_tokens,
            "cacheReadTokens": usage.cache_read_tokens,
            "cacheWriteTokens": usage.cache_write_tokens,
            "costUsd": cost_usd,
        }
        await self.emit(NewEvent(type="usage", data=data))

    async def _read_written(self, sandbox: Sandbox) -> dict[str, str]:
        execution = self.state.execution
        return await _read_texts(sandbox, execution.files if execution else ())

    async def keep(
        self, files: Mapping[str, str], *, task: Mapping[str, JsonValue] | None = None, shown: bool = False
    ) -> Batch:
        """Write generated files and store the project with them; the batch holds the pointer and says what was written.

        With the first files there is something to see, so the live preview is announced with them, whether or not
        the agents start it: it starts when somebody opens it.

        Args:
            files: Their text, by path.
            task: What they were generated for; the session's rules look at it together with each path.
            shown: A person has seen them and agreed.

        Raises:
            InvalidPath: A path leaves the project or belongs to the template; nothing was written.
            InvalidInput: NOT_ALLOWED, a rule forbids a path, or wants a person to agree who was not asked; nothing was
                written.
        """
        check_written(self.state, task or {}, files, shown=shown)
        data = {own_path(path): content.encode() for path, content in files.items()}
        if is_preview_near(self.state, answer_s=self._answer_s):
            self._warmup.begin()
        batch = await self._project.keep(data, "files")
        execution = self.state.execution
        if data and not (execution and execution.files):
            batch.events.append(self._stream_ready())
        if data:
            batch.phase_commands.append(Wrote(tuple((path, len(body)) for path, body in sorted(data.items()))))
        return batch

    @asynccontextmanager
    async def code_kept(self) -> AsyncGenerator[tuple[Sandbox, list[str]]]:
        """Give the sandbox for a command; what the command does to the code is undone before anything is saved.

        Yields:
            The sandbox, and a list that has the paths of what was put back once the block is over.
        """
        sandbox = await self._project.sandbox()
        async with self._project.unsaved(), code_kept(sandbox, self._project.reading_memory) as put_back:
            yield sandbox, put_back

    async def endpoint(self) -> PreviewEndpoint:
        """Return the running dev server, started where needed."""
        return await self._project.use(lambda sandbox: sandbox.start_preview())

    async def open_endpoint(self) -> PreviewEndpoint | None:
        """Return the dev server of the sandbox that there is; None without one. Makes none."""
        sandbox = self._project.held
        return None if sandbox is None else await sandbox.start_preview()

    async def picture(self, at_s: float, *, width_px: int, height_px: int) -> Picture:
        """Take a picture of the page at a time, with the clock and the flags of a render, and store it.

        Raises:
            SandboxError: CAPTURE_FAILED or SEEK_FAILED, with what is wrong in the project.
        """
        # few sessions take pictures: those that do not need not hold what it takes
        from koda_ray.actors.stills import still_clock
        from koda_ray.sandbox.screenshot import screenshot

        clock = still_clock()
        made = await self._project.use(
            lambda sandbox: screenshot(sandbox, at_s, clock=clock, width_px=width_px, height_px=height_px)
        )
        core, digest = self._core, hashlib.sha256(made.png).hexdigest()
        key = picture_key(core.user_id, core.project_id, core.session_id, digest)
        await core.store.hold(core.user_id, {key: len(made.png)}, holder=core.session_id)
        await self._storage.put(key, made.png)
        url = f"/v1/sessions/{core.session_id}/pictures/{digest}"
        return Picture(url=url, at_s=made.at_s, duration_s=made.duration_s)

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

    async def preview(self, *, cause_id: str, agreed: str = "") -> Preview | Failure | Agreement:
        """Build, probe and render the preview, with what fails corrected, as far as the session's rules allow.

        A correction that a person is to be asked about is made, kept aside and shown to them. Where corrections did not
        mend it, the files become those of the last preview that worked again. Where no file differs from those of the
        preview that is shown, it is that one.
        """
        if not agreed and (shown := await self._moments.as_shown(cause_id)) is not None:
            return shown
        made, refused, wanted = list[Preview | Failure](), list[str](), list[Agreement]()

        async def attempt() -> Verified | Sequence[ProjectProblem]:
            digest = await self._built_and_prepared()
            if not isinstance(digest, str):
                return digest
            trial = self._trial(digest)
            async with self._jobs.early(self._foreseen(digest, cause_id=cause_id), trial) as early:  # most pages pass
                found = await self._tried(trial, early)
                if not isinstance(found, Verified):
                    return found
                rendered = await self._rendered(self._job(found, cause_id=cause_id), early=early)
            if isinstance(rendered, ProjectProblem):  # at a time that was not tried
                return [rendered]
            made.append(rendered)
            return found

        async def correct(request: Mapping[str, JsonValue]) -> bool:
            verdict = judged(self.state, request)
            if verdict.decision == "deny":
                refused.append(verdict.reason)
                return False
            errors = cast("list[dict[str, JsonValue]]", request["errors"])
            place = next((str(e["file"]) for e in errors if e["file"]), "the project")
            await self._core.commit(Batch(phase_commands=[Think(f"Correcting {place}")]))
            made = await self.generate(request, cause_id=cause_id)
            with contextlib.suppress(InvalidPath):  # nobody is asked about such a path: what is wrong with it is said
                if (verdict := judged(self.state, request, made.files)).decision == "ask":
                    diff = await self._show(made, request, cause_id=cause_id)
                    reason = f"to mend {place} ({errors[0]['message']}): {verdict.reason}"
                    wanted.append(Agreement(key=_digest_of(request, cause_id), reason=reason, shown=diff))
                    return False
            forbidden = await self._corrected(made, request)
            refused.extend(forbidden)
            return not forbidden

        if agreed:
            refused.extend(await self._correct_as_agreed(agreed))
        await self._core.commit(Batch(phase_commands=[Think("Building and trying the page")]))
        try:
            await self._moments.began(cause_id)
            failure = await self._moments.given_up(cause_id)
            if failure is None:
                verdict = await correct_until_good(attempt, correct)
                if verdict.good is not None:
                    return made[-1]
                if wanted:
                    return wanted[-1]
                failure = _failure(verdict, refused)
                if failure.mendable:
                    return failure
                await self._moments.give_up(cause_id, failure)
            if not await self._moments.put_back():
                return failure
        except (Missing, StorageError) as error:  # nothing that agents could mend: they are not asked to go in circles
            return Failure(code=error.code, message=error.message)
        return replace(failure, message=f"{failure.message}. {_PUT_BACK}")

    async def show(self, preview: Preview) -> Batch:
        """Store the files that a preview shows; the batch holds their pointer, and says so of one that is new."""
        if preview == self.state.preview:
            return with_phase_commands(self, Previewed(preview))
        batch = await self.checkpoint("preview")
        saved = batch.checkpoint or await self._core.store.latest_checkpoint(self._core.session_id)
        named = preview.model_copy(update={"checkpoint_id": None if saved is None else saved.id})
        return with_phase_commands(self, Previewed(named), batch=batch)

    async def corrected(self, *, cause_id: str) -> Mapping[str, str]:
        """Read the generated files, whole, that are others now than when `preview` began for this call."""
        return await self._moments.changed_since(cause_id)

    async def _correct_as_agreed(self, digest: str) -> Sequence[str]:
        """Write what a person has seen and agreed to, whatever is wrong with the page by now; once.

        Returns:
            Why that is forbidden since then; nothing where it is not.
        """
        if (proposal := await self._proposal(digest)) is None:
            return ()
        forbidden = await self._corrected(*proposal)
        await self._storage.delete(self._proposal_key(digest))
        return forbidden

    async def _corrected(self, answer: Generated, request: Mapping[str, JsonValue]) -> Sequence[str]:
        """Write a correction.

        Returns:
            Why a rule forbids that; nothing where it was written, or where its paths are no good and another is needed.
        """
        try:
            batch = await self.keep(answer.files, task=request, shown=answer.shown)
        except InvalidInput as error:
            await self._core.commit(Batch(phase_commands=[Think(error.message)], charges=[*answer.charges]))
            return [error.message] if error.code == "NOT_ALLOWED" else []
        batch.charges.extend(answer.charges)
        await self._core.commit(batch)
        return []

    def _job(self, good: Verified, *, cause_id: str) -> JobRequest:
        """Return the preview of a page."""
        named = f"{self._core.session_id}:{cause_id}:{good.bundle}"  # a fork has calls of the same ids
        size = (good.width, good.height)
        spec = RenderSpec.from_preset("preview", bundle=good.bundle, duration_s=good.duration_s, size=size)
        job_id = "job_" + hashlib.sha256(named.encode()).hexdigest()[:32]
        return JobRequest(spec=replace(spec, moves=good.moves), id=job_id, kind="preview", cause_id=cause_id)

    async def _rendered(self, job: JobRequest, *, early: SessionJob | None) -> Preview | Failure | ProjectProblem:
        """Render the preview of a page; what is the page's own fault can be mended."""
        try:
            result = await self._jobs.run_as_possible(job, early=early)
        except BudgetExceeded:
            raise
        except (PageError, PageNotReady) as error:
            return _render_problem(error)
        except KodaError as error:
            return Failure(code=error.code, message=error.message)
        base = f"/v1/sessions/{self._core.session_id}"
        return Preview(
            video_url=f"{base}/video?kind=preview&job={job.id}",
            thumbnail_url=f"{base}/thumbnail?kind=preview&job={job.id}",
            job_id=job.id,
            bundle=job.spec.bundle,
            duration=result.duration_s,
            stream_url=self._stream_url,
        )

    async def built(self) -> str | list[ProjectProblem]:
        """Build the project and store its bundle, where that was not done for the very same files just before.

        Returns:
            The bundle's hash, or what keeps the project from building.
        """
        await self._core.store.use_content(self._core.user_id)
        project = await self._project.look(_digest)
        if self._last_built is not None and self._last_built[0] == project:
            digest = self._last_built[1]
            if await self._storage.exists(bundle_key(self._core.user_id, digest)):
                return digest
        made = await self._project.use(self._build)
        if isinstance(made, str):
            self._last_built = (project, made)
        return made

    async def _built_and_prepared(self) -> str | list[ProjectProblem]:
        """Build as `built` does, while those start who will try the page and render it, where they have not before."""
        ready, built = self._warmup.begin(), await self.built()
        if isinstance(built, str):
            await asyncio.shield(ready)  # what does not build is mended, and built again
        return built

    async def _build(self, sandbox: Sandbox) -> str | list[ProjectProblem]:
        built = await build(sandbox, timeout_s=BUILD_TIMEOUT_S, reads=False)
        if not built.ok:
            return [
                ProjectProblem(stage="build", file=p.file, line=p.line, column=p.column, message=p.message)
                for p in built.problems
            ]
        hold = partial(self._core.store.hold, self._core.user_id)
        try:
            async with self._project.reading_memory.reading(lambda most: export(sandbox, most_bytes=most)) as files:
                return await store_bundle(self._storage, self._core.user_id, Bundle(files), hold=hold)
        except QuotaExceeded as error:  # what runs on in the sandbox may let it grow for ever
            return [ProjectProblem(stage="build", message=error.message)]

    def _foreseen(self, bundle: str, *, cause_id: str) -> JobRequest | None:
        """Return the preview of a page that does as planned; None where nothing is planned that could be shown."""
        plan = self.state.plan
        if plan is None:
            return None
        planned = Verified(
            bundle=bundle, duration_s=plan.total_duration, width=plan.width, height=plan.height, moves=True
        )
        try:
            return self._job(planned, cause_id=cause_id)
        except InvalidInput:
            return None

    def _trial(self, bundle: str) -> ProbeTask:
        plan = self.state.plan
        return ProbeTask(
            storage=self._storage,
            user_id=self._core.user_id,
            bundle=bundle,
            duration_s=plan.total_duration if plan else None,
            ready_timeout_s=self.trial.ready_timeout_s,
        )

    async def _tried(self, trial: ProbeTask, early: SessionJob | None) -> Verified | Sequence[ProjectProblem]:
        """Try a built page in a browser: in one that captures it already, where there is one."""
        plan = self.state.plan
        report = (None if early is None else await early.owner.tried()) or await self.trial.executor.probe(trial)
        if report.problems:
            return [_page_problem(problem) for problem in report.problems]
        duration_s = report.duration_s or (plan.total_duration if plan else 0.0)
        if not 0 < duration_s <= MAX_DURATION_S:
            limit = f"the page says it lasts {duration_s:g} s; between 0 and {MAX_DURATION_S:g} s can be rendered"
            return [ProjectProblem(stage="page", message=limit)]
        return Verified(
            bundle=trial.bundle,
            duration_s=duration_s,
            width=report.width or (plan.width if plan else 1920),
            height=report.height or (plan.height if plan else 1080),
            moves=report.moves,
        )


async def _read_texts(sandbox: Sandbox, paths: Iterable[str]) -> dict[str, str]:
    """Read those of some files that are there: a command may have removed one."""
    found: dict[str, str] = {}
    for path in paths:
        with contextlib.suppress(NotFound):
            found[path] = (await sandbox.read_file(path)).decode("utf-8", errors="replace")
    return found


def _is_as_shown(made: Generated, present: Mapping[str, str]) -> bool:
    """Whether each file is the one that a person saw changed, or the one that it was to become."""
    there = hashes(present)
    return made.before is None or all(
        there.get(path) == made.before.get(path) or present.get(path) == text for path, text in made.files.items()
    )


def _shown(diff: str) -> str:
    """Return a diff; nobody agrees to what is too long to be shown whole."""
    if len(diff) > MAX_SHOWN_CHARS:
        raise InvalidInput(
            f"what would be written has {len(diff):,} characters as a diff, more than the {MAX_SHOWN_CHARS:,} that a "
            "person is shown; ask for less at once: fewer files, or shorter ones",
            code="TOO_LONG",
        )
    return diff


def _digest_of(task: Mapping[str, JsonValue], cause_id: str) -> str:
    """Name what is generated for a task of a call."""
    return sha256(json.dumps([cause_id, dict(task)], sort_keys=True).encode())


def _failure(verdict: Verification, refused: Sequence[str]) -> Failure:
    """Say why there is no preview; agents go on with what they were not let mend here."""
    if refused:
        return Failure(
            code=verdict.code,
            message=f"the animation fails, and mending it here is not allowed: {refused[-1]}. Call generate_code "
            "with modify_existing for what is named below",
            details=describe_problems(verdict.problems),
            mendable=True,
        )
    return Failure(
        code=verdict.code,
        message=f"after {verdict.corrections} corrections the animation still fails: "
        + describe_problems(verdict.problems, most=1),
        details=describe_problems(verdict.problems),
    )


def _digest(files: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    for path, data in sorted(files.items()):
        whole.update(f"{path}\0{len(data)}\0".encode() + data)
    return whole.hexdigest()


def _render_problem(error: PageError | PageNotReady) -> ProjectProblem:
    """Read what a render says of a page, with the place in its source where that is known."""
    stage: Literal["ready", "page"] = "ready" if isinstance(error, PageNotReady) else "page"
    file, line, column = (error.context.get(name) for name in ("file", "line", "column"))
    return ProjectProblem(
        stage=stage,
        message=error.message,
        file=file if isinstance(file, str) else None,
        line=line if isinstance(line, int) else None,
        column=column if isinstance(column, int) else None,
    )


def _page_problem(problem: PageProblem) -> ProjectProblem:
    stage: Literal["ready", "page"] = "ready" if problem.kind == "not_ready" else "page"
    return ProjectProblem(
        stage=stage, file=problem.file, line=problem.line, column=problem.column, message=problem.message
    )
