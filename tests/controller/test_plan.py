"""Plans: what is read, what is refused, and that a printed plan is the same plan."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginebench_controller.errors import InputError
from enginebench_controller.plan import make_plan, parse_duration_ns, plan_toml, read_plan


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("500ms", 500_000_000), ("5s", 5_000_000_000), ("2m", 120_000_000_000), ("1h", 3_600_000_000_000), ("1.5", 1.5e9)],
)
def test_durations_are_read_with_their_units(text: str, nanoseconds: int) -> None:
    assert parse_duration_ns(text) == nanoseconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "5 parsecs", "1e3", "nan"])
def test_a_wrong_duration_is_named(text: str) -> None:
    with pytest.raises(InputError, match="duration"):
        make_plan({"models": ["m"], "duration": text}, "run")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"models": []}, "models"),
        ({"models": ["m"], "batch": ["x"]}, "batch"),
        ({"models": ["m"], "batch": [0]}, "batch"),
        ({"models": ["m"], "load": ["burst"]}, "load"),
        ({"models": ["m"], "precision": ["f8"]}, "precision"),
        ({"models": ["m"], "colour": "red"}, "colour"),
        ({"models": ["m"], "schema_version": 2}, "schema_version"),
    ],
)
def test_a_mistake_is_one_line_that_says_where(fields: dict[str, object], words: str) -> None:
    with pytest.raises(InputError) as caught:
        make_plan(fields, "plan.toml")
    assert str(caught.value).startswith("plan.toml: ") and words in str(caught.value)


def test_every_mistake_is_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        make_plan({"models": ["m"], "batch": [0], "streams": ["many"]}, "run")
    assert len(str(caught.value).splitlines()) == 2


def test_max_duration_below_duration_is_refused() -> None:
    with pytest.raises(InputError, match="shorter"):
        make_plan({"models": ["m"], "duration": "5s", "max_duration": "1s"}, "run").stop_rule()


NAMES = st.text(min_size=1, max_size=20).filter(lambda text: "\x7f" not in text and text.isprintable())


@given(
    models=st.lists(NAMES, min_size=1, max_size=3),
    batch=st.lists(st.integers(1, 1000), min_size=1, max_size=4),
    options=st.dictionaries(NAMES, st.text(max_size=10), max_size=2),
)
def test_a_printed_plan_reads_back_as_the_same_plan(
    tmp_path_factory: pytest.TempPathFactory, models: list[str], batch: list[int], options: dict[str, str]
) -> None:
    plan = make_plan({"models": models, "batch": batch, "options": options, "name": 'a "b" \\ c'}, "run")
    path = tmp_path_factory.mktemp("plan") / "plan.toml"
    path.write_text(plan_toml(plan), encoding="utf-8")
    assert read_plan(path) == plan


def test_a_missing_and_a_broken_plan_file_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read the plan .*absent\.toml"):
        read_plan(tmp_path / "absent.toml")
    (tmp_path / "broken.toml").write_text("models = [")
    with pytest.raises(InputError, match="not a TOML file"):
        read_plan(tmp_path / "broken.toml")
