"""What a canvas has to know of an agent before it can show it as a node: its handles, settings, phases and needs.

One definition for everybody: the server gives it away (`GET /v1/plugins`), and the npm package has it as
`web/node/src/animation-generator.ts`, which ``python -m koda_ray.plugins`` writes. Bounds and choices are taken from
the models that requests are checked by, so that a node offers what the server takes.
"""

from __future__ import annotations

import json
import sys
from typing import Literal, get_args

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

from koda_ray.types import Model, Phase, RenderOptions, SessionOptions
from koda_ray.video_formats import PLAYED_FORMATS

__all__ = [
    "ANIMATION_GENERATOR",
    "AgentCapability",
    "AgentPlugin",
    "AgentService",
    "HandleType",
    "ModalConfig",
    "NodeRendering",
    "NodeSize",
    "PersistentSandbox",
    "PhaseDefinition",
    "PluginAuthor",
    "PluginHandle",
    "PluginHandles",
    "PluginList",
    "PluginSetting",
    "SandboxResources",
    "animation_generator",
    "written",
]

AgentCapability = Literal[
    "canvas:read",
    "canvas:create",
    "canvas:connect",
    "canvas:group",
    "canvas:modify",
    "storage:upload",
    "storage:download",
    "sandbox:persistent",
]
"""What a plugin may do to the canvas around it, and what it keeps."""

AgentService = Literal["ai", "e2b", "theatre-sandbox", "render", "storage", "external-api"]
"""What a plugin needs behind it."""

HandleType = Literal["text", "image", "video", "audio", "media", "json", "any"]
"""What goes through a handle; ``media`` is a picture, a video or a sound."""


class PluginAuthor(Model):
    """Who made a plugin."""

    type: Literal["official", "community"]
    name: str
    verified: bool


class NodeSize(Model):
    """How large a node is at first, in pixels of the canvas."""

    width: int = Field(gt=0)
    height: int | Literal["auto"]


class NodeRendering(Model):
    """How a plugin is shown: as a node by a component of that name, or in a window."""

    mode: Literal["node", "modal"]
    component: str
    default_size: NodeSize | None = None
    resizable: bool = False
    collapsible: bool = False


class ModalConfig(Model):
    """The window of a plugin that is shown in one."""

    size: Literal["small", "medium", "large", "fullscreen"]
    title: str


class SandboxResources(Model):
    """What a sandbox may use: ``cpu`` in processors, ``memory`` as a number with its unit: ``2048MB``.

    What is None, the machine decides that the sandbox is on.
    """

    cpu: float | None = Field(default=None, gt=0)
    memory: str | None = None


class PersistentSandbox(Model):
    """The sandbox that a plugin's work lives in; times in seconds.

    ``timeout`` is how long one lives before it is saved and replaced, ``checkpoint_interval`` how often it is saved at
    the least while something is going on, and ``idle_timeout`` after how long without that it is saved and ended.
    """

    type: Literal["theatre", "code", "e2b-browser"]
    template: str
    timeout: int
    checkpoint_interval: float
    idle_timeout: float
    resources: SandboxResources | None = None


class PhaseDefinition(Model):
    """A phase as a canvas shows it.

    ``terminal`` ends the work unless somebody asks for more, ``skippable`` is left out by agents that need no answer,
    ``requires_approval`` waits for a person, ``show_progress`` has steps to follow.
    """

    id: Phase
    label: str
    initial: bool = False
    terminal: bool = False
    skippable: bool = False
    requires_approval: bool = False
    show_progress: bool = False


class PluginHandle(Model):
    """Where an edge ends or begins; ``multiple`` takes more than one."""

    id: str
    name: str
    type: HandleType
    required: bool = False
    optional: bool = False
    multiple: bool = False


class PluginHandles(Model):
    """What comes into a node, and what goes out of it."""

    inputs: tuple[PluginHandle, ...]
    outputs: tuple[PluginHandle, ...]


class PluginSetting(Model):
    """Something to choose before the work begins. ``id`` is its place in the body of `POST /v1/sessions`.

    A choice is one of ``options``; a number lies within ``minimum`` and ``maximum``. ``default`` is what holds where
    nothing is chosen; None leaves it to the agents.
    """

    id: str
    name: str
    type: Literal["number", "choice"]
    unit: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    options: tuple[str | int, ...] = ()
    default: str | int | None = None


class AgentPlugin(Model):
    """An agent that a canvas shows: as a node, whose ``handles`` edges lead to, or in a window (``modal_config``)."""

    id: str
    name: str
    description: str
    icon: str
    category: Literal["generation", "analysis", "transform"]
    type: Literal["agent"]
    version: str
    author: PluginAuthor
    visibility: Literal["public", "private"]
    rendering: NodeRendering
    modal_config: ModalConfig | None = None
    capabilities: tuple[AgentCapability, ...]
    services: tuple[AgentService, ...]
    sandbox_config: PersistentSandbox | None = None
    phases: tuple[PhaseDefinition, ...] = ()
    handles: PluginHandles | None = None
    settings: tuple[PluginSetting, ...] = ()


class PluginList(Model):
    """The plugins that a server has."""

    plugins: tuple[AgentPlugin, ...]


def _field(model: type[BaseModel], name: str) -> FieldInfo:
    return model.model_fields[name]


def _choice(
    id_: str, name: str, model: type[BaseModel], *, unit: str | None = None, only: tuple[str, ...] | None = None
) -> PluginSetting:
    """Return a setting whose options are those of a field, given by the last part of its id; or only some of them."""
    field = _field(model, id_.rpartition(".")[2])
    plain = next((each for each in get_args(field.annotation) if get_args(each)), field.annotation)
    return PluginSetting(
        id=id_, name=name, type="choice", unit=unit, options=only or get_args(plain), default=field.get_default()
    )


def _number(id_: str, name: str, model: type[BaseModel], *, unit: str) -> PluginSetting:
    """Return a setting that is bounded as a field is."""
    bounds = {
        bound: getattr(each, bound)
        for each in _field(model, id_.rpartition(".")[2]).metadata
        for bound in ("ge", "le")
        if hasattr(each, bound)
    }
    return PluginSetting(id=id_, name=name, type="number", unit=unit, minimum=bounds["ge"], maximum=bounds["le"])


def animation_generator(sandbox: PersistentSandbox) -> AgentPlugin:
    """Return the animation node's definition, with sandboxes as a deployment has them."""
    return AgentPlugin(
        id="animation-generator",
        name="Animation Generator",
        description="A sentence becomes an animation: planned, written and rendered by agents, and changed in words",
        icon="🎬",
        category="generation",
        type="agent",
        version="1.0.0",
        author=PluginAuthor(type="official", name="koda", verified=True),
        visibility="public",
        rendering=NodeRendering(
            mode="node",
            component="AnimationNode",
            default_size=NodeSize(width=420, height="auto"),
            resizable=True,
            collapsible=True,
        ),
        capabilities=("canvas:read", "storage:upload", "sandbox:persistent"),
        services=("ai", "theatre-sandbox", "render", "storage"),
        sandbox_config=sandbox,
        phases=(
            PhaseDefinition(id="idle", label="Ready", initial=True),
            PhaseDefinition(id="question", label="Question", skippable=True),
            PhaseDefinition(id="plan", label="Plan", requires_approval=True),
            PhaseDefinition(id="executing", label="Making it", show_progress=True),
            PhaseDefinition(id="preview", label="Preview", requires_approval=True),
            PhaseDefinition(id="complete", label="Finished", terminal=True),
            PhaseDefinition(id="error", label="Stopped", terminal=True),
        ),
        handles=PluginHandles(
            inputs=(
                PluginHandle(id="prompt", name="Prompt", type="text", required=True),
                PluginHandle(id="style", name="Style", type="text", optional=True),
                PluginHandle(id="assets", name="Assets", type="media", optional=True, multiple=True),
            ),
            outputs=(
                PluginHandle(id="video", name="Video", type="video"),
                PluginHandle(id="thumbnail", name="Thumbnail", type="image"),
            ),
        ),
        settings=(
            _number("options.duration", "Length", SessionOptions, unit="s"),
            _choice("options.aspect", "Shape", SessionOptions),
            _number("options.fps", "Frames per second", SessionOptions, unit="fps"),
            _choice("render.resolution", "Size of the video", RenderOptions),
            _choice("render.fps", "Frames per second of the video", RenderOptions, unit="fps"),
            _choice("render.format", "Format of the video", RenderOptions, only=PLAYED_FORMATS),
        ),
    )


ANIMATION_GENERATOR = animation_generator(
    PersistentSandbox(
        type="theatre",
        template="koda/animation-sandbox:latest",
        timeout=1800,
        checkpoint_interval=30.0,
        idle_timeout=300.0,
        resources=SandboxResources(memory="2048MB"),
    )
)
"""The animation node, with sandboxes as they are where nothing is set."""


def written() -> str:
    """Return the definition as the npm package has it."""
    told = ANIMATION_GENERATOR.model_dump(mode="json", by_alias=True, exclude_none=True)
    return (
        "/** Written by `python -m koda_ray.plugins`, whose definition it is; not by hand. */\n"
        "import type { CanvasAgent } from './plugin';\n\n"
        f"export const animationGeneratorPlugin: CanvasAgent = {json.dumps(told, indent=2, ensure_ascii=False)};\n"
    )


if __name__ == "__main__":
    sys.stdout.write(written())
