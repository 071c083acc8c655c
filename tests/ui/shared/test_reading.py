"""What pages read is kept in memory: until the store changes, or for good where nothing can change it."""

import gc
import weakref
from dataclasses import replace

import pytest

import invented
import invented_sweeps
from enginebench_controller.store.store import Store
from enginebench_ui.shared.reading import kept, kept_for_good, stamp_of

NET, OTHER = invented.model("ab" * 32, "net"), invented.model("cd" * 32, "other")


@pytest.fixture
def store(tmp_path, monkeypatch):
    return opened(tmp_path / "home", monkeypatch)


def opened(home, monkeypatch):
    """A home of one model, which pages read from now on."""
    monkeypatch.setenv("ENGINEBENCH_HOME", str(home))
    store = Store(home / "results.duckdb")
    store.save_model(NET)
    return store


def names(store):
    """The names of all models."""
    return [model.name for model in store.models()]


def test_an_answer_is_the_same_until_the_store_changes(store):
    known_names = kept(2)(names)
    first = known_names()
    assert first == ["net"]
    assert known_names() is first
    store.save_model(replace(OTHER, created_at_unix_ns=NET.created_at_unix_ns + 1))
    assert known_names() == ["net", "other"]


def test_nothing_is_kept_of_an_earlier_state_of_the_store(store):
    class Answer:
        pass

    def read(store):
        return Answer()

    def asked():
        """As by a page, whose functions are made anew whenever it is drawn."""
        return kept(64)(read)()

    assert asked() is asked()
    first = weakref.ref(asked())
    store.save_model(OTHER)
    asked()
    gc.collect()
    assert first() is None


def test_what_never_changes_stays_while_the_store_takes_in_more(store):
    known_names = kept_for_good(2)(names)
    first = known_names()
    store.save_model(OTHER)
    assert known_names() is first


@pytest.mark.parametrize("keep", [kept, kept_for_good])
def test_each_home_has_answers_of_its_own(store, keep, tmp_path, monkeypatch):
    paths = keep(2)(lambda store: store.path)
    opened(tmp_path / "elsewhere", monkeypatch)
    elsewhere = paths()
    monkeypatch.setenv("ENGINEBENCH_HOME", str(store.path.parent))
    assert (paths(), elsewhere) == (store.path, tmp_path / "elsewhere/results.duckdb")


def test_arguments_tell_answers_apart_unless_they_begin_with_an_underscore(store):
    @kept_for_good(8)
    def asked(store, identity, _record=None, *, more=False):
        return identity, _record, more

    assert asked("a", "first") == ("a", "first", False)
    assert asked("a", "second") == ("a", "first", False)
    assert asked("b", "second") == ("b", "second", False)
    assert asked("a", "second", more=True) == ("a", "second", True)


def test_functions_of_one_name_answer_for_themselves(store):
    """Pages run as scripts, so that the functions of all of them belong to one module."""

    def read(store):
        return "ladders"

    ladders = kept(2)(read)

    def read(store):
        return "bisects"

    bisects = kept(2)(read)
    assert (ladders(), bisects()) == ("ladders", "bisects")


def test_a_calibration_with_an_earlier_time_than_another_engines_is_told_from_the_one_before_it():
    known = invented_sweeps.peaks()
    latest = [replace(one, cores=1, measured_at_unix_ns=9) for one in known]
    again = [replace(one, measured_at_unix_ns=5) for one in known]
    assert stamp_of([*latest, *known]) == stamp_of([*latest, *invented_sweeps.peaks()])
    assert stamp_of([*latest, *known]) != stamp_of([*latest, *again])
