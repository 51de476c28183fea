import numpy as np

from spotchange.evaluation.everyday_fitting import fit_level, fit_temperature, naming_at, softmax
from spotchange.everyday.language.nouns import everyday_nouns

TREE = everyday_nouns()


def test_temperature_undoes_overconfidence():
    chance = np.random.default_rng(0)
    scores = chance.normal(size=(4000, 3))
    truth = np.array([chance.choice(3, p=each) for each in softmax(scores)])
    assert abs(fit_temperature(2.5 * scores, truth) - 2.5) < 0.35


def test_level_is_the_lowest_that_is_right_often_enough():
    mug, dog = TREE.ids["mug"], TREE.ids["dog"]
    chances = np.zeros((100, len(TREE.names) + 1), np.float32)
    chances[:50, mug] = 0.9  # sure, and right
    chances[50:, mug] = 0.6  # less sure, and wrong
    nouns = np.array([mug] * 50 + [dog] * 50)
    naming = fit_level(chances, nouns, TREE, right=0.9)
    assert 0.6 < naming.level <= 0.62
    assert (naming.said, naming.right) == (0.5, 1.0)
    assert naming_at(chances, nouns, TREE, 0.5).right == 0.5
