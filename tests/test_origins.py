"""Origins that an operator names."""

from __future__ import annotations

import pytest

from koda_ray.config import Settings
from koda_ray.errors import InvalidInput
from koda_ray.origins import origins_in


def test_origins_are_listed_as_browsers_write_them() -> None:
    named = " https://canvas.example.com,http://localhost:5173 , ,http://127.0.0.1:8080,https://canvas.example.com"
    found = ("https://canvas.example.com", "http://localhost:5173", "http://127.0.0.1:8080")
    assert origins_in(named) == found and origins_in("") == ()
    assert Settings.model_validate({"KODA_ALLOWED_ORIGINS": named}).other_origins == found


@pytest.mark.parametrize(
    ("wrong", "way_out"),
    [
        ("*", "name each origin by itself"),
        ("https://*.example.com", "name each origin by itself"),
        ("null", "serve the page from an address"),
        ("canvas.example.com", "an origin is scheme://host or scheme://host:port"),
        ("ftp://canvas.example.com", "with http or https"),
        ("https://", "such as https://canvas.example.com"),
        ("https://a b", "such as https://canvas.example.com"),
        ("https://a;b", "such as https://canvas.example.com"),
        ("http://a:99999", "such as https://canvas.example.com"),
        ("http://[::1", "such as https://canvas.example.com"),
        ("https://canvas.example.com/", "without a path and as browsers write it: https://canvas.example.com;"),
        ("https://canvas.example.com/x?y#z", "as browsers write it: https://canvas.example.com;"),
        ("https://Canvas.Example.com", "as browsers write it: https://canvas.example.com;"),
        ("https://canvas.example.com:443", "as browsers write it: https://canvas.example.com;"),
        ("http://[::1]:8080", "serve the page from a name, such as localhost"),
        ("http://[0:0:0:0:0:0:0:1]", "serve the page from a name, such as localhost"),
        ("http://my_canvas.example", "serve the page from a name without it"),
        ("https://bücher.example", "as location.origin in the page's console says it"),
        ("https://straße.de", "as location.origin in the page's console says it"),
        ("http://127.1", "four numbers, such as 127.0.0.1"),
        ("http://canvas.0x7f", "four numbers, such as 127.0.0.1"),
    ],
)
def test_what_is_none_is_named_with_the_way_out(wrong: str, way_out: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Settings.model_validate({"KODA_ALLOWED_ORIGINS": f"https://good.example,{wrong}"})
    message = refused.value.message
    assert message.startswith(f"KODA_ALLOWED_ORIGINS names {wrong!r}: ") and way_out in message


def test_no_other_host_is_suggested_for_a_name() -> None:
    with pytest.raises(InvalidInput) as refused:
        origins_in("https://straße.de")
    assert "strasse" not in refused.value.message
    assert origins_in("https://xn--strae-oqa.de") == ("https://xn--strae-oqa.de",)


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(InvalidInput) as refused:
        origins_in("https://ann:secret@canvas.example.com")
    assert "secret" not in refused.value.message
