"""Every system that has an oracle: built with the oracle's sizes, run on its inputs, answers under its names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from oracle import Oracle, take_weights
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.baselines.cells import as_cells, as_planes, coordinates
from spotchange.models.baselines.chg2cap import Chg2Cap
from spotchange.models.baselines.dirl import DirlCcr, ccr_logits
from spotchange.models.baselines.duda import Duda
from spotchange.models.baselines.matching import diagonal_loss
from spotchange.models.baselines.mccformers import McFormers, McFormersD, McFormersS
from spotchange.models.baselines.mccformers_rewrite import McFormersRewrite, McFormersSRewrite
from spotchange.models.baselines.rel_att import RelAtt, RelAttStatic
from spotchange.models.baselines.rsiccformer import RsiccFormer
from spotchange.models.baselines.scorer import ScorerCbr
from spotchange.models.baselines.skeleton import Seen, System
from spotchange.models.decoding import search as decoding
from spotchange.models.decoding.torch_arrays import TorchArrays
from spotchange.models.interface import DecodingOptions

Values = dict[str, Any]


def greedy(
    system: System,
    seen: Seen,
    *,
    begin: int,
    end: int,
    words: int,
    pad: int = 0,
    min_words: int = 0,
    banned: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Ids and log-probabilities (pairs, words)."""
    options = DecodingOptions(
        max_words=words, min_words=min_words, word_penalties=() if banned is None else ((banned, 1e9),)
    )
    special = decoding.SpecialIds(begin=begin, end=end, pad=pad)
    steps = system.steps(seen, 1)
    made = decoding.generate(steps, len(seen["memory"]), special, options, TorchArrays(torch.device("cpu")))
    return made.ids[:, 0], made.log_probabilities[:, 0]


def word_loss(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """Mean cross-entropy over `mask`."""
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)
    return (losses * mask).sum() / mask.sum()


def duda(oracle: Oracle) -> Values:
    hyper, width = oracle.hyper, oracle.hyper["seq_length"]
    channels, words = hyper["speaker_input_dim"] - 2, oracle.inputs["batch"]
    features = oracle.features()
    grid = tuple(features["before"].shape[-2:])
    system = Duda(
        channels=channels,
        grid=grid,
        vocabulary=hyper["vocab"],
        word=hyper["word_embed_size"],
        hidden=hyper["rnn_size"],
        map_hidden=hyper["map_dim"],
        map_groups=hyper["group_norm_groups"],
        summary=hyper["embed_dim"],
    ).eval()
    take_weights(oracle, system)
    cells = {name: as_cells(value) for name, value in features.items()}
    values: Values = {"coordinates": coordinates(grid, cells["before"]).T.unflatten(1, grid)}
    null, start = hyper["null_id"], hyper["start_id"]
    longest = max(map(len, oracle.inputs["greedy_length"])) if "greedy_length" in oracle.inputs else None
    losses: Values = {}
    kept: dict[str, Any] = {}
    for kind, after in (("change", "after"), ("distractor", "distractor")):
        seen = system.look(cells["before"], cells[after])
        values[f"detector_{kind}"] = detector_values(system, seen, grid)
        ids = oracle.ids(f"labels_{kind}", width + 1)
        kept[kind] = said = dynamic_values(system, seen, ids, null)
        values[f"teacher_forced_{kind}"] = {
            "log_probs_B_23_V": said["log_probs"],
            "module_weights_before_diff_after": said["weights"],
        }
        losses[f"ce_{kind}"] = said["ce"]
        steps = longest or len(oracle.outputs[f"greedy_{kind}"]["ids"][0])
        found, chances = greedy(system, seen, begin=start, end=null, words=steps, min_words=1)
        values[f"greedy_{kind}"] = {"ids": found, "log_probs": chances}
        if kind == "change":
            extra = system.auxiliary(seen, said["reading"], ids[:, :-1], ids[:, :-1] != null, changed=True)
            losses |= extra
    half = 0.5 * losses["ce_change"] + 0.5 * losses["ce_distractor"]
    looked = half + system.weights["map_sum"] * losses["map_sum"]
    values["loss"] = losses | {
        "speaker_loss_half_each": half,
        "total_entropy_weight_0": looked,
        "total_entropy_weight_1e-4": looked + system.weights["entropy"] * losses["entropy"],
    }
    first, second = oracle.randn("l_before"), oracle.randn("l_after")
    alone = {"memory": torch.stack([first, second - first, second], dim=1)}
    ids = oracle.ids("labels_change", width + 1)
    said = dynamic_values(system, alone, ids, null)
    expected = oracle.outputs["speaker_alone"]
    found, chances = greedy(system, alone, begin=start, end=null, words=len(expected["greedy_ids"][0]), min_words=1)
    maps = {"map_before": torch.zeros(words, 1), "map_after": torch.zeros(words, 1)}
    mask = ids[:, :-1] != null
    values["speaker_alone"] = {
        "log_probs_B_23_V": said["log_probs"],
        "module_weights_before_diff_after": said["weights"],
        "ce": said["ce"],
        "entropy": system.auxiliary(alone | maps, said["reading"], ids[:, :-1], mask, changed=True)["entropy"],
        "greedy_ids": found,
        "greedy_log_probs": chances,
    }
    return values


def detector_values(system: Duda, seen: Seen, grid: tuple[int, ...]) -> Values:
    first, difference, second = seen["memory"].unbind(dim=1)
    return {
        "type_logits_unused": system.change_detector.fc1(difference),
        "map_before": seen["map_before"].unflatten(1, (1, *grid)),
        "map_after": seen["map_after"].unflatten(1, (1, *grid)),
        "l_before": first,
        "l_after": second,
        "l_diff": difference,
    }


def dynamic_values(system: Duda, seen: Seen, ids: Tensor, null: int) -> Values:
    inputs, targets = ids[:, :-1], ids[:, 1:]
    reading = system.read(seen, inputs, inputs != null)
    going = (inputs != null).any(dim=0)
    log_probs = reading["logits"].log_softmax(dim=-1) * going[None, :, None]
    # The first NULL after a sentence is its end, and is learnt.
    lengths = (ids != null).sum(dim=1, keepdim=True)
    counted = torch.arange(1, ids.shape[1])[None] < lengths + 1
    chosen = -log_probs.gather(2, targets[..., None])[..., 0]
    return {
        "reading": reading,
        "log_probs": log_probs,
        "weights": reading["module_weights"][:, : int(going.sum())],
        "ce": (chosen * counted).sum() / counted.sum(),
    }


REBUILT: dict[str, Callable[[Oracle], Values]] = {"DUDA": duda}


def planes_first(tokens: Tensor) -> Tensor:
    """(pairs, tokens, width) as the published encoders keep it: (tokens, pairs, width)."""
    return tokens.transpose(0, 1)


def mcc_sizes(oracle: Oracle) -> dict[str, Any]:
    hyper = oracle.hyper
    return {
        "channels": hyper["feature_dim"],
        "grid": (hyper["grid"], hyper["grid"]),
        "vocabulary": hyper["vocab"],
        "width": hyper["d_model"] if "d_model" in hyper else hyper["encoder_dim"],
        "heads": hyper["heads"],
        "layers": hyper["layers"],
        "inner": hyper["ff"],
        "decoder_heads": hyper["decoder_heads"],
        "decoder_layers": hyper["decoder_layers"],
        "decoder_inner": hyper["decoder_ff"],
    }


def framed(oracle: Oracle, system: System, seen: Seen) -> Values:
    """Teacher-forced scores, loss and greedy ids of systems whose captions have a begin and an end id and a length."""
    ids, lengths = oracle.ids("captions"), oracle.inputs["caption_lengths"]
    pad, end = oracle.inputs["pad_id"], oracle.inputs["end_id"]
    reading = system.read(seen, ids, ids != pad)
    counted = torch.arange(1, ids.shape[1])[None] < torch.tensor(lengths)[:, None]
    expected = oracle.outputs["greedy_ids"]
    steps = max(map(len, expected))
    found, _ = greedy(system, seen, begin=oracle.inputs["start_id"], end=end, pad=end, words=steps)
    rows = found.tolist()
    return {
        "reading": reading,
        "teacher_forced_logits_B_T_V": reading["logits"],
        "loss": {
            "cross_entropy_mean_over_words": word_loss(reading["logits"][:, :-1], ids[:, 1:], counted),
            "words": int(counted.sum()),
        },
        "greedy_ids": [row[: row.index(end)] if end in row else row for row in rows],
    }


def mccformers(kind: type[McFormers]) -> Callable[[Oracle], Values]:
    def rebuild(oracle: Oracle) -> Values:
        system = kind(**mcc_sizes(oracle)).eval()
        take_weights(oracle, system)
        before, after = (as_cells(oracle.features()[name]) for name in ("before", "after"))
        seen = system.look(before, after)
        said = framed(oracle, system, seen)
        tokens = {
            name.removeprefix("tokens_"): planes_first(v) for name, v in seen.items() if name.startswith("tokens_")
        }
        layers = {
            f"layer_{n}": {side: planes_first(seen[f"{side}_{n}"]) for side in tokens}
            for n in range(1, oracle.hyper["layers"] + 1)
        }
        return (
            said
            | layers
            | {
                "tokens_in": tokens,
                "memory": planes_first(seen["memory"]),
                "memory_swapped_inputs": planes_first(system.look(after, before)["memory"]),
                "decoder_layer_1": planes_first(said["reading"]["decoder_1"]),
            }
        )

    return rebuild


def mccformers_rewrite(kind: type[McFormersRewrite]) -> Callable[[Oracle], Values]:
    def rebuild(oracle: Oracle) -> Values:
        system = kind(**mcc_sizes(oracle), max_words=oracle.hyper["max_len"]).eval()
        take_weights(oracle, system)
        cells = {name: as_cells(value) for name, value in oracle.features().items()}
        pad = oracle.inputs["pad_id"]
        values: Values = {"loss": {}}
        for kind_of_pair, after in (("change", "after"), ("distractor", "distractor")):
            seen = system.look(cells["before"], cells[after])
            ids = oracle.ids(f"labels_{kind_of_pair}")
            logits = system.read(seen, ids[:, :-1], ids[:, :-1] != pad)["logits"]
            if kind_of_pair == "change":
                values["memory_196_B_1024"] = planes_first(seen["memory"])
            values[f"logits_{kind_of_pair}_T_B_V"] = planes_first(logits)
            values["loss"][kind_of_pair] = word_loss(logits, ids[:, 1:], ids[:, 1:] != pad)
            steps = len(oracle.outputs[f"greedy_ids_{kind_of_pair}"][0]) - 1
            # As published it never stops at the end id: an id that no word has.
            found, _ = greedy(system, seen, begin=oracle.inputs["start_id"], end=-1, words=steps)
            values[f"greedy_ids_{kind_of_pair}"] = with_begin(found, oracle.inputs["start_id"])
        return values

    return rebuild


def with_begin(ids: Tensor, begin: int) -> Tensor:
    return F.pad(ids, (1, 0), value=begin)


REBUILT |= {
    "MCCFormers-D": mccformers(McFormersD),
    "MCCFormers-S": mccformers(McFormersS),
    "MCCFormers-D, outside rewrite": mccformers_rewrite(McFormersRewrite),
    "MCCFormers-S, outside rewrite": mccformers_rewrite(McFormersSRewrite),
}


def tu_greedy(oracle: Oracle, system: System, seen: Seen, kind: str) -> Tensor:
    """Start 2, unknown 1 banned, END 3 shown as 0."""
    steps = len(oracle.outputs[kind]["greedy_ids"][0]) - 1
    found, _ = greedy(system, seen, begin=2, end=3, words=steps, banned=1)
    return with_begin(found, 2)


def halves(losses: Values, weights: dict[str, float], total: str) -> Values:
    """Half of change and half of distractor for each term, and the weighted total."""
    change, distractor = losses["change"], losses["distractor"]
    mean = {name: (change[name] + distractor[name]) / 2 for name in weights}
    weighted = sum(weight * mean[name] for name, weight in weights.items())
    return {("speaker" if name == "cross_entropy" else name): value for name, value in mean.items()} | {total: weighted}


def scorer(oracle: Oracle) -> Values:
    hyper = oracle.hyper
    features = oracle.features()
    cells = {name: as_cells(value) for name, value in features.items()}
    system = ScorerCbr(
        channels=hyper["feat_dim"] - 2,
        grid=tuple(features["before"].shape[-2:]),
        vocabulary=hyper["vocab"],
        width=hyper["att_dim"],
        heads=hyper["att_head"],
        layers=hyper["att_layer"],
        word=hyper["word_dim"],
        decoder_heads=hyper["decoder_heads"],
        decoder_layers=hyper["decoder_layers"],
    ).eval()
    take_weights(oracle, system)
    values: Values = {"loss": {}}
    for kind, after in (("change", "after"), ("distractor", "distractor")):
        seen = system.look(cells["before"], cells[after])
        ids = oracle.ids(f"labels_{kind}", hyper["seq_length"])
        mask = ids != 0
        reading = system.read(seen, ids, mask)
        first, second = system.matrices(seen, hyper["att_layer"])
        values[kind] = {
            "memory": seen["memory"],
            "mtm_matrix_before_query": first,
            "mtm_matrix_after_query": second,
            "logits": reading["logits"],
            "decoder_states": reading["states"],
            "tokens_in": {side: seen[f"tokens_{side}"] for side in ("before", "after")},
            "decoder_layer_1": reading["decoder_1"],
            "greedy_ids": tu_greedy(oracle, system, seen, kind),
        } | scorer_layers(system, seen, reading, hyper["att_layer"])
        extra = system.auxiliary(seen, reading, ids, mask, changed=kind == "change")
        values["loss"][kind] = extra | {
            "cross_entropy": word_loss(reading["logits"][:, :-1], ids[:, 1:], ids[:, 1:] != 0),
            "mtm_row_term_1": diagonal_loss(first),
            "mtm_row_term_2": diagonal_loss(second),
        }
    weights = {"cross_entropy": 1.0, **system.weights}
    total = next(name for name in oracle.outputs["loss"]["weighted"] if name.startswith("total"))
    values["loss"]["weighted"] = halves(values["loss"], weights, total)
    return values


def scorer_layers(system: ScorerCbr, seen: Seen, reading: Values, layers: int) -> Values:
    found: Values = {}
    for number in range(1, layers + 1):
        name = f"into_{number + 1}_" if number < layers else "last_"
        attention = system.change_detector.scorer[number - 1].attention
        query = attention.queries(seen[f"into_{number}_before"])
        key = attention.keys_values(seen[f"into_{number}_after"])[0]
        found[f"layer_{number}"] = {
            "before": seen[f"{name}before"],
            "after": seen[f"{name}after"],
            "mtm_before_query_unused": system.matrices(seen, number)[0],
            "attention_before_head_mean": attention.scores(query, key).softmax(dim=-1).mean(dim=1),
        }
    last = system.speaker.core.layer[-1].to_memory
    keys = last.keys_values(seen["memory"])[0]
    scores = last.scores(last.queries(reading["after_words"]), keys)
    return found | {"last_cross_scores_head_mean_before_softmax": scores.mean(dim=1)}


def dirl(oracle: Oracle) -> Values:
    hyper = oracle.hyper
    features = oracle.features()
    cells = {name: as_cells(value) for name, value in features.items()}
    system = DirlCcr(
        channels=hyper["feat_dim"] - 2,
        grid=tuple(features["before"].shape[-2:]),
        vocabulary=hyper["vocab"],
        width=hyper["att_dim"],
        heads=hyper["att_head"],
        layers=hyper["att_layer"],
        mlp=hyper["mlp_hidden"],
        word=hyper["word_dim"],
        decoder_heads=hyper["decoder_heads"],
        decoder_layers=hyper["decoder_layers"],
        decoder_inner=hyper["decoder_ff"],
    ).eval()
    take_weights(oracle, system)
    values: Values = {"loss": {}}
    for kind, after in (("change", "after"), ("distractor", "distractor")):
        seen = system.look(cells["before"], cells[after])
        ids = oracle.ids(f"labels_{kind}", hyper["seq_length"])
        reading = system.read(seen, ids, ids != 0)
        last = system.speaker.core.layer[-1]
        values[kind] = {
            "difference_before": seen["difference_before"],
            "difference_after": seen["difference_after"],
            "logits": reading["logits"],
            "memory": seen["memory"],
            "ccr_text": reading["text"],
            "ccr_visual": reading["visual"],
            "ccr_logits": ccr_logits(reading["text"], reading["visual"]),
            "tokens_in": {side: seen[f"tokens_{side}"] for side in ("before", "after")},
            "mlp_before_588_512": system.change_detector.mlp(seen["tokens_before"].flatten(0, 1)),
            "decoder_layer_1": reading["decoder_1"],
            "cross_attention_last_layer_head_mean": cross_weights(last, reading["after_words"], seen["memory"]),
            "ccr_of_layer_1_unused": diagonal_loss(ccr_logits(reading["text_1"], reading["visual_1"])),
            "greedy_ids": tu_greedy(oracle, system, seen, kind),
        } | {
            f"layer_{n}": {side: seen[f"{side}_{n}"] for side in ("before", "after")}
            for n in range(1, hyper["att_layer"] + 1)
        }
        extra = system.auxiliary(seen, reading, ids, ids != 0, changed=kind == "change")
        loss = word_loss(reading["logits"][:, :-1], ids[:, 1:], ids[:, 1:] != 0)
        values["loss"][kind] = extra | {"cross_entropy": loss}
    weights = {"cross_entropy": 1.0, **system.weights}
    total = next(name for name in oracle.outputs["loss"]["weighted"] if name.startswith("total"))
    values["loss"]["weighted"] = halves(values["loss"], weights, total)
    return values


def cross_weights(layer: nn.Module, words: Tensor, memory: Tensor) -> Tensor:
    """Attention of every word to the memory, mean of heads."""
    attention = layer.to_memory
    scores = attention.scores(attention.queries(words), attention.keys_values(memory)[0])
    return scores.softmax(dim=-1).mean(dim=1)


REBUILT |= {"SCORER+CBR": scorer, "DIRL+CCR": dirl}


def rsiccformer(oracle: Oracle) -> Values:
    system = RsiccFormer(**mcc_sizes(oracle)).eval()
    take_weights(oracle, system)
    before, after = (as_cells(oracle.features()[name]) for name in ("before", "after"))
    seen = system.look(before, after)
    layers = {
        f"layer_{n}": {part: planes_first(seen[f"{part}_{n}"]) for part in ("before", "after", "fused")}
        for n in range(1, oracle.hyper["layers"] + 1)
    }
    return (
        framed(oracle, system, seen)
        | layers
        | {
            "tokens_in": {side: planes_first(seen[f"tokens_{side}"]) for side in ("before", "after")},
            "memory": planes_first(seen["memory"]),
        }
    )


def chg2cap(oracle: Oracle) -> Values:
    hyper, given = oracle.hyper, oracle.inputs
    system = Chg2Cap(
        channels=hyper["encoder_dim"],
        grid=(hyper["grid"], hyper["grid"]),
        vocabulary=hyper["vocab"],
        pool=1,
        table=hyper["position_table"],
        attention=hyper["attention_dim"],
        heads=hyper["heads"],
        layers=hyper["layers"],
        inner=hyper["ff"],
        decoder_width=hyper["decoder_dim"],
        decoder_heads=hyper["decoder_heads"],
        decoder_layers=hyper["decoder_layers"],
        decoder_inner=hyper["decoder_ff"],
        end=given["end_id"],
        pad=given["pad_id"],
        as_published=True,
    ).eval()
    take_weights(oracle, system)
    seen = system.look(*(as_cells(oracle.features()[name]) for name in ("before", "after")))
    shown = oracle.ids("captions_first")
    ids = oracle.ids("captions_first", hyper["max_length"])
    logits = system.read(seen, ids, ids != given["pad_id"])["logits"]
    lengths = torch.tensor(given["caption_lengths"])[:, None]
    counted = torch.arange(1, ids.shape[1])[None] < lengths
    found, _ = greedy(system, seen, begin=given["start_id"], end=-1, words=len(oracle.outputs["greedy_ids"][0]) - 1)
    rows = with_begin(found, given["start_id"]).tolist()
    grid = system.grid
    last = hyper["layers"]
    return {
        "tokens_in": {side: seen[f"tokens_{side}"] for side in ("before", "after")},
        "layer_1": {
            "self_before_out": seen["self_before_1"],
            "self_after_out": seen["self_after_1"],
            "joint_in": seen["joint_in_1"],
            "joint_out": seen["joint_out_1"],
        },
        f"layer_{last}_joint_out": seen[f"joint_out_{last}"],
        "encoder_out": {f"{side}_B_C_W_H": as_planes(seen[side], grid) for side in ("before", "after")},
        "cosine_map": seen["cosine"].unflatten(1, grid),
        "memory_B_C_8_8": as_planes(seen["memory"], grid),
        "teacher_forced_logits_B_T_V_first_16": logits[:, : shown.shape[1]],
        "loss": {
            "cross_entropy_mean_over_words": word_loss(logits[:, :-1], ids[:, 1:], counted),
            "words": int(counted.sum()),
        },
        "greedy_ids": [up_to(row, given["end_id"]) for row in rows],
    }


def up_to(row: list[int], end: int) -> list[int]:
    """With the end id, and nothing after it."""
    return row[: row.index(end) + 1] if end in row else row


def rel_att(kind: type[RelAtt]) -> Callable[[Oracle], Values]:
    def rebuild(oracle: Oracle) -> Values:
        hyper, given = oracle.hyper, oracle.inputs
        cells = {name: value.flatten(1, 2) for name, value in oracle.features().items()}
        grid = tuple(oracle.features()["before"].shape[1:3])
        system = kind(
            channels=hyper["feature"],
            grid=grid,
            vocabulary=hyper["vocab"],
            hidden=hyper["hidden"],
            word=hyper["word"],
            pool=1,
        ).eval()
        take_weights(oracle, system)
        seen = system.look(cells["before"], cells["after"])
        ids = oracle.ids("captions")
        reading = system.read(seen, ids, ids != given["pad_id"])
        expected = oracle.outputs["greedy_ids"]
        found, _ = greedy(
            system,
            seen,
            begin=given["start_id"],
            end=given["end_id"],
            words=len(expected[0]) - 1,
            banned=given["unknown_id"],
        )
        values = {
            "projected_cells_tanh": {side: seen[side] for side in ("before", "after")},
            "lstm_out": reading["words"],
            "attention_1_out": reading["attention_1"],
            "teacher_forced_logits": reading["logits"],
            "last_hidden": reading["hidden"],
            "last_cell": reading["cell"],
            "loss": {"cross_entropy": word_loss(reading["logits"][:, :-1], ids[:, 1:], ids[:, 1:] != given["pad_id"])},
            "greedy_ids": with_begin(found, given["start_id"]),
        }
        if kind.static:
            encoded = {side: seen[f"encoded_{side}"] for side in ("before", "after")}
            return values | {"encoder_out": encoded, "attention_2_out": reading["attention_2"]}
        att = system.decoder.att
        sources = (att.src_linear(seen[side]) for side in ("before", "after"))
        return values | {"pair_weights_B_T_49_49": att.weights(reading["words"], *sources)}

    return rebuild


REBUILT |= {
    "RSICCformer": rsiccformer,
    "Chg2Cap": chg2cap,
    "Rel-Att dynamic": rel_att(RelAtt),
    "Rel-Att static": rel_att(RelAttStatic),
}
