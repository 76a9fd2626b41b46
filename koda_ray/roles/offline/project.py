"""A film as the files of a project: theme, Theatre state, scene, parts and App, complete at every step of the plan.

Each step's files compile and run on their own, because the live preview shows the project while it grows: first the
empty stage, then the scene with its first keyframes, then more of them, at last the finish.
"""

from __future__ import annotations

from typing import Literal

from koda_ray.roles.offline.colour import contrast, from_oklch, mix, on, to_oklch, with_contrast
from koda_ray.roles.offline.film import Film
from koda_ray.roles.offline.palette import ink_on
from koda_ray.roles.offline.subject import subject_of
from koda_ray.roles.offline.tsx import Raw, fill, imported, kit

__all__ = ["STATE_PATH", "film_files"]

STATE_PATH = "src/theatre/state.json"


def _theme(film: Film) -> str:
    palette, brief = film.palette, film.brief
    family, weight, tracking = _type(film)
    paper = mix(palette.bottom, "#FFFFFF", 0.1) if palette.dark and brief.style != "playful" else "#FFFFFF"
    value = {
        "name": palette.name,
        "dark": palette.dark,
        "ground": {
            "top": palette.top,
            "bottom": palette.bottom,
            "glow": palette.glow,
            "ink": palette.plain_ink,
        },
        "ink": palette.ink,
        "muted": palette.muted,
        "accent": palette.accent,
        "colours": list(palette.colours),
        "markInk": ink_on(palette, palette.accent),
        "paper": paper,
        "paperInk": palette.ink if contrast(palette.ink, paper) >= 4 else on(paper, dark=_shade(film)),
        "priceInk": with_contrast(palette.accent, paper, least=3.2),
        "shade": _shade(film),
        "type": {
            "family": Raw(f"FONT.{family}"),
            "text": Raw("FONT.mono" if brief.font == "mono" else "FONT.sans"),
            "weight": weight,
            "tracking": tracking,
            "caps": film.type_caps,
        },
        "lettering": _lettering(film),
        "heading": _words_look(film, "heading"),
        "aside": _words_look(film, "aside"),
    }
    return fill("theme.ts", theme=value)


def _words_look(film: Film, part: Literal["heading", "aside"]) -> dict[str, object] | None:
    """Return what is otherwise of the words that are no subject; nothing where they look as usual."""
    look, subject, brief = film.brief.look(part), subject_of(film.brief), film.brief
    if part == "aside":
        if not subject.tagged:
            return None
        scale = look.scale
    else:
        scale = look.scale * (brief.lettering if subject.heading_in == "Heading" else 1.0)
    values: dict[str, object] = {
        "color": with_contrast(look.colour, film.palette.ground, least=1.5) if look.colour else None,
        "scale": round(scale, 3) if scale != 1 else None,
        "hidden": None if look.shown else True,
    }
    return values if any(value is not None for value in values.values()) else None


def _lettering(film: Film) -> list[str]:
    palette = film.palette
    if (own := film.brief.look("heading").colour) is not None and subject_of(film.brief).heading_in == "Title":
        return [with_contrast(own, palette.ground, least=1.5)]
    if not film.many_letter_colours:
        return [palette.ink]
    clear = [c for c in palette.colours if contrast(c, palette.ground) >= 2.1]
    return clear[:3] if len(clear) > 1 else [palette.ink, *clear]


def _shade(film: Film) -> str:
    """Return what shadows are made of: the ground's own hue, far darker."""
    lightness, chroma, hue = to_oklch(film.palette.bottom)
    return from_oklch(min(0.36, lightness * 0.46), min(0.12, chroma * 0.9), hue)


def _type(film: Film) -> tuple[str, int, float]:
    """Return the title face: font name of the runtime, weight, tracking in em."""
    brief = film.brief
    family, weight, tracking = {
        "playful": ("display", 800, -0.03),
        "smooth": ("sans", 650, -0.035),
        "cinematic": ("serif", 600, 0.02),
    }[brief.style]
    if brief.style == "smooth" and (brief.seed // 13 + brief.variant) % 3 == 1:
        family, weight, tracking = "grotesk", 600, -0.035
    if brief.style == "cinematic" and (brief.seed // 13 + brief.variant) % 3 == 1:
        family, weight, tracking = "sans", 300, 0.16
        film.type_caps = True
    if brief.font is not None:
        film.type_caps = False
        family, weight, tracking = {
            "serif": ("serif", 650, -0.01),
            "sans": ("sans", 750, -0.03),
            "mono": ("mono", 650, -0.03),
            "round": ("soft", 700, -0.01),
        }[brief.font]
    if brief.language != "en":
        family, tracking = ("sans" if brief.font is None else family), max(0.0, tracking)
        weight = max(weight, 500) if brief.style == "cinematic" else weight
    return film.type_family or family, film.type_weight or weight, film.type_tracking or tracking


def _main_scene(film: Film, *, scene: bool, finish: bool) -> str:
    framing = film.framing
    imports: list[str] = []
    inside: list[str] = []
    if "ground" not in film.hidden:
        imports.append("import { Backdrop } from '../components/Backdrop';")
        inside.append(
            f'<Backdrop motif="{framing.motif}" lightX={{{framing.light_x:g}}} lightY={{{framing.light_y:g}}} />'
        )
    if scene:
        scene_jsx = f"<{film.scene} />"
        if film.zoom != 1:
            scene_jsx = (
                f"<Layer style={{{{ transform: 'scale({film.zoom:g})' }}}}>\n        <{film.scene} />\n      </Layer>"
            )
        drawn = [] if "subject" in film.hidden else [(film.scene, scene_jsx)]
        for name, jsx in (*film.backlayers, *drawn, *film.overlays):
            line = f"import {{ {name} }} from '{'.' if name == film.scene else '../components'}/{name}';"
            if line not in imports:
                imports.append(line)
            inside.append(jsx)
    if finish and "finish" not in film.hidden:
        imports.append("import { Finish } from '../components/Finish';")
        props = {"vignette": framing.vignette, "bars": framing.bars, "grain": framing.grain}
        given = " ".join(f"{name}={{{value:g}}}" for name, value in props.items() if value)
        inside.append(f"<Finish {given} />")
    stage = "Layer, Stage" if any("<Layer" in jsx for jsx in inside) else "Stage"
    imports += [f"import {{ {stage} }} from '../koda/Stage';", "import { theme } from '../theme';"]
    body = "\n".join(f"      {line}" for line in inside)
    return (
        "// The layers of the picture, from the ground up.\n"
        + "\n".join(sorted(imports, key=lambda line: line.split("'")[1]))
        + "\n\nexport function MainScene() {\n  return (\n    <Stage background={theme.ground.bottom}>\n"
        + body
        + "\n    </Stage>\n  );\n}\n"
    )


def film_files(film: Film, *, until: int | None) -> dict[str, str]:
    """Return the project's files after a step of the plan.

    Args:
        film: The whole film.
        until: 0 for the stage alone, n for everything up to and with scene n, None for the finished film.
    """
    brief, timing = film.brief, film.timing
    bounce = brief.bounce
    end = None if until is None else (0.0 if until == 0 else timing.ends[until - 1])
    files = {
        "src/App.tsx": kit("App.tsx"),
        "src/scenes/MainScene.tsx": _main_scene(film, scene=until != 0, finish=until is None),
        "src/theme.ts": _theme(film),
        "src/theatre/project.ts": fill(
            "theatre/project.ts", duration=timing.total, fps=brief.fps, width=brief.width, height=brief.height
        ),
        STATE_PATH: film.score.state(length_s=timing.total, until_s=end, bounce=bounce),
    }
    if until != 0 and "subject" not in film.hidden:
        files[f"src/scenes/{film.scene}.tsx"] = fill(f"scenes/{film.scene}.tsx", **film.values)
    return files | imported(files)
