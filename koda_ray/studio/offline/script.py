"""What happens in a film of each subject, beat by beat, in words a person can approve.

A beat names the motion and the curves that the code will really use; the plan cuts them to the film's length.
"""

from __future__ import annotations

from dataclasses import dataclass

from koda_ray.studio.offline.brief import Brief, Subject
from koda_ray.studio.offline.motion import FEELS

__all__ = ["Beat", "Script", "script_for"]


@dataclass(frozen=True)
class Beat:
    """One moment: a title, what is seen, how it moves."""

    title: str
    description: str
    notes: str


@dataclass(frozen=True)
class Script:
    """A film's beats: how it opens, what carries it (as many as the length takes, in order), how it ends."""

    opening: Beat
    middle: tuple[Beat, ...]
    ending: Beat


_CHARTED: dict[str, str] = {"bars": "bar", "line": "line", "pie": "slice"}


def _thing(brief: Brief) -> str:
    words = {
        "paper-plane": "paper plane",
        "hot-air-balloon": "hot-air balloon",
        "boat": "sailing boat",
        "rocket": "rocket",
        "balloon": "balloon",
    }
    return words.get(brief.hero, brief.hero or "figure")


def _ball(brief: Brief) -> Script:
    many = (brief.count or 1) > 1
    ball = f"{brief.count} balls" if many else "ball"
    one = "They" if many else "It"
    shadow = "; the contact shadow tightens as it nears the floor" if brief.shadow else ""
    return Script(
        Beat(
            "Drop in",
            f"The {ball} fall{'' if many else 's'} into the picture under gravity.",
            "Exact parabola (easeInQuad), squash and stretch on contact" + shadow,
        ),
        (
            Beat(
                "Bounce",
                f"{one} bounce{'' if many else 's'} in a steady rhythm.",
                f"Parabolic arcs, squash {0.22 * brief.bounce:.0%} on contact, a touch of spin" + shadow,
            ),
            Beat(
                "Higher",
                "The bounces reach a little higher and the camera drifts with them.",
                "Same period, taller arcs, {move} on the camera",
            ),
            Beat(
                "Show off",
                f"{one} turn{'' if many else 's'} in the air between two contacts.",
                "Spin on the rising half, {settle} on landing",
            ),
        ),
        Beat(
            "Come to rest",
            "The arcs get smaller and the last frame stands as a picture.",
            "Decaying parabolas, {settle} settle, long hold",
        ),
    )


def _shapes(brief: Brief) -> Script:
    return Script(
        Beat(
            "Gather", "The shapes pop in one after another, on their marks.", "{enter} on scale, staggered by {stagger}"
        ),
        (
            Beat(
                "Trade places", "They swap places along curved paths.", "{move} on position, quarter turns on the way"
            ),
            Beat("Spin", "Each turns around its own axis.", "{move} on rotation, phases offset"),
            Beat("Line up", "They align and breathe together.", "{settle} on scale"),
        ),
        Beat("Final order", "They settle in a balanced arrangement.", "{settle} settle, long hold"),
    )


def _particles(brief: Brief) -> Script:
    kind = brief.particle_kind
    if kind == "fireworks":
        return Script(
            Beat(
                "First light",
                "A shell climbs and opens into a wide chrysanthemum.",
                "Ballistic rise, burst with drag and gravity",
            ),
            (
                Beat(
                    "Volley",
                    "More shells follow, in the palette's colours.",
                    "Staggered launches, trails that fade by power law",
                ),
                Beat(
                    "Willow",
                    "Gold rain hangs in the air and sinks.",
                    "Low drag, long fades, {move} glow on the horizon",
                ),
                Beat("Pairs", "Two shells open side by side.", "Simultaneous bursts, mirrored"),
            ),
            Beat(
                "Finale",
                "The sky fills, and the last picture glows.",
                "Dense bursts, {leave} on the ambient light, hold",
            ),
        )
    return Script(
        Beat("Begin", f"The first {kind} drift in.", "{enter} on density"),
        (
            Beat("Fill", f"The picture fills with {kind}, near and far.", "Three depths, each with its own pace"),
            Beat("Sway", "A slow breath moves all of them.", "Shared wind, {move}"),
            Beat("Gust", "The movement quickens for a moment.", "{move} on the wind"),
        ),
        Beat("Linger", "The movement calms and the picture holds.", "{leave} on the wind, hold"),
    )


def _logo(brief: Brief) -> Script:
    return Script(
        Beat("Mark", f"The mark of {brief.heading} draws itself.", "{enter} on the strokes"),
        (
            Beat(
                "Name", "The name comes out from behind the mark, letter by letter.", "{enter}, staggered by {stagger}"
            ),
            Beat("Light", "A line of light passes over the mark.", "{move} sweep"),
            Beat("Breath", "Mark and name breathe together.", "Slow scale, {move}"),
        ),
        Beat("Lock-up", "Everything rests in its final place.", "{settle} settle, long hold"),
    )


def _title(brief: Brief) -> Script:
    dust = f" {brief.particle_kind.capitalize()} drift through the light." if brief.particles else ""
    return Script(
        Beat("Open", "Light comes up on the empty stage." + dust, "{enter} on light and depth"),
        (
            Beat(
                "Title",
                f"“{brief.heading}” appears, line by line.",
                "{enter} on opacity and tracking, staggered by {stagger}",
            ),
            Beat("Push in", "A slow camera move towards the letters.", "{move} dolly"),
            Beat("Glint", "Light passes across the title.", "{move} sweep"),
        ),
        Beat("Hold", "The title stands as a poster.", "{settle} settle, long hold"),
    )


def _kinetic(brief: Brief) -> Script:
    first = brief.words[0] if brief.words else "the words"
    return Script(
        Beat("First words", f"“{first}” sets the pace.", "{enter} by line, masked"),
        (
            Beat(
                "Keep talking",
                "The phrases follow each other, each with its own entrance.",
                "{enter} in, {leave} out, staggered by {stagger}",
            ),
            Beat("Stress", "The weightiest words stand large, in colour.", "{enter} on scale"),
            Beat("Turn", "The direction of reading turns with the sense.", "{move} on the page"),
        ),
        Beat("Last words", "The last phrase stays, fully legible.", "{settle} settle, long hold"),
    )


def _chart(brief: Brief) -> Script:
    thing = _CHARTED[brief.subject]
    values = ", ".join(f"{d.value:g}" for d in brief.data[:6])
    return Script(
        Beat("Set the scene", "Title and axis come in.", "{enter} on position and opacity"),
        (
            Beat(
                "Grow",
                f"Each {thing} grows to its value ({values}).",
                "{enter} on length, staggered by {stagger}; labels count up",
            ),
            Beat("Compare", "The largest value takes the accent colour.", "{move} on emphasis"),
            Beat("Look closer", "The rest step back while the accent breathes.", "{move}"),
        ),
        Beat("Read", "The finished chart holds, every figure legible.", "{settle} settle, long hold"),
    )


def _steps(brief: Brief) -> Script:
    beats = tuple(
        Beat(
            step,
            f"Step {i + 1} of {len(brief.steps)}: “{step}” arrives on the path.",
            "{enter} on the card, the path draws on with {move}",
        )
        for i, step in enumerate(brief.steps)
    )
    return Script(
        Beat("Heading", f"“{brief.heading or 'The steps'}” opens the list.", "{enter} on position and opacity"),
        beats or (Beat("Step", "A step arrives.", "{enter}"),),
        Beat("Overview", "All steps stand together.", "{settle} settle, long hold"),
    )


def _countdown(brief: Brief) -> Script:
    return Script(
        Beat(
            f"{brief.count_from}",
            f"{brief.count_from} fills the picture; a ring runs around it.",
            "{enter} on scale, one step each beat",
        ),
        (
            Beat(
                "Count",
                f"The numbers change on the beat, down to {brief.count_to}.",
                "{enter} in, {leave} out, ring at constant pace",
            ),
            Beat("Faster heart", "The ground pulses with each number.", "{move} on scale"),
        ),
        Beat("Zero", "The ring closes and the picture bursts open.", "{settle}, burst, hold"),
    )


def _card(brief: Brief) -> Script:
    price = f" and the price {brief.price}" if brief.price else ""
    return Script(
        Beat("Arrive", "The card turns into view.", "{enter} on rotation in space, shadow follows"),
        (
            Beat("Product", f"{brief.heading} lifts off the card.", "{enter}, parallax between the layers"),
            Beat("Facts", f"Name{price} come in.", "{enter}, staggered by {stagger}"),
            Beat("Turn", "The card tilts towards the light.", "{move}"),
        ),
        Beat("Offer", "The card faces us, everything legible.", "{settle} settle, long hold"),
    )


def _orbit(brief: Brief) -> Script:
    return Script(
        Beat("Light up", "The centre begins to glow.", "{enter} on scale and light"),
        (
            Beat("Orbits", "Bodies swing onto their paths, near ones faster.", "Kepler's third law sets the periods"),
            Beat("Approach", "The camera sinks towards the plane.", "{move} on the camera"),
            Beat("Alignment", "The bodies pass each other.", "Constant angular speed"),
        ),
        Beat("System", "The whole system is seen, still turning.", "{move} on the camera, hold"),
    )


def _hero(brief: Brief) -> Script:
    thing = _thing(brief)
    words = {
        "cross": (
            "Enter",
            f"The {thing} comes into the picture.",
            "Cross",
            f"The {thing} crosses the picture on a curved path.",
        ),
        "rise": ("Ready", f"The {thing} gathers itself.", "Climb", f"The {thing} climbs."),
        "fall": ("Above", f"The {thing} appears above.", "Fall", f"The {thing} comes down, swaying."),
        "bounce": ("Hop in", f"The {thing} hops into the picture.", "Bounce", f"The {thing} bounces on the spot."),
        "spin": ("Pop in", f"The {thing} pops in.", "Spin", f"The {thing} turns around itself."),
        "float": ("Pop in", f"The {thing} pops in.", "Float", f"The {thing} floats."),
    }[brief.hero_motion]
    return Script(
        Beat(words[0], words[1], "{enter}"),
        (
            Beat(words[2], words[3], "{move} along the path, the body leans into it"),
            Beat("Scenery", "Near and far layers pass at their own pace.", "Parallax"),
            Beat("Flourish", "A small turn on the way.", "{settle}"),
        ),
        Beat("Poster", "The last picture is composed and holds.", "{settle} settle, hold"),
    )


def _image(brief: Brief) -> Script:
    return Script(
        Beat("Unveil", "The picture opens from its centre.", "{enter} on the mask"),
        (
            Beat("Drift", "A slow move across the picture.", "{move} on position and scale"),
            Beat("Light", "A soft light passes over it.", "{move} sweep"),
            Beat("Depth", "Frame and picture move apart a little.", "{move}, parallax"),
        ),
        Beat("Frame", "The whole picture is seen.", "{settle} settle, long hold"),
    )


_SCRIPTS = {
    "ball": _ball,
    "shapes": _shapes,
    "particles": _particles,
    "logo": _logo,
    "title": _title,
    "kinetic": _kinetic,
    "bars": _chart,
    "line": _chart,
    "pie": _chart,
    "steps": _steps,
    "countdown": _countdown,
    "card": _card,
    "orbit": _orbit,
    "hero": _hero,
    "image": _image,
}


def script_for(brief: Brief) -> Script:
    """Return the script of the brief's subject, with the style's curves named in its notes."""
    subject: Subject = brief.subject
    script = _SCRIPTS[subject](brief)
    feel = FEELS[brief.easing or brief.style]

    def named(beat: Beat) -> Beat:
        notes = (
            beat.notes.replace("{enter}", feel.enter)
            .replace("{move}", feel.move)
            .replace("{leave}", feel.leave)
            .replace("{settle}", feel.settle)
            .replace("{stagger}", f"{feel.stagger_s:g} s")
            .replace("cinematicOut", "cubic-bezier(0.08, 0.82, 0.17, 1)")
        )
        return Beat(beat.title, beat.description, notes)

    return Script(named(script.opening), tuple(named(b) for b in script.middle), named(script.ending))
