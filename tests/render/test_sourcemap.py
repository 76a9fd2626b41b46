from __future__ import annotations

import base64
import json

from koda_ray.render.sourcemap import Position, SourceMaps

# built line 1: column 0 from App.tsx 1:1, column 10 from App.tsx 3:5; built line 2: column 4 from lib.js 41:2
MAP = {"version": 3, "sources": ["../../src/App.tsx", "../../node_modules/lib.js"], "mappings": "AAAA,UAEI;ICsCH"}


def test_places_are_those_of_the_source() -> None:
    maps = SourceMaps(
        {
            "assets/a.js": b"code\ncode\n//# sourceMappingURL=a.js.map\n",
            "assets/a.js.map": json.dumps(MAP).encode(),
        }
    )
    assert maps.original("assets/a.js", 1, 1) == Position("src/App.tsx", 1, 1)
    assert maps.original("assets/a.js", 1, 10) == Position("src/App.tsx", 1, 1)
    assert maps.original("assets/a.js", 1, 11) == Position("src/App.tsx", 3, 5)
    assert maps.original("assets/a.js", 2, 9) == Position("node_modules/lib.js", 41, 2)
    assert maps.original("assets/a.js", 2, 2) is None
    assert maps.original("assets/a.js", 99, 1) is None


def test_a_map_may_lie_in_the_script() -> None:
    data = base64.b64encode(json.dumps(MAP | {"sources": ["webpack:///src/b.ts"]}).encode())
    maps = SourceMaps({"b.js": b"x\n//# sourceMappingURL=data:application/json;base64," + data})
    assert maps.original("b.js", 1, 1) == Position("src/b.ts", 1, 1)


def test_a_missing_or_broken_map_says_nothing() -> None:
    maps = SourceMaps({"a.js": b"//# sourceMappingURL=gone.map", "b.js": b"", "b.js.map": b'{"mappings": "!!"}'})
    assert maps.original("a.js", 1, 1) is None
    assert maps.original("b.js", 1, 1) is None
    assert maps.original("c.js", 1, 1) is None
