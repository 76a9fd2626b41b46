"""KubeRay's objects, with what stands beside them: what a file for Kubernetes describes, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from koda_ray.deploy.amounts import bytes_in
from koda_ray.deploy.defect import Defect
from koda_ray.deploy.described import DescribedCluster, NodeGroup, Stated
from koda_ray.deploy.kuberay_rules import own_rules
from koda_ray.deploy.preview_rules import previews_on_kubernetes
from koda_ray.deploy.ray_reads import read_kuberay
from koda_ray.deploy.schema_check import broken_kubernetes, broken_schema
from koda_ray.deploy.serve_file import check_serve, port_of
from koda_ray.deploy.yaml_tree import Tree, read_trees
from koda_ray.errors import InvalidInput

__all__ = ["check_kubernetes"]

_HEAD = "headgroup"
_GRACE_S = 30.0
_OVERWRITES = "ray.io/overwrite-container-cmd"
_SPOT_LABELS = {
    "karpenter.sh/capacity-type": "spot",
    "eks.amazonaws.com/capacityType": "SPOT",
    "cloud.google.com/gke-spot": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
}


@dataclass(frozen=True)
class _Objects:
    """The objects of a file.

    Args:
        cluster: The RayCluster, or a RayService's.
        service: The RayService, if it is one.
        all: All of them.
    """

    cluster: Tree
    service: Tree | None
    all: Sequence[Tree]


def check_kubernetes(trees: Sequence[Tree]) -> tuple[DescribedCluster | None, list[Defect]]:
    """Read the objects of a file: the cluster that they describe, if it can be read, and what is wrong with them.

    Raises:
        Missing: The package with Kubernetes' schemas is not installed.
    """
    objects, found = _objects(trees)
    found += [defect for tree in trees for defect in _shape(tree)]
    if objects is None or any(defect.rule == "schema" for defect in found):
        return None, found
    offered, refused = read_kuberay(objects.cluster)
    if refused:
        return None, [*found, *refused]
    config = _serve_config(objects)
    groups = tuple(_groups(objects, offered))
    cluster = DescribedCluster(
        groups=groups,
        offer="""resources: {{{name}: "8"}} in its group""",
        no_work="""write resources: {CPU: "0"} in headGroupSpec""",
        versions=(Stated(objects.cluster.at("rayVersion").text, objects.cluster.at("rayVersion").line),),
        token=Stated(objects.cluster.at("authOptions", "mode").text, objects.cluster.at("authOptions", "mode").line),
        health=tuple(_health(objects, config)) if objects.service is not None else None,
    )
    found += own_rules(objects.cluster, trees)
    if config is not None:
        found += previews_on_kubernetes(config, groups, trees)
    return cluster, [*found, *_served(objects, config)]


def _objects(trees: Sequence[Tree]) -> tuple[_Objects | None, list[Defect]]:
    kinds = {str(tree.at("kind").value): tree for tree in trees}
    if "RayService" in kinds:
        service = kinds["RayService"]
        return _Objects(service.at("spec", "rayClusterConfig"), service, trees), []
    if "RayCluster" in kinds:
        return _Objects(kinds["RayCluster"].at("spec"), None, trees), []
    lacking = Defect("kubernetes", "no RayService stands in this file", "check the file that has it", trees[0].line)
    return None, [lacking]


def _shape(tree: Tree) -> Iterator[Defect]:
    kind = tree.at("kind").value
    if kind not in ("RayService", "RayCluster"):
        yield from broken_kubernetes(tree)
        return
    if kind == "RayService":
        yield from broken_schema(tree, "ray-service")
    spec = tree.at("spec", "rayClusterConfig") if kind == "RayService" else tree.at("spec")
    if kind == "RayCluster":
        yield from broken_schema(_as_service(tree), "ray-service")
    for group in (spec.at("headGroupSpec"), *spec.at("workerGroupSpecs").items()):
        yield from broken_kubernetes(group.at("template"), wrapped=("PodTemplate", "template"))


def _as_service(tree: Tree) -> Tree:
    """A RayCluster as the service that would make it: KubeRay describes both alike."""
    value = {"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": tree.at("metadata").value,
             "spec": {"rayClusterConfig": tree.at("spec").value}}  # fmt: skip
    return Tree(value, {})


def _groups(objects: _Objects, offered: Mapping[str, Mapping[str, int]]) -> Iterator[NodeGroup]:
    head = objects.cluster.at("headGroupSpec")
    yield _group(_HEAD, head, offered[_HEAD], objects)
    for spec in objects.cluster.at("workerGroupSpecs").items():
        name = spec.at("groupName").text or ""
        yield _group(name, spec, offered[name], objects)


def _group(name: str, spec: Tree, offered: Mapping[str, int], objects: _Objects) -> NodeGroup:
    pod = spec.at("template", "spec")
    container = pod.at("containers", 0)
    resources = dict(offered)
    cpus, memory = resources.pop("CPU", None), resources.pop("memory", None)
    resources.pop("GPU", None)
    grace = pod.at("terminationGracePeriodSeconds")
    image = container.at("image")
    environment, reads_more = _environment(container, objects)
    metadata = (
        spec.at("template", "metadata", "annotations"),
        *(tree.at("metadata", "annotations") for tree in objects.all),
    )
    overwritten = next((each for each in metadata if each.at(_OVERWRITES).text == "true"), None)
    store = spec.at("rayStartParams", "object-store-memory")
    return NodeGroup(
        name="head" if name == _HEAD else name,
        line=spec.line,
        head=name == _HEAD,
        resources=resources,
        cpus=cpus,
        memory_bytes=memory,
        image=Stated(image.text, image.line),
        environment=environment,
        reads_more=reads_more,
        spot=_is_spot(pod),
        from_zero=name != _HEAD and not spec.at("minReplicas").number,
        grace_s=Stated(_GRACE_S if grace.number is None else grace.number, grace.line),
        store_bytes=store.number,
        shm_bytes=_shm(pod, container),
        open_files=Stated(None, overwritten.line) if overwritten is not None else None,
        lacking=_lacking(pod, container),
        privileged=_privileged(container),
    )  # fmt: skip


def _environment(container: Tree, objects: _Objects) -> tuple[dict[str, Stated], bool]:
    """What is set in a container, and whether it also reads what stands in no file."""
    found: dict[str, Stated] = {}
    maps = {tree.at("metadata", "name").text: tree for tree in objects.all if tree.at("kind").value == "ConfigMap"}
    reads_more = False
    for source in container.at("envFrom").items():
        named = maps.get(source.at("configMapRef", "name").text) if source.at("configMapRef") else None
        reads_more |= named is None and not source.at("configMapRef", "optional").value
        if named is not None:
            found |= {name: Stated(value.text, value.line) for name, value in named.at("data").fields().items()}
    for variable in container.at("env").items():
        value = variable.at("value").text
        found[variable.at("name").text or ""] = Stated(value, variable.line, elsewhere=value is None)
    return found, reads_more


def _shm(pod: Tree, container: Tree) -> Stated | None:
    """What is mounted there by hand; None where KubeRay does it, with as much as the container has memory."""
    mount = next(
        (each for each in container.at("volumeMounts").items() if each.at("mountPath").text == "/dev/shm"), None
    )
    if mount is None:
        return None
    volume = next((each for each in pod.at("volumes").items() if each.at("name").value == mount.at("name").value), None)
    if volume is None or volume.at("emptyDir", "medium").text != "Memory":
        return Stated(0.0, mount.line)
    size = volume.at("emptyDir", "sizeLimit")
    return Stated(bytes_in(size.text, kubernetes=True), size.line) if size else None


def _lacking(pod: Tree, container: Tree) -> tuple[str, ...]:
    def says(*keys: str) -> object:
        return (container.at("securityContext", *keys) or pod.at("securityContext", *keys)).value

    if says("privileged") is True:
        return ()
    lacking: list[str] = []
    if says("seccompProfile", "type") != "Unconfined":
        lacking.append("securityContext: {seccompProfile: {type: Unconfined}}")
    if says("appArmorProfile", "type") != "Unconfined":
        lacking.append("securityContext: {appArmorProfile: {type: Unconfined}}")
    if container.at("securityContext", "procMount").value != "Unmasked" or pod.at("hostUsers").value is not False:
        lacking.append("hostUsers: false in the pod, and securityContext: {procMount: Unmasked} in the container")
    return tuple(lacking)


def _privileged(container: Tree) -> Stated | None:
    place = container.at("securityContext", "privileged")
    return Stated("true", place.line) if place.value is True else None


def _is_spot(pod: Tree) -> bool:
    wanted = {name: value.text for name, value in pod.at("nodeSelector").fields().items()}
    terms = pod.at("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    for term in terms.items():
        for rule in term.at("matchExpressions").items():
            if rule.at("operator").text == "In":
                wanted |= {rule.at("key").text or "": value.text for value in rule.at("values").items()}
    return any(wanted.get(name) == value for name, value in _SPOT_LABELS.items())


def _serve_config(objects: _Objects) -> Tree | None:
    """The Serve config inside a RayService, with the lines of the whole file; None where it is none."""
    place = objects.service.at("spec", "serveConfigV2") if objects.service is not None else None
    if place is None or not isinstance(place.value, str):
        return None
    try:
        trees = read_trees(place.value, first_line=place.line + 1)
    except InvalidInput:
        return None
    return trees[0] if len(trees) == 1 else None


def _served(objects: _Objects, config: Tree | None) -> list[Defect]:
    if objects.service is None:
        return []
    if config is None:
        line = objects.service.line_of(("spec", "serveConfigV2"))
        return [
            Defect("serve", "serveConfigV2 is no YAML of one document", "write what is in cluster/serve.yaml", line)
        ]
    return check_serve(config)


def _health(objects: _Objects, config: Tree | None) -> Iterator[Stated]:
    """KubeRay asks each worker's Serve proxy itself; what is said by hand takes that away, and so does another port."""
    port = 8000 if config is None else port_of(config)
    for group in objects.cluster.at("workerGroupSpecs").items():
        container = group.at("template", "spec", "containers", 0)
        named = next((each for each in container.at("ports").items() if each.at("name").text == "serve"), None)
        asked = 8000 if named is None else named.at("containerPort").number
        if asked != port:
            yield Stated(f"port {asked:g}, and Serve listens on {port}", (named or container).line)
        probe = container.at("readinessProbe")
        yield Stated(probe.at("httpGet", "path").text if probe else "/-/healthz", probe.line)
