"""What live previews need of a cluster's files: an origin of their own, which leads to the one process for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from koda_ray.config import Settings
from koda_ray.deploy.defect import Defect
from koda_ray.deploy.described import NodeGroup
from koda_ray.deploy.yaml_tree import Tree
from koda_ray.resources import SESSION_RESOURCE

__all__ = ["PREVIEWS", "preview_application", "previews_on_kubernetes"]

PREVIEWS = "koda_ray.serve.deployed:previews"
"""The application that shows them, by its ``import_path``."""
_ORIGIN, _PORT = "KODA_PREVIEW_ORIGIN", "KODA_PREVIEW_PORT"


def preview_application(serve: Tree) -> Iterator[Defect]:
    """Return what is wrong with previews in a Serve config."""
    application = _application(serve)
    if application is None:
        yield Defect(
            "previews",
            "nothing here shows live previews",
            f"add an application with import_path: {PREVIEWS}, where they have an origin of their own ({_ORIGIN})",
            serve.line_of(("applications",)),
            advice=True,
        )
        return
    for deployment in application.at("deployments").items():
        replicas = deployment.at("num_replicas")
        if (replicas.number or 1) != 1 or deployment.at("autoscaling_config"):
            line = replicas.line if replicas else deployment.at("autoscaling_config").line
            yield Defect(
                "previews",
                "previews are shown by several processes, and what a page was given is known to one of them",
                "write num_replicas: 1 for its deployment showing",
                line,
            )


def previews_on_kubernetes(serve: Tree, groups: Sequence[NodeGroup], trees: Sequence[Tree]) -> Iterator[Defect]:
    """Return what previews lack on Kubernetes: nothing where they are not served."""
    if _application(serve) is None:
        return
    for group in groups:
        if group.resources.get(SESSION_RESOURCE, 0) > 0 and group.says(_ORIGIN) is None and not group.reads_more:
            yield Defect(
                "previews",
                f"{group.name!r} does not know the origin of live previews, which do not start without it",
                f"set {_ORIGIN} to an origin that nothing else has, or leave the application previews out",
                group.line,
            )
    said = {name: group.says(name) for group in groups for name in (_ORIGIN, _PORT) if group.says(name) is not None}
    port = _port(said.get(_PORT))
    origin = said.get(_ORIGIN)
    services = [tree for tree in trees if tree.at("kind").value == "Service" and _leads_to(tree, port)]
    if not services:
        yield Defect(
            "previews",
            f"nothing leads to port {port} of the nodes, where live previews are shown",
            f"add a Service that selects the nodes with sessions, with port {port}",
        )
    elif origin is not None and origin.value is not None:
        host = urlsplit(str(origin.value)).hostname
        ingresses = [tree for tree in trees if tree.at("kind").value == "Ingress"]
        if ingresses and host not in {rule.at("host").text for each in ingresses for rule in _rules(each, services)}:
            yield Defect(
                "previews",
                f"no ingress leads from {host} to {services[0].at('metadata', 'name').text}",
                f"write host: {host} for its rule, or another {_ORIGIN}",
                origin.line,
            )
    yield from _let_in(port, trees)


def _let_in(port: int, trees: Sequence[Tree]) -> Iterator[Defect]:
    """Whoever lets an ingress in to Serve's port has to let it in to the other one."""
    for policy in (tree for tree in trees if tree.at("kind").value == "NetworkPolicy"):
        for rule in policy.at("spec", "ingress").items():
            ports = {each.at("port").number for each in rule.at("ports").items()}
            has_ingress = any("ingress" in (each.text or "") for each in rule.at("from").scalars())
            if has_ingress and ports and port not in ports:
                yield Defect(
                    "previews",
                    f"the network policy {policy.at('metadata', 'name').text!r} keeps an ingress from port {port}",
                    f"add {{port: {port}, protocol: TCP}}",
                    rule.at("ports").line,
                )


def _application(serve: Tree) -> Tree | None:
    found = (each for each in serve.at("applications").items() if each.at("import_path").text == PREVIEWS)
    return next(found, None)


def _port(said: object) -> int:
    value = getattr(said, "value", None)
    usual = Settings.model_fields["preview_port"].default
    return int(value) if value is not None and str(value).isdigit() else int(usual)


def _leads_to(service: Tree, port: int) -> bool:
    ports = service.at("spec", "ports").items()
    return any((each.at("targetPort").number or each.at("port").number) == port for each in ports)


def _rules(ingress: Tree, services: Sequence[Tree]) -> list[Tree]:
    """The rules of an ingress that lead to one of these services."""
    names = {service.at("metadata", "name").text for service in services}
    return [
        rule
        for rule in ingress.at("spec", "rules").items()
        if any(path.at("backend", "service", "name").text in names for path in rule.at("http", "paths").items())
    ]
