"""Alerts: a slower machine is told from what may be a slower engine, and a history alone blames nobody."""

from dataclasses import replace

import pytest

from enginebench_controller.records import Configuration, Hint, Load
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.alerts import Cause, alerts, history_words
from histories import Change, digest, keep_history

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results.duckdb", timeout_s=5)


def found(store, change, **fields):
    keep_history(store, "net", change, **fields)
    (history,) = store.histories(digest("net"))
    return alerts(history)


@pytest.mark.parametrize(
    ("change", "cause", "words"),
    [
        (Change(factor=1.1, version="2.0"), Cause.CANDIDATE, "was 1.0 and is 2.0; the reference work between blocks"),
        (Change(factor=0.9, version="2.0"), Cause.CANDIDATE, "takes as long as before"),
        (Change(factor=1.2, reference=1.2, version="2.0"), Cause.MACHINE, "but the reference work"),
        (Change(factor=1.2, reference=1.2), Cause.MACHINE, "the engine's version is the same, and the reference work"),
        (Change(factor=1.2, reference=0.8, version="2.0"), Cause.CANDIDATE, "between blocks takes 0."),
        (Change(factor=1.3, reference=1.1, version="2.0"), Cause.CANDIDATE, "between blocks takes 1."),
        (Change(factor=1.2, disturbed=True), Cause.MACHINE, "100% of the time was disturbed since"),
        (Change(factor=1.2, disturbed=True, version="2.0"), Cause.CANDIDATE, "100% of the time was disturbed since"),
        (Change(factor=1.2, version="2.0", cpu_model="Other CPU"), Cause.MACHINE, "and is Other CPU"),
        (Change(factor=1.2), Cause.UNEXPLAINED, "the same, but the reference work between blocks takes as long"),
        (Change(factor=1.2, reference=None), Cause.UNEXPLAINED, "how fast the machine was is not known"),
    ],
)
def test_who_a_change_is_put_down_to(store, change, cause, words):
    (alert,) = found(store, change).alerts
    assert alert.cause is cause
    assert words in alert.sentence
    assert alert.ratio == pytest.approx(change.factor, rel=0.02)
    assert alert.is_slower == (change.factor > 1)
    assert alert.versions == ("1.0", change.version)
    if change.reference in (0.8, 1.1, 1.2):
        assert f"takes {alert.reference_ratio:.3f}× as long" in alert.sentence
    assert alert.points == (10, 6)


def test_what_was_measured_on_somebody_elses_target_of_the_same_name_is_another_history(store):
    """One's own goes on, whatever others import; theirs are told apart by their processors."""
    keep_history(store, "net", Change(), points=12)
    for processor in ("Their CPU", "Third CPU"):
        keep_history(store, "net", Change(at=0, factor=2.0, version="2.0"), points=12, imported_from=processor)
    own, *theirs = sorted(store.histories(digest("net")), key=lambda one: (one.imported, one.processors))
    assert (own.imported, own.processors, len(own.points)) == (False, ("Invented CPU",), 12)
    assert [(one.imported, one.processors, len(one.points)) for one in theirs] == [
        (True, ("Their CPU",), 12),
        (True, ("Third CPU",), 12),
    ]
    assert [history_words(one) for one in (own, theirs[0])] == [
        "net on fake (local, CPU, batch 1, 2 cores, sync, f32)",
        "net on fake (local, imported from Their CPU, CPU, batch 1, 2 cores, sync, f32)",
    ]
    assert [alerts(one).alerts for one in (own, *theirs)] == [(), (), ()]


@pytest.mark.parametrize(
    ("beside", "cause", "words"),
    [
        ({10: "Invented CPU"}, Cause.MACHINE, "the processor was Invented CPU and is Invented CPU or Other CPU"),
        ({9: "Other CPU"}, Cause.MACHINE, "the processor was Invented CPU or Other CPU and is Other CPU"),
        (dict.fromkeys(range(10, 16), "Invented CPU"), Cause.CANDIDATE, "the engine's version was 1.0"),
    ],
)
def test_a_machine_that_is_another_is_told_although_the_points_beside_the_change_are_of_one(
    store, beside, cause, words
):
    keep_history(store, "net", Change(factor=1.2, version="2.0", cpu_model="Other CPU"))
    (history,) = store.histories(digest("net"))
    points = [replace(one, cpu_model=beside.get(place, one.cpu_model)) for place, one in enumerate(history.points)]
    (alert,) = alerts(replace(history, points=tuple(points))).alerts
    assert alert.cause is cause
    assert words in alert.sentence


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_a_little_more_reference_work_that_explains_a_change_is_not_said_to_be_as_before(store, version):
    (alert,) = found(store, Change(factor=1.03, reference=1.018, version=version), noise=0.002).alerts
    assert alert.cause is Cause.MACHINE
    assert f"the reference work between blocks takes {alert.reference_ratio:.3f}× as long" in alert.sentence


def test_reference_work_that_merely_scatters_explains_nothing(store):
    """The stream takes half as long or twice as long, whoever uses the memory, and its medians differ by a fifth."""
    keep_history(store, "net", Change(factor=1.2, version="2.0"))
    (history,) = store.histories()
    scattered = [0.5, 2.0, 0.9, 1.0, 1.1, 0.6, 1.9, 1.0, 0.7, 1.4, 1.2, 0.5, 2.0, 1.2, 0.8, 1.3]
    points = [
        replace(one, reference_stream_ns=80_000 * factor) for one, factor in zip(history.points, scattered, strict=True)
    ]
    (alert,) = alerts(replace(history, points=tuple(points))).alerts
    assert alert.cause is Cause.CANDIDATE
    assert alert.reference_ratio == pytest.approx(1, abs=0.02)


def test_a_slower_engine_is_seen_on_a_machine_that_got_faster_with_it(store):
    """The times are what they were, and the reference work says that they should not be."""
    (alert,) = found(store, Change(reference=0.9, version="2.0")).alerts
    assert alert.cause is Cause.CANDIDATE
    assert alert.is_slower
    assert alert.ratio == pytest.approx(1, abs=0.01)
    assert alert.beside_reference == pytest.approx(1 / 0.9, rel=0.01)
    assert (
        f"takes {alert.reference_ratio:.3f}× as long; measured by that, an inference takes 1.12× as long"
        in alert.sentence
    )


def test_reference_work_alone_that_changes_is_no_alert_of_one_version(store):
    assert found(store, Change(reference=0.9)).alerts == ()


def test_nothing_changes_where_only_the_version_does(store):
    assert found(store, Change(version="2.0")).alerts == ()


def test_a_change_seen_one_point_off_belongs_to_the_version_beside_it(store):
    """The first point of the new version happened to be as quick as the old one."""
    keep_history(store, "net", Change(factor=1.1, version="2.0"))
    (history,) = store.histories(digest("net"))
    points = list(history.points)
    points[10] = replace(points[10], median_ns=points[9].median_ns)
    (alert,) = alerts(replace(history, points=tuple(points))).alerts
    assert alert.versions == ("1.0", "2.0")
    assert alert.cause is Cause.CANDIDATE


def test_too_few_points_are_told_with_how_many_are_needed(store):
    short = found(store, Change(at=3, factor=2.0), points=6)
    assert short.alerts == ()
    assert short.shortage == "6 points with numbers, and 10 are needed to tell a change from chance"


def test_what_is_asked_for_otherwise_is_another_history(store):
    keep_history(store, "net", Change(), points=2)
    keep_history(store, "other", Change(), points=2)
    tuned = Configuration("CPU", 1, cores=2, options={"arena": "off"}, load=Load.ASYNC, requests=2)
    keep_history(store, "tuned", Change(), points=2, configuration=tuned)
    hinted = replace(tuned, options={}, streams=2, hint=Hint.THROUGHPUT)
    keep_history(store, "hinted", Change(), points=2, configuration=hinted)
    keep_history(store, "once", Change(), points=1)
    told = sorted(map(history_words, store.histories()))
    assert told == [
        "hinted on fake (local, CPU, batch 1, 2 cores, async 2, f32, 2 streams, hint throughput)",
        "net on fake (local, CPU, batch 1, 2 cores, sync, f32)",
        "other on fake (local, CPU, batch 1, 2 cores, sync, f32)",
        "tuned on fake (local, CPU, batch 1, 2 cores, async 2, f32, arena=off)",
    ]
    assert store.histories(engine="another") == store.histories(target="elsewhere") == ()


def test_where_requests_overlap_the_throughput_counts(store):
    many = Configuration("CPU", 1, cores=2, load=Load.ASYNC, requests=2)
    keep_history(store, "net", Change(), configuration=many)
    (history,) = store.histories()
    points = [
        replace(point, median_ns=4e6, throughput_items_per_s=(400.0 if place < 10 else 300.0) + place % 3)
        for place, point in enumerate(history.points)
    ]
    (alert,) = alerts(replace(history, points=tuple(points))).alerts
    assert alert.ratio == pytest.approx(4 / 3, rel=0.02)


def levels(store, *factors, versions, reference=None, noise=0.005, sizes=None):
    """Alerts of a history of eight points at each of these levels, or as many as are told, of these versions."""
    of_points = [level for level, size in enumerate(sizes or [8] * len(factors)) for _ in range(size)]
    keep_history(store, "net", Change(), points=len(of_points), noise=noise)
    (history,) = store.histories()
    reference = (1.0,) * len(factors) if reference is None else reference
    points = [
        replace(
            one,
            median_ns=one.median_ns * factors[level],
            engine=replace(one.engine, version=versions[level]),
            **{name: getattr(one, name) * reference[level] if reference else None for name in REFERENCES},
        )
        for level, one in zip(of_points, history.points, strict=True)
    ]
    return alerts(replace(history, points=tuple(points))).alerts


REFERENCES = ("reference_product_ns", "reference_stream_ns")


@pytest.mark.parametrize(
    ("factors", "lasts"),
    [
        ((1.0, 1.2), [True]),
        ((1.0, 1.2, 1.0), [False, True]),
        ((1.0, 0.8, 1.0), [False, True]),
        ((1.0, 1.2, 1.1), [True, True]),
        ((1.0, 1.2, 0.9), [False, True]),
        ((1.0, 1.2, 1.4), [True, True]),
        ((1.0, 1.2, 1.4, 1.2), [True, False, True]),
    ],
)
def test_a_change_lasts_until_the_level_is_back(store, factors, lasts):
    found = levels(store, *factors, versions=("1.0", "2.0", "3.0", "4.0"))
    assert [one.lasts for one in found] == lasts


def test_what_days_differ_by_keeps_no_mended_change_alive(store):
    """Medians of eight such days differ by more than what is tolerated, and chance does that."""
    first, _ = levels(store, 1.0, 1.3, 1.015, versions=("1.0", "2.0", "3.0"), noise=0.03)
    assert not first.lasts


def test_a_machine_that_got_faster_mends_no_engine(store):
    faster = levels(store, 1.0, 1.2, 1.0, versions=("1.0", "2.0", "2.0"), reference=(1.0, 1.0, 1 / 1.2))
    assert [one.cause for one in faster] == [Cause.CANDIDATE, Cause.MACHINE]
    assert faster[0].lasts


@pytest.mark.parametrize("reference", [None, ()])
def test_what_changed_while_the_version_did_not_mends_no_engine(store, reference):
    """Nobody knows why it is faster since; with or without reference work, the engine is what it was."""
    first, second = levels(store, 1.0, 1.2, 1.0, versions=("1.0", "2.0", "2.0"), reference=reference)
    assert (first.cause, second.cause) == (Cause.CANDIDATE, Cause.UNEXPLAINED)
    assert first.lasts


@pytest.mark.parametrize(("third", "lasts"), [(1.2 * 0.94, True), (1.0, False)])
def test_of_a_later_candidate_what_the_machine_did_mends_no_engine(store, third, lasts):
    """The machine is 15 % faster since; of the engine's 20 % the next version took back a third, or all."""
    found = levels(store, 1.0, 1.2, third * 0.85, versions=("1.0", "2.0", "3.0"), reference=(1.0, 1.0, 0.85))
    assert [one.cause for one in found] == [Cause.CANDIDATE, Cause.CANDIDATE]
    assert found[0].lasts is lasts


@pytest.mark.parametrize(("factor", "reference", "third", "lasts"), [(1.3, 1.1, 1.1, False), (1.08, 0.9, 0.99, True)])
def test_of_the_first_change_what_the_machine_did_is_no_part_that_a_version_mends(
    store, factor, reference, third, lasts
):
    """18 % of the engine's and 10 % of the machine's, of which the first are mended; 20 %, half of which are."""
    levels_ = levels(store, 1.0, factor, third, versions=("1.0", "2.0", "3.0"), reference=(1.0, reference, reference))
    assert levels_[0].lasts is lasts


@pytest.mark.parametrize("reference", [1.19, 1.21])
def test_a_change_that_is_the_machines_lasts_while_the_machine_is_as_slow(store, reference):
    """An engine that got faster meanwhile undoes none of it, on whichever side of the times the noise is."""
    first, _ = levels(
        store, 1.0, 1.2, 1.12, versions=("1.0", "2.0", "3.0"), reference=(1.0, reference, reference), noise=0.001
    )
    assert first.cause is Cause.MACHINE and first.lasts


@pytest.mark.parametrize(
    ("sizes", "third", "lasts"),
    [((4, 8, 4), 1.17, True), ((3, 12, 6), 1.17, True), ((4, 8, 4), 1.0, False), ((8, 8, 8), 1.17, True)],
)
def test_levels_too_short_to_be_told_apart_are_no_evidence_that_it_is_mended(store, sizes, third, lasts):
    first, *_ = levels(store, 1.0, 1.4, third, versions=("1.0", "2.0", "3.0"), sizes=sizes)
    assert first.lasts is lasts


def test_one_odd_night_takes_back_nothing_that_was_told_before_it(store):
    keep_history(store, "net", Change(at=8, factor=1.5, version="2.0"), points=17)
    (history,) = store.histories()
    *points, last = history.points
    odd = replace(last, median_ns=0.6 * points[0].median_ns)
    (alert,) = alerts(replace(history, points=(*points, odd))).alerts
    assert alert.versions == ("1.0", "2.0")
    assert alert.ratio == pytest.approx(1.5, rel=0.02)
