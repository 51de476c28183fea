"""`spotchange serve`: the page and the API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spotchange.cli.device import Device
from spotchange.cli.model_options import (
    MODEL_HELP,
    Differences,
    Hints,
    MaxNewTokens,
    ModelOptions,
    Runtime,
    parse_options,
)


def serve(
    model: Annotated[str, typer.Option(help=MODEL_HELP)] = "bundled",
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 opens the server to the network.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free one.")] = 8000,
    hints: Hints = False,
    differences: Differences = None,
    max_new_tokens: MaxNewTokens = None,
    model_option: ModelOptions = None,
    device: Device = "auto",
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="CPU threads to use.")] = None,
    runtime: Runtime = "auto",
    batch_size: Annotated[int, typer.Option(min=1, max=256, help="Pairs computed together at most.")] = 16,
    window: Annotated[float, typer.Option(min=0, max=1000, help="Milliseconds to wait for more pairs.")] = 4.0,
    places: Annotated[int, typer.Option(min=1, help="Pairs accepted at a time; more are answered with 503.")] = 128,
    max_megabytes: Annotated[int, typer.Option(min=1, max=1024, help="Largest image file.")] = 20,
    max_megapixels: Annotated[int, typer.Option(min=1, max=100, help="Largest image.")] = 40,
    max_pairs: Annotated[int, typer.Option(min=1, help="Most pairs of one batch request.")] = 32,
    api_key_file: Annotated[
        Path | None,
        typer.Option(help="Ask for the key in this file; the environment variable SPOTCHANGE_API_KEY does the same."),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Further host name to answer to when listening on loopback; repeatable.")
    ] = None,
    page: Annotated[bool, typer.Option("--page/--no-page", help="Serve the page, not only the API.")] = True,
) -> None:
    """Serve a page and an HTTP API that say what changed between two images."""
    from spotchange.answering import LoadOptions
    from spotchange.serving.server import run_server
    from spotchange.serving.settings import ServerSettings, read_api_key

    settings = ServerSettings(
        host=host,
        port=port,
        batch_size=batch_size,
        window_seconds=window / 1000,
        places=places,
        max_image_bytes=max_megabytes * 2**20,
        max_pixels=max_megapixels * 1_000_000,
        max_pairs=max_pairs,
        api_key=read_api_key(api_key_file),
        allowed_hosts=tuple(allow_host or ()),
        page=page,
    )
    model_options = parse_options(model_option, hints=hints, differences=differences, max_new_tokens=max_new_tokens)
    options = LoadOptions(device=device, threads=threads, runtime=runtime, model_options=model_options)
    run_server(settings, model=model, options=options)
