"""Spending that travels with lines: counted where they arrive, and never written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from scripted_server import completion
from spotchange.answering import CaptionOptions, LoadOptions
from spotchange.answering.bulk.on_cluster import CaptionWork, write_from_cluster
from spotchange.answering.bulk.one_machine import NamedPair
from spotchange.answering.bulk.spending import shared_usage
from spotchange.errors import InputError

GOOD = json.dumps({"changed": True, "caption": "the red mug is gone"})


def test_what_workers_ask_is_counted_where_lines_arrive(serve: Any, tmp_path: Path) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    pairs = []
    for number in range(3):
        paths = {side: tmp_path / f"{number}-{side}.png" for side in ("before", "after")}
        Image.new("RGB", (20 + number, 16), "red").save(paths["before"])
        Image.new("RGB", (20 + number, 16), "blue").save(paths["after"])
        pairs.append(NamedPair(id=str(number), **paths))
    load = LoadOptions(model_options={"prompt_price": "2"})
    work = CaptionWork(model=server.model, load=load, options=CaptionOptions(), batch_size=2, asked="same")
    name, usage = shared_usage(server.model, load, far=False)
    write_from_cluster(work, pairs, tmp_path / "out.jsonl", None, advance=lambda done: None, usage=usage)
    assert name == "tiny"
    assert str(usage) == "3 questions asked, 0 answered before; 2,100 tokens in, 36 out; cost 0.0042"
    assert "spent" not in (tmp_path / "out.jsonl").read_text()


def test_a_model_for_workers_is_checked_here_and_where_images_go_is_said_here(
    serve: Any, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    shared_usage(server.model, LoadOptions(), far=True)
    assert "images and questions are sent to 127.0.0.1" in caplog.text
    with pytest.raises(InputError, match="no prompt file"):
        shared_usage(server.model, LoadOptions(model_options={"prompt": "gone.yaml"}), far=True)
    (tmp_path / "small").mkdir()
    for model, name in ((str(tmp_path / "small"), "small"), ("someone/small", "someone/small")):
        assert shared_usage(f"vlm:{model}", LoadOptions(), far=True)[0] == name  # as it is called here
    assert shared_usage("pixels", LoadOptions(), far=True) == ("pixels", None)
