"""`spotchange config`: which recipes there are, what one does, and what every setting means."""

from __future__ import annotations

from textwrap import wrap
from typing import Annotated

import typer

from spotchange.cli.help import PlainGroup
from spotchange.cli.output import print_json, print_line

app = typer.Typer(
    cls=PlainGroup,
    help="List, show and check recipes; explain settings.",
    no_args_is_help=True,
    epilog="Example: spotchange config check smoke/adapt",
)

RecipeName = Annotated[str, typer.Argument(help="A recipe's name (`spotchange config list`) or file.")]
Overrides = Annotated[list[str] | None, typer.Option("--set", help="Put key=value on top; may be repeated.")]


@app.command("list", epilog="Example: spotchange config list")
def list_all(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the recipes that come with the package: for `train`, and under ablations/ for `ablate`."""
    from spotchange.config.recipes import list_recipes

    recipes = list_recipes()
    if as_json:
        print_json(recipes)
        return
    for name, introduction in recipes.items():
        print_line(name)
        for line in wrap(introduction, width=76):
            print_line(f"    {line}")


@app.command("explain", epilog="Example: spotchange config explain stage.ema")
def explain_setting(
    key: Annotated[str, typer.Argument(help="A setting or a section, as in --set; none: the whole recipe.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what a setting means, its type, its default and how to set it; of a section, everything in it."""
    from spotchange.config.explain import explain
    from spotchange.config.training import Recipe

    explained = explain(Recipe, key)
    if as_json:
        print_json([each.to_dict() for each in explained])
        return
    for each in explained:
        print_line(each.key)
        if each.meaning:
            print_line(f"    {each.meaning}")
        print_line(f"    {each.type}, default {each.default}")
        if not each.section:
            print_line(f"    {each.example}")


@app.command(epilog="Example: spotchange config show smoke/adapt --set stage.steps=10")
def show(
    recipe: RecipeName,
    override: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of YAML.")] = False,
) -> None:
    """Print the resolved settings: defaults, recipe and --set together."""
    from spotchange.config.recipes import find_recipe
    from spotchange.config.training import Recipe

    settings = Recipe.from_yaml(find_recipe(recipe), override)
    if as_json:
        print_json(settings.model_dump(mode="json"))
    else:
        print_line(settings.to_yaml().rstrip())


@app.command(epilog="Example: spotchange config check smoke/adapt")
def check(
    recipe: RecipeName,
    override: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Say whether a recipe would be accepted; exit code 2 and the reason if not."""
    from spotchange.config.recipes import find_recipe
    from spotchange.config.training import Recipe

    settings = Recipe.from_yaml(find_recipe(recipe), override)
    if as_json:
        print_json({"recipe": recipe, "name": settings.name, "valid": True})
    else:
        print_line(f"{recipe}: valid ({settings.name})")
