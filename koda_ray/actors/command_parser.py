"""From a command's name and body, as they come over the wire, to a phase command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from koda_ray import commands
from koda_ray.errors import InvalidInput
from koda_ray.state.past import UNDO
from koda_ray.state.records import CommandRecord
from koda_ray.types import Budget, Note, Owes, RenderOptions, SceneEdit, SessionPermissions, new_id
from koda_ray.wrong_values import in_our_words

__all__ = ["COMMAND_NAMES", "command_of", "parse_command"]


class _Body(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class _Nothing(_Body):
    pass


class _Start(_Body):
    prompt: str | None = None


class _Answer(_Body):
    option_id: str | None = None
    text: str | None = None


class _Feedback(_Body):
    feedback: str = ""


class _Changes(_Feedback):
    notes: tuple[Note, ...] = ()


class _Text(_Body):
    text: str = ""
    notes: tuple[Note, ...] = ()


class _Approve(_Body):
    approval_id: str
    arguments: dict[str, JsonValue] | None = None


class _Refuse(_Body):
    approval_id: str
    reason: str = ""


class _Cancel(_Body):
    owes: Owes | None = None
    job_id: str = ""


class _TakeBack(_Body):
    id: str


class _EditPlan(_Body):
    scenes: tuple[SceneEdit, ...]


class _Rewind(_Body):
    to: str | None = None
    undo: bool = False


def _rewind(body: Mapping[str, JsonValue]) -> commands.Rewind:
    said = _Rewind.model_validate(body)
    if said.undo == (said.to is not None):
        raise InvalidInput(
            "rewind: say either where to (to: a message, a checkpoint, a head or a version) or undo", context={}
        )
    return commands.Rewind(UNDO if said.undo else str(said.to))


def _changes(said: _Changes) -> commands.Command:
    return commands.RequestChanges(said.feedback, said.notes)


def _message(said: _Text) -> commands.Command:
    return commands.Say(said.text, said.notes)


def _render(body: Mapping[str, JsonValue]) -> commands.Command:
    return commands.Render(RenderOptions.model_validate(body), new_id("job"))


_PARSERS: dict[str, Callable[[Mapping[str, JsonValue]], commands.Command | commands.Rewind]] = {
    "start": lambda body: commands.Start(_Start.model_validate(body).prompt),
    "answer": lambda body: commands.Answer(**_Answer.model_validate(body).model_dump()),
    "accept": lambda body: (_Nothing.model_validate(body), commands.Accept(new_id("job")))[1],
    "reject": lambda body: commands.Reject(_Feedback.model_validate(body).feedback),
    "changes": lambda body: _changes(_Changes.model_validate(body)),
    "plan": lambda body: commands.EditPlan(_EditPlan.model_validate(body).scenes),
    "message": lambda body: _message(_Text.model_validate(body)),
    "takeback": lambda body: commands.TakeBack(_TakeBack.model_validate(body).id),
    "cancel": lambda body: commands.Cancel(**_Cancel.model_validate(body).model_dump()),
    "retry": lambda body: (_Nothing.model_validate(body), commands.Retry())[1],
    "render": _render,
    "approve": lambda body: commands.Approve(**_Approve.model_validate(body).model_dump()),
    "refuse": lambda body: commands.Refuse(**_Refuse.model_validate(body).model_dump()),
    "permissions": lambda body: commands.SetPermissions(SessionPermissions.model_validate(body)),
    "rewind": _rewind,
    "budget": lambda body: commands.Allow(Budget.model_validate(body)),
}
COMMAND_NAMES = tuple(_PARSERS)


def command_of(asked: CommandRecord) -> commands.Command | commands.Rewind:
    """Read a recorded command; raises as `parse_command`."""
    command = parse_command(asked.name, asked.body)
    return replace(command, id=asked.id) if isinstance(command, commands.Say) else command


def parse_command(name: str, body: Mapping[str, JsonValue]) -> commands.Command | commands.Rewind:
    """Read a person's command.

    Raises:
        InvalidInput: Unknown name, or a body that does not fit; the message names the field.
    """
    parser = _PARSERS.get(name)
    if parser is None:
        raise InvalidInput(f"no command {name!r}; the commands are: {', '.join(COMMAND_NAMES)}")
    try:
        return parser(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "body"
        wrong = in_our_words(first) or first["msg"]
        raise InvalidInput(f"{name}: {where}: {wrong}", context={"field": where}) from None
