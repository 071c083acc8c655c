"""What the names given to `compare` mean."""

from dataclasses import replace

import pytest

import invented
import invented_bisects
import invented_profiles
from controller.verdicts.chains import chain, layer
from enginebench_controller.errors import InputError
from enginebench_controller.home import Home
from enginebench_controller.records import Derivation, DerivationKind, HostFacts
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.subjects import compare_whole_profiles, find_subjects

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path):
    """Two benchmarks with a measurement each, three profiles; "both" names one of each kind, "pass" two profiles."""
    store = Store(tmp_path / "results.duckdb")
    for place, name in ((1, "nightly"), (2, "both")):
        store.add_benchmark(invented.benchmark(f"b000000{place}", name))
        store.add_measurement(invented.measured(f"m000000{place}", f"b000000{place}"))
    for place, name in ((1, "pass"), (2, "pass"), (3, "both")):
        created = invented.CREATED_NS + place
        store.add_profile(invented_profiles.profile(f"p000000{place}", name=name, created_at_unix_ns=created))
    return store


def ids(subjects):
    return [one.id for one in (*subjects.benchmarks, *subjects.profiles, *subjects.measurements)]


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["nightly", "b0000002"], ["b0000001", "b0000002"]),
        (["p0000001", "p0000003"], ["p0000001", "p0000003"]),
        (["m0000001", "m0000002", "m0000001"], ["m0000001", "m0000002", "m0000001"]),
        (["pass"], ["p0000001", "p0000002"]),
        (["both", "p0000001"], ["p0000003", "p0000001"]),
    ],
)
def test_ids_names_and_starts_of_ids(store, names, wanted):
    assert ids(find_subjects(store, names)) == wanted


def test_advice_in_a_comparison_of_profiles_goes_by_the_models_of_the_home(tmp_path):
    home = Home(tmp_path)
    vnni = HostFacts(isa=("avx512_vnni",))
    sides = [chain(one, [layer(0, 1_000_000)], host=vnni) for one in ("a", "b")]
    told = [one.remedy for one in compare_whole_profiles(home, sides, 0.05)[0].advice if one.rule == "int8-unused"]
    assert len(told) == 2 and all("was removed" in one for one in told)


def test_a_model_s_record_that_cannot_be_read_costs_advice_alone(tmp_path):
    home = Home(tmp_path)
    home.store.save_model(invented.model("ab" * 32, "net"))
    made = Derivation(DerivationKind.QUANTIZED)
    home.store.save_model(invented.model("cd" * 32, "net-int8", parent_digest="ab" * 32, derivation=made))
    (record := home.path / "models" / ("ef" * 32) / "version.json").parent.mkdir(parents=True)
    record.write_text('{"broken', encoding="utf-8")
    known = {"host": HostFacts(isa=("avx512_vnni",)), "model_digest": "ab" * 32}
    sides = [chain(one, [layer(0, 1_000_000)], **known) for one in ("a", "b")]
    found = compare_whole_profiles(home, sides, 0.05)[0]
    assert len(found.pairs) == 1
    told = [one.remedy for one in found.advice if one.rule == "int8-unused"]
    assert len(told) == 2 and all("there is one already, net-int8" in one for one in told)


def test_a_name_that_means_two_kinds_is_the_benchmark_and_that_is_said(store):
    found = find_subjects(store, ["both"])
    assert ids(found) == ["b0000002"]
    assert found.also == "the names mean profiles, too: p00000; name those by these ids"


def test_a_profile_that_failed_is_in_nobody_s_way(store):
    failed = replace(invented_profiles.profile_of_failure(), id="p0000004", name="once")
    store.add_profile(failed)
    assert ids(find_subjects(store, ["once"])) == ["p0000004"]
    store.add_profile(invented_profiles.profile("p0000005", name="once"))
    assert ids(find_subjects(store, ["once", "p0000001"])) == ["p0000005", "p0000001"]


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (
            ["nightly", "p0000001"],
            "only things of one kind go together: 'nightly' is a benchmark, 'p0000001' is a profile",
        ),
        (["m0000001", "nightly"], "'m0000001' is a measurement, 'nightly' is a benchmark"),
        (["nightly", "nobody"], "there is no benchmark, profile or measurement 'nobody'"),
        (["", "nightly"], "there is no benchmark, profile or measurement ''"),
        (["pass", "p0000001"], "'pass' means 2 profiles"),
        (["p000", "p0000001"], "'p000' means 3 profiles"),
        (["m000", "m0000001"], "'m000' means 2 measurements"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_sentence(store, names, sentence):
    with pytest.raises(InputError) as caught:
        find_subjects(store, names)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_a_search_is_told_as_that_with_its_steps_which_can_be_named(store):
    search = invented_bisects.search(None)
    store.add_search(search)
    for number in (1, 0):
        step = invented.benchmark(f"57e{number}c0ffee", "gate")
        of_search = {"id": search.id, "step": number, "title": "which is it"}
        store.add_benchmark(replace(step, plan={**step.plan, "search": of_search}))
    for named in (search.id, search.id[:6], search.name):
        with pytest.raises(InputError) as caught:
            find_subjects(store, ["nightly", named])
        assert str(caught.value).startswith(f"{named!r} is a search") and "57e0c0 57e1c0" in str(caught.value)


def test_a_store_that_is_not_there_has_nothing(tmp_path):
    with pytest.raises(InputError, match="there is no"):
        find_subjects(Store(tmp_path / "none.duckdb"), ["x"])


def test_an_ambiguous_name_lists_engine_model_and_the_shortest_ids_that_tell_them_apart(store):
    with pytest.raises(InputError) as caught:
        find_subjects(store, ["pass", "p0000001"])
    assert "p0000002 (fake 1.0 on invented, CPU, batch 1, 2 cores), p0000001 (" in str(caught.value)

    store.add_profile(invented_profiles.profile("p1999999", name="pass", created_at_unix_ns=invented.CREATED_NS))
    for identity in ("q1230000", "q4560000"):
        store.add_profile(invented_profiles.profile(identity, name="apart", created_at_unix_ns=invented.CREATED_NS))
    with pytest.raises(InputError, match=r"'apart' means 2 profiles.*q12300 \(fake 1.0 on invented.*q45600 "):
        find_subjects(store, ["apart", "p0000001"])


def test_an_ambiguous_benchmark_tells_when_what_and_on_what(store):
    store.add_benchmark(invented.benchmark("b0000009", "nightly"))
    with pytest.raises(
        InputError, match=r"'nightly' means 2 benchmarks.*b0000001 \(2023-11-14 22:13 UTC on zoo:invented\)"
    ):
        find_subjects(store, ["nightly"])
