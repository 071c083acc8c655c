"""What the benchmarks of the harness compute and write; that they run is seen by `make benchmarks QUICK=1`."""

import math
import random
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import big_store  # noqa: E402
from benchmarks.__main__ import PARTS, page_of  # noqa: E402
from benchmarks.markdown import fill, markdown_table  # noqa: E402
from benchmarks.ours import _toml  # noqa: E402
from benchmarks.ratio import paired_ratio, spread_ratio, variation  # noqa: E402

from enginebench_controller.home import Home  # noqa: E402


def test_a_ratio_is_that_of_the_rounds_whatever_they_have_in_common() -> None:
    theirs = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    ratio = paired_ratio([1.1 * each for each in theirs], theirs)
    assert ratio.value == pytest.approx(1.1)
    assert ratio.low == pytest.approx(1.1)
    assert ratio.high == pytest.approx(1.1)


def test_the_interval_of_a_ratio_covers_the_truth_as_often_as_it_says() -> None:
    generator = random.Random(1)
    rounds = [[math.exp(generator.gauss(0, 0.05)) for _ in range(20)] for _ in range(500)]
    ratios = [paired_ratio(values[:10], values[10:]) for values in rounds]
    assert 0.95 < sum(each.low <= 1 <= each.high for each in ratios) / len(ratios) < 0.995


def test_one_round_is_no_interval() -> None:
    ratio = paired_ratio([1.0], [1.0])
    assert (ratio.low, ratio.high) == (0.0, math.inf)
    assert math.isnan(variation([1.0]))
    assert str(spread_ratio([1.0, 2.0], [1.0, 2.0])) == "nan [0.000, inf]"


def test_a_ratio_of_spreads_says_which_side_varies_less_and_when_that_cannot_be_told() -> None:
    generator = random.Random(2)
    moods = [math.exp(generator.gauss(0, 0.05)) for _ in range(20)]
    calm, restless, alike = ([mood * math.exp(generator.gauss(0, sd)) for mood in moods] for sd in (0.01, 0.15, 0.01))
    assert spread_ratio(calm, restless).high < 1 < spread_ratio(restless, calm).low
    told = spread_ratio(calm, alike)
    assert told.low <= 1 <= told.high
    assert told.value == pytest.approx(variation(calm) / variation(alike))
    assert spread_ratio([2 * each for each in calm], alike) == told


def test_a_table_goes_between_its_marks_and_nowhere_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a -->\nold\n<!-- /a -->\nafter\n<!-- b -->\n<!-- /b -->\n", encoding="utf-8")
    fill(page, "a", markdown_table(("x", "y"), [("1", "2")]))
    expected = "before\n<!-- a -->\n| x | y |\n| --- | ---: |\n| 1 | 2 |\n<!-- /a -->\nafter\n<!-- b -->\n<!-- /b -->\n"
    assert page.read_text(encoding="utf-8") == expected
    with pytest.raises(ValueError, match="no place for c"):
        fill(page, "c", "text")


def test_there_is_a_place_for_every_part() -> None:
    for page, part in [*((page_of(part), part) for part in PARTS), *((page_of(part), "machine") for part in PARTS)]:
        content = page.read_text(encoding="utf-8")
        assert content.count(f"<!-- {part} -->") == content.count(f"<!-- /{part} -->") == 1


def test_a_plan_is_written_as_it_is_read() -> None:
    plan = {"models": ["a.onnx"], "rate": [1.5], "interval": "0%", "options": {"fake.latency_us": "10"}}
    assert tomllib.loads(_toml(plan)) == plan


def test_a_large_store_is_one_that_can_be_read(tmp_path: Path) -> None:
    home = Home(tmp_path)
    big_store.make(home, benchmarks=4, samples=2_000, layer_rows=5_000)
    rows = {table.name: table.rows for table in home.store.tables()}
    assert rows["benchmarks"] >= 4 and rows["block_samples"] >= 2_000 and rows["layers"] >= 5_000
    entries = home.store.benchmarks()
    assert len({entry.benchmark.id for entry in entries}) == len(entries)
    for entry in entries:
        whole = home.store.bundle(entry.benchmark.id)
        for one in whole.measurements:
            stored = sum(block.latency_ns.size for block in whole.samples[one.id])
            assert stored == (one.latency.samples if one.latency else 0)
    layers = [len(home.store.profile(one.id).layers) for one in home.store.profiles()]
    assert set(layers) == {1500, 3000} and sum(layers) >= 5_000
    (ladder,) = home.store.ladders()
    assert (ladder.rungs, ladder.numbered) == (7, 6)
