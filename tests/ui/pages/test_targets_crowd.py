"""Many targets: what is wrong with how many, whom a search finds, and a map with a tile for each."""

import re
import time
from dataclasses import replace

import pytest

import invented
from enginebench_controller.records import Noise, Target
from enginebench_controller.targets.health import Health, HealthAnswer
from enginebench_ui.pages.targets.crowd import State, crowd, groupings, map_html, trouble
from enginebench_ui.shared.targets import target_views

OWN = invented.snapshot().host.agent_version


def board(number, **labels):
    return Target(f"board-{number:04}", f"10.0.{number // 250}.{number % 250}:50151", 0, labels)


def seen_now(target, **host):
    snapshot = invented.snapshot(target.name, time.time_ns())
    return replace(snapshot, address=target.address, host=replace(snapshot.host, **host))


@pytest.fixture
def boards():
    return [board(number, site=f"lab{number % 3}") for number in range(30)]


def test_a_state_is_the_worst_that_holds(boards):
    silent, noisy, old, unseen, stale, fine, *_ = boards
    snapshots = [
        seen_now(silent, agent_version="0.0.1"),
        seen_now(noisy),
        seen_now(old, agent_version="0.0.1"),
        replace(seen_now(stale), seen_at_unix_ns=time.time_ns() - 8 * 86_400 * 10**9),
        seen_now(fine),
    ]
    answers = {
        silent.name: HealthAnswer(silent, Health.UNREACHABLE, 3.0),
        fine.name: HealthAnswer(fine, Health.SERVING, 0.1),
    }
    noise = {noisy.name: Noise(noisy.name, 5, 0.9, 0.01), fine.name: Noise(fine.name, 5, 0.2, 0.01)}

    seen = crowd(target_views(boards[:6], snapshots), answers, noise, OWN)
    assert {one.view.name: one.state for one in seen} == {
        silent.name: State.SILENT,
        noisy.name: State.NOISY,
        old.name: State.OLD,
        unseen.name: State.UNSEEN,
        stale.name: State.STALE,
        fine.name: State.FINE,
    }
    assert trouble(seen) == (
        "6 targets: 1 does not answer, 1 noisy, 1 of another version, 1 not yet seen, 1 not seen for a week"
    )


def test_nothing_wrong_is_said_too(boards):
    seen = crowd(target_views(boards, map(seen_now, boards)), {}, {}, OWN)
    assert trouble(seen) == "30 targets, all fine"


def test_all_words_must_be_found_in_names_labels_or_facts(boards):
    snapshots = [seen_now(one, architecture="aarch64" if number % 2 else "x86_64") for number, one in enumerate(boards)]
    seen = crowd(target_views(boards, snapshots), {}, {}, OWN)

    def found(*words):
        return [one.view.name for one in seen if one.has(words)]

    assert len(found()) == 30
    assert len(found("site=lab1")) == 10
    assert len(found("SITE=lab1", "aarch64")) == 5
    assert found("0007") == ["board-0007"]
    assert found("10.0.0.7:") == ["board-0007"]
    assert found("nowhere") == []


def test_targets_are_put_together_by_what_they_differ_in(boards):
    seen = crowd(target_views(boards, map(seen_now, boards)), {}, {}, OWN)
    assert groupings(seen) == ("state", "site")


@pytest.mark.parametrize("name", ["<b>lab</b>", ""])
def test_the_map_has_a_tile_for_each_in_its_group_and_shows_names_as_they_are(boards, name):
    odd = replace(boards[0], labels={"site": name} if name else {})
    seen = crowd(target_views([odd, *boards[1:]], map(seen_now, boards)), {}, {}, OWN)
    drawn = map_html(seen, "site")

    assert sorted(re.findall(r'href="\?target=([^"]*)"', drawn)) == [one.name for one in boards]
    groups = set(re.findall(r"<b>(.*?)</b><div>", drawn))
    assert groups == {"lab0 (9)", "lab1 (10)", "lab2 (10)", "&lt;b&gt;lab&lt;/b&gt; (1)" if name else "unknown (1)"}
    assert "fine (30)" in drawn
