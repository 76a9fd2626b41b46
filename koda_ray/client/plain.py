"""The client without async: the methods of `KodaClient`, each run to its end.

No method is written twice. Parameters, their types and their defaults are those of the asynchronous one, for a type
checker and an editor as well, and what it returns is what awaiting that gives.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, get_args

from koda_ray.client.sessions import KodaClient

__all__ = ["Koda"]

P = ParamSpec("P")
T = TypeVar("T")


def _once(
    method: Callable[Concatenate[KodaClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Koda, P], T]:
    """Return the method that runs an asynchronous one to its end."""

    @wraps(method)
    def plain(self: Koda, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._client, *args, **kwargs))  # pyright: ignore[reportPrivateUsage]

    return plain


def _each(
    method: Callable[Concatenate[KodaClient, P], AsyncGenerator[T]],
) -> Callable[Concatenate[Koda, P], Generator[T]]:
    """Return the method that runs an asynchronous generator item by item, and closes it with its own."""

    @wraps(method)
    def plain(self: Koda, *args: P.args, **kwargs: P.kwargs) -> Generator[T]:
        items = method(self._client, *args, **kwargs)  # pyright: ignore[reportPrivateUsage]
        try:
            while True:
                try:
                    yield self._run(_next(items))  # pyright: ignore[reportPrivateUsage]
                except StopAsyncIteration:
                    return
        finally:
            self._run(items.aclose())  # pyright: ignore[reportPrivateUsage]

    shown = inspect.signature(method, eval_str=True)  # what help() and inspect tell
    (item,) = get_args(shown.return_annotation)
    plain.__dict__["__signature__"] = shown.replace(return_annotation=Generator[item])
    return plain


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


class Koda:
    """The same as `KodaClient` without async: every method of it, one at a time.

    Not for use inside a running event loop; use `KodaClient` there.

    Args:
        url: The server's address, or ``KODA_SERVER``, or this machine's.
        key: Your key, or ``KODA_API_KEY``; none for a server of your own.
        timeout_s: Longest wait for one response, in seconds.

    Example:
        with Koda() as koda:
            made = koda.create("Create a bouncing ball animation, playful")
            print(koda.session(made.session_id).state.phase)
    """

    def __init__(self, url: str | None = None, *, key: str | None = None, timeout_s: float = 60.0) -> None:
        self._runner = asyncio.Runner()
        self._closed = False
        self._client = KodaClient(url, key=key, timeout_s=timeout_s)
        self.url = self._client.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; may be called twice."""
        if not self._closed:
            self._closed = True
            self._run(self._client.close())
            self._runner.close()

    create = _once(KodaClient.create)
    create_takes = _once(KodaClient.create_takes)
    capabilities = _once(KodaClient.capabilities)
    projects = _once(KodaClient.projects)
    plugins = _once(KodaClient.plugins)
    plugin = _once(KodaClient.plugin)
    session = _once(KodaClient.session)
    sessions = _once(KodaClient.sessions)
    label = _once(KodaClient.label)
    messages = _once(KodaClient.messages)
    pictures = _once(KodaClient.pictures)
    delete = _once(KodaClient.delete)
    restore = _once(KodaClient.restore)
    answer = _once(KodaClient.answer)
    accept = _once(KodaClient.accept)
    reject = _once(KodaClient.reject)
    changes = _once(KodaClient.changes)
    edit_plan = _once(KodaClient.edit_plan)
    say = _once(KodaClient.say)
    take_back = _once(KodaClient.take_back)
    cancel = _once(KodaClient.cancel)
    retry = _once(KodaClient.retry)
    render = _once(KodaClient.render)
    approvals = _once(KodaClient.approvals)
    approve = _once(KodaClient.approve)
    refuse = _once(KodaClient.refuse)
    permissions = _once(KodaClient.permissions)
    rewind = _once(KodaClient.rewind)
    history = _once(KodaClient.history)
    fork = _once(KodaClient.fork)
    versions = _once(KodaClient.versions)
    label_version = _once(KodaClient.label_version)
    open_version = _once(KodaClient.open_version)
    compare = _once(KodaClient.compare)
    differences = _once(KodaClient.differences)
    version_diff = _once(KodaClient.version_diff)
    budget = _once(KodaClient.budget)
    session_usage = _once(KodaClient.session_usage)
    usage = _once(KodaClient.usage)
    cluster = _once(KodaClient.cluster)
    follow = _each(KodaClient.follow)
    files = _once(KodaClient.files)
    read_file = _once(KodaClient.read_file)
    download_source = _once(KodaClient.download_source)
    download = _once(KodaClient.download)
    frame = _once(KodaClient.frame)
    sprite = _once(KodaClient.sprite)
    finals = _once(KodaClient.finals)
    delete_final = _once(KodaClient.delete_final)
    media = _once(KodaClient.media)
    preview = _once(KodaClient.preview)
    still = _once(KodaClient.still)
    share = _once(KodaClient.share)
    shares = _once(KodaClient.shares)
    share_comments = _once(KodaClient.share_comments)
    revoke_share = _once(KodaClient.revoke_share)
    shared = _once(KodaClient.shared)
    download_shared = _once(KodaClient.download_shared)
    comment = _once(KodaClient.comment)
    canvases = _once(KodaClient.canvases)
    canvas = _once(KodaClient.canvas)
    put_canvas = _once(KodaClient.put_canvas)
    delete_canvas = _once(KodaClient.delete_canvas)
    job = _once(KodaClient.job)
    jobs = _once(KodaClient.jobs)
    cancel_job = _once(KodaClient.cancel_job)
    render_again = _once(KodaClient.render_again)
    upload = _once(KodaClient.upload)
    uploads = _once(KodaClient.uploads)
    asset = _once(KodaClient.asset)
    download_asset = _once(KodaClient.download_asset)
    remove_upload = _once(KodaClient.remove_upload)
    assets = _once(KodaClient.assets)
    health = _once(KodaClient.health)

    render_page = _once(KodaClient.render_page)
    render_batch = _once(KodaClient.render_batch)
    batch = _once(KodaClient.batch)
    cancel_batch = _once(KodaClient.cancel_batch)
    page_render = _once(KodaClient.page_render)
    page_renders = _once(KodaClient.page_renders)
    cancel_page_render = _once(KodaClient.cancel_page_render)
    delete_page_render = _once(KodaClient.delete_page_render)
    follow_page_render = _each(KodaClient.follow_page_render)
    download_page_render = _once(KodaClient.download_page_render)
    page_render_frame = _once(KodaClient.page_render_frame)
    page_render_sprite = _once(KodaClient.page_render_sprite)
    footage = _each(KodaClient.footage)

    create_image = _once(KodaClient.create_image)
    images = _once(KodaClient.images)
    remove_image = _once(KodaClient.remove_image)
    create_sandbox = _once(KodaClient.create_sandbox)
    sandboxes = _once(KodaClient.sandboxes)
    sandbox = _once(KodaClient.sandbox)
    extend_sandbox = _once(KodaClient.extend_sandbox)
    terminate_sandbox = _once(KodaClient.terminate_sandbox)
    open_port = _once(KodaClient.open_port)
    open_desktop = _once(KodaClient.open_desktop)
    watch_sandbox = _each(KodaClient.watch_sandbox)
    sandbox_files = _once(KodaClient.sandbox_files)
    read_sandbox_file = _once(KodaClient.read_sandbox_file)
    write_sandbox_file = _once(KodaClient.write_sandbox_file)
    remove_sandbox_file = _once(KodaClient.remove_sandbox_file)
    run_command = _once(KodaClient.run_command)
    snapshot_sandbox = _once(KodaClient.snapshot_sandbox)
    restore_sandbox = _once(KodaClient.restore_sandbox)
    build_sandbox = _once(KodaClient.build_sandbox)
    export_bundle = _once(KodaClient.export_bundle)
    picture_sandbox = _once(KodaClient.picture_sandbox)
    preview_sandbox = _once(KodaClient.preview_sandbox)
    launch_process = _once(KodaClient.launch_process)
    processes = _once(KodaClient.processes)
    process = _once(KodaClient.process)
    process_output = _once(KodaClient.process_output)
    follow_process = _each(KodaClient.follow_process)
    kill_process = _once(KodaClient.kill_process)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._runner.run(work)
        finally:
            work.close()  # an interrupt may come before it has begun
