"""What commands have in common: their options, and how one command is sent to a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args

import typer

if TYPE_CHECKING:
    from koda_ray.client import KodaClient
    from koda_ray.types import NodeState, RenderOptions, SessionPermissions
    from koda_ray.wire import CommandAccepted

__all__ = [
    "Assets",
    "FaceOptions",
    "FilmOptions",
    "Json",
    "Mode",
    "Out",
    "Plain",
    "Point",
    "Prompt",
    "Server",
    "Session",
    "VideoOptions",
    "Work",
    "Yes",
    "checked",
    "permissions",
    "render_options",
    "run",
    "tell",
]

Resolution = Literal["720p", "1080p", "4k"]
T = TypeVar("T")

Prompt = Annotated[str, typer.Argument(help="What to make; - reads it from stdin.", show_default=False)]
Session = Annotated[str, typer.Argument(metavar="ID", help="A session's id (see: koda list).", show_default=False)]
Point = Annotated[
    str | None,
    typer.Argument(metavar="POINT", help="A message, checkpoint, head (koda history) or version.", show_default=False),
]
Work = Annotated[str, typer.Argument(metavar="ID", help="A session's or a render's id (see: koda list, koda renders).")]
Server = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", help="The server to use; else KODA_SERVER, else the one that runs here."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Accept everything: first option, plan, preview.")]
Plain = Annotated[bool, typer.Option("--plain", help="One line for each event, also on a terminal.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FOLDER", help="Where to save it; else out/ and the prompt's first words."),
]
Assets = Annotated[
    list[Path] | None, typer.Option("--asset", metavar="FILE", help="A picture, film or sound; repeatable.")
]
Mode = Annotated[
    str | None,
    typer.Option("--mode", metavar="MODE", help="What agents may do by themselves: auto, ask, readonly or plan."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True)
class VideoOptions:
    """How a session's video is rendered."""

    fps: Annotated[int | None, typer.Option(metavar="N", help="Frames a second: 30 or 60.")] = None
    resolution: Annotated[str | None, typer.Option(metavar="SIZE", help="720p, 1080p or 4k.")] = None
    format: Annotated[str | None, typer.Option(metavar="KIND", help="mp4, webm, mov or gif.")] = None
    transparent: Annotated[bool, typer.Option("--transparent", help="Keep what is transparent (webm, mov, gif).")] = (
        False
    )

    @property
    def given(self) -> bool:
        """Whether any of them was said."""
        return self != VideoOptions()


@dataclass(frozen=True)
class FilmOptions:
    """What a session's video should be like."""

    style: Annotated[str | None, typer.Option(metavar="TEXT", help="The style, so that it need not be asked.")] = None
    duration: Annotated[float | None, typer.Option(metavar="SECONDS", help="How long the video should be.")] = None
    aspect: Annotated[str | None, typer.Option(metavar="W:H", help="Shape of the picture: 16:9, 9:16, 1:1 or 4:5.")] = (
        None
    )


@dataclass(frozen=True)
class FaceOptions:
    """How something is shown."""

    plain: Plain = False
    json: Json = False


def render_options(video: VideoOptions) -> RenderOptions:
    """Return how a session's video is rendered; what was not said is 1080p, 60 frames a second (a gif's 30), mp4.

    Raises:
        typer.BadParameter: A value is none that there is.
    """
    from koda_ray.types import FinalFormat, RenderOptions

    resolution, container = video.resolution or "1080p", video.format or "mp4"
    for name, value, allowed in (("--resolution", resolution, Resolution), ("--format", container, FinalFormat)):
        if value not in get_args(allowed):
            raise typer.BadParameter(f"{value!r} is none of {', '.join(get_args(allowed))}", param_hint=name)
    if video.fps not in (None, 30, 60):
        raise typer.BadParameter(f"{video.fps} is neither 30 nor 60", param_hint="--fps")
    told = {"resolution": resolution, "format": container, "transparent": video.transparent}
    return checked(RenderOptions, told if video.fps is None else {**told, "fps": video.fps})


def permissions(mode: str | None, rules: str | None = None) -> SessionPermissions:
    """Return what a session's agents may do; ``rules`` is a JSON list, or ``@`` and the name of a file with one.

    Raises:
        typer.BadParameter: There is no such mode, or the rules are none.
    """
    import json

    from koda_ray.types import SessionPermissions

    given: dict[str, Any] = {} if mode is None else {"mode": mode}
    if rules is not None:
        try:
            given["rules"] = json.loads(Path(rules[1:]).read_text() if rules.startswith("@") else rules)
        except (OSError, ValueError) as error:
            raise typer.BadParameter(f"{rules!r} is no JSON list: {error}", param_hint="--rules") from None
    return checked(SessionPermissions, given)


def checked(model: type[T], values: dict[str, Any]) -> T:
    """Return values as a model has them.

    Raises:
        typer.BadParameter: One is wrong; the message names its option.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(model).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        if not first["loc"]:  # values that do not go together
            raise typer.BadParameter(first["msg"].removeprefix("Value error, ")) from None
        raise typer.BadParameter(
            f"{first['input']!r}: {first['msg']}", param_hint=f"--{str(first['loc'][0]).replace('_', '-')}"
        ) from None


def tell(
    session: str, server: str | None, send: Callable[[KodaClient], Awaitable[CommandAccepted]], *, json: bool = False
) -> None:
    """Send one command to the server that runs, and say what comes of it and how to get it, or its answer as JSON."""
    from koda_ray.client import KodaClient
    from koda_ray.console.job import require_server
    from koda_ray.console.plain import phase_words
    from koda_ray.console.summary import one_command

    async def work() -> tuple[CommandAccepted, NodeState]:
        async with KodaClient(require_server(server)) as client:
            return await send(client), (await client.session(session)).state

    accepted, state = run(work())
    if json:
        typer.echo(accepted.model_dump_json(indent=2))
        return
    typer.echo(phase_words(state))
    if (way := one_command(session, state)) is not None:
        typer.echo(f"go on with: {way}")
    else:
        typer.echo(f"follow it and get the files with: koda watch {session}")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end."""
    import asyncio

    return asyncio.run(work)
