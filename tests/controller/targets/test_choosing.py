"""Which targets are meant: by name, by what a person labelled them, by what they said of themselves; noisy ones not."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

import invented
import offered
from agent_server import AgentProcess, nobody
from enginebench_controller.errors import InputError, UnreachableError
from enginebench_controller.home import Home
from enginebench_controller.records import Target
from enginebench_controller.targets.choosing import meant, parse_label


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    for number, (name, labels) in enumerate(
        {"rock": {"site": "lab1"}, "nuc": {"site": "lab2"}, "pi": {"site": "lab2", "arch": "armv7l"}}.items()
    ):
        home.store.add_target(Target(name, f"{name}:50151", number, labels))
    rock = offered.target(offered.engine("onnxruntime"), offered.engine("openvino"))
    home.store.save_snapshot(
        replace(rock, target="rock", host=replace(rock.host, architecture="aarch64")),
        replace(offered.target(offered.engine("onnxruntime")), target="nuc"),
        replace(rock, target="pi"),
    )
    return home


def measured(home: Home, target: str, *, disturbed: bool, age_s: float = 60, times: int = 3) -> None:
    """Let a target have measured, with all blocks disturbed or none."""
    at_ns = time.time_ns() - int(age_s * 1e9)
    for number in range(times):
        name = f"{target}{at_ns}{number}"
        whole = invented.measured(f"m{name}", f"b{name}", target=target, started_at_unix_ns=at_ns)
        kinds = (invented.DISTURBANCE,) if disturbed else ()
        home.store.add_benchmark(invented.benchmark(f"b{name}"), ())
        home.store.add_measurement(
            replace(whole, blocks=tuple(replace(one, disturbances=kinds) for one in whole.blocks))
        )


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["nuc", "somewhere:1"], ["nuc", "somewhere:1"]),
        (["label:site=lab2"], ["nuc", "pi"]),
        (["label:site=lab2", "engine=openvino"], ["pi"]),
        (["label:site=lab2,engine=openvino"], ["pi"]),
        (["label:arch=aarch64", "nuc"], ["rock", "nuc"]),
        (["nuc", "label:site=lab2"], ["nuc", "pi"]),
        (["label:arch=armv7l"], ["pi"]),
        (["label:name=pi"], ["pi"]),
    ],
)
def test_targets_are_found_by_name_and_by_all_of_their_labels(home: Home, words: list[str], names: list[str]) -> None:
    assert list(meant(home, words)) == names


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("label:site=lab3", "no target has the label 'site=lab3'; did you mean 'site=lab"),
        ("label:colour=blue", "no target has the label 'colour=blue'; give it one with `enginebench targets label"),
        ("label:site=lab1,engine=openvino,arch=armv7l", "no target has all of site=lab1,engine=openvino,arch=armv7l"),
        ("label:site", "'site' is no label: write KEY=VALUE"),
        ("label:", "'' is no label"),
        ("label:site=", "'site=' is no label"),
    ],
)
def test_what_nobody_is_labelled_is_told_with_the_nearest(home: Home, word: str, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        meant(home, [word])
    assert sentence in str(refused.value)


@pytest.mark.parametrize("text", ["", "=", "a", "a=", "=b", "a=b=c", "a b=c", "a=b,c", "a=\x1b[31m"])
def test_what_is_no_label_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no label"):
        parse_label(text)


def test_noisy_targets_are_left_out_and_told_until_a_day_has_passed(home: Home) -> None:
    measured(home, "nuc", disturbed=True)
    measured(home, "pi", disturbed=False)
    told: list[str] = []

    assert meant(home, ["label:site=lab2"], say=told.append) == ("pi",)
    (sentence,) = told
    assert sentence.startswith("left out as noisy, until they are quiet or a day has passed: nuc: 100% of its blocks")
    assert meant(home, ["nuc"]) == ("nuc",), "who is named is meant"
    measured(home, "nuc", disturbed=False, times=4)
    assert meant(home, ["label:site=lab2"]) == ("nuc", "pi"), "quiet again"


def test_old_noise_is_forgotten_and_little_of_it_says_nothing(home: Home) -> None:
    measured(home, "nuc", disturbed=True, age_s=90_000)
    measured(home, "pi", disturbed=True, times=2)
    assert meant(home, ["label:site=lab2"]) == ("nuc", "pi")


def test_where_all_are_noisy_it_is_said_how_to_measure_anyway(home: Home) -> None:
    measured(home, "rock", disturbed=True)
    with pytest.raises(InputError, match=r"all targets with site=lab1 are noisy \(rock: .*: name one to measure there"):
        meant(home, ["label:site=lab1"])


def test_of_many_those_are_taken_that_answer(home: Home, tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path / "agent")
    home.store.add_target(Target("here", agent.address, 9, {"site": "lab2"}))
    for name in ("nuc", "pi"):
        home.store.remove_target(name)
        home.store.add_target(Target(name, nobody(), 9, {"site": "lab2"}))

    assert meant(home, ["label:site=lab2"], any_of=1) == ("here",)
    with pytest.raises(
        UnreachableError, match=r"only 1 of the 3 targets answer \(not (nuc, pi|pi, nuc)\): `enginebench targets check`"
    ):
        meant(home, ["label:site=lab2"], any_of=2)
    with pytest.raises(InputError, match="--any 4 of 3 targets"):
        meant(home, ["label:site=lab2"], any_of=4)
    agent.stop()
