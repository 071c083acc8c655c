"""Profiles travel between stores without loss, at most once, and damaged files change nothing."""

import json
from dataclasses import replace

import pytest

import invented_profiles
from enginebench_controller.errors import InputError
from enginebench_controller.files.exports.formats import ExportFormat
from enginebench_controller.files.exports.profiles import export_profiles
from enginebench_controller.files.profiles import import_profiles
from enginebench_controller.files.reading import read_file
from enginebench_controller.store.store import Store

PROFILES = (invented_profiles.profile("a" * 32), invented_profiles.profile_of_failure("b" * 32))


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results.duckdb")


@pytest.fixture
def exported(tmp_path):
    path = tmp_path / "profiles.json"
    export_profiles(PROFILES, [], ExportFormat.JSON, path)
    return path


def test_an_import_brings_back_what_was_exported_marked_as_imported_and_once(store, exported):
    assert import_profiles(store, read_file(exported)) == ("a" * 32, "b" * 32)
    assert import_profiles(store, read_file(exported)) == ()

    for profile in PROFILES:
        assert store.profile(profile.id) == replace(profile, imported=True)


def test_what_was_imported_can_be_exported_again(store, exported, tmp_path):
    import_profiles(store, read_file(exported))
    again = tmp_path / "again.json"
    export_profiles([store.profile(one.id) for one in PROFILES], [], ExportFormat.JSON, again)

    before, after = json.loads(exported.read_text()), json.loads(again.read_text())
    assert after["profiles"] == [{**one, "imported": True} for one in before["profiles"]]


def lengthened(document):
    """The timed layers of the first profile with one inference more."""
    timed = [layer for layer in document["profiles"][0]["layers"] if layer["time_ns"]]
    assert timed
    return [layer | {"time_ns": [*layer["time_ns"], 5]} for layer in timed]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda d: d.update(kind="enginebench-export"), "is not an export; make one with `enginebench profiles export"),
        (lambda d: d.update(schema_version=99), "by a newer enginebench"),
        (lambda d: d.update(schema_version=1), "by an older enginebench"),
        (lambda d: d["profiles"][0].update(id="nightly"), r"damaged.*\.id: .* hexadecimal digits"),
        (lambda d: d["profiles"][0]["layers"][0].update(time_ns=[-1]), r"damaged.*time_ns"),
        (lambda d: d["profiles"][0]["layers"].extend(lengthened(d)), r"damaged.*time_ns tell of \d+ and \d+ inf"),
        (lambda d: d["profiles"][0]["nodes"].reverse(), r"damaged.*its node 0, counted from 0, has the index \d+"),
        (lambda d: d["profiles"][0]["layers"][0].update(state="asleep"), r"damaged.*state"),
        (lambda d: d["profiles"][0]["nodes"][0].update(macs=2**64), r"damaged.*macs"),
        (lambda d: d["profiles"][1].pop("target"), r"damaged.*target"),
    ],
)
def test_a_file_that_is_none_changes_nothing(spoil, why, store, exported):
    document = json.loads(exported.read_text())
    spoil(document)
    exported.write_text(json.dumps(document))

    with pytest.raises(InputError, match=why):
        import_profiles(store, read_file(exported))
    assert store.profiles() == ()
