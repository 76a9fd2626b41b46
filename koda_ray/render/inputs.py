"""What a page read of its bundle, and which other bundles therefore show the same frames.

A page knows of its bundle only what it asked for. So where two bundles agree in all that was asked for until a unit's
last frame (what was there, and what was not), and in what decides which scripts of ours the page gets, that unit's
frames are the same: a new soundtrack, or another scene's picture, has nothing captured again. It is the rule by which
compilers' caches go ("direct mode" of ccache): never a guess.

Beside a bundle lies what is in it, by hash; beside what decides a video apart from its bundle, which bundles it was
made of. Units are copied to the key that they would have had.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from koda_ray.render.bundle import Bundle, bundle_contents
from koda_ray.render.names import recipe_hash, unit_hash
from koda_ray.render.protocol import UnitResult
from koda_ray.render.retry import RetryingStorage
from koda_ray.render.spec import CaptureMode, RenderSpec, Unit
from koda_ray.render.stored import copy_unit, fits, read_unit
from koda_ray.state.keys import sibling_key, siblings_prefix

__all__ = ["ABSENT", "MAX_INPUTS", "Inputs", "Siblings"]

ABSENT = ""
"""Stands for the hash of a file that was asked for and is not in the bundle."""
MAX_INPUTS = 1000
"""A page that asks for more names than these is not compared with others."""
_ACT = ("Script", "Document")
_MAX_SIBLINGS = 3
_SAMPLES = 3
_AT_ONCE = 16


class Inputs:
    """What a page has asked for so far.

    Args:
        bundle: What is there.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._asked: dict[str, str] | None = {}
        self._shown = set[str]()

    def asked(self, path: str, kind: str = "") -> None:
        """Note that a file was asked for, whether it is there or not.

        Args:
            path: Its name in the bundle.
            kind: For what, as the browser calls it.
        """
        if self._asked is None:
            return
        if path not in self._asked:
            self._asked[path] = self._bundle.digests.get(path, ABSENT)
            if len(self._asked) > MAX_INPUTS:
                self._asked = None
        if kind not in _ACT:
            self._shown.add(path)

    def so_far(self) -> dict[str, str] | None:
        """Return each path with its file's hash, and beside them what the bundle is like; None where it is too much."""
        return None if self._asked is None else {**self._bundle.traits, **self._asked}

    def shown(self) -> frozenset[str]:
        """Return which of them were asked for as something else than a script or a page."""
        return frozenset(self._shown)


@dataclass(kw_only=True)
class Siblings:
    """Videos that differ from one in their bundle alone, as far as they were made here; looked for once.

    Args:
        storage: Where all lies.
        user_id: Whose.
        spec: The video.
        environment: The fingerprint that it is made with.
        mode: How units are reached.
    """

    storage: RetryingStorage
    user_id: str
    spec: RenderSpec
    environment: str
    mode: CaptureMode
    _bundles: list[str] | None = field(default=None, init=False)
    _contents: Mapping[str, str] | None = field(default=None, init=False)

    @property
    def _recipe(self) -> str:
        return recipe_hash(self.spec, environment=self.environment, mode=self.mode)

    async def note(self) -> None:
        """Remember that the video's units were made of its bundle.

        Raises:
            StorageError: It could not be stored.
        """
        key = sibling_key(self.user_id, self._recipe, self.spec.bundle)
        await self.storage.put(key, b"{}", synced=False)

    async def adopt(self, missing: Sequence[Unit]) -> list[UnitResult]:
        """Return those of the missing units whose frames another bundle's page has shown; they are stored as ours now.

        Raises:
            StorageError: Storage failed.
        """
        adopted: dict[int, UnitResult] = {}
        for bundle, contents in await self._comparable() if missing else []:
            left = [unit for unit in missing if unit.index not in adopted]
            samples = {left[(len(left) - 1) * part // (_SAMPLES - 1)] for part in range(_SAMPLES) if left}
            for some in (samples, set(left) - samples):
                taken = await self._adopt_all(sorted(some, key=lambda unit: unit.index), bundle, contents)
                adopted |= {unit.unit.index: unit for unit in taken}
                if not taken:  # where none of the samples fits, hardly another will
                    break
        return list(adopted.values())

    async def show(self, unit: Unit) -> bool:
        """Whether another bundle's page showed a unit, and would have if it had been this bundle's.

        Raises:
            StorageError: Storage failed.
        """
        for bundle, contents in await self._comparable():
            if await self._shown(unit, bundle, contents) is not None:
                return True
        return False

    async def before(self, missing: Sequence[Unit]) -> list[UnitResult]:
        """Return the latest other bundle's units in the places of those that are missing, as far as they are known.

        Raises:
            StorageError: Storage failed.
        """
        others = await self._others() if missing else []
        at_once = asyncio.Semaphore(_AT_ONCE)

        async def find(unit: Unit) -> UnitResult | None:
            async with at_once:
                found = await read_unit(self.storage, self.user_id, self._key(unit, others[0]))
            # of what was asked for then nothing is wanted any more: it is asked for anew
            return None if found is None or found.evidence is None else replace(found, inputs=None)

        found = await asyncio.gather(*map(find, missing)) if others else []
        return [unit for unit in found if unit is not None]

    async def _adopt_all(self, units: Sequence[Unit], bundle: str, contents: Mapping[str, str]) -> list[UnitResult]:
        at_once = asyncio.Semaphore(_AT_ONCE)

        async def adopt(unit: Unit) -> UnitResult | None:
            async with at_once:
                return await self._adopt(unit, bundle, contents)

        return [unit for unit in await asyncio.gather(*map(adopt, units)) if unit is not None]

    async def _adopt(self, unit: Unit, bundle: str, contents: Mapping[str, str]) -> UnitResult | None:
        found = await self._shown(unit, bundle, contents)
        if found is None:
            return None
        ours = replace(found, unit=unit, key=self._key(unit, self.spec.bundle), adopted=True)
        return ours.as_told() if await copy_unit(self.storage, self.user_id, found.key, ours) else None

    async def _shown(self, unit: Unit, bundle: str, contents: Mapping[str, str]) -> UnitResult | None:
        """Return another bundle's unit, where all that its page had asked for is the same in these contents."""
        found = await read_unit(self.storage, self.user_id, self._key(unit, bundle))
        if found is None or found.inputs is None or not fits(self.spec, found):
            return None
        same = all(contents.get(name, ABSENT) == digest for name, digest in found.inputs.items())
        return found if same else None

    def _key(self, unit: Unit, bundle: str) -> str:
        how = self.mode if unit.start else "seek"
        return unit_hash(replace(self.spec, bundle=bundle), unit, environment=self.environment, mode=how)

    async def _comparable(self) -> list[tuple[str, Mapping[str, str]]]:
        """Return the other bundles, each with what is in ours; none where nobody wrote that down."""
        others = await self._others()
        if others and self._contents is None:  # most videos have no sibling: it is one look that says so
            self._contents = await bundle_contents(self.storage, self.user_id, self.spec.bundle)
        contents = self._contents
        return [] if contents is None else [(bundle, contents) for bundle in others]

    async def _others(self) -> list[str]:
        """Return the bundles that the video was made of, the latest first."""
        if self._bundles is None:
            found = await self.storage.look_below(siblings_prefix(self.user_id, self._recipe))
            latest = sorted(found, key=lambda each: each.at, reverse=True)
            bundles = [each.key.rpartition("/")[2] for each in latest]
            self._bundles = [bundle for bundle in bundles if bundle != self.spec.bundle][:_MAX_SIBLINGS]
        return self._bundles
