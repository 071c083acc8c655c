"""Any sequence of what is done with a store leaves in it what a dictionary would hold, whoever opens it next."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

import invented
import invented_profiles
from controller.plain import fields, series
from enginebench_controller.errors import InputError, StoreError
from enginebench_controller.records import Target
from enginebench_controller.store.store import BenchmarkBundle, Store
from fuzzing import count, extent

pytestmark = pytest.mark.slow

NAMES = st.sampled_from(["one", "two", "=1+1", "a'; DROP TABLE benchmarks; --", "[/b]\x1b[2J", "ü" * 300, "a\0b"])


class StoreMachine(RuleBasedStateMachine):
    """A store beside plain dictionaries of what was put into it."""

    benchmarks: Bundle[str] = Bundle("benchmarks")
    copies: Bundle[Any] = Bundle("copies")

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="store-machine-"))
        self.store = Store(self.folder / "results.duckdb", timeout_s=20)
        self.kept: dict[str, dict[str, Any]] = {}
        self.names: dict[str, str] = {}
        self.profiles: dict[str, Any] = {}
        self.targets: dict[str, Target] = {}
        self.numbers = iter(range(10_000))

    @rule(target=benchmarks, name=NAMES)
    def add_benchmark(self, name: str) -> str:
        identity = f"b{next(self.numbers):07}"
        assert self.store.add_benchmark(invented.benchmark(identity, name), [invented.snapshot()])
        self.kept[identity], self.names[identity] = {}, name
        return identity

    @rule(identity=benchmarks, name=NAMES)
    def add_it_again(self, identity: str, name: str) -> None:
        is_new = self.store.add_benchmark(invented.benchmark(identity, name))
        assert is_new == (identity not in self.kept)
        if is_new:
            self.kept[identity], self.names[identity] = {}, name

    @rule(identity=benchmarks, number=st.integers(0, 3), fails=st.booleans(), iterations=st.integers(1, 40))
    def add_measurement(self, identity: str, number: int, fails: bool, iterations: int) -> None:
        measurement_id = f"{identity}-m{number}"
        samples = () if fails else invented.samples(measurement_id, iterations=iterations)
        made = (
            invented.failed(measurement_id, identity)
            if fails
            else invented.measured(measurement_id, identity, iterations=iterations)
        )
        if identity not in self.kept:
            with pytest.raises(StoreError, match="was removed"):
                self.store.add_measurement(made, samples)
            return
        is_new = self.store.add_measurement(made, samples)
        assert is_new == (measurement_id not in self.kept[identity])
        self.kept[identity].setdefault(measurement_id, (made, samples))

    @rule(identity=benchmarks)
    def import_what_is_there(self, identity: str) -> None:
        if identity in self.kept:
            bundle = self.store.bundle(identity)
            assert self.store.add_bundles([bundle, BenchmarkBundle(bundle.benchmark, (), ())]) == ()

    @rule(identity=consumes(benchmarks))
    def remove_benchmark(self, identity: str) -> None:
        if self.kept.pop(identity, None) is None:
            with pytest.raises(InputError, match="no benchmark"):
                self.store.remove_benchmark(identity)
        else:
            self.store.remove_benchmark(identity)

    @rule(number=st.integers(0, 3))
    def add_profile(self, number: int) -> None:
        profile = invented_profiles.profile(f"p{number:07}")
        assert self.store.add_profile(profile, invented.model()) == (profile.id not in self.profiles)
        self.profiles.setdefault(profile.id, profile)

    @rule(number=st.integers(0, 3))
    def remove_profile(self, number: int) -> None:
        identity = f"p{number:07}"
        if self.profiles.pop(identity, None) is None:
            with pytest.raises(InputError, match="no profile"):
                self.store.remove_profile(identity)
        else:
            self.store.remove_profile(identity)

    @rule(name=NAMES, adds=st.booleans())
    def change_target(self, name: str, adds: bool) -> None:
        target = Target(name, "127.0.0.1:1", 0)
        if adds == (name in self.targets):
            with pytest.raises(InputError):
                (self.store.add_target if adds else self.store.remove_target)(target if adds else name)
        elif adds:
            self.store.add_target(target)
            self.targets[name] = target
        else:
            self.store.remove_target(name)
            del self.targets[name]

    @rule(target=copies)
    def backup(self) -> Any:
        if not self.store.path.exists():
            return multiple()
        copy = self.store.backup(self.folder / f"copy-{next(self.numbers)}.duckdb")
        state = ({key: dict(value) for key, value in self.kept.items()}, dict(self.names))
        return copy, state, dict(self.profiles), dict(self.targets)

    @rule(copy=copies)
    def restore(self, copy: Any) -> None:
        path, (kept, names), profiles, targets = copy
        before = self.store.restore(path)
        assert before is not None and Store(before).check().problems == ()
        self.kept, self.names = {key: dict(value) for key, value in kept.items()}, dict(names)
        self.profiles, self.targets = dict(profiles), dict(targets)

    @rule()
    def open_anew(self) -> None:
        self.store = Store(self.store.path, timeout_s=20)

    @rule()
    def check(self) -> None:
        assert self.store.check().problems == ()

    @rule()
    def read_everything(self) -> None:
        assert {one.id for one in self.store.profiles()} == self.profiles.keys()
        assert {one.name: one for one in self.store.targets()} == self.targets
        for identity, measurements in self.kept.items():
            bundle = self.store.bundle(identity)
            assert bundle.benchmark.name == self.names[identity]
            assert [one.id for one in bundle.measurements] == list(measurements)
            for found in bundle.measurements:
                made, samples = measurements[found.id]
                assert fields(found) == fields(made)
                assert series(bundle.samples[found.id]) == series(samples)
        for identity, profile in self.profiles.items():
            assert self.store.profile(identity) == profile

    @invariant()
    def lists_are_complete(self) -> None:
        count("store: steps of the state machine")
        if not hasattr(self, "store"):
            return
        assert {entry.benchmark.id for entry in self.store.benchmarks()} == self.kept.keys()

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


TestStore = StoreMachine.TestCase
TestStore.settings = extent(quick=3, recorded=10, steps=20)
