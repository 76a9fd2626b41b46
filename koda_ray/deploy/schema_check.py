"""JSON schemas: whether a file has the shape that its reader expects, with the line of what has not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from jsonschema import exceptions, validators

from koda_ray.deploy.defect import Defect
from koda_ray.deploy.yaml_tree import Keys, Tree
from koda_ray.errors import Missing

__all__ = ["broken_kubernetes", "broken_schema", "from_error"]

_FOLDER = Path(__file__).parent / "schemas"
_LONGEST = 240


def broken_schema(tree: Tree, name: str) -> list[Defect]:
    """Return where a document does not have the shape of a schema.

    Args:
        tree: The document.
        name: The schema's file, without its ending.
    """
    schema = json.loads((_FOLDER / f"{name}.json").read_text())
    kind = cast("Any", validators).validator_for(schema)
    return [from_error(tree, error) for error in _worst(kind(schema).iter_errors(tree.value))]


def broken_kubernetes(tree: Tree, *, wrapped: tuple[str, str] | None = None) -> list[Defect]:
    """Return where an object is not as Kubernetes describes it, which refuses fields that it does not know.

    Args:
        tree: The object, or a part of one.
        wrapped: For a part: the kind (of ``v1``) that has such a part, and its field there.

    Raises:
        Missing: The package with Kubernetes' schemas is not installed.
    """
    try:
        validate = cast("Any", import_module("kubernetes_validate"))
    except ImportError:
        raise Missing(
            "checking Kubernetes objects needs Kubernetes' own schemas: pip install 'koda-ray[kubernetes]'"
        ) from None
    value: object = tree.value
    if wrapped is not None:
        kind, field = wrapped
        value = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "part"}, field: tree.value}
    try:
        validate.validate(value, validate.latest_version(), strict=True)
    except validate.SchemaNotFoundError as error:
        return [Defect("schema", str(error.message), "correct apiVersion and kind", tree.line)]
    except exceptions.ValidationError as error:
        return [from_error(tree, error, below=0 if wrapped is None else 1)]
    return []


def from_error(tree: Tree, error: Any, *, below: int = 0) -> Defect:
    """Say what a schema's reader found wrong.

    Args:
        tree: What was read.
        error: A ``jsonschema.ValidationError``.
        below: How many keys of the error's path lie above the tree.
    """
    keys: Keys = tuple(cast("Sequence[str | int]", error.absolute_path))[below:]
    if error.validator == "additionalProperties":
        known = cast("dict[str, object]", error.schema.get("properties", {}))
        extra = [name for name in cast("dict[str, object]", error.instance) if name not in known]
        keys = (*keys, *extra[:1])
    where = ".".join(str(key) for key in keys) or "the document"
    message = str(error.message)
    if len(message) > _LONGEST:
        message = f"{message[:_LONGEST]} ..."
    return Defect("schema", f"{where}: {message}", "correct it as the schema has it", tree.line_of(keys))


def _worst(errors: Iterable[Any]) -> list[Any]:
    """For each place that is wrong, of several shapes that it might have, the one that it comes closest to."""
    match = cast("Any", exceptions).best_match
    return sorted((match([error]) for error in errors), key=lambda error: [str(key) for key in error.absolute_path])
