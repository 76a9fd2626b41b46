"""The settings that are secrets, by their variables: for those who only need the names, since settings load slowly."""

from __future__ import annotations

__all__ = ["SECRETS"]

SECRETS = (
    "R2_ACCESS_KEY",
    "R2_SECRET_KEY",
    "DATABASE_URL",
    "TURSO_TOKEN",
    "E2B_API_KEY",
    "MODAL_TOKEN_ID",
    "MODAL_TOKEN_SECRET",
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "KODA_API_KEYS",
    "KODA_SIGNING_KEY",
)
"""The variables of all settings whose type says that they hold a secret."""
