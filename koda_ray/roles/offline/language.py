"""What the director hears and says, a file a language in ``languages/``: words, regular expressions, prose.

It hears all languages at once, so a table holds every language's words, and an expression is every language's
alternatives. It says what it has to say in English; what a film shows, in the film's language where that has words.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import cast

__all__ = [
    "alternatives",
    "beats",
    "choices",
    "expression",
    "figures",
    "grouped",
    "listed",
    "pairs",
    "rows",
    "said",
    "script",
    "signs",
    "table",
    "unspaced",
]

_LANGUAGES = ("en", "ja", "zh", "ko", "de", "fr", "es", "it")
_SPOKEN = "en"


@cache
def _file(language: str) -> Mapping[str, object]:
    path = resources.files("koda_ray.roles.offline") / "languages" / f"{language}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _sections(name: str) -> Iterator[Mapping[str, object]]:
    for language in _LANGUAGES:
        section = _file(language).get(name)
        if section is not None:
            yield cast("Mapping[str, object]", section)


def table(name: str) -> dict[str, str | float]:
    """Return a table of words and what each means: a colour, a figure."""
    return {word: cast("str | float", value) for section in _sections(name) for word, value in section.items()}


def grouped(name: str) -> dict[str, tuple[str, ...]]:
    """Return the words, or expressions, of all languages for each key of a table."""
    groups: dict[str, tuple[str, ...]] = {}
    for section in _sections(name):
        for key, words in section.items():
            groups[key] = (*groups.get(key, ()), *cast("list[str]", words))
    return groups


def pairs(name: str) -> dict[str, tuple[str, str]]:
    """Return two opposites for each key of a table, as alternatives of regular expressions."""
    found: dict[str, tuple[str, str]] = {}
    for section in _sections(name):
        for key, value in section.items():
            one, other = cast("list[str]", value)
            known = found.get(key)
            found[key] = (f"{known[0]}|{one}", f"{known[1]}|{other}") if known else (one, other)
    return found


def listed(name: str) -> frozenset[str]:
    """Return the words of a list."""
    return frozenset(grouped("words")[name])


def signs(name: str) -> str:
    """Return a list of signs as a class of characters, to be put into an expression."""
    return f"[{re.escape(''.join(sorted(listed(name))))}]"


@cache
def script(language: str) -> re.Pattern[str]:
    """Return an expression for a letter of a language's own script."""
    return re.compile(cast("str", cast("Mapping[str, object]", _file(language)["script"])["letter"]))


@cache
def unspaced() -> re.Pattern[str]:
    """Return an expression for a letter of a script whose words stand without spaces between."""
    return re.compile("|".join(cast("str", each["letter"]) for each in _sections("script") if not each["spaced"]))


@cache
def alternatives(name: str) -> str:
    """Return an expression's alternatives in all languages, to be put into a larger expression."""
    return "|".join(cast("str", section[name]) for section in _sections("expressions") if name in section)


@cache
def expression(name: str, *, cased: bool = False) -> re.Pattern[str]:
    """Return an expression; letters' case does not matter unless it is ``cased``."""
    return re.compile(alternatives(name), 0 if cased else re.IGNORECASE)


def _prose(key: str, language: str = _SPOKEN) -> object:
    value: object = _file(language).get("prose") if language in _LANGUAGES else None
    for part in key.split("."):
        value = cast("Mapping[str, object]", value).get(part) if isinstance(value, Mapping) else None
    if value is None and language == _SPOKEN:
        raise KeyError(key)
    return _prose(key) if value is None else value


def said(key: str, *, language: str = _SPOKEN, **values: object) -> str:
    """Return a sentence, its blanks filled in; in English where the ``language`` lacks it."""
    return cast("str", _prose(key, language)).format(**values)


class _Blanks(dict[str, object]):
    """What fills blanks; a blank that nothing fills stays one."""

    def __missing__(self, key: str) -> str:
        return f"{{{key}}}"


def beats(name: str, **values: object) -> dict[str, list[list[str]]]:
    """Return a film's beats, its opening, middle and ending: title, what is seen and how it moves of each."""
    found = cast("Mapping[str, list[object]]", _prose(f"beats.{name}"))
    lists = {part: beats if part == "middle" else [beats] for part, beats in found.items()}
    blanks = _Blanks(values)
    return {
        part: [[words.format_map(blanks) for words in beat] for beat in cast("list[list[str]]", beats)]
        for part, beats in lists.items()
    }


def figures(key: str) -> list[tuple[str, float]]:
    """Return figures and what they are called."""
    return [(label, value) for label, value in cast("list[tuple[str, float]]", _prose(key))]


def rows(key: str) -> list[list[str]]:
    """Return lists of words."""
    return cast("list[list[str]]", _prose(key))


def choices(key: str) -> tuple[tuple[str, str, str], ...]:
    """Return the options of a question: id, label and description of each."""
    rows = cast("Mapping[str, list[str]]", _prose(key))
    return tuple((id_, label, about) for id_, (label, about) in rows.items())
