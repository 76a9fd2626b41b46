"""What has to hold on Kubernetes alone: the operator's own options, and the objects that stand beside the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from koda_ray.deploy.defect import Defect
from koda_ray.deploy.yaml_tree import Tree
from koda_ray.resources import CHROMIUM_RESOURCE, SESSION_RESOURCE

__all__ = ["own_rules"]

_DNS_PORT = 53
_CLUSTER_LABEL = "ray.io/is-ray-node"
"""The operator gives it to each node of each cluster."""


def own_rules(cluster: Tree, trees: Sequence[Tree]) -> list[Defect]:
    """Return what is wrong with a cluster as one of KubeRay's.

    Args:
        cluster: The RayCluster's ``spec``.
        trees: All objects of the file.
    """
    return [
        *_fault_tolerance(cluster), *_autoscaler(cluster), *_refused_by_operator(cluster), *_budgets(cluster, trees),
        *_networks(cluster, trees),
    ]  # fmt: skip


def _fault_tolerance(cluster: Tree) -> Iterator[Defect]:
    options = cluster.at("gcsFaultToleranceOptions")
    if not options.at("redisAddress") and options.at("backend").text != "rocksdb":
        yield Defect(
            "fault-tolerance",
            "the cluster ends with its head: what GCS knows is nowhere else",
            "write gcsFaultToleranceOptions with redisAddress and redisPassword from a secret",
            options.line,
        )
    if options.at("externalStorageNamespace"):
        yield Defect(
            "fault-tolerance",
            "externalStorageNamespace is set, so a new cluster takes over what the old one left in Redis",
            "leave it out: the operator takes the cluster's own id",
            options.at("externalStorageNamespace").line,
        )


def _autoscaler(cluster: Tree) -> Iterator[Defect]:
    if cluster.at("enableInTreeAutoscaling").value is not True:
        line = cluster.at("enableInTreeAutoscaling").line
        yield Defect("autoscaler", "nobody adds nodes", "write enableInTreeAutoscaling: true", line)
    elif cluster.at("autoscalerOptions", "version").text != "v2":
        yield Defect(
            "autoscaler",
            f"the autoscaler is {cluster.at('autoscalerOptions', 'version').text or 'of the usual version'}",
            "write autoscalerOptions: {version: v2}: it knows idle nodes from those that drain",
            cluster.at("autoscalerOptions", "version").line,
        )
    for group in cluster.at("workerGroupSpecs").items():
        offers = group.at("resources").fields()
        least = group.at("minReplicas")
        if CHROMIUM_RESOURCE in offers and SESSION_RESOURCE not in offers and (least.number or 0) > 0:
            yield Defect(
                "scale-to-zero",
                f"{group.at('groupName').text!r} keeps {least.text} nodes when there is nothing to render",
                "write minReplicas: 0; the first render brings them",
                least.line,
                advice=True,
            )


def _refused_by_operator(cluster: Tree) -> Iterator[Defect]:
    for group in (cluster.at("headGroupSpec"), *cluster.at("workerGroupSpecs").items()):
        name = group.at("groupName").text or "head"
        start = group.at("rayStartParams")
        both = [key for key in ("num-cpus", "num-gpus", "memory", "resources") if start.at(key)]
        if both and group.at("resources"):
            yield Defect(
                "operator",
                f"{name!r} has resources both by itself and in rayStartParams ({', '.join(both)})",
                "KubeRay refuses that: keep the group's own resources",
                start.at(both[0]).line,
            )
        policy = group.at("template", "spec", "restartPolicy")
        if policy and policy.text != "Never":
            yield Defect(
                "operator",
                f"pods of {name!r} are started again in place ({policy.text})",
                "leave restartPolicy out: with autoscaler v2 the operator refuses anything but Never",
                policy.line,
            )


def _budgets(cluster: Tree, trees: Sequence[Tree]) -> Iterator[Defect]:
    """Of an operator's pods a budget counts only those that stay. Source: Kubernetes, on arbitrary controllers."""
    budgets = [tree.at("spec") for tree in trees if tree.at("kind").value == "PodDisruptionBudget"]
    for group in cluster.at("workerGroupSpecs").items():
        name, least = group.at("groupName").text, int(group.at("minReplicas").number or 0)
        mine = [each for each in budgets if _selects(each.at("selector"), group)]
        if SESSION_RESOURCE in group.at("resources").fields() and not mine:
            yield Defect(
                "budget",
                f"all nodes of {name!r} may be drained at once, with every session on them",
                "add a PodDisruptionBudget with minAvailable: 1 that selects its pods",
                group.line,
            )
        for budget in mine:
            stay = budget.at("minAvailable")
            if budget.at("maxUnavailable") or not isinstance(stay.value, int):
                wrong = "maxUnavailable" if budget.at("maxUnavailable") else "minAvailable"
                yield Defect(
                    "budget",
                    f"for pods of an operator Kubernetes cannot keep to {wrong}: {budget.at(wrong).text}",
                    "write minAvailable with a number",
                    budget.at(wrong).line,
                )
            elif stay.value >= least:
                yield Defect(
                    "budget",
                    f"no node of {name!r} can ever be drained while there are {least}: as many have to stay",
                    f"write minAvailable below {least}, or a larger minReplicas",
                    stay.line,
                )


def _networks(cluster: Tree, trees: Sequence[Tree]) -> Iterator[Defect]:
    policies = [tree for tree in trees if tree.at("kind").value == "NetworkPolicy"]
    for group in (cluster.at("headGroupSpec"), *cluster.at("workerGroupSpecs").items()):
        name = group.at("groupName").text or "head"
        mine = [each for each in policies if _selects(each.at("spec", "podSelector"), group)]
        inward = [each for each in mine if "Ingress" in _kinds(each)]
        outward = [each for each in mine if "Egress" in _kinds(each)]
        if not inward and not cluster.at("networkPolicy"):
            yield Defect(
                "network",
                f"every pod of the whole Kubernetes cluster reaches the ports of {name!r}",
                "add a NetworkPolicy that selects its pods and lets in the cluster's own pods and the ingress alone",
                group.line,
            )
        if outward and not any(_lets_out_dns(each) for each in outward):
            yield Defect(
                "network",
                f"{name!r} can look up no name: what may go out is listed, and DNS is not",
                f"add egress to port {_DNS_PORT}, UDP and TCP",
                outward[0].line_of(("spec", "egress")),
            )


def _kinds(policy: Tree) -> set[str]:
    given = {each.text or "" for each in policy.at("spec", "policyTypes").items()}
    return given or ({"Ingress", "Egress"} if policy.at("spec", "egress") else {"Ingress"})


def _lets_out_dns(policy: Tree) -> bool:
    rules = policy.at("spec", "egress").items()
    ports = [port.at("port").number for rule in rules for port in rule.at("ports").items()]
    return _DNS_PORT in ports or any(not rule.at("ports") and not rule.at("to") for rule in rules)


def _selects(selector: Tree, group: Tree) -> bool:
    """Whether a selector of labels finds a group's pods; those that the operator gives are known too."""
    labels = {name: each.text for name, each in group.at("template", "metadata", "labels").fields().items()}
    labels |= {_CLUSTER_LABEL: "yes", "ray.io/group": group.at("groupName").text or "headgroup"}
    labels["ray.io/node-type"] = "worker" if group.at("groupName") else "head"
    wanted = {name: each.text for name, each in selector.at("matchLabels").fields().items()}
    if selector.at("matchExpressions"):
        return False
    return selector.value is not None and all(labels.get(name) == value for name, value in wanted.items())
