"""The suite of all providers at E2B and Modal themselves, which costs money: only with keys that were given for it.

It takes nothing of this machine but the SDKs. What it starts from there must hold the suite's small project, without
the browser and fonts of the whole image:

    python -m tests.sandbox.test_paid FOLDER
    export KODA_TEMPLATE_PATH=FOLDER/template KODA_NODE_MODULES_PATH=FOLDER/node_modules
    E2B_API_KEY=... E2B_TEMPLATE=koda-test ./koda image build --provider e2b --slim
    MODAL_TOKEN_ID=... MODAL_TOKEN_SECRET=... ./koda image build --provider modal --slim
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from uuid import uuid4

import pytest

from koda_ray.sandbox.base import SandboxProvider
from tests.sandbox.conformance import SandboxConformance
from tests.sandbox.conftest import write_packages, write_template
from tests.sandbox.e2b import Ids

_E2B = ("KODA_TEST_E2B_API_KEY", "KODA_TEST_E2B_TEMPLATE")
_MODAL = ("KODA_TEST_MODAL_TOKEN_ID", "KODA_TEST_MODAL_TOKEN_SECRET", "KODA_TEST_MODAL_IMAGE")


def _lacks(names: tuple[str, ...], given: Mapping[str, str]) -> str:
    """Say what is not set of what a run takes; nothing where all is."""
    missing = [name for name in names if not given.get(name)]
    if not missing:
        return ""
    why = f"it costs money, and takes {', '.join(missing)} besides" if len(missing) < len(names) else "it costs money"
    return f"{why}: set {', '.join(names)}; {Path(__file__).name} says how to build what it starts from"


_WITHOUT_E2B, _WITHOUT_MODAL = _lacks(_E2B, os.environ), _lacks(_MODAL, os.environ)


@pytest.mark.full
@pytest.mark.skipif(bool(_WITHOUT_E2B), reason=_WITHOUT_E2B)
class TestPaidE2B(SandboxConformance):
    """At E2B itself."""

    @pytest.fixture
    def leftovers(self) -> Ids:
        return Ids()

    @pytest.fixture
    async def provider(self) -> AsyncIterator[SandboxProvider]:
        pytest.importorskip("e2b", reason="it comes with the extra e2b")
        from koda_ray.sandbox.e2b import E2BProvider
        from koda_ray.sandbox.e2b_cloud import E2BCloud, E2BTerms

        key, template = (os.environ[name] for name in _E2B)
        made = E2BProvider(
            E2BCloud(api_key=key), template=template, deployment=uuid4().hex, terms=E2BTerms(lifetime_s=300)
        )
        yield made
        await _clear(made)


@pytest.mark.full
@pytest.mark.skipif(bool(_WITHOUT_MODAL), reason=_WITHOUT_MODAL)
class TestPaidModal(SandboxConformance):
    """At Modal itself."""

    @pytest.fixture
    def leftovers(self) -> Ids:
        return Ids()

    @pytest.fixture
    async def provider(self) -> AsyncIterator[SandboxProvider]:
        pytest.importorskip("modal", reason="it comes with the extra modal")
        from koda_ray.sandbox.modal import ModalProvider
        from koda_ray.sandbox.modal_app import ModalApp, ModalTerms

        token_id, secret, image = (os.environ[name] for name in _MODAL)
        made = ModalProvider(
            ModalApp("koda-test", token_id=token_id, token_secret=secret),
            image=image,
            deployment=uuid4().hex,
            terms=ModalTerms(pids=64, lifetime_s=300),
        )
        yield made
        await _clear(made)


@pytest.mark.parametrize("names", [_E2B, _MODAL], ids=["e2b", "modal"])
def test_with_a_key_alone_what_else_it_takes_is_said(names: tuple[str, ...]) -> None:
    given = dict.fromkeys(names, "x")
    assert _lacks(names, given) == ""
    assert f"takes {', '.join(names[1:])} besides" in _lacks(names, {names[0]: "x"})
    assert f"set {', '.join(names)};" in _lacks(names, {})
    assert names[-1] in _lacks(names, given | {names[-1]: ""})


async def _clear(made: SandboxProvider) -> None:
    left = await made.list()
    for info in left:
        await made.destroy(info.id)
    assert left == []


if __name__ == "__main__":
    write_template(Path(sys.argv[1], "template"))
    write_packages(Path(sys.argv[1], "node_modules"))
