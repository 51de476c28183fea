"""Every importer on a small made-up copy of the published layout, sound and broken, and on real annotation files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from spotchange.data import read_rows
from spotchange.data.check import check_dataset
from spotchange.data.importers import clevr_change, image_editing_request, spot_the_diff
from spotchange.data.importers.base import Problems
from spotchange.data.importers.catalog import IMPORTERS, get_importer
from spotchange.data.importers.convert import import_dataset
from spotchange.data.metadata import read_manifest
from spotchange.errors import DataError, InputError


def image(path: Path, color: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (24, 16), (color % 256, 90, 160)).save(path)


def dump(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def make_clevr_change(source: Path) -> None:
    splits = {"train": [0, 8001], "val": [16000], "test": [39999]}
    types = {"color": ["000000.png"], "material": ["008001.png"], "add": ["016000.png"], "drop": []}
    numbers = [number for split in splits.values() for number in split]
    for number in numbers:
        for folder, kind in (("images", "default"), ("sc_images", "semantic"), ("nsc_images", "nonsemantic")):
            image(source / folder / f"CLEVR_{kind}_{number:06d}.png", number)
    names = [f"CLEVR_default_{number:06d}.png" for number in numbers]
    dump(source / "change_captions.json", {name: ["the cube turned red", " the block became red"] for name in names})
    dump(source / "no_change_captions.json", {name: ["no change was made"] for name in names})
    dump(source / "splits.json", splits)
    dump(source / "type_mapping.json", types | {"move": ["039999.png"]})
    boxes = {str(number): {"bbox_before": [1, 2, 3, 4], "bbox_after": [5, 6, 7, 8]} for number in numbers}
    boxes["8001"]["bbox_before"] = None
    dump(source / "change_captions_with_bbox.json", boxes)


def make_clevr_dc(source: Path) -> None:
    for number in range(4):
        image(source / "bef" / f"{number}.png", number)
        image(source / "aft" / f"{number}.png", number + 9)
    captions = {str(number): ["the ball moved", "the sphere changed its location"] for number in range(3)}
    dump(source / "captions.json", captions | {"3": ["there is no change", "Nothing has changed."]})
    dump(source / "split.json", {"train": [0, 3], "val": [1], "test": [2]})


def make_spot_the_diff(source: Path) -> None:
    rows = [("256", ["a car left", ""]), ("256", ["a man came"]), ("300", ["nothing moved"]), ("7", [""])]
    for split, shift in (("train", ""), ("val", "1"), ("test", "2")):
        dump(source / f"{split}.json", [{"img_id": number + shift, "sentences": said} for number, said in rows])
        for number, _ in rows:
            image(source / "resized_images" / f"{number}{shift}.png", 1)
            image(source / "resized_images" / f"{number}{shift}_2.png", 2)


def make_image_editing_request(source: Path) -> None:
    for name, count in (("train", 1), ("valid", 3), ("test", 3)):
        row = {
            "uid": f"Reddit_{name}",
            "img0": f"{name}_a.jpg",
            "img1": f"{name}_b.jpg",
            "sents": ["brighter "] * count,
        }
        dump(source / f"{name}.json", [row])
        image(source / "images" / row["img0"])
        image(source / "images" / row["img1"])


def make_birds_to_words(source: Path) -> None:
    columns = [f"img{side}{name}" for side in (1, 2) for name in ("ObservationURL", "ImgURL", "Species", "Selection")]
    lines = ["\t".join([*columns, "split", "annN", "description"])]
    base = "https://www.example.org/photos/"
    for split, first, second in (("train", 11, 12), ("val", 11, 13), ("test", 14, 15)):
        for order, text in ((2, '"Animal 1 has a 5"" tail."'), (1, "Animal 2 is blue. Animal 1 is not.")):
            sides = [[f"{base}{photo}", f"{base}{photo}/medium.jpg?12", "Corvus", "base"] for photo in (first, second)]
            lines.append("\t".join([*sides[0], *sides[1], split, str(order), text]))
    source.mkdir(parents=True)
    (source / "birds-to-words-v1.0.tsv").write_text("\n".join(lines) + "\n")
    for photo in range(11, 16):
        image(source / "images" / f"{photo}.{'JPG' if photo == 13 else 'jpg'}")


def make_levir_cc(source: Path) -> None:
    images = []
    for split in ("train", "val", "test"):
        for number, flag in ((1, 0), (2, 1)):
            name = f"{split}_{number:06d}.png"
            text = " a road is built ." if flag else " the scene is the same as before ."
            said = [{"raw": text, "tokens": text.split(), "imgid": number, "sentid": place} for place in range(5)]
            entry = {"filepath": split, "filename": name, "imgid": number, "split": split, "changeflag": flag}
            images.append(entry | {"sentences": said})
            for folder in ("A", "B", "label"):
                image(source / "images" / split / folder / name, number)
    dump(source / "LevirCCcaptions.json", {"images": images, "dataset": "LEVIR-CC"})


def make_levir_cc_tokens(source: Path) -> None:
    make_levir_cc(source)
    (source / "LevirCCcaptions.json").unlink()
    for split in ("train", "val", "test"):
        (source / f"{split}.txt").write_text("".join(f"{split}_00000{n}.png-{k}\n" for n in (1, 2) for k in range(5)))
        for number, words in ((1, "the scene is the same as before"), (2, "a road is built")):
            lists = [["<START>", *words.split(), "<END>"]] * 5
            dump(source / "tokens" / f"{split}_00000{number}.txt", lists)


def make_flickr8k(source: Path) -> None:
    text = source / "Flickr8k_text"
    text.mkdir(parents=True)
    names = {"train": "a1.jpg", "dev": "b2.jpg", "test": "c3.jpg"}
    lines = [f"{name}#{place}\tA dog runs {place} .\n" for name in names.values() for place in range(5)]
    (text / "Flickr8k.token.txt").write_text("".join(lines))
    for split, name in names.items():
        (text / f"Flickr_8k.{split}Images.txt").write_text(f"{name}\n")
        image(source / "Flicker8k_Dataset" / name)


def make_cub(source: Path) -> None:
    source.mkdir(parents=True)
    names = ["001.Black_footed_Albatross/one.jpg", "001.Black_footed_Albatross/two.jpg", "002.Laysan_Albatross/six.jpg"]
    for name in names:
        image(source / "images" / name)
    (source / "images.txt").write_text("".join(f"{n} {name}\n" for n, name in enumerate(names, 1)))
    (source / "classes.txt").write_text("1 001.Black_footed_Albatross\n2 002.Laysan_Albatross\n")
    (source / "image_class_labels.txt").write_text("1 1\n2 1\n3 2\n")
    (source / "train_test_split.txt").write_text("1 1\n2 0\n3 1\n")
    (source / "text_c10" / "002.Laysan_Albatross").mkdir(parents=True)
    (source / "text_c10" / "002.Laysan_Albatross" / "six.txt").write_text("a white bird\na bird with a grey back\n")


def make_nabirds(source: Path) -> None:
    source.mkdir(parents=True)
    images = {
        "aa-1": ("0817/aa1.jpg", "817", "1"),
        "bb-2": ("0817/bb2.jpg", "817", "0"),
        "cc-3": ("0005/c.jpg", "5", "1"),
    }
    for path, _, _ in images.values():
        image(source / "images" / path)
    (source / "images.txt").write_text("".join(f"{name} {each[0]}\n" for name, each in images.items()))
    (source / "image_class_labels.txt").write_text("".join(f"{name} {each[1]}\n" for name, each in images.items()))
    (source / "train_test_split.txt").write_text("".join(f"{name} {each[2]}\n" for name, each in images.items()))
    (source / "classes.txt").write_text("0 Birds\n5 Snow Goose\n817 Oak Titmouse (Adult male)\n")


MAKERS: dict[str, tuple[str, Callable[[Path], None], dict[str, int]]] = {
    "clevr-change": ("clevr-change", make_clevr_change, {"train": 4, "val": 2, "test": 2}),
    "clevr-dc": ("clevr-dc", make_clevr_dc, {"train": 2, "val": 1, "test": 1}),
    "spot-the-diff": ("spot-the-diff", make_spot_the_diff, {"train": 2, "val": 2, "test": 2}),
    "image-editing-request": ("image-editing-request", make_image_editing_request, {"train": 1, "val": 1, "test": 1}),
    "birds-to-words": ("birds-to-words", make_birds_to_words, {"train": 1, "val": 1, "test": 1}),
    "levir-cc": ("levir-cc", make_levir_cc, {"train": 2, "val": 2, "test": 2}),
    "levir-cc tokens": ("levir-cc", make_levir_cc_tokens, {"train": 2, "val": 2, "test": 2}),
    "flickr8k": ("flickr8k", make_flickr8k, {"train": 1, "val": 1, "test": 1}),
    "cub": ("cub", make_cub, {"train": 2, "test": 1}),
    "nabirds": ("nabirds", make_nabirds, {"train": 2, "test": 1}),
}


def test_every_importer_has_a_made_up_copy() -> None:
    assert {name for name, _, _ in MAKERS.values()} == set(IMPORTERS)


@pytest.mark.parametrize("case", MAKERS)
@pytest.mark.parametrize("copy", [False, True])
def test_import_gives_a_sound_data_set(case: str, copy: bool, tmp_path: Path) -> None:
    name, make, counts = MAKERS[case]
    make(tmp_path / "source")
    out = tmp_path / "deep" / "out"
    report = import_dataset(name, tmp_path / "source", out, copy=copy)
    assert report.counts == counts
    assert report.problems == 0
    assert report.complete in (False, None)
    checked = check_dataset(out, decode=True)
    assert checked.problems == []
    assert {split: found.rows for split, found in checked.splits.items()} == counts
    assert not any("Hugging Face" in warning for warning in checked.warnings)
    for row in read_rows(out, "train"):
        assert row.before_path.is_symlink() is not copy
        original = tmp_path / "source" / row.before_file_name
        assert row.before_path.read_bytes() == original.read_bytes()  # never re-encoded
    assert [path.name for path in out.parent.iterdir()] == ["out"]


def imported(case: str, tmp_path: Path, split: str = "train") -> list:
    name, make, _ = MAKERS[case]
    make(tmp_path / "source")
    import_dataset(name, tmp_path / "source", tmp_path / "out")
    return list(read_rows(tmp_path / "out", split))


def test_clevr_change_rows(tmp_path: Path) -> None:
    rows = imported("clevr-change", tmp_path)
    assert [row.id for row in rows] == ["000000", "000000_n", "008001", "008001_n"]
    assert [row.change_type for row in rows] == ["color", "none", "texture", "none"]
    assert [row.scene_id for row in rows] == [0, 0, 8001, 8001]
    assert rows[0].captions == ("the cube turned red", "the block became red")
    assert rows[0].after_file_name == "sc_images/CLEVR_semantic_000000.png"
    assert rows[1].after_file_name == "nsc_images/CLEVR_nonsemantic_000000.png"
    assert rows[0].before_boxes == ((1.0, 2.0, 3.0, 4.0),)
    assert rows[2].before_boxes == ()
    assert rows[1].after_boxes == ()


def test_clevr_dc_rows(tmp_path: Path) -> None:
    rows = imported("clevr-dc", tmp_path)
    assert [(row.id, row.change_type) for row in rows] == [("0", "change"), ("3", "none")]
    assert rows[0].before_file_name == "bef/0.png"


def test_spot_the_diff_rows_of_one_pair_are_merged(tmp_path: Path) -> None:
    rows = imported("spot-the-diff", tmp_path)
    assert [(row.id, row.captions) for row in rows] == [
        ("256", ("a car left", "a man came")),
        ("300", ("nothing moved",)),
    ]
    assert rows[0].after_file_name == "resized_images/256_2.png"
    apart = list(read_manifest(rows[0].folder / "wordless.jsonl"))
    assert [(row.id, row.captions) for row in apart] == [("7", ())]
    assert apart[0].before_path.is_file()


def test_nabirds_classes_with_images_are_numbered_from_zero(tmp_path: Path) -> None:
    rows = imported("nabirds", tmp_path)
    assert [(row.id, row.extra["class_id"], row.extra["class_name"]) for row in rows] == [
        ("aa-1", 1, "oak titmouse (adult male)"),
        ("cc-3", 0, "snow goose"),
    ]
    assert rows[0].before_file_name == rows[0].after_file_name == "images/0817/aa1.jpg"


def test_birds_to_words_rows(tmp_path: Path) -> None:
    rows = imported("birds-to-words", tmp_path, "val")
    assert rows[0].id == "11_13"
    assert rows[0].captions == ("Animal 2 is blue. Animal 1 is not.", 'Animal 1 has a 5" tail.')
    assert rows[0].after_file_name == "images/13.JPG"


@pytest.mark.parametrize("case", ["levir-cc", "levir-cc tokens"])
def test_levir_cc_rows(case: str, tmp_path: Path) -> None:
    rows = imported(case, tmp_path)
    assert [row.change_type for row in rows] == ["none", "change"]
    assert rows[1].captions == ("a road is built",) * 5
    assert rows[0].before_file_name == "images/train/A/train_000001.png"
    assert rows[0].mask_file_name == "images/train/label/train_000001.png"


def test_single_images_stand_on_both_sides(tmp_path: Path) -> None:
    (row,) = imported("flickr8k", tmp_path / "f")
    assert row.before_file_name == row.after_file_name == "Flicker8k_Dataset/a1.jpg"
    assert len(row.captions) == 5
    birds = imported("cub", tmp_path / "c")
    assert [row.extra["class_name"] for row in birds] == ["black footed albatross", "laysan albatross"]
    assert birds[0].captions == ("black footed albatross",)
    assert birds[1].captions == ("a white bird", "a bird with a grey back")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


BREAKS = [
    ("clevr-change", lambda s: (s / "splits.json").unlink(), "splits.json: does not exist", None),
    ("clevr-change", lambda s: (s / "images/CLEVR_default_000000.png").unlink(), "000000.png does not exist", 2),
    ("clevr-change", lambda s: _cut(s / "sc_images/CLEVR_semantic_000000.png"), "damaged", 1),
    ("clevr-change", lambda s: dump(s / "splits.json", {"train": ["a"]}), "no list of numbers", None),
    ("clevr-change", lambda s: dump(s / "type_mapping.json", {"size": []}), "unknown change type 'size'", None),
    ("clevr-change", lambda s: dump(s / "change_captions.json", ["x"]), "an object was expected", None),
    ("clevr-change", lambda s: (s / "change_captions.json").write_text("{"), "cannot be read as JSON", None),
    ("clevr-dc", lambda s: dump(s / "captions.json", {"0": ["x"], "1": ["y"]}), "no captions for scene 3", 2),
    ("spot-the-diff", lambda s: (s / "val.json").unlink(), "val.json: does not exist", 1),
    ("spot-the-diff", lambda s: dump(s / "val.json", [{"id": 1}]), "row 0 holds no 'img_id'", 1),
    ("spot-the-diff", lambda s: (s / "resized_images/300_2.png").unlink(), "300_2.png does not exist", 1),
    ("image-editing-request", lambda s: dump(s / "test.json", [{"uid": "a"}]), "row 0 lacks", 1),
    ("birds-to-words", lambda s: (s / "images/12.jpg").write_text("no picture"), "not an image", 1),
    ("birds-to-words", lambda s: (s / "birds-to-words-v1.0.tsv").write_text("a\tb\nc\td\n"), "no column", None),
    ("levir-cc", lambda s: dump(s / "LevirCCcaptions.json", {"pairs": []}), "no list 'images'", None),
    ("levir-cc", lambda s: (s / "images/test/B/test_000002.png").unlink(), "test_000002.png does not exist", 1),
    ("levir-cc tokens", lambda s: (s / "tokens/val_000001.txt").unlink(), "val_000001.txt: does not exist", 1),
    ("levir-cc tokens", lambda s: (s / "train.txt").unlink(), "train.txt: does not exist", 1),
    ("flickr8k", lambda s: (s / "Flickr8k_text/Flickr_8k.devImages.txt").unlink(), "devImages.txt: does not exist", 1),
    ("flickr8k", lambda s: (s / "Flickr8k_text/Flickr8k.token.txt").write_text("a b\n"), "NAME#NUMBER", None),
    ("cub", lambda s: (s / "train_test_split.txt").write_text("1 1\n2 0\n"), "picture 3", 1),
]


@pytest.mark.parametrize(("case", "break_it", "reason", "count"), BREAKS)
def test_bad_input_is_listed_counted_and_refused_unless_skipped(
    case: str, break_it: Callable[[Path], None], reason: str, count: int | None, tmp_path: Path
) -> None:
    """`count` problems can be skipped; None: nothing usable is left."""
    name, make, counts = MAKERS[case]
    make(tmp_path / "source")
    break_it(tmp_path / "source")
    problems: list[str] = []
    with pytest.raises(DataError, match="problem"):
        import_dataset(name, tmp_path / "source", tmp_path / "out", on_problem=problems.append)
    assert any(reason in problem for problem in problems), problems
    assert not (tmp_path / "out").exists()
    if count is None:
        with pytest.raises(DataError, match="no usable pair"):
            import_dataset(name, tmp_path / "source", tmp_path / "out", skip_bad=True)
    else:
        report = import_dataset(name, tmp_path / "source", tmp_path / "out", skip_bad=True)
        assert report.problems == count == len(problems)
        assert 0 < sum(report.counts.values()) < sum(counts.values())
        assert check_dataset(tmp_path / "out").ok


def test_corrupt_pixels_behind_a_sound_header_are_found_on_request(tmp_path: Path) -> None:
    make_levir_cc(tmp_path / "source")
    bad = tmp_path / "source" / "images" / "val" / "A" / "val_000001.png"
    bad.write_bytes(bad.read_bytes()[:-30])
    import_dataset("levir-cc", tmp_path / "source", tmp_path / "quick")
    with pytest.raises(DataError, match="1 problems"):
        import_dataset("levir-cc", tmp_path / "source", tmp_path / "out", decode=True)


def test_names_cannot_reach_outside_the_source(tmp_path: Path) -> None:
    make_image_editing_request(tmp_path / "source")
    image(tmp_path / "secret.jpg")
    for name in ("../../secret.jpg", str(tmp_path / "secret.jpg")):
        row = {"uid": "x", "img0": name, "img1": "train_b.jpg", "sents": ["brighter"]}
        dump(tmp_path / "source" / "train.json", [row])
        problems: list[str] = []
        with pytest.raises(DataError, match="1 problems"):
            import_dataset("image-editing-request", tmp_path / "source", tmp_path / "out", on_problem=problems.append)
        assert "leaves the source folder" in problems[0]


def test_the_same_id_twice_is_a_problem(tmp_path: Path) -> None:
    make_image_editing_request(tmp_path / "source")
    rows = json.loads((tmp_path / "source" / "train.json").read_text())
    dump(tmp_path / "source" / "train.json", rows * 2)
    report = import_dataset("image-editing-request", tmp_path / "source", tmp_path / "out", skip_bad=True)
    assert report.problems == 1


def test_places_that_cannot_be_used(tmp_path: Path) -> None:
    make_cub(tmp_path / "source")
    with pytest.raises(DataError, match="does not exist"):
        import_dataset("cub", tmp_path / "nowhere", tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(DataError, match="not empty"):
        import_dataset("cub", tmp_path / "source", tmp_path / "full")
    (tmp_path / "empty").mkdir()
    assert import_dataset("cub", tmp_path / "source", tmp_path / "empty").counts == {"train": 2, "test": 1}
    with pytest.raises(InputError, match="unknown data set 'clevr'") as caught:
        get_importer("clevr")
    assert caught.value.hint == "did you mean 'clevr-dc'?"


def test_hugging_face_datasets_reads_links(tmp_path: Path) -> None:
    imported("clevr-change", tmp_path)
    program = (
        "import sys; from datasets import load_dataset; "
        "found = load_dataset('imagefolder', data_dir=sys.argv[1], split='train'); "
        "print(len(found), found[0]['before'].size, found[1]['change_type'])"
    )
    environment = os.environ | {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    command = [sys.executable, "-c", program, str(tmp_path / "out")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["4", "(24,", "16)", "none"], done.stderr


def annotations(shared: Path, name: str) -> Path:
    folder = shared / "data" / "annotations" / name
    if not folder.is_dir():
        pytest.skip(f"no published annotations of {name}")
    return folder


def test_published_spot_the_diff(shared: Path) -> None:
    problems = Problems()
    pairs = list(spot_the_diff.read_pairs(annotations(shared, "spot_the_diff"), problems))
    assert problems.count == 0
    assert Counter(pair.split for pair in pairs if pair.captions) == spot_the_diff.IMPORTER.counts
    assert Counter(pair.split for pair in pairs if not pair.captions) == {"train": 37, "val": 4, "test": 7}
    assert [note.split(": ")[1].partition(" pairs")[0] for note in problems.notes] == [
        "37 of 8,566",
        "4 of 1,493",
        "7 of 1,270",
    ]
    assert sum(len(pair.captions) for pair in pairs if pair.split == "test") == 2107 - 7


def test_published_image_editing_request(shared: Path) -> None:
    problems = Problems()
    pairs = list(image_editing_request.read_pairs(annotations(shared, "image_editing_request"), problems))
    assert problems.count == 0
    assert Counter(pair.split for pair in pairs) == image_editing_request.IMPORTER.counts
    assert Counter((pair.split, len(pair.captions)) for pair in pairs) == {
        ("train", 1): 3061,
        ("val", 3): 383,
        ("test", 3): 495,
    }


def test_published_clevr_change(shared: Path, tmp_path: Path) -> None:
    """The real splits and types; the captions are not among the files, so every scene gets the same made-up ones."""
    folder = annotations(shared, "clevr_change")
    for name in ("splits.json", "type_mapping.json"):
        (tmp_path / name).symlink_to(folder / name)
    numbers = [number for split in json.loads((folder / "splits.json").read_text()).values() for number in split]
    for name, caption in (("change_captions", "the cube moved"), ("no_change_captions", "no change was made")):
        dump(tmp_path / f"{name}.json", {f"CLEVR_default_{number:06d}.png": [caption] for number in numbers})
    problems = Problems()
    pairs = list(clevr_change.read_pairs(tmp_path, problems))
    assert problems.count == 0
    assert Counter(pair.split for pair in pairs) == clevr_change.IMPORTER.counts
    types = Counter(pair.change_type for pair in pairs)
    assert types == {"none": 39803, "color": 7958, "texture": 7963, "move": 7955, "drop": 7961, "add": 7966}
