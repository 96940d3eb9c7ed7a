from __future__ import annotations


def claims() -> None:
    """Placeholder."""
