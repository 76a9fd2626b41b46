"""What a cluster is started with: the shipped files pass, and each rule finds, names and places what breaks it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

import koda_ray
from koda_ray.config import REPO_ROOT
from koda_ray.deploy import check_file
from koda_ray.deploy.locked import locked_ray
from koda_ray.deploy.written_secrets import written_secrets
from koda_ray.deploy.yaml_tree import read_trees
from koda_ray.errors import InvalidInput, NotFound
from tests.cluster.files import FOLDER, SHIPPED, changed, checked_with

KUBERNETES = pytest.mark.needs("kubernetes")


def _needs(name: str) -> list[pytest.MarkDecorator]:
    return [KUBERNETES] if name == "kubernetes.yaml" else []


def _param(broken: Broken, place: int) -> Any:
    """Kubernetes' schemas take a second to read: those files are for the full tier."""
    marks = [*_needs(broken.name), pytest.mark.full] if broken.name == K8S else []
    return pytest.param(broken, id=f"{broken.rule}-{place}-{broken.name}", marks=marks)


@pytest.mark.parametrize("name", [pytest.param(name, marks=_needs(name)) for name in SHIPPED])
def test_what_is_shipped_passes(name: str) -> None:
    assert check_file(FOLDER / name).defects == ()


def test_all_kinds_are_shipped() -> None:
    kinds = ["aws.yaml", "compose.worker.yaml", "compose.yaml", "gcp.yaml", "kubernetes.yaml", "own-machines.yaml"]
    assert [*kinds, "serve.yaml"] == SHIPPED


def test_the_shipped_image_is_this_release() -> None:
    texts = [path.read_text() for path in FOLDER.iterdir() if path.is_file()]
    tags = {tag for text in texts for tag in re.findall(r"koda-node:([\w.-]+)", text) if tag[0].isdigit()}
    assert tags == {f"{koda_ray.__version__}-ray{locked_ray()}"}


def test_kubernetes_serves_what_the_serve_config_says() -> None:
    objects = yaml.safe_load_all((FOLDER / K8S).read_text())
    (service,) = (each for each in objects if each["kind"] == "RayService")
    assert yaml.safe_load(service["spec"]["serveConfigV2"]) == yaml.safe_load((FOLDER / SERVE).read_text())


class Broken(NamedTuple):
    """A shipped file with one text in the place of another, and what is to be found in it.

    ``below`` says how many lines after the change the defect is told, or None where it has no line of its own.
    """

    name: str
    old: str
    new: str
    rule: str
    says: str
    way_out: str
    below: int | None = None


AWS, OWN, GCP, COMPOSE, K8S, SERVE = (
    "aws.yaml", "own-machines.yaml", "gcp.yaml", "compose.yaml", "kubernetes.yaml", "serve.yaml"
)  # fmt: skip

SECRET = "apiVersion: v1\nkind: Secret\nstringData: {a: b}\nmetadata: {name: a}\n"

BROKEN = [
    # resources that the code asks for
    Broken(AWS, "resources: {CPU: 8, session: 12}", "resources: {CPU: 8}", "resources", "'session'", '{"session": 8}'),
    Broken(GCP, "chromium: 8, chromium_urgent: 4", "gpu: 1", "resources", "'chromium'", '{"chromium": 8}'),
    Broken(OWN, r', \"session\": $CPUS', "", "resources", "'session'", "worker_start_ray_commands"),
    Broken(COMPOSE, '"chromium": ${KODA_BROWSERS:-4}, ', "", "resources", "'chromium'", "with its ray start"),
    Broken(K8S, 'memory: 28Gi, session: "12"', "memory: 28Gi", "resources", "'session'", 'resources: {session: "8"}'),
    # a head without work
    Broken(AWS, "resources: {CPU: 0}", "resources: {CPU: 8}", "head", "8 processors", "{CPU: 0}", -1),
    Broken(GCP, "resources: {CPU: 0}", "resources: {}", "head", "as many processors as the machine", "{CPU: 0}", -1),
    Broken(OWN, " --num-cpus=0", "", "head", "as many processors", "--num-cpus=0"),
    Broken(COMPOSE, " --num-cpus=0", "", "head", "as many processors", "--num-cpus=0"),
    Broken(K8S, 'resources: {CPU: "0"}', 'resources: {CPU: "0", chromium: "1"}', "head", "chromium", '{CPU: "0"}', -1),
    # who may be taken away
    Broken(AWS, "    priority: 10\n    node_config:\n",
           "    node_config:\n      InstanceMarketOptions: {MarketType: spot}\n", "spot",
           "'sessions' has sessions and may be taken away", "on demand"),
    Broken(GCP, "machineType: n2-standard-8\n", "machineType: n2-standard-8\n      scheduling: {preemptible: true}\n",
           "spot", "may be taken away", "on demand"),
    Broken(K8S, "karpenter.sh/capacity-type: on-demand", "cloud.google.com/gke-spot: 'true'", "spot", "the head",
           "on demand"),
    # what fits
    Broken(AWS, "{CPU: 16, chromium: 8", "{CPU: 2, chromium: 8", "fits", "8 browsers, which ask for 4 CPU, and has 2",
           "at most 4", -1),
    Broken(K8S, 'memory: 28Gi, chromium: "8"', 'memory: 8Gi, chromium: "8"', "fits", "12 pages at once", "at most 8"),
    # versions
    Broken(K8S, "rayVersion: 2.60.0", "rayVersion: 2.54.0", "ray-version", "Ray 2.54.0, the lock 2.60.0", "2.60.0", 0),
    Broken(AWS, "ray2.60.0", "ray2.54.0", "ray-version", "has Ray 2.54.0, the lock 2.60.0", "ray2.60.0", 0),
    Broken(COMPOSE, "koda-node:0.1.0-ray2.60.0", "koda-node:latest", "ray-version", "does not say which Ray",
           "koda-node:VERSION-ray2.60.0", 0),
    # state
    Broken(AWS, "-e DATABASE_PROVIDER=postgres ", "-e DATABASE_PROVIDER=sqlite ", "state", "SQLite", "=postgres"),
    Broken(AWS, "-e DATABASE_PROVIDER=postgres ", "", "state", "cannot be checked", "in this file"),
    Broken(COMPOSE, "  STORAGE_PROVIDER: s3\n", "", "state", "STORAGE_PROVIDER is not set", "STORAGE_PROVIDER=s3"),
    Broken(K8S, "STORAGE_PROVIDER: s3", "STORAGE_PROVIDER: local", "state", "one machine's disk", "=s3", 0),
    Broken(COMPOSE, "DATABASE_PROVIDER: postgres", "DATABASE_PROVIDER: json", "state", "a folder of JSON", "=turso", 0),
    Broken(COMPOSE, "  R2_BUCKET: koda\n", "", "settings", "lacks R2_BUCKET", "from a secret"),
    Broken(K8S, "name: KODA_SIGNING_KEY", "name: KODA_OTHER", "settings", "lacks KODA_SIGNING_KEY", "from a secret"),
    # who is let in
    Broken(AWS, "RAY_AUTH_MODE=token", "RAY_AUTH_MODE=disabled", "token", "lets every process in", "RAY_AUTH_MODE"),
    Broken(OWN, " -e RAY_AUTH_TOKEN_PATH=/etc/koda/ray-token", "", "token", "asks for a token", "RAY_AUTH_TOKEN_PATH"),
    Broken(K8S, "      mode: token", "      mode: disabled", "token", "need no token", "mode: token", 0),
    # ends in good order
    Broken(COMPOSE, "stop_grace_period: 60s", "stop_grace_period: 30s", "grace", "killed 30 s after", "45 s", 0),
    Broken(COMPOSE, "  stop_grace_period: 60s  # the drain's 30 s, and 15 for Ray's processes to end\n", "", "grace",
           "killed 10 s after", "45 s"),
    Broken(K8S, "terminationGracePeriodSeconds: 60\n", "terminationGracePeriodSeconds: 40\n", "grace", "killed 40 s",
           "at least 45 s", 0),
    # room
    Broken(COMPOSE, "shm_size: 1gb", "shm_size: 256m", "shm", "256 MB, and Ray's object store takes 512", "512 MB", 0),
    Broken(COMPOSE, "  shm_size: 1gb  # Ray's object store, and a little more\n", "", "shm", "has 64 MB", "512 MB"),
    Broken(AWS, "--ulimit nofile=65536:65536", "--shm-size=64m", "shm", "has 64 MB", "--object-store-memory"),
    Broken(COMPOSE, "soft: 65536", "soft: 1024", "ulimit", "1024 files open", "65536", 0),
    Broken(OWN, "ulimit -n 65536; CPUS=", "ulimit -n 4096; CPUS=", "ulimit",
           "4096 files", "ulimit -n 65536"),
    Broken(K8S, "metadata:\n  name: koda\n",
           "metadata:\n  name: koda\n  annotations: {ray.io/overwrite-container-cmd: 'true'}\n", "ulimit",
           "what the system gives", "65536", 2),
    # sandboxes in containers
    Broken(COMPOSE, "    - systempaths=unconfined\n", "", "isolation", "no sandbox", "systempaths"),
    Broken(GCP, " --security-opt seccomp=unconfined", "", "isolation", "no sandbox", "seccomp=unconfined"),
    Broken(K8S, "privileged: false", "privileged: true", "isolation", "is privileged", "take that away"),
    Broken(K8S, "            hostUsers: false\n", "", "isolation", "no sandbox", "hostUsers: false"),
    # health
    Broken(COMPOSE, "8420/-/healthz", "8420/v1/sessions", "health", "asked at /v1/sessions", "/-/healthz", 0),
    Broken(K8S, "{name: serve, containerPort: 8000}", "{name: serve, containerPort: 8080}", "health", "port 8080",
           "/-/healthz", 0),
    # Kubernetes alone
    Broken(K8S, "redisAddress: koda-redis:6379", "backend: redis", "fault-tolerance", "ends with its head",
           "redisAddress"),
    Broken(K8S, "      redisAddress", "      externalStorageNamespace: koda\n      redisAddress", "fault-tolerance",
           "takes over what the old one left", "leave it out", 0),
    Broken(K8S, "      version: v2\n", "", "autoscaler", "of the usual version", "{version: v2}"),
    Broken(K8S, "    enableInTreeAutoscaling: true\n", "", "autoscaler", "nobody adds nodes",
           "enableInTree"),
    Broken(K8S, 'rayStartParams: {object-store-memory: "1073741824"}', 'rayStartParams: {num-cpus: "8"}', "operator",
           "both by itself and in rayStartParams", "keep the group's own", 0),
    Broken(K8S, "hostUsers: false\n", "hostUsers: false\n            restartPolicy: Always\n", "operator",
           "started again in place", "Never"),
    Broken(K8S, "matchLabels: {app.kubernetes.io/name: koda, koda-role: sessions}", "matchLabels: {app: other}",
           "budget", "may be drained at once", "PodDisruptionBudget"),
    Broken(K8S, "minAvailable: 1", "maxUnavailable: 1", "budget", "maxUnavailable", "minAvailable", 0),
    Broken(K8S, "minAvailable: 1", "minAvailable: 2", "budget", "no node of 'sessions' can ever be drained",
           "below 2", 0),
    Broken(K8S, "  policyTypes: [Ingress]\n", "  policyTypes: [Egress]\n", "network", "every pod of the whole",
           "NetworkPolicy"),
    Broken(K8S, "        - {port: 53, protocol: UDP}\n        - {port: 53, protocol: TCP}\n",
           "        - {port: 54, protocol: UDP}\n", "network", "can look up no name", "port 53"),
    # the launcher alone
    Broken(GCP, "AUTOSCALER_MAX_NUM_FAILURES=inf", "", "autoscaler", "ends for good",
           "AUTOSCALER_MAX_NUM_FAILURES=inf"),
    Broken(OWN, "AUTOSCALER_MAX_NUM_FAILURES=inf ", "", "autoscaler", "ends for good",
           "AUTOSCALER_MAX_NUM_FAILURES=inf"),
    Broken(OWN, " RAY_enable_autoscaler_v2=0\n", "\n", "autoscaler", "counts the head among the workers",
           "RAY_enable_autoscaler_v2=0"),
    Broken(OWN, "env -u OMP_NUM_THREADS nproc", "nproc", "fits", "nproc says 1", "env -u OMP_NUM_THREADS nproc"),
    Broken(AWS, "--disable-usage-stats ", "", "reports", "tell Ray's makers", "--disable-usage-stats"),
    Broken(OWN, "  /etc/koda: ~/.koda-cluster\n", "  /etc/koda/koda.env: /etc/passwd\n", "file-mounts",
           "goes on with the one that it was started with", "the folder that it is in", 0),
    # what is served
    Broken(SERVE, "num_replicas: 2", "num_replicas: 1", "replicas", "the API has 1 replica", "num_replicas: 2", 0),
    Broken(SERVE, "        max_replicas_per_node: 1\n", "", "replicas", "may stand on one node",
           "max_replicas_per_node"),
    Broken(SERVE, "proxy_location: EveryNode", "proxy_location: HeadOnly", "serve", "HeadOnly", "EveryNode", 0),
    Broken(SERVE, "request_timeout_s: null", "request_timeout_s: 30", "serve", "ended after 30 s", "null", 0),
    Broken(SERVE, "koda_ray.serve.deployed:janitor", "koda_ray.serve.app:main", "serve", "nothing here wakes",
           "koda_ray.serve.deployed:janitor"),
    Broken(K8S, "            num_replicas: 2\n", "            num_replicas: 1\n", "replicas", "the API has 1 replica",
           "num_replicas: 2", 0),
    # live previews
    Broken(SERVE, "        num_replicas: 1  # what a page was given is known to the process that gave it\n",
           "        num_replicas: 2\n", "previews", "shown by several processes", "num_replicas: 1", 0),
    Broken(K8S, "  KODA_PREVIEW_ORIGIN:", "  OTHER:", "previews", "does not know the origin", "KODA_PREVIEW_ORIGIN"),
    Broken(K8S, "    - {name: previews, port: 8421}\n", "    - {name: previews, port: 8422}\n", "previews",
           "nothing leads to port 8421", "add a Service"),
    Broken(K8S, "    - host: previews.example.com\n", "    - host: other.example.com\n", "previews",
           "no ingress leads from previews.example.com to koda-previews", "host: previews.example.com"),
    Broken(K8S, "        - {port: 8421, protocol: TCP}\n", "", "previews", "keeps an ingress from port 8421",
           "{port: 8421", None),
    # shapes
    Broken(AWS, "min_workers: 0", "min_workers: none", "schema", "'none' is not of type 'integer'", "schema", 0),
    Broken(AWS, "head_node_type: head", "head_node_type: boss", "schema", "head_node_type", "Ray"),
    Broken(OWN, "  head_ip: head.example.internal\n", "", "schema", "head_ip", "Ray"),
    Broken(OWN, "provider:\n", "available_node_types: {a: {resources: {}, node_config: {}}}\nprovider:\n", "schema",
           "not supported for on-premise", "Ray"),
    Broken(COMPOSE, "    restart: unless-stopped\n", "    restarts: always\n", "schema", "restarts", "schema", 0),
    Broken(SERVE, "num_replicas: 2", "num_replicas: -2", "schema", "num_replicas", "Serve's schema", 0),
    Broken(K8S, "  excludeHeadPodFromServeSvc", "  excludeHeadPod", "schema", "excludeHeadPod", "schema", 0),
    Broken(K8S, "groupName: chromium\n        minReplicas: 0\n", "groupName: chromium\n        minReplicas: none\n",
           "schema", "'none' is not of type 'integer'", "schema", 1),
    Broken(K8S, "  policyTypes: [Egress]\n", "  policyType: [Egress]\n", "schema", "policyType", "schema", 0),
    Broken(K8S, "            hostUsers: false\n", "            hostUser: false\n", "schema", "hostUser", "schema"),
    Broken(COMPOSE, '"chromium": ${KODA_BROWSERS:-4}', "chromium: 4", "command", "is no JSON", "correct it"),
    # secrets
    Broken(COMPOSE, "R2_SECRET_KEY: ${R2_SECRET_KEY:?run cluster/make-secrets}", "R2_SECRET_KEY: abcdef", "secret",
           "R2_SECRET_KEY is written into the file", "from the environment", 0),
    Broken(AWS, "-e RAY_AUTH_MODE=token", "-e RAY_AUTH_MODE=token -e RAY_AUTH_TOKEN=0123", "secret", "RAY_AUTH_TOKEN",
           "from the environment", 0),
    Broken(COMPOSE, "koda:${POSTGRES_PASSWORD:?run cluster/make-secrets}@", "koda:hunter2@", "secret",
           "an address with", "from the environment", 0),
    Broken(K8S, "valueFrom: {secretKeyRef: {name: koda-secrets, key: R2_ACCESS_KEY}}", "value: abcdef", "secret",
           "R2_ACCESS_KEY", "a secret of the cluster", 0),
    Broken(K8S, "apiVersion: v1\nkind: ConfigMap\n", f"{SECRET}---\napiVersion: v1\nkind: ConfigMap\n", "secret",
           "a Secret is written into the file", "a secret of the cluster"),
    Broken(GCP, "cluster_name: koda", "# AKIAIOSFODNN7EXAMPLE\ncluster_name: koda", "secret", "an AWS access key",
           "from the environment", 0),
    # from zero
    Broken(AWS, "-e KODA_BROWSERS_MAX=400", "", "settings", "'chromium' comes when there is work", "KODA_BROWSERS_MAX"),
    Broken(K8S, "  KODA_BROWSERS_MAX:", "  OTHER:", "settings", "refuse to render while none is there",
           "KODA_BROWSERS_MAX"),
    Broken(GCP, "memory: 51539607552, ", "", "fits", "does not know the memory of 'chromium'", "memory: BYTES", 0),
    # advice
    Broken(AWS, "koda cluster drain-on-notice", "sleep 1", "notice", "'chromium' does not hear",
           "koda cluster drain-on-notice"),
    Broken(AWS, "min_workers: 0", "min_workers: 3", "scale-to-zero", "keeps 3 machines", "min_workers: 0", 0),
    Broken(AWS, ", chromium_urgent: 4", "", "resources", "wait behind finals without it", "chromium_urgent"),
    Broken(SERVE, "koda_ray.serve.deployed:previews", "koda_ray.serve.deployed:other", "previews",
           "nothing here shows live previews", "koda_ray.serve.deployed:previews"),
]  # fmt: skip


@pytest.mark.parametrize("broken", [_param(each, place) for place, each in enumerate(BROKEN)])
def test_a_defect_is_found_and_named(broken: Broken, tmp_path: Path) -> None:
    checked, line = checked_with(broken.name, broken.old, broken.new, tmp_path)
    found = [each for each in checked.defects if each.rule == broken.rule and broken.says in each.what]
    assert found, "\n".join(map(str, checked.defects)) or "nothing was found"
    assert broken.way_out in found[0].remedy
    if broken.below is not None:
        assert line + broken.below in [each.line for each in found]
    advised = broken.rule in ("notice", "scale-to-zero", "file-mounts") or broken.says.startswith(
        ("wait behind", "nothing here shows")
    )
    assert all(each.advice is advised for each in found) and checked.works is advised


def test_each_rule_is_broken_by_some_test() -> None:
    sources = "".join(path.read_text() for path in (REPO_ROOT / "koda_ray" / "deploy").glob("*.py"))
    rules = set(re.findall(r'Defect\(\s*"([a-z-]+)"', sources))
    assert rules - {each.rule for each in BROKEN} == {"kubernetes", "compose"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\n", "none of the files that a cluster is started with"),
        ("a: [1\n", "test.yaml:2: no YAML"),
        ("services: {}\nx: {a: 1, a: 2}\n", "test.yaml:2: 'a' stands here twice"),
        ("", "none of the files"),
    ],
)
def test_what_is_no_such_file_is_refused(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "test.yaml"
    path.write_text(text)
    with pytest.raises(InvalidInput) as refused:
        check_file(path)
    assert told in refused.value.message


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        check_file(tmp_path / "none.yaml")
    with pytest.raises(InvalidInput, match="no file of text"):
        check_file(tmp_path)


@KUBERNETES
@pytest.mark.parametrize("text", ["apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"])
def test_objects_without_a_cluster(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(text)
    assert [each.rule for each in check_file(path).defects] == ["kubernetes"]


def test_services_without_ray(tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text("services: {a: {image: b}}\n")
    assert [each.rule for each in check_file(path).defects] == ["compose"]


@pytest.mark.parametrize("value", ["${A:-x}", "$A", "/run/secrets/a", "~/.a", "", "<yours>"])
def test_a_placeholder_is_no_secret(value: str, tmp_path: Path) -> None:
    checked, _ = checked_with("compose.yaml", "${R2_SECRET_KEY:?run cluster/make-secrets}", f"'{value}'", tmp_path)
    assert "secret" not in {each.rule for each in checked.defects}


@pytest.mark.parametrize("path", [path for path in FOLDER.rglob("*") if path.is_file()], ids=lambda path: path.name)
def test_no_secret_in_any_file_of_the_folder(path: Path) -> None:
    text = path.read_text()
    assert written_secrets(text, read_trees(text) if path.suffix in (".yaml", ".yml") else []) == []


def _cli(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "koda_ray", "cluster", "check", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.full
def test_on_the_command_line(tmp_path: Path) -> None:
    broken, line = changed("aws.yaml", "session: 12", "session: 0", tmp_path)
    done = _cli(str(FOLDER / "aws.yaml"))
    assert (done.returncode, done.stderr) == (0, "") and "nothing is wrong" in done.stdout
    done = _cli(str(FOLDER / "serve.yaml"), str(broken))
    assert done.returncode == 1 and "1 thing is wrong" in done.stdout
    assert f"{broken}:" in done.stdout and "'session'" in done.stdout and line > 0
    report = json.loads(_cli("--json", str(broken)).stdout)
    assert [(each["kind"], each["works"], each["defects"][0]["rule"]) for each in report] == [
        ("launcher", False, "resources")
    ]
    assert _cli(str(tmp_path / "none.yaml")).returncode == 4
    (tmp_path / "other.yaml").write_text("a: 1\n")
    done = _cli(str(tmp_path / "other.yaml"))
    assert done.returncode == 2 and done.stderr.startswith("koda: ") and len(done.stderr.splitlines()) == 1
