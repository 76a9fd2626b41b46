"""The last touches of the API's description: what FastAPI cannot know by itself.

A generated client needs the error document under its media type, the shape of an event, that a key is sent as a
bearer token, and that a part of a video can be asked for. A test makes one and runs the whole job with it.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from koda_ray.serve.problem import PROBLEM_TYPE
from koda_ray.serve.web import is_nowhere, is_page

__all__ = ["describe", "is_public"]

_REF = "#/components/schemas/{model}"
_RANGE = {
    "name": "Range",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "examples": ["bytes=0-1023"]},
    "description": "The bytes to send; all where it is left out",
}
_STALLED = "The body did not come in time"
_PUBLIC = {"/v1/health", "/v1/ready"}
_BY_TOKEN = ("/v1/shares/", "/v1/media/")
"""What is given to whoever has the token of an address: there it is the key."""
_DOCUMENTS = ("/v1/openapi.json", "/docs")


def is_public(path: str) -> bool:
    """Whether an address is for everybody: whether the server works, what its API is, the page, what links show."""
    if path in _PUBLIC or path in _DOCUMENTS or path.startswith(("/docs/", *_BY_TOKEN)):
        return True
    return is_page(path) or is_nowhere(path)


def describe(app: FastAPI, *, extra_models: tuple[type[BaseModel], ...]) -> None:
    """Replace an application's description by a completed one, made on the first request for it.

    Args:
        app: The application, with all its routes.
        extra_models: Models that only streams carry.
    """
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _complete(plain(), extra_models)
        return app.openapi_schema

    app.openapi = openapi


def _complete(schema: dict[str, Any], extra_models: tuple[type[BaseModel], ...]) -> dict[str, Any]:
    components: dict[str, Any] = schema.setdefault("components", {})
    models: dict[str, Any] = components.setdefault("schemas", {})
    for model in extra_models:
        own = model.model_json_schema(by_alias=True, mode="serialization", ref_template=_REF)
        models.update(own.pop("$defs", {}))
        models[model.__name__] = own
    for unused in ("HTTPValidationError", "ValidationError"):
        models.pop(unused, None)
    for model in models.values():
        for field in model.get("properties", {}).values():
            if "contentMediaType" in field:  # of a file that is sent; generators know it by the older word
                field["format"] = "binary"
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "description": "One of KODA_API_KEYS"}}
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            if "requestBody" in operation:
                operation["responses"]["408"] = {"description": _STALLED, "content": {PROBLEM_TYPE: {}}}
            _problems(operation["responses"])
            _streams(operation["responses"])
            if "206" in operation["responses"]:
                operation.setdefault("parameters", []).append(_RANGE)
            if path not in _PUBLIC and not path.startswith(_BY_TOKEN):
                # without a key a request is the local user's, where no keys are set up
                operation["security"] = [{"key": []}, {}]
    return schema


def _problems(responses: dict[str, Any]) -> None:
    """Say that errors come as problem documents: FastAPI writes its own media type beside ours."""
    problem = {PROBLEM_TYPE: {"schema": {"$ref": _REF.format(model="Problem")}}}
    for status, response in responses.items():
        if PROBLEM_TYPE in response.get("content", {}):
            response["content"] = problem
        elif status == "422":
            response.update(description="A value is not valid", content=problem)


def _streams(responses: dict[str, Any]) -> None:
    """Say that a stream is text too: who knows OpenAPI 3.1 only does not know what its items are."""
    for response in responses.values():
        stream = response.get("content", {}).get("text/event-stream")
        if stream is not None:
            item = stream.get("itemSchema", {}).get("$ref", "Envelope").rpartition("/")[2]
            said = f"Server-sent events; each one's data is of the kind {item}"
            stream["schema"] = {"type": "string", "description": said}
