"""What can be said of a page render on the command line, as four small values: options that belong together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

__all__ = ["EncodingOptions", "InputOptions", "PictureOptions", "WorkOptions"]


@dataclass(frozen=True)
class PictureOptions:
    """What the video shows: its size, its time, and what is seen through."""

    fps: Annotated[str | None, typer.Option(metavar="N", help="Frames a second: 30, 29.97, 30000/1001.")] = None
    size: Annotated[str | None, typer.Option(metavar="WxH", help="The page's viewport, such as 1920x1080.")] = None
    scale: Annotated[float | None, typer.Option(metavar="N", help="Pixels per CSS pixel: 2 makes 4K of 1080p.")] = None
    duration: Annotated[float | None, typer.Option(metavar="SECONDS", help="Else what the page says.")] = None
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="preview, final, 720p, 1080p, 4k, youtube, youtube-shorts, instagram-reels, tiktok, twitter or x.",
        ),
    ] = None
    trim: Annotated[bool, typer.Option("--trim", help="Cut what is longer than the preset's platform takes.")] = False
    alpha: Annotated[bool, typer.Option("--alpha", help="Keep what is transparent (webm, mov, gif, png).")] = False


@dataclass(frozen=True)
class EncodingOptions:
    """What the file is."""

    format: Annotated[
        str | None, typer.Option(metavar="KIND", help="mp4, webm, mov, gif or png (a zip of pictures).")
    ] = None
    crf: Annotated[int | None, typer.Option(metavar="N", help="Quality, 0 (lossless) to 51; 18 where not given.")] = (
        None
    )
    bitrate: Annotated[str | None, typer.Option(metavar="RATE", help="Instead of --crf: 8M, 800k.")] = None
    effort: Annotated[
        str, typer.Option(metavar="KIND", help="fast; small for a smaller file, draft for less time.")
    ] = "fast"
    audio: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE[@START]", help="Sound; also ,volume=0.5,fade-in=1,fade-out=2,trim=3,length=5. Repeatable."
        ),
    ] = None


@dataclass(frozen=True)
class InputOptions:
    """What the page is given."""

    props: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Data for the page (window.__kodaProps); a list, .csv or .jsonl makes a video per row."
        ),
    ] = None
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the page's random numbers.")] = 1
    entry: Annotated[str | None, typer.Option(metavar="FILE", help="The page, where it is not index.html.")] = None
    lenient: Annotated[bool, typer.Option("--lenient", help="Go on where the page throws.")] = False


@dataclass(frozen=True)
class WorkOptions:
    """How it is made, and what is told of it."""

    workers: Annotated[int | None, typer.Option(metavar="N", help="Browsers at once; else 4 for 3 processors.")] = None
    verify: Annotated[bool, typer.Option("--verify", help="Render a sample a second time and compare.")] = False
    report: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Save the report, the contact sheet and a still picture too.")
    ] = None
