"""An engine's filter of system calls that leaves room for ours to be asked: Docker's own, with another refusal.

Of what several filters say of a call, the kernel does what is strictest, and to refuse is stricter than to ask. Where
the engine refuses mounts, namespaces and kernel modules, nobody hears of them. Weaker than to ask is to have a tracer
decide, and a call whose tracer is not there is refused as well (ENOSYS). So this profile has that for the calls that
our filter asks about, ``ptrace`` among them, by which a tracer would come about: they are refused before our filter is
there, and heard of from then on.

One way round is left to a first process that is hostile itself: a filter of its own which asks it, and lets the call
pass. Under ours nobody can have one, since the kernel lets one filter ask. So this is for the image whose first process
is known to be ours, and only in place of a profile that is the engine's own: what somebody has set stays.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from koda_ray import seccomp

__all__ = ["asking_profile"]

_ALLOWED = Path(__file__).with_name("docker_calls.txt")
_ALLOW, _REFUSE, _TRACED = "SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO", "SCMP_ACT_TRACE"
_ENOSYS = 38
_AF_ALG, _AF_NFC, _AF_VSOCK = 38, 39, 40
_NAMESPACES = 0x7E020000  # every CLONE_NEW* but that of time, which shares a bit with the signal's number


@lru_cache(maxsize=1)
def asking_profile() -> str | None:
    """Write the profile as an engine reads it; None on a machine for which there is no filter of ours."""
    asked = seccomp.always_asked()
    if not asked:
        return None
    lines = _ALLOWED.read_text().splitlines()
    allowed = [name for line in lines if not line.startswith("#") for name in line.split()]
    rules: list[dict[str, object]] = [
        {"names": [name for name in allowed if name not in asked], "action": _ALLOW},
        {"names": sorted(asked), "action": _TRACED},
        {"names": ["clone3"], "action": _REFUSE, "errnoRet": _ENOSYS},  # its flags cannot be read
        _when("clone", _ALLOW, "MASKED_EQ", _NAMESPACES, 0),
        *(_when("clone", _TRACED, "MASKED_EQ", bit, bit) for bit in _bits(_NAMESPACES)),
        _when("socket", _ALLOW, "LT", _AF_ALG),
        _when("socket", _TRACED, "EQ", _AF_ALG),
        _when("socket", _ALLOW, "EQ", _AF_NFC),
        _when("socket", _TRACED, "EQ", _AF_VSOCK),
        _when("socket", _ALLOW, "GT", _AF_VSOCK),
    ]
    return json.dumps({"defaultAction": _REFUSE, "syscalls": rules})


def _when(name: str, action: str, test: str, value: int, value_two: int = 0) -> dict[str, object]:
    argument = {"index": 0, "op": f"SCMP_CMP_{test}", "value": value, "valueTwo": value_two}
    return {"names": [name], "action": action, "args": [argument]}


def _bits(mask: int) -> list[int]:
    return [1 << bit for bit in range(mask.bit_length()) if mask & 1 << bit]
