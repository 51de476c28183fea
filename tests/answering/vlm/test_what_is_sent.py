"""Where images, questions and keys go, and what is refused before any of them is sent."""

from __future__ import annotations

import io
import json
import logging
import zlib
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asked import GOOD, ask, pairs
from PIL import Image
from PIL.ImageCms import ImageCmsProfile, createProfile
from PIL.PngImagePlugin import PngInfo

from scripted_server import completion
from spotchange.answering import ImagePair, load
from spotchange.answering.interface import Answer, CaptionOptions
from spotchange.answering.vlm.build import build_vlm
from spotchange.answering.vlm.sent_images import data_url
from spotchange.errors import InputError, ReplyError
from spotchange.images import encode_image, read_image

KEY = "sk-never-to-be-seen"


def test_proxies_of_the_environment_see_nothing(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    elsewhere = serve(lambda body, tries: completion(GOOD))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{elsewhere.server_address[1]}")
    assert [type(each) for each in ask(server)] == [Answer]
    assert elsewhere.bodies == []


def test_a_redirect_is_not_followed(serve: Any) -> None:
    elsewhere = serve(lambda body, tries: completion(GOOD))
    there = {"location": f"http://127.0.0.1:{elsewhere.server_address[1]}/v1/chat/completions"}
    (outcome,) = ask(serve(lambda body, tries: (307, "", there)))
    assert isinstance(outcome, ReplyError)
    assert elsewhere.bodies == []
    # Nor is one made sense of: what cannot be an address would end the run.
    server = serve(lambda body, tries: (302, "", {"location": "127.0.0.1:80:80"}))
    assert ["answered 302: it leads elsewhere" in each.message for each in ask(server, 2)] == [True, True]


def test_where_a_photo_was_taken_is_not_sent(serve: Any) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    exif = Image.Exif()
    exif[0x010E] = "at home"
    photo, plain = written("JPEG", exif=exif), written("JPEG", "L")
    answerer = build_vlm(server.model, {"no_cache": "true"}, device="cpu")
    answerer.answer([ImagePair.of(photo, plain)], CaptionOptions())
    first, second = (part["image_url"]["url"] for part in server.bodies[0]["messages"][-1]["content"][:2])
    assert first == f"data:image/jpeg;base64,{b64encode(written('JPEG')).decode()}"  # without it
    assert second == f"data:image/jpeg;base64,{b64encode(plain).decode()}"  # as it was


def written(kind: str, mode: str = "RGB", **options: Any) -> bytes:
    stream = io.BytesIO()
    noise = np.random.default_rng(7).integers(0, 255, (40, 50, 3), dtype=np.uint8)
    Image.fromarray(noise).convert(mode).save(stream, kind, **options)
    return stream.getvalue()


def deep() -> bytes:
    """16 bits: readers differ in which of them they show."""
    stream = io.BytesIO()
    Image.fromarray(np.arange(2000, dtype=np.uint16).reshape(40, 50)).save(stream, "PNG")
    return stream.getvalue()


def lying() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def with_texts(*, zipped: bool, **texts: str) -> bytes:
    info = PngInfo()
    for name, text in texts.items():
        info.add_itxt(name.replace("_", " "), text, zip=zipped)
    return written("PNG", pnginfo=info)


def with_chunk(name: bytes, content: bytes) -> bytes:
    """Behind the image, where large files have it far from their start."""
    chunk = len(content).to_bytes(4, "big") + name + content + zlib.crc32(name + content).to_bytes(4, "big")
    return (whole := written("PNG"))[:-12] + chunk + whole[-12:]


def with_segment(marker: int, content: bytes) -> bytes:
    whole = written("JPEG")
    return whole[:2] + bytes([255, marker]) + (len(content) + 2).to_bytes(2, "big") + content + whole[2:]


AS_IT_IS = [
    written("PNG"),
    written("PNG", "L"),
    written("PNG", "P"),
    written("JPEG", progressive=True, subsampling=2),
    written("JPEG", icc_profile=ImageCmsProfile(createProfile("sRGB")).tobytes()),
]
WITHOUT_THE_REST = [
    with_texts(zipped=True, XML_com_adobe_xmp="at home"),
    with_texts(zipped=False, Raw_profile_type_exif="61742068"),
    with_texts(zipped=False, Comment="at home"),
    with_chunk(b"eXIf", b"MM\0*at home"),
    written("PNG") + b"at home",
    written("JPEG", comment=b"at home"),
    with_segment(0xED, b"Photoshop 3.0\0at home"),
    with_segment(0xE2, b"FPXR\0at home"),
    with_segment(0xE0, b"JFXX\0\x10thumbnail"),
    written("JPEG", progressive=True) + b"a film of what came before",
]
ANEW = [
    written("PNG", "RGBA"),  # what lies under it would be the server's choice
    with_chunk(b"tRNS", bytes(6)),
    deep(),
    written("JPEG", exif=lying()),
    written("WEBP"),  # not every server reads it
]


@pytest.mark.parametrize(
    ("content", "how"),
    [(content, how) for how, each in enumerate((AS_IT_IS, WITHOUT_THE_REST, ANEW)) for content in each],
)
def test_of_a_file_the_image_is_sent_and_nothing_else(content: bytes, how: int) -> None:
    image = ImagePair.of(content, content).before
    kind, _, encoded = data_url(image, "png").partition(";base64,")
    sent = b64decode(encoded)
    assert np.array_equal(read_image(sent), image.pixels)
    if how == 0:
        assert sent == content
    elif how == 1:
        assert sent in (written("PNG"), written("JPEG"), written("JPEG", progressive=True))
    else:
        assert (kind, sent) == ("data:image/png", encode_image(image.pil))


def test_the_key_is_sent_and_never_shown(
    serve: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    server = serve(lambda body, tries: (401, f"bad key {KEY}", {"x-key": KEY}) if tries == 1 else completion(GOOD))
    cache = tmp_path / "replies.sqlite"
    answerer = build_vlm(server.model, {"cache": str(cache)}, device="cpu")
    (refused,) = answerer.answer(pairs(1), CaptionOptions())
    assert isinstance(refused, ReplyError)
    assert "bad key [key]" in refused.message
    (answer,) = answerer.answer(pairs(1), CaptionOptions())
    assert isinstance(answer, Answer)
    assert server.headers_seen[0]["authorization"] == f"Bearer {KEY}"
    assert KEY not in caplog.text
    assert KEY not in json.dumps(answer.result.to_dict())
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert "sent to 127.0.0.1" in caplog.text


def test_replies_of_one_name_under_two_paths_of_a_host_are_not_mixed(serve: Any, tmp_path: Path) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    options = {"cache": str(tmp_path / "replies.sqlite")}
    for path in ("/v1", "/v1/", "/other/v1", "/secret-key/v1"):
        answerer = build_vlm(server.model.replace("/v1", path), options, device="cpu")
        answerer.answer(pairs(1), CaptionOptions())
        assert "secret-key" not in answerer.signature
    assert len(server.bodies) == 3  # with and without the last slash it is the same


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("openai:ftp://host#m", {}, "no server address"),
        ("openai:http://127.0.0.1/v1", {}, "names no model"),
        ("openai:http://127.0.0.1:port/v1#m", {}, "no server address"),
        ("openai:http://two..dotsö/v1#m", {}, "no server address"),  # for the HTTP library alone
        ("openai:http://user:secret@127.0.0.1/v1", {}, "names no model"),
        ("openai:http://127.0.0.1/v1#m", {"prompt": "mine.yaml"}, "no prompt file"),
        ("openai:http://user:secret@127.0.0.1/v1#m", {}, "key does not belong"),
        ("openai:http://127.0.0.1/v1#m", {"promt": "x"}, "did you mean 'prompt'"),
        ("openai:http://127.0.0.1/v1#m", {"prompt": "nothing"}, "no prompt"),
        ("openai:http://127.0.0.1/v1#m", {"prompt": "plain", "differences": "many"}, "asks for no list of differences"),
        ("openai:http://127.0.0.1/v1#m", {"prompt": "plain", "hints": "true"}, "no place for hints"),
        ("openai:http://127.0.0.1/v1#m", {"prompt": "plain", "score": "true"}, "no score_question"),
        ("openai:http://127.0.0.1/v1#m", {"proxy": "proxy.example"}, "'proxy.example' is no address"),
        ("openai:http://127.0.0.1/v1#m", {"proxy": "user:secret@proxy"}, "is no address"),
        ("openai:http://127.0.0.1/v1#m", {"proxy": "http://[::1"}, "is no address"),
        ("openai:http://127.0.0.1/v1#m", {"calibration": "/dev/zero"}, "cannot read the calibration"),
        ("vlm:", {}, "names no model"),
        ("vlm:~/nothing/there", {}, "no model folder at ~/nothing/there"),
        ("vlm:someone/model@v1", {"revision": "v2"}, "names two revisions"),
    ],
)
def test_bad_settings_are_one_line(model: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(Exception, match=words) as caught:
        load(model, model_options=options)
    assert isinstance(caught.value, Exception)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        {"required": 3},
        {"required": [[]], "properties": {}},
        {"required": ["changed", "caption"]},  # nothing is described
        {"required": ["changed", "caption"], "properties": {"changed": {}, "caption": {}, "mood": {}}},
        {"required": ["caption"], "properties": {"caption": {}}},
    ],
)
def test_a_prompt_file_with_a_schema_that_no_reply_is_read_by(tmp_path: Path, schema: dict[str, Any]) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(json.dumps({"name": "mine", "version": 1, "system": "", "user": "what?", "schema": schema}))
    with pytest.raises(
        InputError, match=r"mine\.v1@\w{8}: its schema must describe and require 'caption' and 'changed'"
    ):
        load("openai:http://127.0.0.1/v1#m", model_options={"prompt": str(file)})


@pytest.mark.parametrize("model", ["bundled", "everyday", "pixels"])
def test_our_own_models_take_no_such_options(model: str) -> None:
    with pytest.raises(InputError, match="vision-language"):
        load(model, model_options={"prompt": "sentence"})


def test_a_key_is_known_however_it_is_written(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a/b+c=d~secret")
    for written in (r"sk-a\/b\u002Bc=d~secret", "sk-a%2Fb%2bc%3dd~secret", r"\u0073k-a/b+c=d~secret"):
        (refused,) = ask(serve(lambda body, tries, text=written: (401, f"bad key {text}!", {})))
        assert refused.message.endswith("answered 401: bad key [key]!")


def test_a_word_in_place_of_a_key_is_no_secret(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What people set for servers that want no key stands in sentences."""
    monkeypatch.setenv("OPENAI_API_KEY", "e")
    server = serve(lambda body, tries: completion(GOOD))
    (answer,) = ask(server)
    assert answer.result.caption == "the red mug is gone"
    assert server.headers_seen[0]["authorization"] == "Bearer e"


def test_the_whole_address_of_chat_completions_is_as_good(serve: Any) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    address, _, name = server.model.partition("#")
    answerer = build_vlm(f"{address}/chat/completions#{name}", {"no_cache": "true"}, device="cpu")
    assert isinstance(answerer.answer(pairs(1), CaptionOptions())[0], Answer)
    assert server.paths == ["/v1/chat/completions"]
    assert answerer.signature == build_vlm(server.model, {"no_cache": "true"}, device="cpu").signature


def test_options_may_be_values(serve: Any) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    load(server.model, model_options={"no_cache": True, "retries": 0, "hints": True}).caption(*pairs_of_arrays())
    assert "A pixel comparison reports" in server.bodies[0]["messages"][-1]["content"][-1]["text"]


def test_options_of_the_other_kind_of_model_are_not_dropped_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    load("openai:http://127.0.0.1/v1#m", model_options={"no_cache": True, "revision": "v1", "dtype": "float16"})
    assert "openai: models make no use of dtype, revision" in caplog.text


def test_how_images_travel_stands_in_the_signature(serve: Any) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    png, jpeg = ({"no_cache": True, "image_format": each} for each in ("png", "jpeg"))
    signatures = [build_vlm(server.model, options, device="cpu").signature for options in (png, jpeg)]
    assert signatures[1] == signatures[0].replace("+t0", "+t0+jpeg")


def pairs_of_arrays() -> list[np.ndarray]:
    (pair,) = pairs(1)
    return [np.asarray(each.pil) for each in (pair.before, pair.after)]
