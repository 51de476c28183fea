"""The server with a vision-language model behind it: who starts it chooses the model, never a request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from scripted_server import completion
from spotchange.answering import LoadOptions, build_answerer
from spotchange.serving.api.problems import Problem
from spotchange.serving.app import Service
from spotchange.serving.page.answers import PageAnswers, answer_html
from spotchange.serving.settings import ServerSettings

MANY = json.dumps(
    {"changed": True, "caption": "two things changed", "differences": ["the mug is gone", "the lamp is on"]}
)


def service(server: Any, tmp_path: Path) -> Service:
    options = LoadOptions(model_options={"no_cache": "true", "differences": "many", "retries": "0"})
    return Service(build_answerer(server.model, options), ServerSettings(page=False), page_files=tmp_path)


def test_the_api_and_the_page_answer_with_the_models_words(
    serve: Any, tmp_path: Path, draw: Any, pair_form: Any
) -> None:
    made = service(serve(lambda body, tries: completion(MANY)), tmp_path)
    try:
        with TestClient(made.app, base_url="http://127.0.0.1") as client:
            told = client.post("/v1/caption", files=pair_form(draw(1), draw(2)))
        assert told.status_code == 200, told.text
        assert told.json()["caption"] == "two things changed"
        assert told.json()["differences"] == ["the mug is gone", "the lamp is on"]
        assert told.json()["source"] == "vlm"
        assert "127.0.0.1" not in told.text  # where the model runs is nobody's business
        html = answer_html(PageAnswers(made.batcher, ServerSettings()).of_files(draw(1), draw(2)))
        assert "<li>The mug is gone</li>" in html
    finally:
        made.close()


def test_a_request_cannot_choose_the_model(serve: Any, tmp_path: Path, draw: Any, pair_form: Any) -> None:
    elsewhere = serve(lambda body, tries: completion(MANY))
    made = service(serve(lambda body, tries: completion(MANY)), tmp_path)
    try:
        with TestClient(made.app, base_url="http://127.0.0.1") as client:
            files = pair_form(draw(1), draw(2))
            for name, value in (("model", elsewhere.model), ("prompt", "clevr-change"), ("base_url", "http://x")):
                assert client.post("/v1/caption", params={name: value}, files=files).status_code == 422
                form = client.post("/v1/caption", data={name: value}, files=files)
                assert form.status_code in (400, 422), form.text
        assert elsewhere.bodies == []
    finally:
        made.close()


def test_no_usable_answer_is_a_bad_gateway_for_its_pair_alone(
    serve: Any, tmp_path: Path, draw: Any, pair_form: Any
) -> None:
    import base64

    first: list[str] = []

    def script(body: dict[str, Any], tries: int) -> Any:
        url = body["messages"][-1]["content"][0]["image_url"]["url"]
        first.append(url)
        return (500, "secret-host is down", {}) if url == first[0] else completion(MANY)

    made = service(serve(script), tmp_path)
    try:
        with TestClient(made.app, base_url="http://127.0.0.1") as client:
            alone = client.post("/v1/caption", files=pair_form(draw(1), draw(2)))
            assert alone.status_code == 502
            assert alone.json()["detail"] == "the model gave no usable answer to this pair"
            after = base64.b64encode(draw(9)).decode()
            pairs = [
                {"id": str(number), "before": base64.b64encode(draw(number)).decode(), "after": after}
                for number in (1, 3, 4)
            ]
            many = client.post("/v1/caption/batch", json={"pairs": pairs})
        lines = [json.loads(line) for line in many.text.splitlines()]
        assert ["error" in line for line in lines] == [True, False, False]
        assert "secret-host" not in alone.text + many.text
        with pytest.raises(Problem, match="no usable answer"):
            PageAnswers(made.batcher, ServerSettings()).of_files(draw(1), draw(2))
    finally:
        made.close()
