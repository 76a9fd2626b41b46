"""The prompt's own words, cut into phrases that can be read at a glance.

Kinetic typography shows few words at a time. A short prompt is shown whole; of a long one the sentences that hold most
of its recurring words are kept, in their order: extraction, because inventing a summary is not this director's to do.
"""

from __future__ import annotations

import re
from collections import Counter

from koda_ray.roles.offline.extract import clean_phrase, strip_directives
from koda_ray.roles.offline.language import alternatives, listed, signs, unspaced

__all__ = ["MAX_PHRASES", "phrases_of"]

MAX_PHRASES = 12
_MAX_LINE_CHARS = 26
_MAX_CJK_CHARS = 12
_LIGHT = listed("light")
_PAUSES = "".join(sorted(listed("pauses"))) + ":"
_SENTENCES = re.compile(rf"(?<={signs('stops')})\s*|\n+|\s[-–—]\s")
_MARK, _PARTICLE = f"{signs('pauses')}|{signs('stops')}", alternatives("particle")
_PIECES = re.compile(rf"(?<={_MARK})|(?<={_PARTICLE})(?!{_PARTICLE}|{_MARK}|$)")
"""Where a sentence without spaces may be broken: after punctuation, and after particles."""
_MARKED = re.compile(rf"(?:{_MARK})$")


def phrases_of(prompt: str) -> tuple[tuple[str, ...], bool]:
    """Cut a prompt into at most `MAX_PHRASES` short phrases.

    Returns:
        The phrases (never empty), and whether words had to be left out.
    """
    text = clean_phrase(strip_directives(prompt))
    if not re.search(r"\w", text):
        emoji = re.sub(r"\s", "", text)
        return ((emoji[:8] or "Hello",), False)
    sentences = [s.strip() for s in _SENTENCES.split(text) if re.search(r"\w", s)]
    kept = _telling(sentences)
    phrases: list[str] = []
    left_out = len(kept) < len(sentences)
    for sentence in kept:
        pieces = _cut_cjk(sentence) if unspaced().search(sentence) else _cut(sentence)
        if len(phrases) + len(pieces) > MAX_PHRASES:
            left_out = True
            if phrases:
                continue
            pieces = pieces[:MAX_PHRASES]
        phrases.extend(pieces)
    if phrases:
        phrases[-1] = phrases[-1].rstrip(_PAUSES) or phrases[-1]
    return tuple(phrases) or ("Hello",), left_out


def _telling(sentences: list[str]) -> list[str]:
    """Keep the first sentence and those with most recurring words, up to about 36 words."""
    if sum(len(s.split()) for s in sentences) <= 44 and sum(len(s) for s in sentences) <= 260:
        return sentences
    words = [w for s in sentences for w in re.findall(r"[^\W\d_]{3,}", s.lower()) if w not in _LIGHT]
    weight = Counter(words)

    def score(index: int) -> float:
        inside = [w for w in re.findall(r"[^\W\d_]{3,}", sentences[index].lower()) if w not in _LIGHT]
        if not inside:
            return 0.0
        value = sum(weight[w] for w in set(inside)) / (len(inside) + 4) ** 0.7
        return value * (2.0 if index == 0 else 1.0)

    order = sorted(range(len(sentences)), key=lambda i: (-score(i), i))
    chosen: list[int] = []
    budget = 40
    seen: set[str] = set()
    for index in order:
        cost = max(len(sentences[index].split()), len(sentences[index]) // 8)
        if sentences[index].lower() in seen or (chosen and cost > budget):
            continue
        chosen.append(index)
        seen.add(sentences[index].lower())
        budget -= cost
        if budget <= 4:
            break
    return [sentences[i] for i in sorted(chosen)]


def _cut(sentence: str) -> list[str]:
    """Break at punctuation first, then before small words, so that a line is a unit of sense."""
    pieces: list[str] = []
    for clause in re.split(r"(?<=[,;:])\s+", sentence):
        line: list[str] = []
        for word in clause.split():
            word = word if len(word) <= 40 else word[:39] + "…"
            long = len(" ".join([*line, word])) > _MAX_LINE_CHARS
            if line and (long or (len(line) >= 3 and word.lower() in _LIGHT and len(" ".join(line)) > 12)):
                pieces.append(" ".join(line))
                line = []
            line.append(word)
        if line:
            pieces.append(" ".join(line))
    merged: list[str] = []
    for piece in pieces:
        if merged and len(merged[-1]) + len(piece) < 18 and not re.search(r"[.!?,;:]$", merged[-1]):
            merged[-1] += " " + piece
        else:
            merged.append(piece)
    return merged


def _cut_cjk(sentence: str) -> list[str]:
    """Break after particles and punctuation, at most a dozen characters a line."""
    parts = [p for p in _PIECES.split(sentence) if p]
    pieces: list[str] = []
    for part in parts:
        if pieces and len(pieces[-1]) + len(part) <= _MAX_CJK_CHARS and not _MARKED.search(pieces[-1]):
            pieces[-1] += part
        else:
            pieces.append(part)
    return [p[i : i + 2 * _MAX_CJK_CHARS] for p in pieces for i in range(0, len(p), 2 * _MAX_CJK_CHARS)]
