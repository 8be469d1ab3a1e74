"""A group of commands whose modules are imported when they are used: `vscaf status` needs no numpy."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group that imports the module of a command when that command runs, or when the group's help is shown.

    commands_at: for each command its place, "MODULE:ATTRIBUTE".
    """

    def __init__(self, *arguments: Any, commands_at: Mapping[str, str], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._commands_at = dict(commands_at)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self._commands_at, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        self._load(cmd_name)
        return super().get_command(ctx, cmd_name)

    def load_all(self) -> None:
        """Imports every command, also those of groups in it. Then `commands` has them all."""
        for name in list(self._commands_at):
            self._load(name)
        for command in self.commands.values():
            if isinstance(command, LazyGroup):
                command.load_all()

    def _load(self, name: str) -> None:
        if place := self._commands_at.pop(name, None):
            module, _, attribute = place.partition(":")
            self.add_command(getattr(import_module(module), attribute), name)
