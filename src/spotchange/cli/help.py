"""How help looks: flags show no value, paragraphs fill the terminal's lines; `-h` is as good as `--help`."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

HELP_NAMES: dict[Any, Any] = {"help_option_names": ["-h", "--help"]}


class PlainGroup(TyperGroup):
    """A group whose commands show types only for options that take a value, and no line breaks of our source."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, its flags without a type and its paragraphs without line breaks."""
        command: Any = super().get_command(ctx, cmd_name)
        if command is None:
            return None
        command.help = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
        return _without_flag_types(command)

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
