"""METEOR as part of the whole; its own exactness is tested beside it."""

from __future__ import annotations

import pytest
from captions import made

from spotchange.errors import MissingExtraError
from spotchange.metrics import Scorer, score
from spotchange.metrics.scoring import token_sentences

CANDIDATES, REFERENCES = made(40, 3, seed=2)
PREDICTIONS = {str(number): text for number, text in enumerate(CANDIDATES)}
BY_ID = {str(number): texts for number, texts in enumerate(REFERENCES)}


def test_without_the_extra_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object) -> None:
        raise MissingExtraError("METEOR", extra="metrics")

    monkeypatch.setattr("spotchange.metrics.meteor.metric.Meteor.__init__", refuse)
    result = score(PREDICTIONS, BY_ID)
    assert "METEOR" not in result.corpus
    assert "meteor:absent" in result.signature
    (line,) = [warning for warning in result.warnings if "METEOR" in warning]
    assert "pip install 'spotchange[metrics]'" in line


def test_subsets_and_resampling_agree_with_meteor_itself() -> None:
    pytest.importorskip("pycocoevalcap", reason="the extra 'metrics' is not installed")
    from spotchange.metrics.meteor.metric import Meteor

    scorer = Scorer(BY_ID)
    whole = scorer.score(PREDICTIONS)
    corpus, items = Meteor().score(token_sentences(CANDIDATES), [token_sentences(texts) for texts in REFERENCES])
    assert whole.corpus["METEOR"] == pytest.approx(corpus, abs=1e-12)
    assert [item["METEOR"] for item in whole.items.values()] == pytest.approx(items, abs=1e-12)
    summed = {name: value for each in whole.summables for name, value in zip(each.names, each.corpus(), strict=True)}
    assert summed == pytest.approx(whole.corpus, abs=1e-12)
    part = {name: PREDICTIONS[name] for name in list(PREDICTIONS)[5:15]}
    alone = Scorer({name: BY_ID[name] for name in part}).score(part)
    assert scorer.score(part).corpus == pytest.approx(alone.corpus, abs=1e-12)
