"""E2B's building of templates: what is asked for and uploaded is kept, and a build says how it ends.

What starts from a template that is here is built for real, and is a template then; what starts from an image of some
registry is believed.
"""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from e2b.api.client import models
from e2b.api.client.types import Unset
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.sandbox.e2b_server.built import BuildStep, Failed, build
from tests.sandbox.e2b_server.machine import TemplateImage

__all__ = ["Builds"]


@dataclass
class _Build:
    name: str
    template: str
    id: str
    status: str = "waiting"
    words: list[str] = field(default_factory=list[str])


@dataclass
class Builds:
    """Templates that are built.

    Args:
        url: Where this server answers.
        error: What a build ends with; None for a good end.
        images: The templates that there are, by name.
        folder: Where machines lie that build, and what they built.
    """

    url: str
    error: str | None = None
    images: MutableMapping[str, TemplateImage] = field(default_factory=dict[str, TemplateImage])
    folder: Path = Path()
    asked: models.TemplateBuildRequestV3 | None = None
    started: models.TemplateBuildStartV2 | None = None
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    uploads: int = 0
    builds: dict[str, _Build] = field(default_factory=dict[str, _Build])
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def routes(self) -> list[Route]:
        """Return what the server answers."""
        build_path = "/templates/{template}/builds/{build}"
        return [
            Route("/v3/templates", self._request, methods=["POST"]),
            Route("/templates/aliases/{alias}", self._alias, methods=["GET"]),
            Route("/templates/{template}", self._delete, methods=["DELETE"]),
            Route("/templates/{template}/files/{key}", self._link, methods=["GET"]),
            Route("/upload/{key}", self._upload, methods=["PUT"]),
            Route(f"/v2{build_path}", self._start, methods=["POST"]),
            Route(f"{build_path}/status", self._status, methods=["GET"]),
        ]

    def names(self, key: str) -> set[str]:
        """Return the files of an upload."""
        with tarfile.open(fileobj=io.BytesIO(self.files[key])) as archive:
            return set(archive.getnames())

    async def close(self) -> None:
        """Wait for what is being built."""
        await asyncio.gather(*self.tasks)

    async def _request(self, request: Request) -> Response:
        self.asked = models.TemplateBuildRequestV3.from_dict(await request.json())
        number, name = next(self._numbers), str(self.asked.name)
        made = _Build(name, f"tpl{number}", f"00000000-0000-4000-8000-{number:012}")
        self.builds[made.id] = made
        answer = models.TemplateRequestResponseV3(
            aliases=[name], build_id=made.id, names=[name], public=False, tags=["default"], template_id=made.template
        )
        return JSONResponse(answer.to_dict(), status_code=202)

    async def _alias(self, request: Request) -> Response:
        if request.path_params["alias"] not in self.images:
            return JSONResponse(models.Error(code=404, message="Template alias not found").to_dict(), 404)
        return JSONResponse(models.TemplateAliasResponse(template_id="tpl", public=False).to_dict())

    async def _delete(self, request: Request) -> Response:
        wanted = request.path_params["template"]
        if self.images.pop(wanted, None) is None:
            return JSONResponse(models.Error(code=404, message=f"template {wanted} not found").to_dict(), 404)
        return Response(status_code=204)

    async def _link(self, request: Request) -> Response:
        key = request.path_params["key"]
        answer = models.TemplateBuildFileUpload(present=key in self.files, url=f"{self.url}/upload/{key}")
        return JSONResponse(answer.to_dict(), status_code=201)

    async def _upload(self, request: Request) -> Response:
        self.files[request.path_params["key"]] = await request.body()
        self.uploads += 1
        return Response()

    async def _start(self, request: Request) -> Response:
        self.started = models.TemplateBuildStartV2.from_dict(await request.json())
        made = self.builds[request.path_params["build"]]
        if isinstance(self.started.from_template, Unset):
            made.words.append("RUN apt-get")
            made.status = "ready"
        else:
            made.status = "building"
            task = asyncio.create_task(self._build(made, self.started))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        return Response(status_code=202)

    async def _build(self, made: _Build, asked: models.TemplateBuildStartV2) -> None:
        try:
            base = self.images[str(asked.from_template)]
            steps = [] if isinstance(asked.steps, Unset) else [self._step(step) for step in asked.steps]
            folder = self.folder / made.template
            self.images[made.name] = await build(base, [step for step in steps if step is not None], folder)
            made.status = "ready"
        except (Failed, KeyError) as error:
            made.words.append(str(error))
            made.status = "error"

    def _step(self, step: models.TemplateStep) -> BuildStep | None:
        args = [] if isinstance(step.args, Unset) else step.args
        match step.type_:
            case "RUN":
                return BuildStep(command=args[0])
            case "COPY":
                return BuildStep(archive=self.files[str(step.files_hash)], source=args[0], target=args[1])
            case _:
                return None

    async def _status(self, request: Request) -> Response:
        made = self.builds[request.path_params["build"]]
        words = made.words[int(request.query_params.get("logsOffset", "0")) :]
        entries = [{"timestamp": "2026-01-01T00:00:00Z", "message": word, "level": "info"} for word in words]
        status = made.status if self.error is None else "error"
        answer = {"templateID": made.template, "buildID": made.id, "status": status, "logs": [], "logEntries": entries}
        if status == "error":
            answer["reason"] = {"message": self.error or made.words[-1]}
        return JSONResponse(models.TemplateBuildInfo.from_dict(answer).to_dict())
