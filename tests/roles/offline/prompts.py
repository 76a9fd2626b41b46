"""One prompt for each subject and manner, used by all tests that go through every film."""

from __future__ import annotations

PROMPTS = {
    "ball": "Create a bouncing ball animation, playful",
    "balls": "cinematic, three gold balls bouncing from left to right",
    "shapes": "colorful geometric shapes dancing, playful",
    "cubes": "four red cubes spinning, smooth",
    "fireworks": "夜空に花火が上がる, スムーズに",
    "snow": "gentle snow falling, smooth",
    "logo": "smooth minimal logo reveal for Acme, 6 seconds",
    "title": "cinematic title 'The Long Night' with particles",
    "title-pop": "playful title 'Hello Summer' with subtitle 'A short film'",
    "steps": "the quarterly roadmap in three steps",
    "steps-tall": "TikTok: steps: Plan, Build, Test, Ship, Learn, Grow, playful",
    "bars": "bar chart of 12, 30, 45, 70 growing, blue, 8s",
    "bars-negative": "playful bar chart: A 5, B -3, C 8",
    "line": "line chart of revenue: Jan 10, Feb 22, Mar 18",
    "pie": "pie chart: Apples 40%, Pears 35%, Plums 25%, playful",
    "countdown": "count down from 5",
    "countdown-film": "cinematic countdown from 3",
    "card": "product card for Aurora Headphones, $199",
    "orbit": "planets orbiting a sun",
    "plane": "a paper plane crossing the picture",
    "rocket": "a rocket launching into space",
    "cats": "three cats running from right to left",
    "hop": "a frog jumping, playful",
    "image": "animate my photo, cinematic",
    "words": "Good design is as little design as possible. Less, but better, smooth",
    "words-pop": "It wakes the whole house. Smell it! Fun",
    "short": "smooth ball, 1.5 seconds",
    "long": "cinematic title 'Forever', 90 seconds, square",
}
