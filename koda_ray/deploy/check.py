"""A cluster's file, whichever kind it is: what kind, and all that is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from koda_ray.deploy.compose import check_compose
from koda_ray.deploy.defect import Defect
from koda_ray.deploy.described import DescribedCluster
from koda_ray.deploy.kuberay import check_kubernetes
from koda_ray.deploy.launcher import check_launcher
from koda_ray.deploy.rules import broken_rules
from koda_ray.deploy.serve_file import check_serve
from koda_ray.deploy.written_secrets import written_secrets
from koda_ray.deploy.yaml_tree import Tree, read_trees
from koda_ray.errors import InvalidInput, NotFound

__all__ = ["Checked", "FileKind", "check_file"]

FileKind = Literal["launcher", "kubernetes", "compose", "serve"]


@dataclass(frozen=True)
class Checked:
    """What was found in a file.

    Args:
        path: The file.
        kind: What kind of file it is.
        defects: What is wrong with it, by line.
    """

    path: Path
    kind: FileKind
    defects: tuple[Defect, ...]

    @property
    def works(self) -> bool:
        """Whether a cluster can be started with it; what is only advised does not count."""
        return all(defect.advice for defect in self.defects)


def check_file(path: Path) -> Checked:
    """Say what is wrong with a file that a cluster is started with.

    Raises:
        NotFound: There is no such file.
        InvalidInput: It is no YAML, or none of the kinds that a cluster is started with.
        Missing: A package that this kind of file takes is not installed.
    """
    try:
        text = path.read_text()
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}") from None
    except (IsADirectoryError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is no file of text ({error.__class__.__name__}): name the YAML file") from None
    try:
        trees = read_trees(text)
    except InvalidInput as error:
        raise InvalidInput(f"{path}:{error.context.get('line', 1)}: {error.message}", context=error.context) from None
    kind = _kind(path, trees)
    cluster, defects = _read(kind, trees)
    if cluster is not None:
        defects += broken_rules(cluster)
    defects += written_secrets(text, trees)
    ordered = sorted(dict.fromkeys(defects), key=lambda defect: (defect.advice, defect.line or 0))
    return Checked(path, kind, tuple(ordered))


def _kind(path: Path, trees: list[Tree]) -> FileKind:
    first = trees[0] if trees else Tree(None, {})
    if first.at("apiVersion") and first.at("kind"):
        return "kubernetes"
    if first.at("cluster_name") or first.at("provider"):
        return "launcher"
    if first.at("services"):
        return "compose"
    if first.at("applications"):
        return "serve"
    raise InvalidInput(
        f"{path} is none of the files that a cluster is started with: Ray's launcher (cluster_name, provider), "
        "Kubernetes (apiVersion, kind), Docker Compose (services), Ray Serve (applications)"
    )


def _read(kind: FileKind, trees: list[Tree]) -> tuple[DescribedCluster | None, list[Defect]]:
    if kind == "kubernetes":
        return check_kubernetes(trees)
    if len(trees) > 1:
        second = trees[1].line
        return None, [Defect("schema", "several documents stand in one file", "keep the first", second)]
    if kind == "serve":
        return None, check_serve(trees[0])
    return check_launcher(trees[0]) if kind == "launcher" else check_compose(trees[0])
