"""What a container's first process answers, looked at before it is believed: hostile code lives beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from koda_ray.errors import SandboxError
from koda_ray.hearsay import LARGEST, unbroken
from koda_ray.sandbox import policy
from koda_ray.sandbox.base import FileEntry, FileStamp, ProcessInfo
from koda_ray.sandbox.counts import Counted
from koda_ray.sandbox.frames import Message

__all__ = [
    "Told",
    "ToldEnd",
    "ToldFile",
    "ToldList",
    "ToldOutput",
    "ToldProcess",
    "ToldProcesses",
    "ToldRefusals",
    "ToldSurvey",
    "believed",
]

_MOST_OUTPUT_CHARS = 1 << 20


def _mended(value: object) -> object:
    return unbroken(value) if isinstance(value, str) else value


_Text = Annotated[str, BeforeValidator(_mended)]
_Output = Annotated[str, Field(max_length=_MOST_OUTPUT_CHARS), BeforeValidator(_mended)]
_Whole = Annotated[int, Field(ge=0, le=LARGEST)]
_Any = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
_Stamp = Annotated[int, Field(ge=-(1 << 63), lt=1 << 64)]
"""What the kernel has of a file: times in nanoseconds, and inodes, of 64 bits."""
_Storable = Annotated[str, AfterValidator(lambda path: _checked(path, policy.is_storable))]


class _Answer(BaseModel):
    """Fields that are more than these do no harm: a container lives on when its owner is a newer version."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class ToldFile(_Answer):
    """A file whose bytes follow."""

    path: str
    size: _Whole


class ToldList(_Answer):
    """A folder's entries, and the links that were left out."""

    entries: list[tuple[_Text, str, _Whole]]
    outside: list[_Text]

    def files(self) -> list[FileEntry]:
        """Return the entries as files and folders."""
        return [
            FileEntry(path=path, type="directory" if kind == "directory" else "file", size_bytes=size)
            for path, kind, size in self.entries
        ]


class ToldSurvey(_Answer):
    """The end of a snapshot."""

    stamps: dict[_Storable, tuple[_Whole, _Stamp, _Stamp]]
    skipped: object
    modes: object
    folders: list[_Storable]

    def found(self) -> dict[str, FileStamp]:
        """Return the stamps of the files."""
        return {
            path: FileStamp(size_bytes=size, changed_ns=changed_ns, inode=inode)
            for path, (size, changed_ns, inode) in self.stamps.items()
        }


class ToldRefusals(_Answer):
    """What was refused inside since it was last asked, and which system calls."""

    refused: dict[Counted, _Whole]
    calls: dict[Annotated[str, Field(max_length=80), BeforeValidator(_mended)], _Whole]


class ToldEnd(ToldRefusals):
    """How a command ended."""

    exit_code: _Any
    stdout: _Output
    stderr: _Output
    truncated: bool
    duration_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    out_of_memory: bool


class _Process(_Answer):
    name: Annotated[str, AfterValidator(lambda name: _checked(name, policy.is_process_name))]
    pid: _Whole
    running: bool
    exit_code: _Any | None

    def info(self) -> ProcessInfo:
        return ProcessInfo(name=self.name, pid=self.pid, running=self.running, exit_code=self.exit_code)


class ToldProcess(_Answer):
    """A background process."""

    process: _Process

    def info(self) -> ProcessInfo:
        """Return it as it is told on."""
        return self.process.info()


class ToldProcesses(ToldRefusals):
    """All of them."""

    processes: list[_Process]

    def infos(self) -> list[ProcessInfo]:
        """Return them as they are told on."""
        return [process.info() for process in self.processes]


class ToldOutput(_Answer):
    """The end of what a background process wrote."""

    output: _Output


Told = TypeVar("Told", bound=_Answer)


def _checked(text: str, rule: Callable[[str], bool]) -> str:
    if not rule(text):
        raise ValueError("no such name may be")
    return text


def believed(kind: type[Told], answer: Message) -> Told:
    """Return an answer as what it has to be.

    Raises:
        SandboxError: PROVIDER_ERROR, it is something else.
    """
    try:
        return kind.model_validate(answer)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"][:1]))
        raise SandboxError(
            f"the sandbox answered with nonsense ({where}: {first['type']}); make another and restore the last "
            "checkpoint into it"
        ) from None
