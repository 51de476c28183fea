import numpy as np

from spotchange.everyday.language.nouns import ROOT, everyday_nouns


def test_every_noun_is_there_once_and_after_its_kind():
    tree = everyday_nouns()
    assert len(set(tree.names)) == len(tree.names)
    assert all(parent < number for number, parent in enumerate(tree.parents))
    assert tree.is_a("mug", "cup")
    assert tree.is_a("mug", "container")
    assert tree.is_a("mug", ROOT)
    assert not tree.is_a("cup", "mug")


def chances(**of: float) -> np.ndarray:
    tree = everyday_nouns()
    values = np.zeros(len(tree.names) + 1, np.float32)
    for name, chance in of.items():
        values[tree.ids[name.replace("_", " ")]] = chance
    return values


def test_hedge_says_the_most_specific_noun_that_is_likely_enough():
    tree = everyday_nouns()
    assert tree.hedge(chances(mug=0.9), 0.8) == "mug"
    # Three kinds of cup: none likely, but a cup it is.
    assert tree.hedge(chances(mug=0.4, teacup=0.3, paper_cup=0.2), 0.8) == "cup"
    assert tree.hedge(chances(mug=0.4, bottle=0.45), 0.8) == "container"
    assert tree.hedge(chances(mug=0.4, dog=0.45), 0.8) == ROOT


def test_hedge_does_not_count_things_without_a_name():
    values = chances(mug=0.3)
    values[-1] = 0.7
    assert everyday_nouns().hedge(values, 0.5) == ROOT
