"""Serve config files: what Ray Serve runs, and how many of it where."""

from __future__ import annotations

from koda_ray.deploy.defect import Defect
from koda_ray.deploy.preview_rules import preview_application
from koda_ray.deploy.ray_reads import read_serve
from koda_ray.deploy.yaml_tree import Tree

__all__ = ["APPLICATIONS", "check_serve", "port_of"]

_API = "koda_ray.serve.deployed:api"
APPLICATIONS = {_API: "answers requests", "koda_ray.serve.deployed:janitor": "wakes what waits"}
"""What has to be served, by its ``import_path``."""
_REPLICAS = 2
_BEAT_S = 60


def check_serve(tree: Tree) -> list[Defect]:
    """Return what is wrong with a Serve config."""
    return [
        *read_serve(tree), *_applications(tree), *_replicas(tree), *_http(tree), *preview_application(tree),
    ]  # fmt: skip


def port_of(tree: Tree) -> int:
    """The port on which Serve's proxies listen."""
    return int(tree.at("http_options", "port").number or 8000)


def _applications(tree: Tree) -> list[Defect]:
    named = {each.at("import_path").text for each in tree.at("applications").items()}
    line = tree.line_of(("applications",))
    return [
        Defect("serve", f"nothing here {does}", f"add an application with import_path: {path}", line)
        for path, does in APPLICATIONS.items()
        if path not in named
    ]


def _replicas(tree: Tree) -> list[Defect]:
    found: list[Defect] = []
    for application in tree.at("applications").items():
        if application.at("import_path").text != _API:
            continue
        api = next((each for each in application.at("deployments").items() if each.at("name").text == "api"), None)
        place = application if api is None else api
        replicas = place.at("num_replicas")
        least = place.at("autoscaling_config", "min_replicas") if place.at("autoscaling_config") else replicas
        if (least.number or 1) < _REPLICAS:
            found.append(
                Defect(
                    "replicas",
                    f"the API has {least.text or '1'} replica, and nobody answers while its node is replaced",
                    f"write num_replicas: {_REPLICAS} for its deployment api",
                    least.line,
                )
            )
        if place.at("max_replicas_per_node").number != 1:
            found.append(
                Defect(
                    "replicas",
                    "replicas of the API may stand on one node, and go with it",
                    "write max_replicas_per_node: 1 for its deployment api",
                    place.at("max_replicas_per_node").line,
                )
            )
    return found


def _http(tree: Tree) -> list[Defect]:
    found: list[Defect] = []
    location = tree.at("proxy_location")
    if location and location.text != "EveryNode":
        found.append(
            Defect(
                "serve",
                f"proxies are at {location.text}, so requests end with that node",
                "write proxy_location: EveryNode: a proxy on each node that has a replica",
                location.line,
            )
        )
    limit = tree.at("http_options", "request_timeout_s")
    if limit and (limit.number or 0) < _BEAT_S:
        found.append(
            Defect(
                "serve",
                f"a request is ended after {limit.text} s, and events are followed for as long as somebody looks",
                "leave request_timeout_s out, or write null",
                limit.line,
            )
        )
    return found
