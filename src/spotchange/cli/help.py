"""How help looks: flags take no value, so none is shown for them; `-h` is as good as `--help`."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

HELP_NAMES: dict[Any, Any] = {"help_option_names": ["-h", "--help"]}


class PlainGroup(TyperGroup):
    """A group whose commands show types only for options that take a value."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, its flags without a type."""
        command: Any = super().get_command(ctx, cmd_name)
        return None if command is None else _without_flag_types(command)

    def get_params(self, ctx: Any) -> Any:
        """The group's own options."""
        return [_without_type(each) for each in super().get_params(ctx)]


def _without_flag_types(command: Any) -> Any:
    params = command.get_params
    command.get_params = lambda ctx: [_without_type(each) for each in params(ctx)]
    return command


def _without_type(param: Any) -> Any:
    if getattr(param, "is_flag", False):
        param.display_type_rich = lambda ctx: None
    return param
