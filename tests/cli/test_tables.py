"""Tables fit the terminal: names are folded, columns go on below, numbers stay whole."""

from __future__ import annotations

import pytest

from spotchange.cli.output import print_table

NUMBERS = [[f"{100 * line + column}.{column}" for column in range(14)] for line in range(3)]


@pytest.mark.parametrize("width", [40, 80, 120, 300])
@pytest.mark.parametrize("name", ["ours", "a/folder/of/models/whose/name/is/longer/than/any/terminal/" * 3])
def test_no_number_is_cut_and_no_line_is_too_wide(
    width: int, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    header = ["", *(f"metric {column}" for column in range(14))]
    print_table("A title", header, [[f"{name}{line}", *numbers] for line, numbers in enumerate(NUMBERS)])
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= width
    words = shown.split()
    for number in (number for line in NUMBERS for number in line):
        assert words.count(number) == 1
    assert shown.count("A title") == 1


def test_a_long_name_of_a_column_is_folded(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_table("", ["", "A: " + "x" * 200, "B: " + "y" * 200], [["CIDEr-D", "134.8", "129.3"]])
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert {"134.8", "129.3"} <= set(shown.split())
    assert shown.count("x") == shown.count("y") == 200
