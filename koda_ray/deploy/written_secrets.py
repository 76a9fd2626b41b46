"""Secrets written into a file, where they would be read by whoever reads the repository.

What is secret is known by our own settings' names, by names that say so, by the shape of well-known keys, and by a
password inside an address. A variable, a reference and the name of a file are what belongs there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from koda_ray.deploy.defect import Defect
from koda_ray.deploy.yaml_tree import Tree
from koda_ray.secret_names import SECRETS

__all__ = ["written_secrets"]

_NAMED = re.compile(r"PASSWORD|PASSWD|SECRET|TOKEN|CREDENTIAL|API_?KEYS?$|ACCESS_?KEY|SIGNING_?KEY|PRIVATE_?KEY", re.I)
_POINTS = re.compile(r"(PATH|FILE|NAME|REF|MODE|URL|AUTH|MINUTES|SECONDS|_TTL|TOKENS)$", re.I)
"""Names that end so say where a secret is, or how much of something: not what it is."""
_ADDRESS = re.compile(r"\b\w[\w+.-]*://[^\s/:@'\"]*:([^\s/@'\"]+)@")
_ASSIGNED = re.compile(r"\b([A-Z][A-Z0-9_]{2,})=(\"[^\"]*\"|'[^']*'|[^\s;&|]*)")
_SHAPES = {
    "an AWS access key": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "an Anthropic key": re.compile(r"\bsk-ant-[\w-]{16,}"),
    "an OpenAI key": re.compile(r"\bsk-(?:proj-)?[A-Za-z0-9_-]{20,}"),
    "a Google key": re.compile(r"\bAIza[\w-]{30,}"),
    "a GitHub token": re.compile(r"\bgh[pousr]_[A-Za-z0-9]{30,}"),
    "an E2B key": re.compile(r"\be2b_[0-9a-f]{30,}"),
}
_OTHERS = {"accessKey", "secretKey", "redis-password", "requirepass"}
_REMEDY = "take it from the environment or a secret of the cluster, and change it wherever it was used: it is known now"


def written_secrets(text: str, trees: list[Tree]) -> list[Defect]:
    """Return the secrets that stand in a file, by what they are called; never what they are.

    Args:
        text: The file, in which comments count too.
        trees: What it says.
    """
    found = [*_shapes(text), *(defect for tree in trees for defect in _named(tree))]
    return list({(defect.line, defect.what): defect for defect in found}.values())


def _shapes(text: str) -> Iterator[Defect]:
    for number, line in enumerate(text.splitlines(), 1):
        for what, shape in _SHAPES.items():
            if shape.search(line):
                yield Defect("secret", f"{what} is written into the file", _REMEDY, number)
        for password in _ADDRESS.findall(line):
            if not _is_placeholder(password):
                yield Defect("secret", "an address with its password is written into the file", _REMEDY, number)
        for name, value in _ASSIGNED.findall(line):
            if _is_secret(name) and not _is_placeholder(value.strip("'\"")):
                yield Defect("secret", f"{name} is written into the file", _REMEDY, number)


def _named(tree: Tree) -> Iterator[Defect]:
    fields = tree.fields()
    if tree.at("kind").value == "Secret" and (fields.keys() & {"data", "stringData"}):
        yield Defect("secret", "a Secret is written into the file, with what it holds", _REMEDY, tree.line)
    name, value = tree.at("name").text, tree.at("value").text  # a container's variable
    if name and value and _is_secret(name) and not _is_placeholder(value):
        yield Defect("secret", f"{name} is written into the file", _REMEDY, tree.at("value").line)
    for key, below in fields.items():
        told = below.text
        if told and isinstance(below.value, str) and _is_secret(key) and not _is_placeholder(told):
            yield Defect("secret", f"{key} is written into the file", _REMEDY, below.line)
    for below in (*fields.values(), *tree.items()):
        yield from _named(below)


def _is_secret(name: str) -> bool:
    if name in SECRETS or name in _OTHERS:
        return True
    return _NAMED.search(name) is not None and _POINTS.search(name) is None


def _is_placeholder(value: str) -> bool:
    """Whether a text stands for a value from elsewhere: a variable, a file, nothing, or words in brackets.

    An address is none either: what is secret in it is its password, which is looked for by itself.
    """
    return (
        "://" in value
        or value == ""
        or value.startswith(("$", "/", "~", "<", "."))
        or value.lower() in ("true", "false", "token")
    )
