"""The API as a client meets it: answers, errors, limits, keys, headers."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PIL import Image
from starlette.testclient import TestClient

from spotchange.answering import Captioner
from spotchange.drawing import GAP
from spotchange.serving.app import Service
from spotchange.serving.settings import ServerSettings

Draw = Callable[..., bytes]
Form = Callable[[bytes, bytes], Any]
FIELDS = [
    "schema_version",
    "caption",
    "changed",
    "change_score",
    "change_type",
    "alternatives",
    "differences",
    "regions",
    "familiarity",
    "source",
    "warnings",
    "model",
    "seconds",
    "identical",
    "preset",
    "findings",
    "diff_pixels",
    "diff_ratio",
    "largest_difference",
]
LOCAL = {"base_url": "http://127.0.0.1:8000"}
SMALL = ServerSettings(
    page=False, max_image_bytes=20_000, max_request_bytes=300_000, max_pixels=100_000, max_pairs=3, places=8
)


@pytest.fixture(scope="module")
def client(captioner: Captioner) -> Iterator[TestClient]:
    service = Service(captioner.answerer, SMALL)
    with TestClient(service.app, raise_server_exceptions=False, **LOCAL) as made:
        yield made
    service.close()


def as_text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def problem(response: Any, status: int) -> dict[str, Any]:
    """Every error has the same form and tells nothing about the server."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    told = response.json()
    assert told["status"] == status
    assert {"type", "title", "detail"} <= told.keys()
    for secret in ("/work", "/tmp", "site-packages", "Traceback", ".py"):
        assert secret not in response.text
    return told


def test_a_pair_as_form_and_as_json(client: TestClient, captioner: Captioner, draw: Draw, pair_form: Form) -> None:
    before, after = draw(1), draw(2)
    by_form = client.post("/v1/caption", files=pair_form(before, after)).json()
    assert list(by_form) == FIELDS
    by_json = client.post("/v1/caption", json={"before": as_text(before), "after": as_text(after)}).json()
    expected = captioner.caption(before, after).to_dict()
    for told in (by_form, by_json):
        assert {**told, "seconds": 0} == {**json.loads(json.dumps(expected)), "seconds": 0}


def test_the_heat_map_is_a_png(client: TestClient, draw: Draw, pair_form: Form) -> None:
    told = client.post("/v1/caption?heatmap=true", files=pair_form(draw(1), draw(2))).json()
    assert list(told) == [*FIELDS, "heatmap"]
    image = Image.open(io.BytesIO(base64.b64decode(told["heatmap"])))
    assert image.format == "PNG"
    assert image.width == 2 * 72 + 3 * GAP


def test_options_reach_the_model(client: TestClient, draw: Draw, pair_form: Form) -> None:
    files = pair_form(draw(1), draw(2))
    assert client.post("/v1/caption?threshold=0", files=files).json()["changed"] is True
    assert client.post("/v1/caption?threshold=1", files=files).json()["changed"] is False
    told = client.post("/v1/caption?ignore=0,0,72,48", files=files).json()
    assert told["caption"] == "the two pictures are identical"
    problem(client.post("/v1/caption?ignore=1,2,3", files=files), 422)
    problem(client.post("/v1/caption?threshold=2", files=files), 422)


def test_many_pairs_one_of_them_bad(client: TestClient, captioner: Captioner, draw: Draw) -> None:
    pairs = [
        {"id": "good", "before": as_text(draw(1)), "after": as_text(draw(2))},
        {"id": "bad", "before": as_text(draw(1)), "after": as_text(b"no picture")},
        {"before": as_text(draw(3)), "after": as_text(draw(3))},
    ]
    response = client.post("/v1/caption/batch", json={"pairs": pairs})
    assert response.headers["content-type"] == "application/x-ndjson"
    good, bad, same = (json.loads(line) for line in response.text.splitlines())
    assert good["id"] == "good"
    assert good["caption"] == captioner.caption(draw(1), draw(2)).caption
    assert bad.keys() == {"id", "error"}
    assert bad["error"].startswith("after: ")
    assert (same["id"], same["changed"]) == ("2", False)


def test_many_pairs_as_a_form(client: TestClient, draw: Draw) -> None:
    def part(number: int) -> tuple[str, bytes, str]:
        return f"{number}.png", draw(number), "image/png"

    files = [("before", part(1)), ("before", part(3)), ("after", part(2)), ("after", part(4))]
    lines = client.post("/v1/caption/batch", files=files, data={"id": ["x", "y"]}).text.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["x", "y"]
    problem(client.post("/v1/caption/batch", files=files[:3]), 422)
    problem(client.post("/v1/caption/batch", files=files, data={"id": ["x", "x"]}), 422)
    problem(client.post("/v1/caption/batch", files=[files[0]] * 4 + [files[2]] * 4), 413)


def test_models_health_metrics(client: TestClient, captioner: Captioner) -> None:
    (model,) = client.get("/v1/models").json()["models"]
    assert model["id"] == captioner.name
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready"}
    text = client.get("/metrics").text
    assert 'spotchange_requests_total{route="/v1/caption",status="200"}' in text
    assert "spotchange_batch_pairs_bucket" in text
    assert "spotchange_places_taken 0.0" in text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1", 404),
        ("GET", "/elsewhere", 404),
        ("GET", "/v1/caption", 405),
        ("POST", "/healthz", 405),
        ("DELETE", "/v1/models", 405),
    ],
)
def test_wrong_addresses(client: TestClient, method: str, path: str, status: int) -> None:
    response = client.request(method, path)
    problem(response, status)
    assert status != 405 or response.headers["allow"]


def test_wrong_bodies(client: TestClient, draw: Draw, pair_form: Form) -> None:
    good = draw(1)
    problem(client.post("/v1/caption", content=b"x", headers={"content-type": "text/plain"}), 415)
    problem(client.post("/v1/caption", content=b"{", headers={"content-type": "application/json"}), 400)
    problem(client.post("/v1/caption", content=b"[" * 9_000, headers={"content-type": "application/json"}), 400)
    problem(client.post("/v1/caption", json=[]), 422)
    problem(client.post("/v1/caption", json={"before": as_text(good)}), 422)
    problem(client.post("/v1/caption", json={"before": as_text(good), "after": "?"}), 422)
    problem(client.post("/v1/caption", files={"before": ("a.png", good)}), 422)
    problem(client.post("/v1/caption", files=pair_form(good, good) | {"third": ("c.png", good)}), 400)
    problem(client.post("/v1/caption", content=b"x", headers={"content-type": "multipart/form-data"}), 400)
    problem(client.post("/v1/caption", files=pair_form(good, b"text")), 415)
    problem(client.post("/v1/caption", files={"before": ("a.txt", good, "text/plain"), "after": ("b", good)}), 415)
    problem(client.post("/v1/caption", files=pair_form(good, good[: len(good) // 2])), 422)
    problem(client.post("/v1/caption/batch", json={"pairs": []}), 422)


def test_limits(client: TestClient, draw: Draw, pair_form: Form) -> None:
    good = draw(1)
    assert problem(client.post("/v1/caption", files=pair_form(good, bytes(20_001))), 413)["type"].endswith("too-large")
    wide = draw(1, size=(400, 251))
    assert problem(client.post("/v1/caption", files=pair_form(good, wide)), 413)["type"].endswith("too-many-pixels")
    # Refused by what the header says, before a byte of the body is looked at.
    told = problem(client.post("/v1/caption", content=bytes(200_000)), 413)
    assert told["type"].endswith("request-too-large")
    # A body that does not say its length is counted.
    problem(
        client.post(
            "/v1/caption", content=(bytes(10_000) for _ in range(20)), headers={"content-type": "application/json"}
        ),
        413,
    )
    problem(client.post("/gradio_api/upload", content=bytes(300_001)), 413)
    pairs = [{"before": as_text(good), "after": as_text(good)}] * 4
    assert problem(client.post("/v1/caption/batch", json={"pairs": pairs}), 413)["type"].endswith("too-many-pairs")


def test_security_headers_everywhere(client: TestClient) -> None:
    for path in ("/healthz", "/v1/nothing", "/v1/models", "/elsewhere"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:8000", 200), ("localhost", 200), ("[::1]:8000", 200), ("evil.example", 421), ("", 421)],
)
def test_on_loopback_only_its_own_names_are_answered(client: TestClient, host: str, status: int) -> None:
    response = client.get("/healthz", headers={"host": host})
    assert response.status_code == status


def test_the_key(captioner: Captioner, draw: Draw, pair_form: Form) -> None:
    service = Service(captioner.answerer, ServerSettings(page=False, api_key="open-sesame"))
    with TestClient(service.app, **LOCAL) as client:
        files = pair_form(draw(1), draw(2))
        for headers in (
            {},
            {"authorization": "Bearer open-sesamE"},
            {"x-api-key": "öpen"},
            {"authorization": "Basic x"},
        ):
            encoded = {name: value.encode("latin-1") for name, value in headers.items()}
            response = client.post("/v1/caption", files=files, headers=encoded)
            problem(response, 401)
            assert response.headers["www-authenticate"] == "Bearer"
        for headers in ({"authorization": "Bearer open-sesame"}, {"x-api-key": "open-sesame"}):
            assert client.post("/v1/caption", files=files, headers=headers).status_code == 200
        problem(client.get("/metrics"), 401)
        assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
    service.close()


def test_an_error_of_the_model_is_a_500_without_details(
    captioner: Captioner, draw: Draw, pair_form: Form, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(captioner.answerer, ServerSettings(page=False))

    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("/secret/path/model.py broke")

    monkeypatch.setattr(service.batcher, "_answerer", type("Broken", (), {"answer": fail})())
    with TestClient(service.app, raise_server_exceptions=False, **LOCAL) as client:
        response = client.post("/v1/caption", files=pair_form(draw(1), draw(2)))
        assert "secret" not in problem(response, 500)["detail"]
        pairs = [{"before": as_text(draw(1)), "after": as_text(draw(2))}]
        line = json.loads(client.post("/v1/caption/batch", json={"pairs": pairs}).text)
        assert line.keys() == {"id", "error"}
        assert "secret" not in line["error"]
        monkeypatch.setattr(service.batcher, "_answerer", captioner.answerer)
        assert client.post("/v1/caption", files=pair_form(draw(1), draw(2))).status_code == 200
    service.close()


def test_the_description_has_examples_that_work(client: TestClient) -> None:
    description = client.get("/openapi.json").json()
    for path in ("/v1/caption", "/v1/caption/batch"):
        body = description["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        assert client.post(path, json=body["example"]).status_code == 200
    shown = description["components"]["schemas"]["CaptionOut"]["example"]
    assert set(shown) == set(FIELDS)
    assert "HTTPValidationError" not in json.dumps(description)
