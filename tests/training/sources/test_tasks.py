"""IDC-PCL's data: features made once, batches from them, tasks by weight, negatives, classes; resumable throughout."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from spotchange.config.ablation import Ablation
from spotchange.config.objectives import PclPretrainSettings, PclTaskWeights
from spotchange.config.recipes import RECIPES
from spotchange.config.sources import DatasetSource, FeatureSource, StreamSource
from spotchange.config.training import Recipe
from spotchange.data.caches.feature_writing import write_features
from spotchange.data.caches.features import FeatureFacts, FeatureRow, read_feature_rows
from spotchange.data.caption_ids import CaptionCoder
from spotchange.data.negatives.scenes import SceneNegatives
from spotchange.data.negatives.table import stored_negatives
from spotchange.errors import ConfigError, DataError
from spotchange.language import build_tokenizer, decode, read_claim
from spotchange.pairs import CHANGE_TYPES
from spotchange.scene import ATTRIBUTE_NAMES, ATTRIBUTE_VALUES, COLORS, MATERIALS
from spotchange.training.ablation.table import plan
from spotchange.training.objectives.pcl_pretrain import PclPretrainObjective
from spotchange.training.randomness import seed_everything
from spotchange.training.run import run_stage
from spotchange.training.sources.build import pairs_of, run_context, training_batches
from spotchange.training.sources.classes import ClassBatches
from spotchange.training.sources.extraction import FrozenBackbone, dataset_features, scene_features
from spotchange.training.sources.features import FeatureBatches, FeatureStore
from spotchange.training.sources.negatives import WrittenNegatives
from spotchange.training.sources.tasks import TaskBatches
from spotchange.training.start import start_model
from spotchange.training.stopping import StopRequest

RECIPE: dict[str, Any] = {
    "name": "tiny-pcl",
    "seed": 1,
    "model": {
        "preset": "idc-pcl-resnet50",
        "vision": {"resnet_depths": [1, 1, 1, 1], "resnet_channels": [8, 8, 8, 16], "image_size": [64, 96]},
        "text": {"width": 32, "context": 24},
        "captioner": {"width": 32, "heads": 2, "decoder_layers": 1, "dropout": 0.1},
        "heads": {"pretraining": True, "classes": 48},
        "vocabulary": {"size": 80, "begin": 1, "end": 2, "pad": 0},
    },
    "data": {"kind": "stream"},
    "stage": {"objective": {"kind": "pcl-pretrain"}, "steps": 6, "pairs_per_step": 4, "max_words": 24},
    "validation": {"every": 100, "pairs": 4, "pairs_per_batch": 4},
}
CPU = torch.device("cpu")


def recipe(**changes: Any) -> Recipe:
    values = json.loads(json.dumps(RECIPE)) | changes
    return Recipe.from_mapping(values, source="test")


def start() -> Any:
    seed_everything(1, 0)  # the network that a run of seed 1 draws
    return start_model(recipe())


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Feature folders of a dozen scenes, one for each task."""
    root = tmp_path_factory.mktemp("features")
    backbone = FrozenBackbone.of(start(), "cpu")
    for task in ("pairs", "single", "classes"):
        scene_features(root / task, backbone, StreamSource(kind="stream"), task=task, scenes=12, seed=3)  # type: ignore[arg-type]
    return {task: root / task for task in ("pairs", "single", "classes")}


def open_store(folder: Path) -> FeatureStore:
    return FeatureStore(folder, backbone=start().model.encoder.fingerprint(), device=CPU)


def open_pairs(folder: Path, **options: Any) -> FeatureBatches:
    values: dict[str, Any] = {"batch": 4, "seed": 5} | options
    return FeatureBatches(open_store(folder), CaptionCoder(build_tokenizer(), max_words=24), **values)


def test_scene_features_are_those_of_the_images(folders: dict[str, Path]) -> None:
    """The stream of the same seed shows the same images, so the network must give the same features."""
    begun = start()
    run = run_context(recipe(seed=3), begun, device=CPU)
    batch = pairs_of(StreamSource(kind="stream")).batches(run, 4).next_batch()
    store = open_store(folders["pairs"])
    rows = store.rows[:4]
    assert store.facts.paired
    assert [row.change_type for row in rows] == batch.change_type.tolist()
    with torch.inference_mode():
        network = begun.model.encoder.eval()
        for side in ("before", "after"):
            seen = network.of_images(begun.preprocessor(getattr(batch, side)))
            kept = store.images(torch.tensor([getattr(row, side) for row in rows])).float()
            assert torch.allclose(kept, seen, atol=2e-3 * float(seen.abs().max()))


def test_single_images_and_objects(folders: dict[str, Path]) -> None:
    described = list(read_feature_rows(folders["single"]))
    assert all(row.before == row.after and row.captions and row.things for row in described)
    objects = list(read_feature_rows(folders["classes"]))
    assert len({row.class_id for row in objects}) > 5
    assert all(0 <= row.class_id < 48 for row in objects)


BIRDS = (
    "a brown bird with a white tuft",
    "a black bird with red legs",
    "an orange bird with a long beak",
    "a grey bird with a short tail",
    "a white bird with yellow wings",
    "a green bird with a black beak",
    "a small bird with a brown breast",
    "a large bird with a blue head",
)


def write_birds(folder: Path) -> np.ndarray:
    """A data set of single images with captions and two classes; gives the last image."""
    chance = np.random.default_rng(0)
    (folder / "train").mkdir(parents=True)
    lines = []
    for number, caption in enumerate(BIRDS):
        pixels = chance.integers(0, 256, (64, 96, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "train" / f"{number}.png")
        name = {"before_file_name": f"{number}.png", "after_file_name": f"{number}.png"}
        lines.append({"id": str(number), **name, "captions": [caption], "class_id": 10 * (number % 2)})
    (folder / "train" / "metadata.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return pixels


def test_data_set_features(tmp_path: Path) -> None:
    last = write_birds(tmp_path / "set")
    backbone = FrozenBackbone.of(start(), "cpu")
    source = DatasetSource(kind="dataset", path=str(tmp_path / "set"), task="classes")
    facts = dataset_features(tmp_path / "features", backbone, source)
    assert (facts.pictures, facts.rows, facts.task) == (8, 8, "classes")
    rows = list(read_feature_rows(tmp_path / "features"))
    assert [row.class_id for row in rows] == [0, 1] * 4  # classes are numbered anew
    store = open_store(tmp_path / "features")
    expected = torch.from_numpy(backbone.see(torch.from_numpy(last).permute(2, 0, 1)[None]))
    assert torch.allclose(store.images(torch.tensor([rows[-1].before])), expected, atol=1e-2)


def open_tasks(data: DatasetSource | FeatureSource | StreamSource, *, max_words: int = 24, **objective: Any) -> Any:
    stage = RECIPE["stage"] | {"objective": {"kind": "pcl-pretrain", **objective}, "max_words": max_words}
    settings = recipe(stage=stage, data=data.model_dump())
    return training_batches(settings, run_context(settings, start(), device=CPU))


def test_single_images_and_classes_from_a_data_set(tmp_path: Path) -> None:
    write_birds(tmp_path)
    single = DatasetSource(kind="dataset", path=str(tmp_path), task="single", workers=0)
    batch = open_tasks(single, tasks={"mlm": 0, "mvcl": 0}).next_batch()
    assert batch.task == "fda"
    assert batch.single
    assert batch.pairs.before.dtype == torch.uint8
    assert batch.negative_ids.shape[:2] == (4, 6)
    classes = DatasetSource(kind="dataset", path=str(tmp_path), task="classes", workers=0)
    batch = open_tasks(classes).next_batch()
    assert batch.task == "classes"
    assert batch.pairs.after.shape == (4, 3, 64, 96)
    assert set(batch.class_ids.flatten().tolist()) <= {0, 1}


def test_negatives_of_the_stream_are_false_sentences_of_its_language() -> None:
    """False by what the renderer knows: a "thing" of the caption has a shape, which a negative may get wrong."""
    source = open_tasks(StreamSource(kind="stream"), tasks={"mlm": 0, "mvcl": 0})
    batch = source.next_batch()
    for row, negatives in enumerate(batch.negative_ids.tolist()):
        sentences = [decode(ids) for ids in negatives]
        assert len(set(sentences)) == 6
        kind, answer = CHANGE_TYPES[batch.pairs.change_type[row]], batch.pairs.answer[row].tolist()
        truth = {
            name: values[code] for name, values, code in zip(ATTRIBUTE_NAMES, ATTRIBUTE_VALUES, answer, strict=False)
        }
        new = {"color": COLORS[answer[4]], "texture": MATERIALS[answer[5]]}.get(kind)
        for claim in map(read_claim, sentences):
            stated = {} if claim.subject is None else claim.subject.attributes
            wrong = any(truth[name] != value for name, value in stated.items()) if kind != "none" else False
            assert (claim.change_type, claim.new) != (kind, new) or wrong


def test_a_scene_s_image_before_is_seen_once() -> None:
    batch = open_tasks(StreamSource(kind="stream")).next_batch()
    assert batch.shares_before
    objective = PclPretrainObjective(
        start().model, PclPretrainSettings(kind="pcl-pretrain"), mean=(0.5,) * 3, std=(0.25,) * 3
    ).eval()
    pairs = batch.pairs
    with torch.no_grad():
        once = objective.see(pairs.before, pairs.after, shares_before=True)
        assert torch.allclose(once, objective.see(pairs.before, pairs.after), atol=1e-5)


def test_sentences_of_the_stream_are_cut_to_the_limit() -> None:
    stage = RECIPE["stage"] | {"max_words": 8}
    run = run_context(recipe(stage=stage), start(), device=CPU)
    batch = pairs_of(StreamSource(kind="stream")).batches(run, 4).next_batch()
    assert batch.caption_ids.shape == (4, 8)
    assert (batch.caption_ids == 2).sum(dim=1).tolist() == [1] * 4  # the end stays


def test_every_pair_once_an_epoch_with_its_own_caption(folders: dict[str, Path]) -> None:
    source = open_pairs(folders["pairs"])
    tokenizer = build_tokenizer()
    seen: Counter[int] = Counter()
    for _ in range(6):
        batch = source.next_batch()
        assert batch.scene_id[0::2].tolist() == batch.scene_id[1::2].tolist()
        assert (batch.change_type[1::2] == 0).all()
        seen.update(batch.scene_id.tolist())
        for scene, kind, ids in zip(batch.scene_id, batch.change_type, batch.caption_ids.tolist(), strict=True):
            row = next(r for r in source.rows if r.scene == int(scene) and (r.change_type == 0) == (int(kind) == 0))
            assert tokenizer.decode(ids) in row.captions
    assert set(seen.values()) == {2}
    assert len(seen) == 12


def test_sources_go_on_where_they_stopped(folders: dict[str, Path]) -> None:
    source = open_pairs(folders["pairs"])
    for _ in range(7):  # across the border of an epoch
        source.next_batch()
    state, expected = source.state_dict(), source.next_batch()
    again = open_pairs(folders["pairs"])
    again.load_state_dict(state)
    found = again.next_batch()
    assert torch.equal(found.caption_ids, expected.caption_ids)
    assert torch.equal(found.before, expected.before)


def test_processes_share_an_epoch(folders: dict[str, Path]) -> None:
    scenes = [
        open_pairs(folders["pairs"], rank=rank, processes=2).next_batch().scene_id.unique().tolist() for rank in (0, 1)
    ]
    assert not set(scenes[0]) & set(scenes[1])


def test_tasks_come_by_weight_and_resume(folders: dict[str, Path]) -> None:
    def tasks() -> TaskBatches:
        asked = open_pairs(folders["pairs"])
        return TaskBatches(
            asked,
            PclTaskWeights().model_dump(),
            seed=2,
            single=False,
            negatives=lambda batch: (batch.caption_ids, batch.caption_mask),
        )

    source = tasks()
    drawn = Counter(source.next_batch().task for _ in range(1100))
    assert drawn["mlm"] == pytest.approx(800, abs=50)
    assert drawn["mvcl"] == pytest.approx(100, abs=35)
    assert drawn["fda"] == pytest.approx(200, abs=45)
    state = source.state_dict()
    expected = [source.next_batch().task for _ in range(20)]
    again = tasks()
    again.load_state_dict(state)
    assert [again.next_batch().task for _ in range(20)] == expected


def test_negatives_of_a_folder_are_written_once_and_belong_to_their_captions(folders: dict[str, Path]) -> None:
    source = open_tasks(FeatureSource(kind="features", path=str(folders["pairs"])), tasks={"mlm": 0, "mvcl": 0})
    batch = source.next_batch()
    assert batch.task == "fda"
    assert batch.negative_ids.shape == (4, 6, 24)
    rows = list(read_feature_rows(folders["pairs"]))
    written = stored_negatives(folders["pairs"], rows, (2, 2, 2))
    captions = [caption for row in rows for caption in row.captions]
    by_caption: dict[str, list[list[str]]] = {}
    for caption, negatives in zip(captions, written, strict=True):
        by_caption.setdefault(caption, []).append(negatives)
    tokenizer = build_tokenizer()
    for own, negatives in zip(batch.pairs.caption_ids.tolist(), batch.negative_ids.tolist(), strict=True):
        assert [tokenizer.decode(ids) for ids in negatives] in by_caption[tokenizer.decode(own)]
    assert (folders["pairs"] / "hard_negatives-2-2-2.json").is_file()


def test_an_epoch_of_features_may_run_over_sentences(folders: dict[str, Path]) -> None:
    pairs = open_pairs(folders["pairs"])
    sentences = sum(len(row.captions) for row in pairs.rows)
    source = open_pairs(folders["pairs"], batch=1, seed=1, unit="sentences")
    assert not source.paired
    seen = [tuple(*source.next_batch().caption_place.tolist()) for _ in range(sentences)]
    assert sorted(seen) == [
        (number, place) for number, row in enumerate(pairs.rows) for place in range(len(row.captions))
    ]


def test_pairs_of_classes(folders: dict[str, Path]) -> None:
    ids = [0, 0, 1, 1, 2]
    source = ClassBatches(lambda rows: rows, ids, classes=3, batch=64, seed=1, device=CPU)
    batch = source.next_batch()
    assert batch.class_ids is not None
    assert (batch.class_ids[::2, 0] == batch.class_ids[::2, 1]).all()
    assert (batch.class_ids[1::2, 0] != batch.class_ids[1::2, 1]).any()
    assert [ids[row] for row in batch.pairs.before.tolist()] == batch.class_ids[:, 0].tolist()
    assert [ids[row] for row in batch.pairs.after.tolist()] == batch.class_ids[:, 1].tolist()


def test_one_class_and_too_many_are_refused() -> None:
    options: dict[str, Any] = {"batch": 4, "seed": 1, "device": CPU}
    with pytest.raises(DataError, match="at least two classes"):
        ClassBatches(lambda rows: rows, [3, 3, 3], classes=5, **options)
    with pytest.raises(ConfigError, match=r"numbered 7, but model\.heads\.classes is 5"):
        ClassBatches(lambda rows: rows, [0, 7], classes=5, **options)
    with pytest.raises(ConfigError, match=r"set model\.heads\.classes"):
        ClassBatches(lambda rows: rows, [0, 1], classes=None, **options)


def test_long_captions_are_cut_before_their_end() -> None:
    ids, mask = CaptionCoder(build_tokenizer(), max_words=8).ids(["the " * 50 + "cube", "the cube"])
    assert ids[0, 0] == 1
    assert ids[0, -1] == 2
    assert mask.sum(dim=1).tolist() == [8, 4]


def test_a_caption_set_too_small_for_negatives_is_refused(tmp_path: Path) -> None:
    facts = FeatureFacts(task="pairs", backbone="x", image_size=(64, 96), grid=(2, 3), channels=1)
    rows = [FeatureRow(before=0, after=0, captions=("it is so",))]
    write_features(tmp_path, facts, [(np.zeros((1, 6, 1)), rows)])
    with pytest.raises(DataError, match="only 0 of 6 false sentences"):
        stored_negatives(tmp_path, rows, (2, 2, 2))


def test_features_need_the_network_that_made_them(folders: dict[str, Path]) -> None:
    torch.manual_seed(9)  # other random weights
    other = start_model(recipe())
    source = pairs_of(FeatureSource(kind="features", path=str(folders["pairs"])))
    with pytest.raises(DataError, match="made by another network"):
        source.batches(run_context(recipe(), other, device=CPU), 4)
    learning = start_model(
        recipe(model=RECIPE["model"] | {"vision": RECIPE["model"]["vision"] | {"freeze_backbone": False}})
    )
    with pytest.raises(ConfigError, match="frozen resnet"):
        source.batches(run_context(recipe(), learning, device=CPU), 4)


def mixed(folders: dict[str, Path]) -> Recipe:
    sources = [{"kind": "features", "path": str(folders[task])} for task in ("pairs", "classes")]
    return recipe(
        data={"kind": "mix", "sources": sources},
        stage=RECIPE["stage"] | {"objective": {"kind": "pcl-pretrain"}, "steps": 8},
        model=RECIPE["model"],
        seed=1,
    )


def test_a_mix_trains_resumes_exactly_and_hands_over_to_fine_tuning(folders: dict[str, Path], tmp_path: Path) -> None:
    settings = mixed(folders)
    straight = run_stage(settings, out=tmp_path / "straight", device="cpu")
    run_stage(settings, out=tmp_path / "cut", device="cpu", stop=StopRequest(at_step=3))
    again = run_stage(settings, out=tmp_path / "cut", device="cpu", resume=True)
    assert straight is not None
    assert again is not None
    assert again["finished"]
    states = [torch.load(tmp_path / name / "last" / "training_state.pt") for name in ("straight", "cut")]
    for name, value in states[0]["objective"].items():
        assert torch.equal(value, states[1]["objective"][name]), name
    finetune = recipe(
        data={"kind": "features", "path": str(folders["pairs"])},
        stage={"objective": {"kind": "pcl-finetune"}, "steps": 2, "pairs_per_step": 4, "max_words": 24,
               "start_from": str(tmp_path / "cut" / "best")},
        validation={"every": 2, "pairs": 4, "pairs_per_batch": 4, "data": "stream"},
        model=None,
    )  # fmt: skip
    summary = run_stage(finetune, out=tmp_path / "captions", device="cpu")
    assert summary is not None
    assert summary["metric"] == "CIDEr-D"
    assert summary["best"] is not None


@pytest.mark.parametrize("name", ["idc-pcl", "idc-pcl-data"])
def test_one_setting_reaches_all_stages_of_an_ablation(name: str, tmp_path: Path) -> None:
    path = RECIPES / "ablations" / f"{name}.yaml"
    jobs = plan(Ablation.from_yaml(path, ["stages.pretrain.model.vision.resnet=somewhere"]), tmp_path)
    assert len({job.chain for job in jobs}) == {"idc-pcl": 28, "idc-pcl-data": 8}[name]
    for job in jobs:
        assert job.recipe.model is not None
        assert job.recipe.model.vision.resnet == "somewhere"


@pytest.mark.parametrize(("max_words", "kind"), [(24, SceneNegatives), (12, WrittenNegatives)])
def test_whole_scene_sentences_have_their_negatives_made_in_ids(max_words: int, kind: type) -> None:
    """A sentence that is cut may have lost the word that makes it false: such ones are judged as they read."""
    source = open_tasks(StreamSource(kind="stream"), max_words=max_words)
    assert isinstance(source.negatives, kind)
    while (batch := source.next_batch()).task != "fda":
        pass
    assert batch.negative_ids.shape == (4, 6, max_words)
    assert batch.negative_ids.shape[2] == batch.pairs.caption_ids.shape[1]
