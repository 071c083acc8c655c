"""Damaged and doctored exports: imported soundly, or refused in a sentence with nothing changed."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

import invented
import invented_profiles
from enginebench_controller.errors import InputError
from enginebench_controller.files.exports.benchmarks import ExportDocument, export_benchmarks, import_benchmarks
from enginebench_controller.files.exports.formats import ExportFormat
from enginebench_controller.files.exports.profiles import export_profiles
from enginebench_controller.files.profiles import ProfilesDocument, import_profiles
from enginebench_controller.files.reading import ExportFile, read_export, read_file
from enginebench_controller.records import Derivation, DerivationKind
from enginebench_controller.store.store import Store
from fuzzing import fuzzed
from mutations import edited_bytes, edited_document

pytestmark = pytest.mark.slow

BENCHMARK = "b00000000001"


@dataclass(frozen=True)
class Place:
    """A store that is empty between examples, and the file that is imported into it."""

    store: Store
    file: Path

    def imports(self, content: bytes, importing: Callable[[Store, ExportFile], tuple[str, ...]]) -> tuple[str, ...]:
        """Import; a refusal is one line, and changes nothing."""
        self.file.write_bytes(content)
        before = self.store.generation()
        try:
            return importing(self.store, read_file(self.file))
        except InputError as error:
            assert "\n" not in str(error) and str(self.file) in str(error)
            assert self.store.generation() == before
            return ()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("imports")
    store = Store(folder / "results.duckdb")
    store.save_model(invented.model())
    return Place(store, folder / "export.json")


def exported_benchmark(folder: Path) -> dict[str, Any]:
    store = Store(folder / "exporting.duckdb")
    pruned = Derivation(DerivationKind.PRUNED, sparsity=0.5)
    store.save_model(invented.model(parent_digest="cd" * 32, derivation=pruned))
    store.add_benchmark(invented.benchmark(BENCHMARK, rerun_of="b0000000"), [invented.snapshot()])
    one, two, three = (f"{number:032}" for number in (1, 2, 3))
    configured = invented.measured(one, BENCHMARK, iterations=6, configuration=invented.CONFIGURATION, noisy=True)
    store.add_measurement(configured, invented.samples(one, iterations=6))
    store.add_measurement(invented.failed(two, BENCHMARK))
    open_loop = invented.measured(three, BENCHMARK, iterations=3, configuration=invented.OPEN_LOOP)
    store.add_measurement(open_loop, invented.samples(three, iterations=3, open_loop=True))
    found: dict[str, Any] = json.loads(export_benchmarks(store, [BENCHMARK]))
    return found


@pytest.fixture(scope="module")
def benchmarks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return exported_benchmark(tmp_path_factory.mktemp("exporting"))


@pytest.fixture(scope="module")
def profiles() -> dict[str, Any]:
    exported = (invented_profiles.profile("a" * 32), invented_profiles.profile_of_failure("b" * 32))
    found: dict[str, Any] = json.loads(export_profiles(exported, [], ExportFormat.JSON, None) or "")
    return found


def serialized(document: Any) -> bytes:
    return json.dumps(document).encode()


@fuzzed("imports: benchmarks, read", quick=100, recorded=3_000, data=st.data())
def test_a_doctored_export_of_benchmarks_is_read_or_refused(
    place: Place, benchmarks: dict[str, Any], data: st.DataObject
) -> None:
    document = data.draw(edited_document(benchmarks))
    place.imports(serialized(document), lambda _, file: read_benchmarks(file))


@fuzzed("imports: profiles, read", quick=100, recorded=3_000, data=st.data())
def test_a_doctored_export_of_profiles_is_read_or_refused(
    place: Place, profiles: dict[str, Any], data: st.DataObject
) -> None:
    document = data.draw(edited_document(profiles))
    place.imports(serialized(document), lambda _, file: read_profiles(file))


def read_benchmarks(file: ExportFile) -> tuple[str, ...]:
    return tuple(form.to_bundle().benchmark.id for form in read_export(file, ExportDocument).benchmarks)


def read_profiles(file: ExportFile) -> tuple[str, ...]:
    return tuple(form.to_record().id for form in read_export(file, ProfilesDocument).profiles)


@fuzzed("imports: bytes edited", quick=100, recorded=4_000, data=st.data())
def test_a_damaged_export_is_read_or_refused(
    place: Place, benchmarks: dict[str, Any], profiles: dict[str, Any], data: st.DataObject
) -> None:
    content = data.draw(edited_bytes([serialized(benchmarks), serialized(profiles)]))
    place.imports(content, lambda _, file: read_benchmarks(file))
    place.imports(content, lambda _, file: read_profiles(file))


@fuzzed("imports: benchmarks, stored", quick=8, recorded=60, data=st.data())
def test_what_is_imported_of_a_benchmark_is_whole(
    place: Place, benchmarks: dict[str, Any], data: st.DataObject
) -> None:
    document = data.draw(edited_document(benchmarks))
    for identity in place.imports(serialized(document), import_benchmarks):
        bundle = place.store.bundle(identity)
        assert bundle.benchmark.id == identity
        export_benchmarks(place.store, [identity])
    assert [problem for problem in place.store.check().problems if "iterations" not in problem] == []
    for entry in place.store.benchmarks():
        place.store.remove_benchmark(entry.benchmark.id)


@fuzzed("imports: profiles, stored", quick=8, recorded=60, data=st.data())
def test_what_is_imported_of_a_profile_is_whole(place: Place, profiles: dict[str, Any], data: st.DataObject) -> None:
    document = data.draw(edited_document(profiles))
    for identity in place.imports(serialized(document), import_profiles):
        assert place.store.profile(identity).id == identity
        assert export_profiles([place.store.profile(identity)], [], ExportFormat.JSON, None)
    assert place.store.check().problems == ()
    for entry in place.store.profiles():
        place.store.remove_profile(entry.id)
