"""``python -m regard`` and ``regard``: so small that Ctrl-C finds it awake while the rest is still being imported."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from regard.cli import main as run

        run()
    except (KeyboardInterrupt, Exception) as error:
        from regard.errors import was_stopped

        if not was_stopped(error):
            raise
        print("regard: Stopped. Nothing was begun yet.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
