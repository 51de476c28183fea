"""The entry point: `spotchange VERB ...`. One file a verb; heavy imports stay inside the verbs."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Annotated

import typer

from spotchange import __version__
from spotchange.cli import config, data, models, scenes
from spotchange.cli.ablate import ablate
from spotchange.cli.caption import caption
from spotchange.cli.compare import compare
from spotchange.cli.evaluate import evaluate
from spotchange.cli.failures import exit_code_of, leave_stdout, open_streams
from spotchange.cli.generate import generate
from spotchange.cli.help import HELP_NAMES, PlainGroup
from spotchange.cli.leaderboard import leaderboard
from spotchange.cli.output import print_line
from spotchange.cli.rank import rank
from spotchange.cli.score import score
from spotchange.cli.serve import serve
from spotchange.cli.train import train

app = typer.Typer(
    name="spotchange",
    help="Two images in, a sentence about what changed out.",
    epilog="Example: spotchange caption before.png after.png",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    cls=PlainGroup,
    context_settings=HELP_NAMES,
)

COMMANDS: dict[Callable[..., None], str] = {
    caption: "Example: spotchange caption before.png after.png --json",
    compare: "Example: spotchange compare shots/main shots/branch --report report.html",
    rank: "Example: spotchange rank before.png after.png --captions sentences.txt --model out/small/caption/best",
    generate: "Example: spotchange generate --pairs 20 --out data/toy --seed 1",
    train: "Example: spotchange train smoke/adapt --out out/adapt",
    ablate: "Example: spotchange ablate smoke --out out/ablation",
    leaderboard: "Example: spotchange leaderboard out/ablations/leaderboard --html leaderboard.html",
    evaluate: "Example: spotchange evaluate bundled data/toy --split train",
    score: "Example: spotchange score predictions.json references.json",
    serve: "Example: spotchange serve --port 8000",
}
for command, example in COMMANDS.items():
    app.command(epilog=example)(command)
for group in (data, models, scenes, config):
    app.add_typer(group.app, name=group.__name__.rpartition(".")[2])


def _print_version(wanted: bool) -> None:
    if wanted:
        print_line(f"spotchange {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Two images in, a sentence about what changed out."""


def main() -> None:
    """Run the command line: 0 done, 1 a verdict asked for, 2 bad input, 70 our mistake, 130 interrupted, 141 unread."""
    open_streams()
    # What Pillow thinks of an image is no line of ours; `images.py` says what is wrong with it.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except BaseException as error:
        code = exit_code_of(error)
    leave_stdout()
    sys.exit(code if isinstance(code, int) else 0)
