"""Who holds a process says why it did not begin, where it can say anything."""

from __future__ import annotations

import pytest

from koda_ray.errors import SandboxError
from koda_ray.sandbox import holder
from koda_ray.sandbox.local_sandbox import LocalSandbox

pytestmark = pytest.mark.sandbox


async def test_a_holder_whose_python_cannot_begin_says_why(
    sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holder, "HOLDER", "koda_ray.nothing")
    with pytest.raises(SandboxError, match=r"ended before it began: .*No module named koda_ray\.nothing; mend that"):
        await sandbox.keep("held", ("sleep", "60"))
    monkeypatch.undo()
    await sandbox.keep("held", ("sleep", "60"))
