"""Which targets are meant: by name, by what a person labelled them, by what they said of themselves; noisy ones not."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import invented
import offered
from agent_server import AgentProcess, nobody
from enginebench_controller.errors import InputError, UnreachableError
from enginebench_controller.home import Home
from enginebench_controller.records import Target
from enginebench_controller.targets.choosing import meant, parse_label, to_measure


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """Each of the targets, as far as anything listens at all."""
    agent = AgentProcess(tmp_path_factory.mktemp("agent"))
    yield agent
    agent.stop()


@pytest.fixture
def home(tmp_path: Path, agent: AgentProcess) -> Home:
    home = Home(tmp_path / "home")
    for number, (name, labels) in enumerate(
        {"rock": {"site": "lab1"}, "nuc": {"site": "lab2"}, "pi": {"site": "lab2", "arch": "armv7l"}}.items()
    ):
        home.store.add_target(Target(name, agent.address, number, labels))
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


def silence(home: Home, *names: str) -> None:
    """Let nobody listen at the addresses of these any more."""
    for one in home.store.targets():
        if one.name in names:
            home.store.remove_target(one.name)
            home.store.add_target(replace(one, address=nobody()))


def test_noisy_targets_are_left_out_and_told_until_a_day_has_passed(home: Home) -> None:
    measured(home, "nuc", disturbed=True)
    measured(home, "pi", disturbed=False)
    told: list[str] = []

    assert to_measure(home, ["label:site=lab2"], say=told.append) == ("pi",)
    (sentence,) = told
    assert sentence.startswith("left out as noisy, until they are quiet or a day has passed: nuc: 100% of the time")
    assert to_measure(home, ["nuc"]) == ("nuc",), "who is named is meant"
    assert meant(home, ["label:site=lab2"]) == ("nuc", "pi"), "and where nothing is measured"
    measured(home, "nuc", disturbed=False, times=4)
    assert to_measure(home, ["label:site=lab2"]) == ("nuc", "pi"), "quiet again"


def test_old_noise_is_forgotten_and_little_of_it_says_nothing(home: Home) -> None:
    measured(home, "nuc", disturbed=True, age_s=90_000)
    measured(home, "pi", disturbed=True, times=2)
    assert to_measure(home, ["label:site=lab2"]) == ("nuc", "pi")


def test_noise_is_a_share_of_the_time_in_which_a_target_did_not_stand_still(home: Home) -> None:
    calm, disturbed = 8 * 10**9, 10**9
    whole = invented.measured("m1", "b1", target="nuc", started_at_unix_ns=time.time_ns())
    long, *short = whole.blocks[:4]
    others = tuple(replace(one, duration_ns=disturbed, disturbances=(invented.DISTURBANCE,)) for one in short)
    paused = replace(others[-1], duration_ns=20 * 10**9, paused_ns=19 * 10**9)
    blocks = (replace(long, duration_ns=calm, disturbances=()), *others[:-1], paused)
    home.store.add_benchmark(invented.benchmark("b1"), ())
    home.store.add_measurement(replace(whole, blocks=blocks))
    assert home.store.noise(0)["nuc"].disturbed == pytest.approx(0.2)


def test_where_all_are_noisy_it_is_said_how_to_measure_anyway(home: Home) -> None:
    measured(home, "rock", disturbed=True)
    with pytest.raises(InputError, match=r"all targets with site=lab1 are noisy \(rock: .*: name one to measure there"):
        to_measure(home, ["label:site=lab1"])
    with pytest.raises(InputError, match="all targets with site=lab1 are noisy"):
        to_measure(home, ["label:site=lab1", "label:site=lab2"])
    assert to_measure(home, ["label:site=lab1", "label:name=pi"], any_of=1) == ("pi",), "one of them is enough"
    with pytest.raises(InputError, match="all targets with site=lab1 are noisy"):
        to_measure(home, ["label:site=lab1"], any_of=1)


def test_silent_targets_are_left_out_and_told_unless_they_are_named(home: Home) -> None:
    silence(home, "nuc")
    told: list[str] = []
    assert to_measure(home, ["label:site=lab2"], say=told.append) == ("pi",)
    assert told == ["left out, as they do not answer: nuc (`enginebench targets check` says why)"]
    assert to_measure(home, ["nuc", "label:site=lab2"], say=told.append) == ("nuc", "pi"), "who is named is meant"
    assert meant(home, ["label:site=lab2"]) == ("nuc", "pi"), "and where nothing is measured"
    assert len(told) == 1


def test_where_no_target_of_a_label_answers_it_is_said_of_which_label(home: Home) -> None:
    silence(home, "nuc", "pi")
    with pytest.raises(UnreachableError, match="no target with site=lab2 answers: `enginebench targets check` says"):
        to_measure(home, ["label:site=lab1", "label:site=lab2"])


def test_of_many_silent_targets_the_first_are_named(home: Home) -> None:
    for number in range(7):
        home.store.add_target(Target(f"far{number}", nobody(), number, {"site": "lab2"}))
    told: list[str] = []
    assert to_measure(home, ["label:site=lab2"], say=told.append) == ("nuc", "pi")
    (sentence,) = told
    assert "far0, far1, far2, far3, far4, and 2 more (" in sentence


def test_of_many_those_are_taken_that_answer(home: Home) -> None:
    home.store.add_target(Target("here", next(iter(home.store.targets())).address, 9, {"site": "lab2"}))
    silence(home, "nuc", "pi")

    assert to_measure(home, ["label:site=lab2"], any_of=1) == ("here",)
    with pytest.raises(
        UnreachableError, match=r"only 1 of the 3 targets answer \(not (nuc, pi|pi, nuc)\): `enginebench targets check`"
    ):
        to_measure(home, ["label:site=lab2"], any_of=2)
    with pytest.raises(InputError, match="--any 4 of 3 targets"):
        to_measure(home, ["label:site=lab2"], any_of=4)


def test_of_many_that_are_idle_the_quietest_are_taken(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.sample", lambda names, count: [*names][:count])  # nuc would be first
    measured(home, "pi", disturbed=False)
    assert to_measure(home, ["label:site=lab2"], any_of=1) == ("pi",), "of the other nobody knows"
