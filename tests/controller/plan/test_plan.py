"""Plans: what is read, what is refused, and that a printed plan is the same plan."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginebench_controller.errors import InputError
from enginebench_controller.plan.plan import command_of, make_plan, parse_duration_ns, plan_toml, read_plan
from enginebench_controller.records import StopRule


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("500ms", 500_000_000), ("5s", 5_000_000_000), ("2m", 120_000_000_000), ("1h", 3_600_000_000_000), ("1.5", 1.5e9)],
)
def test_durations_are_read_with_their_units(text: str, nanoseconds: int) -> None:
    assert parse_duration_ns(text) == nanoseconds


def test_a_stored_plan_tells_the_command_that_carried_it_out() -> None:
    plan = make_plan({"models": ["a b.onnx"], "batch": [1, 4], "load": ["async"], "order_seed": 7}, "run")
    stored = {**plan.document(), "digests": {"a b.onnx": "ab"}, "left_out": []}
    assert command_of(stored) == "enginebench run 'a b.onnx' --batch 1,4 --load async"
    assert command_of({**stored, "colour": "red", "batch": ["x"]}) is None, "of another version"
    assert command_of({**stored, "gate": {"budget": "2m"}}) is None
    assert command_of({**stored, "search": {"id": "5ea4c0", "step": 1, "title": "looking"}}) is None


@pytest.mark.parametrize("text", ["", "s", "-1s", "5 parsecs", "1e3", "nan"])
def test_a_wrong_duration_is_named(text: str) -> None:
    with pytest.raises(InputError, match="duration"):
        make_plan({"models": ["m"], "duration": text}, "run")


@pytest.mark.slow
@pytest.mark.parametrize("text", ["721h", "10000000h", "9" * 400])
@pytest.mark.parametrize("field", ["duration", "max_duration", "warmup", "block", "timeout", "wait_quiet"])
def test_a_duration_that_nobody_waits_for_is_refused(field: str, text: str) -> None:
    with pytest.raises(InputError, match=r"longer than 30 days$") as caught:
        make_plan({"models": ["m"], field: text}, "run")
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"models": []}, "models"),
        ({"models": ["m"], "batch": ["x"]}, "batch"),
        ({"models": ["m"], "batch": [0]}, "batch"),
        ({"models": ["m"], "load": ["burst"]}, "load"),
        ({"models": ["m"], "precision": ["f8"]}, "precision"),
        ({"models": ["m"], "precision": ["int8"]}, "measure int8:MODEL"),
        ({"models": ["m"], "colour": "red"}, "colour"),
        ({"models": ["m"], "schema_version": 2}, "schema_version"),
        ({"models": ["m"], "rate": [0]}, "rate"),
        ({"models": ["m"], "arrivals": "bursts"}, "arrivals"),
        ({"models": ["m"], "processes": 0}, "processes"),
        ({"models": ["m"], "interval": "tight"}, "interval"),
        ({"models": ["m"], "interval": "150%"}, "more than the whole"),
        ({"models": ["m"], "image": {"resise": "crop"}}, "resise"),
        ({"models": ["m"], "image": {"resize": "squeeze"}}, "resize"),
    ],
)
def test_a_mistake_is_one_line_that_says_where(fields: dict[str, object], words: str) -> None:
    with pytest.raises(InputError) as caught:
        make_plan(fields, "plan.toml")
    assert str(caught.value).startswith("plan.toml: ") and words in str(caught.value)


@pytest.mark.parametrize("axis", ["models", "engines", "batch", "streams", "precision", "load", "hint"])
def test_what_multiplies_out_has_at_least_one_value_for_without_there_is_nothing_to_measure(axis: str) -> None:
    with pytest.raises(InputError, match=rf"^plan\.toml: {axis}: at least one is needed$"):
        make_plan({"models": ["m"], axis: []}, "plan.toml")


def test_every_mistake_is_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        make_plan({"models": ["m"], "batch": [0], "streams": ["many"]}, "run")
    assert str(caught.value).splitlines() == [
        "--batch: 0 is not a number of at least 1",
        "--streams: 'many' is not a whole number",
    ]


def test_a_mistake_in_a_plan_file_names_the_file_and_the_entry() -> None:
    with pytest.raises(InputError) as caught:
        make_plan({"models": ["m"], "image": {"scale": "x"}}, "plan.toml")
    assert str(caught.value) == "plan.toml: image.scale: 'x' is not a number"


def test_max_duration_below_duration_is_refused() -> None:
    with pytest.raises(InputError, match="shorter"):
        make_plan({"models": ["m"], "duration": "5s", "max_duration": "1s"}, "run").stop_rule()


@pytest.mark.parametrize(("text", "share"), [("1%", 0.01), ("0.5 %", 0.005), ("0%", 0.0), (2, 0.02), ("2", 0.02)])
def test_the_interval_is_a_percentage_with_or_without_its_sign(text: object, share: float) -> None:
    assert make_plan({"models": ["m"], "interval": text}, "run").stop_rule().target_relative_half_width == share


def test_a_measurement_is_three_processes_six_seconds_and_at_most_five_times_that_unless_told_otherwise() -> None:
    assert make_plan({"models": ["m"]}, "run").stop_rule() == StopRule(
        min_duration_ns=6_000_000_000,
        min_iterations=30,
        max_duration_ns=30_000_000_000,
        warmup_ns=500_000_000,
        target_relative_half_width=0.01,
        processes=3,
        retry_noisy=True,
    )


def test_disturbed_blocks_are_measured_again_unless_a_plan_says_or_said_otherwise() -> None:
    assert make_plan({"models": ["m"]}, "run").stop_rule().retry_noisy
    assert not make_plan({"models": ["m"], "retry_noisy": False}, "run").stop_rule().retry_noisy
    stored = make_plan({"models": ["m"], "retry_noisy": False}, "run").document()
    assert not make_plan(stored, "the plan of benchmark b1").stop_rule().retry_noisy


@pytest.mark.parametrize("text", ["0s", "0", 0, "10s", "5m"])
def test_a_wait_for_quiet_may_be_none_at_all(text: object) -> None:
    assert parse_duration_ns(make_plan({"models": ["m"], "wait_quiet": text}, "run").wait_quiet) >= 0


def test_the_plan_of_an_older_benchmark_is_still_a_plan() -> None:
    plan = make_plan(PLAN_OF_THE_FIRST_RELEASE, "the plan of benchmark b1")
    assert (plan.duration, plan.iterations, plan.interleave, plan.rate) == ("5s", 10, True, ())


def test_the_order_follows_from_the_plan_unless_it_has_a_seed() -> None:
    plans = [make_plan({"models": ["m"], "batch": batch}, "run") for batch in ([1], [1], [2])]
    first, same, other = (plan.seed_of_order() for plan in plans)
    assert first == same != other
    assert make_plan({"models": ["m"], "order_seed": 7}, "run").seed_of_order() == 7


PLAN_OF_THE_FIRST_RELEASE = {
    "schema_version": 1,
    "name": None,
    "models": ["zoo:resnet50"],
    "engines": ["all"],
    "targets": [],
    "devices": [],
    "batch": [1],
    "cores": [],
    "streams": [1],
    "precision": ["f32"],
    "load": ["sync"],
    "hint": ["none"],
    "requests": [],
    "shapes": {},
    "options": {},
    "duration": "5s",
    "iterations": 10,
    "max_duration": None,
    "warmup": "1s",
    "seed": 0,
    "inputs": 8,
    "timeout": "30m",
}

NAMES = st.text(min_size=1, max_size=20).filter(lambda text: "\x7f" not in text and text.isprintable())


@pytest.mark.slow
@given(
    models=st.lists(NAMES, min_size=1, max_size=3),
    batch=st.lists(st.integers(1, 1000), min_size=1, max_size=4),
    options=st.dictionaries(NAMES, st.text(max_size=10), max_size=2),
)
def test_a_printed_plan_reads_back_as_the_same_plan(
    tmp_path_factory: pytest.TempPathFactory, models: list[str], batch: list[int], options: dict[str, str]
) -> None:
    fields = {"models": models, "batch": batch, "options": options, "name": 'a "b" \\ c', "rate": [12.5]}
    plan = make_plan(fields | {"image": {"mean": [0.5], "layout": "nhwc"}, "input_folder": "cats"}, "run")
    path = tmp_path_factory.mktemp("plan") / "plan.toml"
    path.write_text(plan_toml(plan), encoding="utf-8")
    assert read_plan(path) == plan


def test_a_missing_and_a_broken_plan_file_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read the plan .*absent\.toml"):
        read_plan(tmp_path / "absent.toml")
    (tmp_path / "broken.toml").write_text("models = [")
    with pytest.raises(InputError, match="not a TOML file"):
        read_plan(tmp_path / "broken.toml")
