"""Ray's own reading of files that are for it, so that what passes here is what Ray takes.

The functions are those that `ray up`, KubeRay's autoscaler and `serve deploy` call. Two of them are private to Ray; the
tests notice when they move.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
from collections.abc import Mapping
from typing import Any, cast

import click
from jsonschema import exceptions
from pydantic import ValidationError
from ray.autoscaler._private import util as launching
from ray.autoscaler._private.kuberay import autoscaling_config as kuberay

from koda_ray.deploy.defect import Defect
from koda_ray.deploy.schema_check import from_error
from koda_ray.deploy.yaml_tree import Tree

__all__ = ["read_kuberay", "read_launcher", "read_serve"]

_REFUSALS = (
    ValueError, RuntimeError, KeyError, TypeError, AttributeError, AssertionError, ArithmeticError, click.ClickException
)  # fmt: skip
"""What Ray raises for a file that it does not take: it looks for fields without asking whether they are there."""


def read_launcher(tree: Tree) -> tuple[Mapping[str, Any], list[Defect]]:
    """Have a launcher's file read as `ray up` does.

    Returns:
        The file with Ray's defaults in it (empty where Ray refuses it), and why Ray refuses it.
    """
    prepare = cast("Any", launching).prepare_config
    validate = cast("Any", launching).validate_config
    with _quiet():
        try:
            prepared = prepare(copy.deepcopy(tree.value))
            validate(prepared)
        except exceptions.ValidationError as error:
            return {}, [from_error(tree, error)]
        except _REFUSALS as error:
            return {}, [_refused(tree, "ray up", error)]
    return cast("Mapping[str, Any]", prepared), []


def read_kuberay(tree: Tree) -> tuple[Mapping[str, Mapping[str, int]], list[Defect]]:
    """Have a RayCluster's ``spec`` read as KubeRay's autoscaler does.

    Returns:
        What each group offers as the autoscaler counts it (the head is ``headgroup``), and why Ray refuses it.
    """
    derive = cast("Any", kuberay)._derive_autoscaling_config_from_ray_cr
    custom = {"metadata": {"name": "koda", "namespace": "koda"}, "spec": copy.deepcopy(tree.value)}
    with _quiet():
        try:
            config = derive(custom)
        except exceptions.ValidationError as error:
            return {}, [from_error(tree, error)]
        except _REFUSALS as error:
            return {}, [_refused(tree, "KubeRay's autoscaler", error)]
    types = cast("dict[str, dict[str, Any]]", config["available_node_types"])
    return {name: cast("Mapping[str, int]", kind["resources"]) for name, kind in types.items()}, []


def read_serve(tree: Tree) -> list[Defect]:
    """Have a Serve config read as `serve deploy` does; return why it is refused."""
    from ray.serve.schema import ServeDeploySchema

    try:
        ServeDeploySchema.model_validate(tree.value)
    except ValidationError as error:
        return [
            Defect(
                "schema",
                f"{'.'.join(str(key) for key in each['loc']) or 'the document'}: {each['msg']}",
                "correct it as Serve's schema has it",
                tree.line_of(tuple(each["loc"])),
            )
            for each in error.errors(include_url=False)
        ]
    return []


def _refused(tree: Tree, who: str, error: BaseException) -> Defect:
    message = error.message if isinstance(error, click.ClickException) else str(error)
    if isinstance(error, KeyError):
        message = f"{message} is not there"
    return Defect("schema", f"{who} does not take it: {message.strip()}", "correct it as Ray says", tree.line)


@contextlib.contextmanager
def _quiet() -> Any:
    """Keep what Ray prints and logs while it reads away from the report."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)
