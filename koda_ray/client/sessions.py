"""The asynchronous client: sessions, and with what it inherits everything that the API does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from pydantic import JsonValue

from koda_ray import errors
from koda_ray.client.boxes import OwnSandboxes
from koda_ray.client.canvases import OwnCanvases
from koda_ray.client.finals import FinalVideos
from koda_ray.client.frames import VideoFrames
from koda_ray.client.processes import OwnProcesses
from koda_ray.client.renders import PageRenders
from koda_ray.client.shares import SharedLinks
from koda_ray.client.transport import escaped_path, parse
from koda_ray.client.versions import ShownVersions
from koda_ray.errors import NotFound
from koda_ray.events import Channel, Envelope
from koda_ray.plugins import AgentPlugin, PluginList
from koda_ray.types import (
    AssetPurpose,
    Budget,
    Model,
    Note,
    Phase,
    RenderOptions,
    SceneEdit,
    SessionOptions,
    SessionPermissions,
    new_id,
)
from koda_ray.wire import (
    Answer,
    ApprovalPage,
    Approve,
    AssetPage,
    AssetView,
    Capabilities,
    Changes,
    ClusterReport,
    CommandAccepted,
    CommandName,
    CreateSession,
    CreateTakes,
    FileList,
    Fork,
    Health,
    HistoryView,
    JobPage,
    JobView,
    LabelSession,
    MediaLinks,
    Message,
    OwnAssetPage,
    PicturePage,
    PlanEdits,
    PreviewLink,
    ProjectPage,
    Refuse,
    Reject,
    RenderedAgain,
    Rewind,
    SessionCreated,
    SessionOrder,
    SessionPage,
    SessionUsage,
    SessionView,
    StillView,
    TakesCreated,
    TakeStill,
    TalkPage,
    UserUsage,
    WhoseTurn,
)

__all__ = ["KodaClient"]


class KodaClient(
    PageRenders, FinalVideos, VideoFrames, ShownVersions, SharedLinks, OwnCanvases, OwnSandboxes, OwnProcesses
):
    """Talks to a server.

    Args:
        url: Its address, or ``KODA_SERVER``, or this machine's.
        key: Your key, or ``KODA_API_KEY``; none for a server of your own.
        timeout_s: Longest wait for one response, in seconds.

    Example:
        async with KodaClient() as koda:
            made = await koda.create("Create a bouncing ball animation, playful")
            async for event in koda.follow(made.session_id):
                print(event.wire_name, event.data)
    """

    # sessions

    async def create(
        self,
        prompt: str,
        *,
        style: str | None = None,
        options: SessionOptions | None = None,
        render: RenderOptions | None = None,
        asset_ids: tuple[str, ...] = (),
        permissions: SessionPermissions | None = None,
        project_id: str | None = None,
        budget: Budget | None = None,
        key: str | None = None,
    ) -> SessionCreated:
        """Make a session from a prompt. The same ``key`` makes it once, however often this is called.

        Raises:
            InvalidInput: The prompt or an option is not valid.
            NotFound: An asset is not there.
            Conflict: The key was used for something else, or an asset belongs to another session.
            LimitReached: You have as many sessions awake as you may.
        """
        body = CreateSession.model_construct(  # the server says what is wrong with it, in one voice for all clients
            prompt=prompt,
            project_id=project_id,
            style=style,
            options=options or SessionOptions(),
            render=render,
            asset_ids=asset_ids,
            permissions=permissions or SessionPermissions(),
            budget=budget,
        )
        return await self._post("/v1/sessions", body, SessionCreated, key=key)

    async def create_takes(self, body: CreateTakes, *, key: str | None = None) -> TakesCreated:
        """Make 2 to 4 sessions from one prompt, each of which looks different. The same ``key`` makes them once.

        Raises:
            InvalidInput: As `create`.
            NotFound: One of the files is not there.
            Conflict: One of the files belongs to another session.
            LimitReached: You have as many sessions awake as you may; those that were made before stay.
        """
        return await self._post("/v1/takes", body, TakesCreated, key=key)

    async def capabilities(self) -> Capabilities:
        """Read what the server has to work with: models, or the built-in director."""
        return await self._get("/v1/capabilities", Capabilities)

    async def plugins(self) -> PluginList:
        """Read what a canvas can show as a node."""
        return await self._get("/v1/plugins", PluginList)

    async def plugin(self, plugin_id: str) -> AgentPlugin:
        """Read what a node is. Raises NotFound."""
        return await self._get(f"/v1/plugins/{escaped_path(plugin_id)}", AgentPlugin)

    async def session(self, session_id: str) -> SessionView:
        """Read a session's state. Raises NotFound."""
        return await self._get(_session(session_id), SessionView)

    async def sessions(
        self,
        *,
        limit: int = 50,
        before: str | None = None,
        text: str | None = None,
        phases: Sequence[Phase] = (),
        turn: WhoseTurn | None = None,
        pinned: bool | None = None,
        project: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        order: SessionOrder = "made",
    ) -> SessionPage:
        """Read a page of your sessions, newest first: all, or those in some phases, with some words in them.

        In ``order`` of when they were made, or last changed; each page is asked for in the order of the first.
        ``turn`` chooses those that wait for a person, or those that agents work on; ``pinned`` those that are, or are
        not; ``project`` those in it, ``since`` and ``until`` those that changed then, ``[since, until)``.
        """
        params: dict[str, str | list[str]] = {"limit": str(limit), "phase": list(phases), "order": order}
        if pinned is not None:
            params["pinned"] = str(pinned).lower()
        words = {"before": before, "text": text, "turn": turn, "project": project}
        times = {name: at.isoformat() for name, at in (("since", since), ("until", until)) if at is not None}
        params |= {name: value for name, value in words.items() if value} | times
        return await self._get("/v1/sessions", SessionPage, params=params)

    async def projects(self, *, limit: int = 50, after: str | None = None) -> ProjectPage:
        """Read a page of your projects by their ids; go on with ``after=page.next``."""
        params = {"limit": str(limit), **({} if after is None else {"after": after})}
        return await self._get("/v1/projects", ProjectPage, params=params)

    async def label(self, session_id: str, *, title: str | None = None, pinned: bool | None = None) -> SessionView:
        """Give a session a title, or pin it; what is None stays, and an empty title is none. Raises NotFound."""
        body = LabelSession.model_construct(title=title, pinned=pinned)
        sent = body.model_dump(mode="json", by_alias=True, exclude_none=True)
        return parse(SessionView, await self._send("PATCH", _session(session_id), json=sent))

    async def messages(self, session_id: str, *, limit: int = 50, before: int | None = None) -> TalkPage:
        """Read a page of what was said in a session, newest first. Raises NotFound."""
        params = {"limit": str(limit), **({} if before is None else {"before": str(before)})}
        return await self._get(f"{_session(session_id)}/messages", TalkPage, params=params)

    async def pictures(self, session_id: str, *, limit: int = 50, before: int | None = None) -> PicturePage:
        """Read a page of the pictures that agents took in a session, newest first. Raises NotFound."""
        params = {"limit": str(limit), **({} if before is None else {"before": str(before)})}
        return await self._get(f"{_session(session_id)}/pictures", PicturePage, params=params)

    async def delete(self, session_id: str, *, undo_s: int = 0) -> None:
        """Delete a session with everything in it; for ``undo_s`` seconds `restore` has it back. Raises NotFound."""
        try:
            await self._send("DELETE", _session(session_id), params={"undoS": str(undo_s)} if undo_s else None)
        except NotFound as error:
            if "attempt" not in error.context:  # else the try before did it, and only its answer was lost
                raise

    async def restore(self, session_id: str) -> SessionView:
        """Have a session back that was deleted with ``undo_s``. Raises NotFound, and LimitReached as `create`."""
        return parse(SessionView, await self._send("POST", f"{_session(session_id)}/restore"))

    # commands; each may raise NotFound, InvalidTransition, InvalidInput, Conflict and LimitReached

    async def answer(
        self, session_id: str, *, option_id: str | None = None, text: str | None = None, key: str | None = None
    ) -> CommandAccepted:
        """Answer the question."""
        return await self._command(session_id, "answer", Answer.model_construct(option_id=option_id, text=text), key)

    async def accept(self, session_id: str, *, key: str | None = None) -> CommandAccepted:
        """Accept the plan or the preview."""
        return await self._command(session_id, "accept", None, key)

    async def reject(self, session_id: str, *, feedback: str | None = None, key: str | None = None) -> CommandAccepted:
        """Reject the plan; or the preview or the finished video, which needs feedback."""
        return await self._command(session_id, "reject", Reject.model_construct(feedback=feedback), key)

    async def changes(
        self, session_id: str, feedback: str = "", *, notes: Sequence[Note] = (), key: str | None = None
    ) -> CommandAccepted:
        """Ask for something to be different, in words, as notes on what is pointed at, or both."""
        asked = Changes.model_construct(feedback=feedback, notes=tuple(notes))
        return await self._command(session_id, "changes", asked, key)

    async def edit_plan(
        self, session_id: str, scenes: Sequence[SceneEdit], *, key: str | None = None
    ) -> CommandAccepted:
        """Change the scenes of the plan that waits for you: those that are to stay, in order, with what changes."""
        return await self._command(session_id, "plan", PlanEdits.model_construct(scenes=tuple(scenes)), key)

    async def say(
        self, session_id: str, text: str = "", *, notes: Sequence[Note] = (), key: str | None = None
    ) -> CommandAccepted:
        """Say something to the agents; ``notes`` say what is pointed at."""
        said = Message.model_construct(text=text, notes=tuple(notes))
        return await self._command(session_id, "message", said, key)

    async def take_back(self, session_id: str, command_id: str, *, key: str | None = None) -> CommandAccepted:
        """Take back what was said (its answer's ``command_id``), while it is among ``state.unread``.

        Raises:
            InvalidTransition: The agents work on it, or have heeded it; or what was said to it is to be taken back
                first.
        """
        path = f"{_session(session_id)}/messages/{quote(command_id, safe='')}"
        headers = {"Idempotency-Key": key or new_id("cmd")}
        return parse(CommandAccepted, await self._send("DELETE", path, headers=headers))

    async def cancel(self, session_id: str, *, key: str | None = None) -> CommandAccepted:
        """Stop the work under way."""
        return await self._command(session_id, "cancel", None, key)

    async def retry(self, session_id: str, *, key: str | None = None) -> CommandAccepted:
        """Try again after an error."""
        return await self._command(session_id, "retry", None, key)

    async def render(
        self, session_id: str, options: RenderOptions | None = None, *, key: str | None = None
    ) -> CommandAccepted:
        """Render what the preview shows as the final video, or a finished one once more."""
        return await self._command(session_id, "render", options or RenderOptions(), key)

    async def approvals(
        self, session_id: str, *, pending: bool = False, limit: int = 50, before: str | None = None
    ) -> ApprovalPage:
        """Read what waits for you, or waited: questions, plans, previews, tool calls with their diffs.

        A page, newest first, and a short one where they are large; go on with ``before=page.next``.
        """
        params = {"limit": str(limit)} | ({"pending": "true"} if pending else {})
        params |= {} if before is None else {"before": before}
        return await self._get(f"{_session(session_id)}/approvals", ApprovalPage, params=params)

    async def approve(
        self,
        session_id: str,
        approval_id: str,
        *,
        arguments: Mapping[str, JsonValue] | None = None,
        key: str | None = None,
    ) -> CommandAccepted:
        """Let the tool call that waits run, as proposed or with other arguments."""
        body = Approve.model_construct(arguments=None if arguments is None else dict(arguments))
        return await self._post(f"{_approval(session_id, approval_id)}/approve", body, CommandAccepted, key=key)

    async def refuse(
        self, session_id: str, approval_id: str, *, reason: str | None = None, key: str | None = None
    ) -> CommandAccepted:
        """Refuse the tool call that waits; the agents read why."""
        body = Refuse.model_construct(reason=reason)
        return await self._post(f"{_approval(session_id, approval_id)}/reject", body, CommandAccepted, key=key)

    async def permissions(
        self, session_id: str, permissions: SessionPermissions, *, key: str | None = None
    ) -> CommandAccepted:
        """Say what the agents may do by themselves from now on."""
        return await self._command(session_id, "permissions", permissions, key)

    async def rewind(
        self, session_id: str, to: str | None = None, *, undo: bool = False, key: str | None = None
    ) -> CommandAccepted:
        """Put a session back to a message, a checkpoint, a head or a version; or ``undo`` that it was put back.

        Raises:
            NotFound: POINT_NOT_FOUND, or NOTHING_TO_UNDO.
        """
        return await self._command(session_id, "rewind", Rewind.model_construct(to=to, undo=undo), key)

    # its past

    async def history(self, session_id: str, *, limit: int = 50, before: str | None = None) -> HistoryView:
        """Read a page of where a session can go back to, newest first; go on with ``before=page.next``."""
        params = {"limit": str(limit)} | ({} if before is None else {"before": before})
        return await self._get(f"{_session(session_id)}/history", HistoryView, params=params)

    async def fork(self, session_id: str, *, at: str | None = None, key: str | None = None) -> SessionCreated:
        """Make another session at a point of this one; where it is now when none is named.

        Raises:
            NotFound: There is no such session, or no such point (POINT_NOT_FOUND).
        """
        return await self._post(f"{_session(session_id)}/fork", Fork.model_construct(at=at), SessionCreated, key=key)

    async def budget(self, session_id: str, budget: Budget, *, key: str | None = None) -> CommandAccepted:
        """Set how much the session may use in all; one that waits for more goes on.

        A limit that is given as None is taken away: the server's own holds. What is not given stays.
        """
        sent = budget.model_dump(mode="json", exclude_unset=True)
        return await self._post(f"{_session(session_id)}/budget", sent, CommandAccepted, key=key)

    # what was used

    async def session_usage(self, session_id: str) -> SessionUsage:
        """Read what a session has used, and its limits. Raises NotFound."""
        return await self._get(f"{_session(session_id)}/usage", SessionUsage)

    async def usage(self, *, month: str | None = None) -> UserUsage:
        """Read what all of your work has used in a month (``2026-11``); the present one when None."""
        return await self._get("/v1/usage", UserUsage, params={"month": month} if month else {})

    async def cluster(self) -> ClusterReport:
        """Read how the whole deployment is; for users that KODA_OPERATORS names, others are refused."""
        return await self._get("/v1/cluster", ClusterReport)

    # events

    async def follow(
        self,
        session_id: str,
        *,
        after: int = 0,
        channels: Channel | Collection[Channel] | None = None,
        give_up_s: float = 60.0,
    ) -> AsyncGenerator[Envelope]:
        """Yield events with ``seq > after``, coming back after every broken connection, until the session is deleted.

        A ``resync`` says that progress events are left out (see `koda_ray.events.Resync`): what was put together from
        them is to be read anew, and with the reason ``ahead`` the state is, too.

        Args:
            session_id: The session.
            after: The last number seen; 0 for all.
            channels: Only what is on these: ``progress``, ``control``, ``monitor``; everything when None.
            give_up_s: How long to go on trying while no server answers, in seconds.

        Raises:
            InvalidInput: There is no such channel.
            NotFound: There is no such session.
            Unreachable: No server answered for ``give_up_s`` seconds.
        """
        path = f"{_session(session_id)}/events"
        async with aclosing(self._events(path, after, give_up_s, channels=channels)) as events:
            async for envelope in events:
                yield envelope

    # what was made

    async def files(self, session_id: str, *, checkpoint: str | None = None) -> FileList:
        """List the project's files as of a checkpoint; of the newest when none is named."""
        return await self._get(f"{_session(session_id)}/files", FileList, params=_at(checkpoint))

    async def read_file(self, session_id: str, path: str, *, checkpoint: str | None = None) -> bytes:
        """Read one of the project's files, as of a checkpoint or the newest. Raises NotFound and InvalidPath."""
        place = f"{_session(session_id)}/files/{escaped_path(path)}"
        return (await self._send("GET", place, params=_at(checkpoint))).content

    async def download_source(self, session_id: str, target: Path) -> int:
        """Save the project's files as a zip, as of the newest checkpoint; return its size in bytes. Raises NotFound."""
        return await self._fetch(f"{_session(session_id)}/source.zip", target)

    async def download(
        self,
        session_id: str,
        target: Path,
        *,
        what: Literal["video", "thumbnail"] = "video",
        kind: Literal["preview", "final"] | None = None,
        job: str | None = None,
        on_bytes: Callable[[int, int], None] | None = None,
    ) -> int:
        """Save a video or its still picture, going on where a broken connection left off.

        Args:
            session_id: The session.
            target: The file, replaced in one step once everything is there.
            what: The video or its thumbnail.
            kind: Which video; else the final one where there is one.
            job: The job that made it, such as a final in another format (`finals`); else the newest.
            on_bytes: Called with the bytes so far and in all.

        Returns:
            The file's size in bytes.

        Raises:
            NotFound: VIDEO_NOT_READY.
        """
        params = {name: value for name, value in (("kind", kind), ("job", job)) if value is not None}
        return await self._fetch(f"{_session(session_id)}/{what}", target, params=params, on_bytes=on_bytes)

    async def media(
        self, session_id: str, *, kind: Literal["preview", "final"] | None = None, job: str | None = None
    ) -> MediaLinks:
        """Get addresses, below the server's, that show a video and its picture without a key for an hour or more.

        Raises:
            NotFound: There is no such session, or no such video of it yet (VIDEO_NOT_READY).
        """
        params = {name: value for name, value in (("kind", kind), ("job", job)) if value is not None}
        return await self._get(f"{_session(session_id)}/media", MediaLinks, params=params)

    async def preview(self, session_id: str, *, edit: bool = False) -> PreviewLink:
        """Start the running page where needed, and get its address for an hour: to look, or with ``edit`` to write."""
        query = "?edit=true" if edit else ""
        return await self._post(f"{_session(session_id)}/preview{query}", None, PreviewLink)

    async def still(
        self, session_id: str, at_s: float, *, width_px: int | None = None, height_px: int | None = None
    ) -> StillView:
        """Have the page pictured at a time, as the files are now; as large as planned where no size is named.

        Raises:
            SandboxError: CAPTURE_FAILED or SEEK_FAILED, with what is wrong in the project.
        """
        asked = TakeStill(at_s=at_s, width_px=width_px, height_px=height_px)
        return await self._post(f"{_session(session_id)}/stills", asked, StillView)

    async def job(self, job_id: str) -> JobView:
        """Read a render job. Raises NotFound."""
        return await self._get(f"/v1/jobs/{quote(job_id, safe='')}", JobView)

    async def jobs(self, session_id: str, *, limit: int = 50, before: str | None = None) -> JobPage:
        """Read a page of a session's render jobs, newest first; go on with ``before=page.next``."""
        params = {"limit": str(limit)} | ({} if before is None else {"before": before})
        return await self._get(f"{_session(session_id)}/jobs", JobPage, params=params)

    async def cancel_job(self, job_id: str) -> JobView:
        """End a render job, a session's or a page's; one that is over stays as it is.

        Raises:
            NotFound: There is no such job.
            InvalidTransition: Its session does something else by now, which goes on.
        """
        return await self._post(f"/v1/jobs/{quote(job_id, safe='')}/cancel", None, JobView)

    async def render_again(self, job_id: str, *, key: str | None = None) -> RenderedAgain:
        """Render once more what was rendered, in the same way. The same ``key`` does it once.

        Raises:
            NotFound: There is no such job, or its page is not kept any more.
            Conflict: It is not over, it is a preview, or its session shows another version by now.
        """
        return await self._post(f"/v1/jobs/{quote(job_id, safe='')}/again", None, RenderedAgain, key=key)

    # assets and health

    async def upload(
        self,
        path: Path,
        *,
        media_type: str | None = None,
        session_id: str | None = None,
        purpose: AssetPurpose = "file",
        key: str | None = None,
    ) -> AssetView:
        """Upload a picture, a film or a sound; name its id when making a session, or give it to one that exists.

        With the purpose ``note`` it is the picture of a note: it stands in no list, and is kept with the session whose
        note names it.

        The same ``key`` stores it once, however often this is called.

        Raises:
            Conflict: The key was used for another file.
            InvalidInput: UNSUPPORTED_TYPE, BODY_TOO_LARGE, or the file cannot be read.
            NotFound: There is no such session.
            LimitReached: You have as many files, or as much of them, as you may.
        """
        try:
            data = await asyncio.to_thread(path.read_bytes)
        except OSError as error:
            raise errors.InvalidInput(f"cannot read {path}: {error.strerror or error}") from error
        files = {"file": (path.name, data, media_type or "application/octet-stream")}
        form = {} if purpose == "file" else {"purpose": purpose}
        if session_id:
            form["sessionId"] = session_id
        headers = {"Idempotency-Key": key or new_id("cmd")}
        return parse(AssetView, await self._send("POST", "/v1/assets", files=files, data=form or None, headers=headers))

    async def uploads(self, *, limit: int = 50, before: str | None = None) -> OwnAssetPage:
        """List all files that you uploaded, newest first; go on with ``before=page.next`` until that is None."""
        params = {"limit": str(limit)} | ({} if before is None else {"before": before})
        return await self._get("/v1/assets", OwnAssetPage, params=params)

    async def asset(self, asset_id: str) -> AssetView:
        """Read what is known of a file that you uploaded. Raises NotFound."""
        return await self._get(f"/v1/assets/{quote(asset_id, safe='')}", AssetView)

    async def download_asset(self, asset_id: str, target: Path) -> int:
        """Save a file that you uploaded; return its size in bytes. Raises NotFound."""
        return await self._fetch(f"/v1/assets/{quote(asset_id, safe='')}/file", target)

    async def remove_upload(self, asset_id: str) -> None:
        """Remove a file that you uploaded and that no session has.

        Raises:
            NotFound: There is no such file.
            Conflict: A session has it, and it goes with that.
        """
        await self._send("DELETE", f"/v1/assets/{quote(asset_id, safe='')}")

    async def assets(self, session_id: str) -> AssetPage:
        """List a session's uploaded files."""
        return await self._get(f"{_session(session_id)}/assets", AssetPage)

    async def health(self) -> Health:
        """Ask whether the server answers."""
        return parse(Health, await self._send("GET", "/v1/health", attempts=1))

    # underneath

    async def _command(
        self, session_id: str, name: CommandName, body: Model | None, key: str | None
    ) -> CommandAccepted:
        path = f"{_session(session_id)}/{'messages' if name == 'message' else name}"
        return await self._post(path, body, CommandAccepted, key=key)


def _session(session_id: str) -> str:
    return f"/v1/sessions/{quote(session_id, safe='')}"


def _approval(session_id: str, approval_id: str) -> str:
    return f"{_session(session_id)}/approvals/{quote(approval_id, safe='')}"


def _at(checkpoint: str | None) -> dict[str, str]:
    return {} if checkpoint is None else {"checkpoint": checkpoint}
