"""Targets as a person looks at them."""

from dataclasses import replace

import pytest

import invented
from enginebench_controller.records import AvailableEngine, HostFacts, Reservation, Target, UnavailableEngine
from enginebench_controller.targets.health import Health, HealthAnswer
from enginebench_ui.shared.targets import (
    NOT_YET_SEEN,
    askable,
    available_names,
    device_rows,
    engine_rows,
    host_facts,
    overview_rows,
    target_views,
    unavailable_rows,
)

NUC = Target("nuc", "nuc:1", 0)


def answer(health, cause=""):
    return HealthAnswer(NUC, health, 0.012, cause)


def test_a_target_is_shown_whether_it_was_added_seen_or_both():
    views = target_views([NUC], [invented.snapshot("local")])

    assert [(view.name, view.address) for view in views] == [("local", "127.0.0.1:50051"), ("nuc", "nuc:1")]
    assert (views[1].last_seen, views[1].engines, views[1].was_seen) == (NOT_YET_SEEN, (), False)


def test_only_a_target_that_was_added_can_be_removed_and_only_the_local_one_is_not_asked():
    views = target_views([NUC], [invented.snapshot("local"), invented.snapshot("10.0.0.1:50151")])

    assert [view.name for view in views if view.is_added] == ["nuc"]
    assert [target.name for target in askable(views)] == ["10.0.0.1:50151", "nuc"]


def test_health_is_said_in_words_and_why_it_is_bad():
    snapshots = [invented.snapshot("local"), invented.snapshot("nuc")]
    views = target_views([NUC], snapshots)

    def nuc(answers):
        return overview_rows(views, answers)[1]

    assert overview_rows(views, {})[0]["Health"] == "started when needed"
    assert nuc({})["Health"] == "asking …"
    serving = nuc({"nuc": answer(Health.SERVING)})
    assert (serving["Health"], serving["Answer (ms)"], serving["Why"]) == ("● serving", 12.0, None)
    silent = nuc({"nuc": answer(Health.UNREACHABLE, "nothing listens on this port")})
    assert (silent["Health"], silent["Answer (ms)"]) == ("○ unreachable", None)
    assert silent["Why"] == "nothing listens on this port"


@pytest.mark.parametrize(
    ("reservation", "words"),
    [
        (Reservation("ann", 7_200 * 10**9, "new firmware"), "by 'ann' for 2 h (new firmware)"),
        (Reservation("ann", 60 * 10**9, is_yours=True), "by you for 60 s"),
        (Reservation(None, 600 * 10**9), "by somebody on that machine for 10 min"),
        (
            Reservation(None, 600 * 10**9, is_yours=True),
            "by you, or somebody else without a certificate, for 10 min",
        ),
        (None, None),
    ],
)
def test_the_overview_says_who_has_reserved_a_target(reservation, words):
    views = target_views([NUC], [])
    answers = {"nuc": replace(answer(Health.SERVING), reservation=reservation)}

    (row,) = overview_rows(views, [], answers)

    assert row["Reserved"] == words


def test_the_overview_counts_engines_and_leaves_the_unknown_empty():
    snapshot = invented.snapshot("nuc")
    seen, unseen = overview_rows(target_views([NUC, replace(NUC, name="pi")], [snapshot]), {})

    assert (seen["Engines"], seen["Cores"], seen["Memory"]) == ("1 of 2", 2, None)
    assert (unseen["Engines"], unseen["Cores"], unseen["Processor"]) == (None, None, None)


def test_engines_are_listed_with_their_version_or_apart_with_the_reason_and_without_hidden_ones():
    (works,), (missing,) = (rows(invented.snapshot().engines) for rows in (engine_rows, unavailable_rows))

    assert (works["Engine"], works["Version"], works["Devices"], works["Formats"]) == ("fake", "1.0", "CPU", "ONNX")
    assert (missing["Engine"], missing["Why"]) == ("fake-broken", "fake-broken is not installed; install it")


def test_engines_stand_by_environment_the_default_one_first():
    works = invented.snapshot().engines[0]
    engines = [replace(works, environment="a"), replace(works, name="z"), works]

    assert [(row["Environment"], row["Engine"]) for row in engine_rows(engines)] == [
        ("default", "fake"),
        ("default", "z"),
        ("a", "fake"),
    ]
    assert available_names(engines) == ("fake@a", "z", "fake")


def test_devices_are_listed_with_what_they_can_do():
    engine = invented.snapshot().engines[0]
    device = replace(engine.devices[0], properties={"instruction_set": "avx2"})

    (row,) = device_rows([replace(engine, devices=(device,))])

    assert (row["Device"], row["Full name"], row["Precisions"]) == ("CPU", "Invented CPU", "f32, bf16")
    assert row["Properties"] == "instruction set: avx2"


def test_an_engine_that_tells_next_to_nothing_is_shown_as_unknown():
    (row,) = unavailable_rows([UnavailableEngine(name="", environment="")])

    assert (row["Engine"], row["Environment"], row["Why"]) == ("unknown", "unknown", "unknown")
    odd = [AvailableEngine(name="odd", environment="default")]
    assert engine_rows(odd)[0]["Devices"] == "none found" and device_rows(odd) == ()


def test_what_a_target_left_out_is_unknown_not_zero():
    facts = dict(host_facts(HostFacts(physical_cores=2, cpu_quota_cores=1.5)))

    assert facts["Memory"] == "unknown"
    assert facts["Cores"] == "2 physical, unknown logical, limited to 1.5"
    assert "Tuned" not in facts
    assert dict(host_facts(HostFacts(tuned=("governor performance",))))["Tuned"] == "governor performance"


def test_devices_beyond_those_that_an_agent_lists_are_counted():
    engine = invented.snapshot().engines[0]
    many = replace(engine, more_devices=999_936)

    assert engine_rows([many])[0]["Devices"] == "CPU, and 999,936 more"
    assert [(row["Device"], row["Full name"]) for row in device_rows([many])][-1] == ("…", "and 999,936 more")
    assert len(device_rows([many])) == len(device_rows([engine])) + 1


def test_an_engine_that_is_not_available_says_why_in_the_line_that_tells():
    words = "Exception from src/core.cpp:84:\nCheck 'false' failed at src/x.cpp:1:\nno driver for this device"
    (row,) = unavailable_rows([UnavailableEngine(name="odd", environment="default", reason=words)])
    assert row["Why"] == "no driver for this device"
