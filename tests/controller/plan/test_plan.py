"""Plans: what is read, what is refused, and that a printed plan is the same plan."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginebench_controller.errors import InputError
from enginebench_controller.plan.plan import command_of, make_plan, parse_duration_ns, plan_toml, read_plan
from enginebench_controller.records import StopRule


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("500ms", 500_000_000),
        ("5s", 5_000_000_000),
        ("2m", 120_000_000_000),
        ("1h", 3_600_000_000_000),
        ("1.5", 1.5e9),
        ("800ns", 800),
        ("5us", 5_000),
        ("5\u00b5s", 5_000),
        ("5 \u03bcs", 5_000),
    ],
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


@pytest.mark.parametrize("text", ["", "s", "-1s", "5 parsecs", "1e3", "nan", "２s", "٢s"])
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


WHOLE_FIELDS = ("processes", "iterations", "inputs", "seed", "order_seed", "batch", "streams", "requests")


@pytest.mark.parametrize("text", ["1.000", "1_000", "+5", "1e3", "１", "٤", "1.0", 1.0, True])
@pytest.mark.parametrize("field", WHOLE_FIELDS)
def test_a_whole_number_is_digits_alone_and_not_what_pydantic_makes_of_a_point(field: str, text: object) -> None:
    value = [text] if field in {"batch", "streams", "requests"} else text
    with pytest.raises(
        InputError, match=rf"^--{field.replace('_', '-')}: {re.escape(repr(text))} is not a whole number"
    ):
        make_plan({"models": ["m"], field: value}, "run")


@pytest.mark.parametrize("said", ["4", " 4 ", 4])
@pytest.mark.parametrize("field", WHOLE_FIELDS)
def test_digits_and_the_numbers_of_a_document_are_whole_numbers(field: str, said: object) -> None:
    is_list = field in {"batch", "streams", "requests"}
    plan = make_plan({"models": ["m"], field: [said] if is_list else said}, "run").document()
    assert plan[field] == ([4] if is_list else 4)


@pytest.mark.parametrize(
    ("field", "parts", "told"),
    [
        ("batch", ["1", "024"], "'1,024' is two values: write 1024"),
        ("streams", ["2", "1", "002"], "'1,002' is two values: write 1002"),
        ("requests", ["1", "000"], "'1,000' is two values: write 1000"),
        ("cores", ["1", "024"], "'1,024' is two values: write 1024"),
        ("rate", ["1", "024.5"], "'1,024.5' is two values: write 1024.5"),
        ("rate", ["1", "05"], "'1,05' is two values: write 1,5, or 1.05 with a point"),
        ("batch", ["024"], "'024' begins with 0: write 24"),
    ],
)
def test_a_comma_between_thousands_parts_no_values(field: str, parts: list[str], told: str) -> None:
    with pytest.raises(InputError) as caught:
        make_plan({"models": ["m"], field: parts}, "run")
    assert str(caught.value) == f"--{field}: {told}"


def test_two_rates_may_look_like_a_number_with_a_comma() -> None:
    assert make_plan({"models": ["m"], "rate": ["1", "500"]}, "run").rate == (1, 500)
    assert make_plan({"models": ["m"], "rate": ["50", "0.5"]}, "run").rate == (50, 0.5)


@pytest.mark.parametrize(
    ("field", "text", "told"),
    [
        ("duration", "1,5h", "write 1.5h, with a point"),
        ("duration", "1,500ms", "write 1500ms, or 1.500ms, with a point"),
        ("interval", "0,5%", "write 0.5%, with a point"),
        ("interval", "0,5", "write 0.5, with a point"),
        ("image", {"scale": "0,5"}, "write 0.5, with a point"),
    ],
)
def test_a_comma_in_a_number_is_told_to_be_a_point(field: str, text: object, told: str) -> None:
    with pytest.raises(InputError, match=rf": {re.escape(told)}$"):
        make_plan({"models": ["m"], field: text}, "run")


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


def test_a_plan_file_may_begin_with_the_mark_that_some_editors_put_there(tmp_path: Path) -> None:
    (path := tmp_path / "bom.toml").write_text('models = ["größe.onnx"]\n', encoding="utf-8-sig")
    assert read_plan(path).models == ("größe.onnx",)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "latin-1"])
def test_a_plan_file_of_another_encoding_is_told_how_to_save_it(tmp_path: Path, encoding: str) -> None:
    (path := tmp_path / "plan.toml").write_text('models = ["größe.onnx"]\n', encoding=encoding)
    with pytest.raises(InputError) as caught:
        read_plan(path)
    assert str(caught.value) == f"cannot read the plan {path}: it is not UTF-8: save it as UTF-8"


def test_a_missing_and_a_broken_plan_file_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read the plan .*absent\.toml"):
        read_plan(tmp_path / "absent.toml")
    (tmp_path / "broken.toml").write_text("models = [")
    with pytest.raises(InputError, match="not a TOML file"):
        read_plan(tmp_path / "broken.toml")
