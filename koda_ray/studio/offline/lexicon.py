"""The words that the director knows whatever the subject, as data.

Entries are matched as whole words in scripts that separate words, and anywhere in
Japanese and Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

__all__ = [
    "COLOURS",
    "HEROES",
    "NUMBERS",
    "PARTICLES",
    "PRODUCTS",
    "STYLE_CLUES",
    "STYLE_WORDS",
    "VOCABULARY",
    "contains",
    "find_all",
    "first_of",
    "pattern",
]

NUMBERS: dict[str, float] = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16,
    "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50,
    "sixty": 60, "ninety": 90, "hundred": 100, "half": 0.5, "quarter": 0.25, "couple": 2, "dozen": 12,
    "一": 1, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9, "十": 10,
}  # fmt: skip

COLOURS: dict[str, str] = {
    "red": "#E5322D", "crimson": "#C2183B", "scarlet": "#EE2E24", "maroon": "#7A1F2B", "orange": "#FF7A1A",
    "amber": "#FFB000", "yellow": "#FFCF24", "gold": "#D9A441", "golden": "#D9A441", "lime": "#9BE02B",
    "green": "#22A559", "emerald": "#0E9F6E", "mint": "#4FD1A5", "olive": "#7C8A2E", "teal": "#0F9D94",
    "turquoise": "#1CC6C6", "cyan": "#16BDE0", "aqua": "#2AD0E0", "sky blue": "#4AA8FF", "light blue": "#6DB6FF",
    "blue": "#2563EB", "royal blue": "#2A4BD7", "navy": "#1B2A5C", "dark blue": "#1B2A6C", "indigo": "#4B3FE0",
    "violet": "#7C4DFF", "purple": "#8B3FE0", "lavender": "#A78BFA", "magenta": "#D81B9C", "fuchsia": "#E0249E",
    "pink": "#FF5FA2", "hot pink": "#FF2E8A", "rose": "#F0477E", "coral": "#FF6F61", "salmon": "#FF8C78",
    "peach": "#FFB08A", "brown": "#8A5A3A", "beige": "#E5D6BD", "cream": "#F6EEDB", "ivory": "#F7F3E6",
    "white": "#FFFFFF", "silver": "#BFC5CE", "gray": "#8A909A", "grey": "#8A909A", "charcoal": "#2B2E35",
    "black": "#111216",
    "赤": "#E5322D", "赤い": "#E5322D", "青": "#2563EB", "青い": "#2563EB", "緑": "#22A559", "黄色": "#FFCF24",
    "オレンジ": "#FF7A1A", "ピンク": "#FF5FA2", "紫": "#8B3FE0", "白": "#FFFFFF", "白い": "#FFFFFF",
    "黒": "#111216", "黒い": "#111216", "金色": "#D9A441", "水色": "#4AA8FF", "茶色": "#8A5A3A",
    "红色": "#E5322D", "蓝色": "#2563EB", "绿色": "#22A559", "黑色": "#111216", "白色": "#FFFFFF",
}  # fmt: skip

STYLE_WORDS: dict[str, tuple[str, ...]] = {
    "playful": (
        "playful", "bouncy", "fun", "funny", "cute", "cartoon", "cartoonish", "cartoony", "quirky", "energetic",
        "lively", "whimsical", "childlike", "for kids", "for children", "jolly", "silly", "cheerful", "happy",
        "springy", "elastic", "squash and stretch", "easeoutback", "easeoutelastic", "overshoot", "pop art", "zany",
        "楽しい", "楽しく", "ポップ", "かわいい", "可愛い", "元気", "弾む", "弾むよう", "ユーモラス", "有趣", "活泼",
        "verspielt", "ludique", "divertido",
    ),
    "smooth": (
        "smooth", "smoothly", "minimal", "minimalist", "minimalistic", "clean", "elegant", "subtle", "flowing",
        "sleek", "modern", "calm", "soft", "gentle", "sophisticated", "simple", "understated", "professional",
        "corporate", "like stripe", "stripe website", "apple style", "like apple", "refined", "easeinoutcubic",
        "easeoutquint", "swiss", "スムーズ", "なめらか", "滑らか", "ミニマル", "シンプル", "上品", "静か", "落ち着いた",
        "エレガント", "简约", "流畅", "minimalistisch", "élégant", "suave",
    ),
    "cinematic": (
        "cinematic", "dramatic", "epic", "film-like", "movie-like", "moody", "noir", "trailer", "suspenseful",
        "intense", "atmospheric", "letterbox", "hollywood", "blockbuster", "majestic", "easeinoutquart", "film noir",
        "シネマティック", "映画的", "映画のよう", "ドラマチック", "劇的", "壮大", "重厚", "电影感", "戏剧性",
        "filmisch", "cinématographique", "dramatique", "cinematográfico",
    ),
}  # fmt: skip

STYLE_CLUES: dict[str, tuple[str, ...]] = {
    "playful": (
        "confetti", "party", "birthday", "kids", "balloon", "balloons", "candy", "emoji", "game", "toy", "celebrate",
        "celebration", "bubbles", "dance", "dancing", "wobble", "jump", "jumping", "hooray", "congratulations",
        "hop", "hops", "hopping", "誕生日", "パーティー", "紙吹雪", "風船",
    ),
    "smooth": (
        "roadmap", "quarterly", "quarter", "revenue", "sales", "report", "business", "startup", "product", "saas",
        "presentation", "growth", "users", "kpi", "dashboard", "strategy", "process", "agenda", "onboarding",
        "card", "brand", "company", "売上", "製品", "会社", "報告",
    ),
    "cinematic": (
        "night", "space", "galaxy", "planet", "planets", "solar system", "stars", "storm", "war", "dark", "history",
        "mystery", "fireworks", "universe", "ocean", "mountain", "legend", "shadow", "thunder", "宇宙", "夜空", "花火",
        "惑星", "銀河",
    ),
}  # fmt: skip

PARTICLES: dict[str, str] = {
    "firework": "fireworks", "fireworks": "fireworks", "花火": "fireworks", "烟花": "fireworks",
    "feuerwerk": "fireworks", "confetti": "confetti", "紙吹雪": "confetti", "konfetti": "confetti",
    "snow": "snow", "snowfall": "snow", "snowflakes": "snow", "snowing": "snow", "雪": "snow", "rain": "rain",
    "raining": "rain", "rainfall": "rain", "雨": "rain", "stars": "stars", "starfield": "stars",
    "starry": "stars", "star field": "stars", "hyperspace": "stars", "星": "stars", "星空": "stars",
    "galaxy": "stars", "銀河": "stars", "bubbles": "bubbles", "bubble": "bubbles", "泡": "bubbles",
    "シャボン玉": "bubbles", "sparks": "embers", "embers": "embers", "fire": "embers", "flames": "embers",
    "炎": "embers", "火の粉": "embers", "fireflies": "fireflies", "firefly": "fireflies", "蛍": "fireflies",
    "ホタル": "fireflies", "petals": "petals", "cherry blossoms": "petals", "cherry blossom": "petals",
    "sakura": "petals", "桜": "petals", "花びら": "petals", "leaves": "petals", "autumn leaves": "petals",
    "dust": "dust", "particles": "dust", "particle": "dust", "パーティクル": "dust", "粒子": "dust",
    "樱花": "petals", "glitter": "fireflies", "sparkles": "fireflies", "きらめき": "fireflies",
}  # fmt: skip

_HEROES: dict[str, str] = {
    "paper plane": "paper-plane", "paper airplane": "paper-plane", "paper aeroplane": "paper-plane",
    "paper planes": "paper-plane", "紙飛行機": "paper-plane", "纸飞机": "paper-plane", "rocket": "rocket",
    "rockets": "rocket", "spaceship": "rocket", "ロケット": "rocket", "火箭": "rocket", "balloon": "balloon",
    "balloons": "balloon", "風船": "balloon", "気球": "hot-air-balloon", "hot air balloon": "hot-air-balloon",
    "sailboat": "boat", "boat": "boat", "ship": "boat", "船": "boat", "ヨット": "boat", "kite": "🪁", "凧": "🪁",
    "airplane": "✈️", "aeroplane": "✈️", "plane": "✈️", "飛行機": "✈️", "helicopter": "🚁", "ufo": "🛸",
    "car": "🚗", "cars": "🚗", "車": "🚗", "race car": "🏎️", "taxi": "🚕", "bus": "🚌", "バス": "🚌", "truck": "🚚",
    "train": "🚂", "電車": "🚃", "列車": "🚂", "bicycle": "🚲", "bike": "🚲", "自転車": "🚲", "scooter": "🛵",
    "motorcycle": "🏍️", "tractor": "🚜", "ambulance": "🚑", "fire truck": "🚒", "satellite": "🛰️",
    "bird": "🐦", "birds": "🐦", "鳥": "🐦", "eagle": "🦅", "owl": "🦉", "duck": "🦆", "penguin": "🐧",
    "ペンギン": "🐧", "butterfly": "🦋", "butterflies": "🦋", "蝶": "🦋", "bee": "🐝", "bees": "🐝", "fish": "🐠",
    "魚": "🐠", "whale": "🐋", "クジラ": "🐋", "鯨": "🐋", "dolphin": "🐬", "イルカ": "🐬", "shark": "🦈",
    "octopus": "🐙", "turtle": "🐢", "亀": "🐢", "crab": "🦀", "cat": "🐈", "猫": "🐈", "ネコ": "🐈", "kitten": "🐈",
    "dog": "🐕", "犬": "🐕", "puppy": "🐕", "horse": "🐎", "馬": "🐎", "unicorn": "🦄", "rabbit": "🐇", "bunny": "🐇",
    "うさぎ": "🐇", "fox": "🦊", "bear": "🐻", "panda": "🐼", "lion": "🦁", "tiger": "🐅", "elephant": "🐘",
    "ゾウ": "🐘", "monkey": "🐒", "cow": "🐄", "pig": "🐖", "sheep": "🐑", "chicken": "🐓", "snail": "🐌",
    "frog": "🐸", "カエル": "🐸", "snake": "🐍", "dragon": "🐉", "龍": "🐉", "dinosaur": "🦕", "恐竜": "🦕",
    "mouse": "🐁", "hedgehog": "🦔", "squirrel": "🐿️", "spider": "🕷️", "ladybug": "🐞", "ghost": "👻", "robot": "🤖",
    "ロボット": "🤖", "alien": "👽", "snowman": "⛄", "heart": "❤️", "hearts": "❤️", "ハート": "❤️", "star": "⭐",
    "moon": "🌙", "月": "🌕", "sun": "☀️", "太陽": "☀️", "cloud": "☁️", "雲": "☁️", "rainbow": "🌈", "虹": "🌈",
    "flower": "🌸", "花": "🌸", "rose": "🌹", "tree": "🌳", "木": "🌳", "cactus": "🌵", "mushroom": "🍄",
    "apple": "🍎", "りんご": "🍎", "banana": "🍌", "pizza": "🍕", "ピザ": "🍕", "burger": "🍔", "sushi": "🍣",
    "寿司": "🍣", "cake": "🎂", "ケーキ": "🎂", "cupcake": "🧁", "ice cream": "🍦", "coffee": "☕", "コーヒー": "☕",
    "tea": "🍵", "お茶": "🍵", "beer": "🍺", "wine": "🍷", "gift": "🎁", "present": "🎁", "プレゼント": "🎁",
    "trophy": "🏆", "medal": "🏅", "crown": "👑", "key": "🔑", "bell": "🔔", "light bulb": "💡", "lightbulb": "💡",
    "camera": "📷", "phone": "📱", "laptop": "💻", "book": "📖", "本": "📖", "pencil": "✏️", "clock": "⏰",
    "umbrella": "☂️", "傘": "☂️", "house": "🏠", "家": "🏠", "castle": "🏰", "anchor": "⚓", "guitar": "🎸",
    "football": "🏈", "soccer ball": "⚽", "basketball": "🏀", "tennis ball": "🎾", "santa": "🎅",
    "christmas tree": "🎄", "pumpkin": "🎃", "earth": "🌍", "globe": "🌍", "地球": "🌍", "smiley": "😀",
    "envelope": "✉️", "email": "✉️", "money": "💸", "coin": "🪙", "shopping cart": "🛒",
}  # fmt: skip

HEROES: dict[str, str] = {
    **_HEROES,
    **{f"{name}s": hero for name, hero in _HEROES.items() if name.isascii() and not name.endswith(("s", "sh"))},
}
"""What can be drawn, by its names, singular and plural: a drawing of the kit's or an emoji."""

PRODUCTS: dict[str, str] = {
    **{name: hero for name, hero in HEROES.items() if not hero.isascii()},
    "headphones": "🎧", "headphone": "🎧", "earbuds": "🎧", "watch": "⌚", "smartwatch": "⌚", "sneaker": "👟",
    "sneakers": "👟", "shoes": "👟", "shoe": "👟", "boots": "🥾", "bag": "👜", "handbag": "👜", "backpack": "🎒",
    "perfume": "🧴", "lotion": "🧴", "cream": "🧴", "shampoo": "🧴", "lamp": "💡", "chair": "🪑", "sofa": "🛋️",
    "t-shirt": "👕", "shirt": "👕", "dress": "👗", "hat": "👒", "cap": "🧢", "sunglasses": "🕶️", "glasses": "👓",
    "ring": "💍", "necklace": "📿", "lipstick": "💄", "keyboard": "⌨️", "mouse": "🖱️", "speaker": "🔊", "candle": "🕯️",
    "soap": "🧼", "chocolate": "🍫", "cookies": "🍪", "cookie": "🍪", "honey": "🍯", "juice": "🧃", "bottle": "🍾",
    "tv": "📺", "television": "📺", "gamepad": "🎮", "console": "🎮", "toothbrush": "🪥", "knife": "🔪", "pan": "🍳",
    "bread": "🍞", "cheese": "🧀", "plant": "🪴", "teddy": "🧸", "toy": "🧸", "ball": "⚽", "tent": "⛺", "drone": "🛸",
    "skateboard": "🛹", "surfboard": "🏄", "ski": "🎿", "skis": "🎿", "violin": "🎻", "piano": "🎹", "ticket": "🎟️",
}  # fmt: skip

VOCABULARY = (
    "colours of the subject, the background or the text; faster, slower or a factor; bigger, smaller; more or less "
    "bounce; how many; another text in quotes; longer, shorter or a length in seconds; another style; particles; "
    "shadow; direction; font; vertical, square or wide; new figures for a chart; another composition"
)
"""What a change request may speak of, in one sentence for people."""

_CJK = re.compile(r"[぀-ヿ㐀-鿿豈-﫿]")


@lru_cache(maxsize=4096)
def pattern(phrase: str) -> re.Pattern[str]:
    """Return a pattern that finds ``phrase``: on word boundaries, or anywhere in scripts without spaces."""
    if _CJK.search(phrase):
        return re.compile(re.escape(phrase))
    return re.compile(rf"(?<![\w]){re.escape(phrase)}(?![\w])", re.IGNORECASE)


def contains(text: str, phrases: Iterable[str]) -> bool:
    """Return whether any of ``phrases`` occurs in ``text``."""
    return any(pattern(phrase).search(text) for phrase in phrases)


def find_all(text: str, table: dict[str, str]) -> list[tuple[int, str, str]]:
    """Return every (position, phrase, value) of ``table`` found in ``text``, in reading order, longest match first.

    A phrase inside a longer one that matched ("blue" in "sky blue") does not count again.
    """
    taken: list[tuple[int, int]] = []
    found: list[tuple[int, str, str]] = []
    for phrase in sorted(table, key=len, reverse=True):
        for match in pattern(phrase).finditer(text):
            start, stop = match.span()
            if all(stop <= a or start >= b for a, b in taken):
                taken.append((start, stop))
                found.append((start, phrase, table[phrase]))
    return sorted(found)


def first_of(text: str, table: dict[str, tuple[str, ...]]) -> tuple[str, int] | None:
    """Return the (key, position) whose phrase comes first in ``text``, or None."""
    best: tuple[str, int] | None = None
    for key, phrases in table.items():
        for phrase in phrases:
            match = pattern(phrase).search(text)
            if match and (best is None or match.start() < best[1]):
                best = (key, match.start())
    return best
