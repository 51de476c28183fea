"""`spotchange config`: look at a recipe before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spotchange.cli.output import print_json, print_line

app = typer.Typer(
    help="Show or check a training recipe.",
    no_args_is_help=True,
    epilog="Example: spotchange config check recipes/smoke/adapt.yaml",
)

RecipePath = Annotated[Path, typer.Argument(help="A recipe, as in recipes/.")]
Overrides = Annotated[list[str] | None, typer.Option("--set", help="Put key=value on top; may be repeated.")]


@app.command(epilog="Example: spotchange config show recipes/smoke/adapt.yaml --set stage.steps=10")
def show(
    recipe: RecipePath,
    override: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of YAML.")] = False,
) -> None:
    """Print the resolved settings: defaults, recipe and --set together."""
    from spotchange.config.training import Recipe

    settings = Recipe.from_yaml(recipe, override)
    if as_json:
        print_json(settings.model_dump(mode="json"))
    else:
        print_line(settings.to_yaml().rstrip())


@app.command(epilog="Example: spotchange config check recipes/smoke/adapt.yaml")
def check(
    recipe: RecipePath,
    override: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Say whether a recipe would be accepted; exit code 2 and the reason if not."""
    from spotchange.config.training import Recipe

    settings = Recipe.from_yaml(recipe, override)
    if as_json:
        print_json({"recipe": str(recipe), "name": settings.name, "valid": True})
    else:
        print_line(f"{recipe}: valid ({settings.name})")
