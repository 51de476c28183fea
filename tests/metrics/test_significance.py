from __future__ import annotations

import numpy as np
import pytest
from captions import made

from spotchange.errors import InputError
from spotchange.metrics import Scorer, adjusted, bootstrap_intervals, paired_comparison
from spotchange.metrics.meteor.metric import meteor_scores
from spotchange.metrics.resampling import mean_of, meteor_of, ratio_of


@pytest.fixture(scope="module")
def scored() -> tuple:
    candidates, references = made(300, 4, seed=1)
    by_id = {str(number): texts for number, texts in enumerate(references)}
    scorer = Scorer(by_id, meteor=False)
    good = scorer.score(dict(zip(by_id, candidates, strict=True)))
    poor = scorer.score(dict(zip(by_id, candidates[1:] + candidates[:1], strict=True)))
    return good, poor


def test_sums_give_the_corpus_score_again(scored: tuple) -> None:
    for result in scored:
        again = {
            name: value
            for summable in result.summables
            for name, value in zip(summable.names, summable.corpus(), strict=True)
        }
        assert again == pytest.approx(result.corpus, abs=1e-12)


def test_intervals_hold_the_score_and_shrink_with_more_items() -> None:
    random = np.random.default_rng(0)
    few, many = random.normal(size=50), random.normal(size=5000)
    widths = []
    for items in (few, many):
        low, high = bootstrap_intervals([mean_of("x", items)])["x"]
        assert low < items.mean() < high
        # A normal mean has the interval mean +- 1.96 s / sqrt(n).
        assert high - low == pytest.approx(2 * 1.96 * items.std() / np.sqrt(len(items)), rel=0.15)
        widths.append(high - low)
    assert widths[1] < widths[0]


def test_a_ratio_of_nothing_is_zero() -> None:
    precision = ratio_of("precision", np.array([1.0, 0.0, 1.0]), np.array([2.0, 0.0, 2.0]))
    assert precision.corpus().tolist() == [0.5]
    assert precision.finish(np.array([[0.0, 0.0], [3.0, 4.0]]), 3).tolist() == [[0.0], [0.75]]


def test_meteor_of_many_sums_at_once_is_that_of_each() -> None:
    rows = np.random.default_rng(4).integers(1, 9, size=(12, 23)).astype(float)
    rows[:, :2] += 8  # more words than function words
    sums = rows.reshape(4, 3, 23)
    scores = meteor_of(rows).finish(sums, 1)
    assert scores.shape == (4, 3, 1)
    assert scores.ravel().tolist() == meteor_scores(rows).tolist()
    assert len(set(scores.ravel().tolist())) == 12


def test_bleu_interval_agrees_with_plain_resampling(scored: tuple) -> None:
    good, _ = scored
    summable = good.summables[0]
    random = np.random.default_rng(9)
    drawn = []
    for _ in range(400):
        rows = summable.columns[random.integers(0, len(summable), len(summable))]
        drawn.append(summable.finish(rows.sum(axis=0), len(rows))[3])
    low, high = bootstrap_intervals(good.summables, resamples=400)["BLEU-4"]
    assert (low, high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.02)


def test_a_better_system_is_found_and_equals_are_not(scored: tuple) -> None:
    good, poor = scored
    found = paired_comparison(poor.summables, good.summables)
    for name in ("BLEU-4", "ROUGE-L", "CIDEr-D"):
        assert found[name].difference == pytest.approx(good.corpus[name] - poor.corpus[name])
        assert found[name].low > 0
        assert found[name].p_value < 0.01
    same = paired_comparison(good.summables, good.summables)
    assert all(each.p_value == 1 and each.low == each.high == 0 for each in same.values())


def test_the_p_value_is_honest_when_nothing_differs() -> None:
    # Of two systems that differ by chance alone, about one test in ten may fall below 0.1.
    random = np.random.default_rng(3)
    p_values = []
    for trial in range(200):
        first, second = random.normal(size=(2, 60))
        found = paired_comparison([mean_of("x", first)], [mean_of("x", second)], resamples=200, seed=trial)
        p_values.append(found["x"].p_value)
    assert 0.04 <= np.mean(np.array(p_values) <= 0.1) <= 0.17


def test_tests_made_together_ask_for_more() -> None:
    assert adjusted([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])  # 4, 2, 3 and 1 times
    assert adjusted([0.02]) == [0.02]
    assert adjusted([0.9, 0.8]) == [1.0, 1.0]
    assert adjusted([]) == []


def test_other_items_cannot_be_compared() -> None:
    with pytest.raises(InputError, match="different items"):
        paired_comparison([mean_of("x", np.ones(3))], [mean_of("x", np.ones(4))])
    with pytest.raises(InputError, match="different metrics"):
        paired_comparison([mean_of("x", np.ones(3))], [mean_of("y", np.ones(3))])


def test_seeds_repeat(scored: tuple) -> None:
    good, _ = scored
    assert bootstrap_intervals(good.summables, seed=4) == bootstrap_intervals(good.summables, seed=4)
    assert bootstrap_intervals(good.summables, seed=4) != bootstrap_intervals(good.summables, seed=5)
