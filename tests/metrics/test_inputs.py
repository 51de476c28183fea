from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spotchange.errors import InputError
from spotchange.metrics import match_ids, read_predictions, read_references, read_results


def put(folder: Path, name: str, content: Any) -> Path:
    path = folder / name
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.json", {"1": "a cube", "2": "a ball"}),
        ("p.json", {"1": ["a cube"], "2": ["a ball"]}),
        ("p.json", [{"image_id": 1, "caption": "a cube"}, {"image_id": 2, "caption": "a ball", "id": 9}]),
        ("p.jsonl", '{"id": "1", "caption": "a cube", "changed": true}\n\n{"id": 2, "caption": "a ball"}\n'),
        ("p.txt", '{"id": "1", "caption": "a cube"}\n{"id": "2", "caption": "a ball"}\n'),
        ("p.json", '\ufeff{"1": "a cube", "2": "a ball"}'),
    ],
)
def test_predictions_come_in_many_shapes(tmp_path: Path, name: str, content: Any) -> None:
    assert read_predictions(put(tmp_path, name, content)) == {"1": "a cube", "2": "a ball"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("r.json", {"1": ["a", "b"], "2": ["c"]}),
        ("r.jsonl", '{"id": "1", "captions": ["a", "b"]}\n{"id": "2", "references": ["c"]}\n'),
        ("r.jsonl", '{"id": "1", "caption": "a"}\n{"id": "2", "caption": "c"}\n{"id": "1", "caption": "b"}\n'),
        (
            "r.json",
            {
                "images": [{"id": 1}, {"id": 2}],
                "annotations": [
                    {"image_id": 1, "id": 7, "caption": "a"},
                    {"image_id": 2, "id": 8, "caption": "c"},
                    {"image_id": 1, "id": 9, "caption": "b"},
                ],
            },
        ),
    ],
)
def test_references_come_in_many_shapes(tmp_path: Path, name: str, content: Any) -> None:
    assert read_references(put(tmp_path, name, content)) == {"1": ["a", "b"], "2": ["c"]}


def test_a_line_separator_inside_a_caption_does_not_end_the_line(tmp_path: Path) -> None:
    path = put(tmp_path, "p.jsonl", '{"id": "1", "caption": "a\u2028cube"}\n{"id": "2", "caption": "a\\rball"}\n')
    assert read_predictions(path) == {"1": "a\u2028cube", "2": "a\rball"}


def test_a_real_coco_file(shared: Path) -> None:
    path = shared / "data/annotations/spot_the_diff/CLIP4IDC_spot_total_change_captions_reformat.json"
    references = read_references(path)
    assert len(references) == 1270
    assert all(references.values())


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("p.json", '{"x": "a", "x": "b"}', "'x'"),
        ("p.json", [{"image_id": 1, "caption": "a"}, {"image_id": "1", "caption": "b"}], "'1'"),
        ("p.json", {"x": 3}, "'x' is a number"),
        ("p.json", {"x": ["a", "b"]}, "'x' is a list"),
        ("p.json", {"x": None}, "'x' is null"),
        ("p.json", [{"image_id": "x"}], "'x' has no 'caption'"),
        ("p.json", [{"caption": "a"}], "entry 1"),
        ("p.json", ["a"], "entry 1 is text"),
        ("p.json", "3", "expected an object or a list"),
        ("p.json", "{", "not valid JSON"),
        ("p.jsonl", '{"id": "1", "caption": "a"}\n{"id": \n', "line 2"),
        ("p.jsonl", '{"id": "x", "error": "cannot read"}\n', "'x' carries an error"),
        ("p.json", {}, "no captions"),
    ],
)
def test_bad_predictions_are_named(tmp_path: Path, name: str, content: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_predictions(put(tmp_path, name, content))
    assert words in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("r.json", {"x": "a"}, "'x' are text"),
        ("r.json", {"x": ["a", 3]}, "'x' is a number"),
        ("r.json", '{"x": ["a"], "x": ["b"]}', "'x' stands in it more than once"),
        ("r.jsonl", '{"id": "x", "captions": ["a"]}\n{"id": "x", "captions": ["b"]}\n', "'x' stands"),
        ("r.jsonl", '{"id": "x", "caption": "a"}\n{"id": "x", "captions": ["b"]}\n', "'x' stands"),
        ("r.json", [], "no references"),
        ("r.json", {"annotations": [], "images": 3}, "'images' is a number"),
    ],
)
def test_bad_references_are_named(tmp_path: Path, name: str, content: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_references(put(tmp_path, name, content))
    assert words in caught.value.message


def test_a_missing_file_and_a_binary_file_say_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_predictions(tmp_path / "none.json")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(InputError, match="not UTF-8"):
        read_predictions(tmp_path / "b.json")


def test_ids_must_match() -> None:
    with pytest.raises(InputError) as caught:
        match_ids({"a": "x", "z": "x", "n": "x"}, {"a": ["x"], "b": ["x"], "c": ["x"], "n": []})
    assert caught.value.message == (
        "2 ids: 'b', 'c' have no caption; id 'z' is not in the references; id 'n' has no reference"
    )
    assert caught.value.hint is not None
    assert "--allow-missing" in caught.value.hint


def test_an_image_without_annotation_has_no_reference(tmp_path: Path) -> None:
    content = {"images": [{"id": 1}, {"id": 2}], "annotations": [{"image_id": 1, "caption": "a"}]}
    references = read_references(put(tmp_path, "r.json", content))
    with pytest.raises(InputError, match="id '2' has no reference"):
        match_ids({"1": "a", "2": "b"}, references)


def test_the_intersection_is_scored_on_request() -> None:
    predictions, references, notes = match_ids(
        {"z": "x", "a": "y"}, {"b": ["x"], "a": ["x"], "n": []}, allow_missing=True
    )
    assert (predictions, references) == ({"a": "y"}, {"a": ["x"]})
    assert notes == [
        "scored 1 ids that both sides have; 2 ids: 'b', 'n' have no caption; id 'z' is not in the references"
    ]
    with pytest.raises(InputError, match="no id has both"):
        match_ids({"z": "x"}, {"b": ["x"]}, allow_missing=True)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "image_id", "caption", "captions", "annotations", "images", "x"]), inner
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(content=VALUES, lines=st.booleans())
def test_whatever_stands_in_a_file_is_read_or_refused(tmp_path: Path, content: Any, lines: bool) -> None:
    path = put(tmp_path, "f.jsonl" if lines else "f.json", content)
    for read in (read_predictions, read_references, read_results):
        with contextlib.suppress(InputError):
            found = read(path)
            assert found
            assert all(isinstance(name, str) for name in found)
