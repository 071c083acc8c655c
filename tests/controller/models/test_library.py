"""Versions are kept whole, by content, and found again by whatever a person calls them."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from tiny_models import save, tiny_classifier, tiny_embedding

import invented
from enginebench_controller.errors import ModelError, StoreError, UnknownFormatError, UnknownModelError
from enginebench_controller.models import library as library_module
from enginebench_controller.models.formats.signature import ModelDescription
from enginebench_controller.models.library import ModelLibrary
from enginebench_controller.records import Derivation, DerivationKind, FileFormat, ModelVersion


def with_external_data(folder: Path, location: str = "weights/w.bin") -> Path:
    """A model whose tensors' content lies in another file beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / location).parent.mkdir(parents=True, exist_ok=True)
    model = tiny_classifier()
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="flat.bin", size_threshold=100)
    shutil.move(folder / "flat.bin", folder / location)
    return relocated(folder / "m.onnx", location)


def relocated(path: Path, location: str) -> Path:
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    path.write_bytes(model.SerializeToString())
    return path


def leftovers(library: ModelLibrary, root: Path) -> list[str]:
    known = {version.digest for version in library.versions()}
    return [entry.name for entry in (root / "library").iterdir() if entry.name not in known]


def test_a_version_is_named_by_its_content_and_added_once(library: ModelLibrary, tmp_path: Path) -> None:
    path = save(tiny_classifier(), tmp_path / "tiny.onnx")
    version = library.add(path)
    assert version.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (version.name, version.format, version.size_bytes) == ("tiny", "onnx", path.stat().st_size)
    assert library.add(path) == version
    assert library.versions() == [version]
    assert library.main_path(version).read_bytes() == path.read_bytes()
    assert leftovers(library, tmp_path) == []


def test_a_file_may_be_called_by_any_bytes(library: ModelLibrary, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.onnx")
    shutil.move(save(tiny_classifier(), tmp_path / "tiny.onnx"), path)
    version = library.add(path)
    assert version.name == "caf\N{REPLACEMENT CHARACTER}"
    with pytest.raises(ModelError, match="no UTF-8, as plans are: rename the file"):
        library.resolve(str(path))
    with pytest.raises(ModelError, match="cannot name a model"):
        library.add(path, name=path.stem)


def test_a_second_library_over_the_same_folder_sees_the_same(library: ModelLibrary, tmp_path: Path) -> None:
    parent = library.add(save(tiny_classifier(), tmp_path / "a.onnx"))
    child = library.add(save(tiny_embedding(), tmp_path / "b.onnx"), "b", parent.digest, invented.BATCH_4)
    again = ModelLibrary(tmp_path / "library")
    assert again.versions() == [child, parent]
    assert again.derived(parent, invented.BATCH_4) == child
    assert again.derived(parent, invented.INT8) is None


def test_external_data_travels_with_the_model(library: ModelLibrary, tmp_path: Path) -> None:
    path = with_external_data(tmp_path / "source")
    version = library.add(path)
    assert [file.name for file in version.files] == ["model.onnx", "weights/w.bin"]
    lines = sorted(f"{file.sha256}  {file.name}\n" for file in version.files)
    assert version.digest == hashlib.sha256("".join(lines).encode()).hexdigest()
    shutil.rmtree(tmp_path / "source")
    assert [one.name for one in onnx.load(library.main_path(version)).graph.initializer]
    assert [one.stat().st_size for one in library.file_paths(version)] == [one.size_bytes for one in version.files]


@pytest.mark.fault(9)
@pytest.mark.parametrize("location", ["../secret.bin", "/etc/hostname", "a/../../secret.bin", "", "c:\\secret", "a\0b"])
def test_external_data_outside_the_models_folder_is_refused(
    library: ModelLibrary, tmp_path: Path, location: str
) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(10_000))
    path = relocated(with_external_data(tmp_path / "source"), location)
    with pytest.raises(ModelError, match="outside its folder"):
        library.add(path)
    assert library.versions() == []


@pytest.mark.fault(9)
def test_a_link_that_leaves_the_folder_is_refused(library: ModelLibrary, tmp_path: Path) -> None:
    path = with_external_data(tmp_path / "source", "w.bin")
    (tmp_path / "source/w.bin").rename(tmp_path / "secret.bin")
    (tmp_path / "source/w.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(ModelError, match="link that leaves its folder"):
        library.add(path)


@pytest.mark.fault(9)
@pytest.mark.parametrize("is_hard", [False, True])
def test_a_second_name_of_a_file_from_elsewhere_is_refused(
    library: ModelLibrary, tmp_path: Path, is_hard: bool
) -> None:
    path = with_external_data(tmp_path / "source")
    weights = tmp_path / "source/weights"
    if is_hard:
        (weights / "w.bin").rename(tmp_path / "secret.bin")
        (weights / "w.bin").hardlink_to(tmp_path / "secret.bin")
    else:
        weights.rename(tmp_path / "secrets")
        weights.symlink_to(tmp_path / "secrets")
    with pytest.raises(ModelError, match="link that leaves its folder"):
        library.add(path)
    assert library.versions() == []


@pytest.mark.slow
@pytest.mark.fault(9)
@pytest.mark.parametrize("is_hard", [False, True])
def test_weights_of_an_ir_that_are_a_link_are_refused(library: ModelLibrary, tmp_path: Path, is_hard: bool) -> None:
    import openvino

    model = openvino.convert_model(save(tiny_classifier(), tmp_path / "m.onnx"))
    openvino.save_model(model, tmp_path / "ir" / "m.xml")
    weights = tmp_path / "ir" / "m.bin"
    weights.rename(tmp_path / "secret.bin")
    (weights.hardlink_to if is_hard else weights.symlink_to)(tmp_path / "secret.bin")
    with pytest.raises(ModelError, match="link that leaves its folder"):
        library.add(tmp_path / "ir" / "m.xml")


def external(path: Path, **place: str) -> Path:
    """The first external weight of a model at another place, or of other dimensions, within its file."""
    model = onnx.load(path, load_external_data=False)
    tensor = next(tensor for tensor in model.graph.initializer if tensor.external_data)
    dims = place.pop("dims", None)
    if dims is not None:
        tensor.dims[:] = [int(dims)]
    for key, value in place.items():
        kept = [entry for entry in tensor.external_data if entry.key != key]
        del tensor.external_data[:]
        tensor.external_data.extend(kept)
        if value:
            tensor.external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.fault(9)
@pytest.mark.parametrize(
    ("place", "says"),
    [
        ({"offset": "99999999"}, "is cut off"),
        ({"offset": str(2**80)}, "lies at no place"),
        ({"offset": "-1"}, "lies at no place"),
        ({"length": "-1"}, "lies at no place"),
        ({"length": "1e3"}, "lies at no place"),
        ({"dims": str(2**40)}, "more elements than"),
        ({"dims": str(2**40), "length": ""}, "is cut off"),
        ({"dims": "-1"}, "more elements than"),
        ({"location": "*/_ORT_MEM_ADDR_/*"}, "outside its folder"),
    ],
)
def test_a_place_beyond_its_file_and_an_impossible_size_are_refused(
    library: ModelLibrary, tmp_path: Path, place: dict[str, str], says: str
) -> None:
    with pytest.raises(ModelError, match=says):
        library.add(external(with_external_data(tmp_path / "source"), **place))
    assert library.versions() == []


@pytest.mark.fault(9)
def test_a_location_that_is_told_twice_is_refused(library: ModelLibrary, tmp_path: Path) -> None:
    path = with_external_data(tmp_path / "source")
    model = onnx.load(path, load_external_data=False)
    tensor = next(tensor for tensor in model.graph.initializer if tensor.external_data)
    tensor.external_data.insert(0, onnx.StringStringEntryProto(key="location", value="../secret.bin"))
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="outside its folder"):
        library.add(path)


@pytest.mark.fault(9)
def test_a_weight_within_the_model_that_claims_more_than_it_brings_is_refused(
    library: ModelLibrary, tmp_path: Path
) -> None:
    model = tiny_classifier()
    model.graph.initializer[0].dims[:] = [2**40]
    with pytest.raises(ModelError, match="more elements than"):
        library.add(save(model, tmp_path / "m.onnx"))


@pytest.mark.fault(9)
def test_missing_and_truncated_external_data_is_refused(library: ModelLibrary, tmp_path: Path) -> None:
    path = with_external_data(tmp_path / "source", "w.bin")
    os.truncate(tmp_path / "source/w.bin", 10)
    with pytest.raises(ModelError, match=r"w\.bin is cut off"):
        library.add(path)
    (tmp_path / "source/w.bin").unlink()
    with pytest.raises(ModelError, match="copy that file too"):
        library.add(path)


@pytest.mark.fault(9)
def test_external_data_of_a_subgraph_is_found(library: ModelLibrary, tmp_path: Path) -> None:
    path = with_external_data(tmp_path / "source", "w.bin")
    model = onnx.load(path, load_external_data=False)
    hidden = next(tensor for tensor in model.graph.initializer if tensor.external_data)
    branch = onnx.GraphProto(name="b", initializer=[hidden])
    branch.output.add(name=hidden.name)
    model.graph.node.append(onnx.helper.make_node("If", ["flag"], ["z"], then_branch=branch, else_branch=branch))
    kept = [tensor for tensor in model.graph.initializer if not tensor.external_data]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    path.write_bytes(model.SerializeToString())
    assert [file.name for file in library.add(path).files] == ["model.onnx", "w.bin"]


@pytest.mark.slow
def test_an_ir_is_two_files(library: ModelLibrary, tmp_path: Path) -> None:
    import openvino

    model = openvino.convert_model(save(tiny_classifier(), tmp_path / "m.onnx"))
    openvino.save_model(model, tmp_path / "classifier.xml")
    version = library.add(tmp_path / "classifier.xml")
    assert (version.name, version.format) == ("classifier", "openvino_ir")
    assert [file.name for file in version.files] == ["model.xml", "model.bin"]
    assert openvino.Core().read_model(library.main_path(version)).inputs


def test_a_version_is_found_by_file_name_and_start_of_its_digest(library: ModelLibrary, tmp_path: Path) -> None:
    path = save(tiny_classifier(), tmp_path / "tiny.onnx")
    version = library.resolve(str(path))
    assert [library.resolve(text) for text in ("tiny", version.digest[:6], version.digest.upper())] == [version] * 3


def test_a_name_of_two_versions_means_neither_and_lists_both(library: ModelLibrary, tmp_path: Path) -> None:
    old = library.add(save(tiny_classifier(), tmp_path / "a.onnx"), name="mine")
    new = library.add(save(tiny_embedding(), tmp_path / "b.onnx"), name="mine")
    with pytest.raises(UnknownModelError, match="2 model versions are called 'mine'") as raised:
        library.resolve("mine")
    heading, *choices = str(raised.value).splitlines()
    assert heading.endswith("say which by its digest:")
    digests = [choice.removeprefix("  - ").partition(":")[0] for choice in choices]
    assert [library.resolve(digest) for digest in digests] == [new, old]


def test_known_content_takes_a_new_name(library: ModelLibrary, tmp_path: Path) -> None:
    path = save(tiny_classifier(), tmp_path / "a.onnx")
    library.add(path)
    assert library.add(path, name="better").name == "better"
    assert library.add(path).name == "better"
    assert library.resolve("better").digest == library.versions()[0].digest


def test_what_cannot_be_found_brings_the_nearest_name(library: ModelLibrary, tmp_path: Path) -> None:
    library.add(save(tiny_classifier(), tmp_path / "classifier.onnx"))
    for text, hint in (
        ("clasifier", "did you mean classifier"),
        ("x", "models list"),
        ("abcdef", "models list"),
        ("no/such.onnx", "check the path"),
        ("other.onnx", "check the path"),
        ("zoo:resnet5", "did you mean zoo:resnet50"),
    ):
        with pytest.raises(ModelError, match=hint):
            library.resolve(text)


@pytest.mark.parametrize("name", ["", " ", "a/b", "../x", "zoo:mine", "a\nb", "x" * 201])
def test_names_are_labels(library: ModelLibrary, tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match="cannot name a model"):
        library.add(save(tiny_classifier(), tmp_path / "a.onnx"), name=name)
    assert library.versions() == []


def test_a_record_of_before_has_its_derivation_in_a_sentence(library: ModelLibrary, tmp_path: Path) -> None:
    made = Derivation(DerivationKind.PRUNED, sparsity=1e-5)
    child = library.add(save(tiny_embedding(), tmp_path / "b.onnx"), parent="ab" * 32, derivation=made)
    path = tmp_path / "library" / child.digest / "version.json"
    record = json.loads(path.read_text())
    assert record["schema_version"] == 3
    path.write_text(json.dumps(record | {"schema_version": 1, "derivation": str(made)}))

    assert library.versions() == [child]
    renamed = library.add(tmp_path / "b.onnx", name="renamed")
    assert renamed.derivation == made and json.loads(path.read_text())["derivation"]["sparsity"] == 1e-5


def test_files_that_are_gone_are_put_back_where_the_model_is_at_hand(library: ModelLibrary, tmp_path: Path) -> None:
    """As in a cache that was restored in part, or of which all that is large was left out."""
    path = with_external_data(tmp_path / "source")
    version = library.add(path, name="net")
    main, weights = library.file_paths(version)
    main.unlink()
    weights.write_bytes(b"cut")
    assert library.resolve(str(path)) == version, "it keeps its name"
    assert main.read_bytes() == path.read_bytes()
    assert weights.read_bytes() == (path.parent / "weights" / "w.bin").read_bytes()
    shutil.rmtree(weights.parents[1])
    library.add(path)
    assert main.is_file() and weights.is_file()
    assert leftovers(library, tmp_path) == []


def test_a_version_whose_files_are_gone_is_made_once_more(library: ModelLibrary, tmp_path: Path) -> None:
    parent = library.add(save(tiny_classifier(), tmp_path / "a.onnx"))
    child = library.add(save(tiny_embedding(), tmp_path / "b.onnx"), parent=parent.digest, derivation=invented.BATCH_4)
    library.main_path(child).unlink()
    assert library.derived(parent, invented.BATCH_4) is None


def test_a_version_is_found_by_its_parent_and_how_it_was_made_of_it(library: ModelLibrary, tmp_path: Path) -> None:
    parent = library.add(save(tiny_classifier(), tmp_path / "a.onnx"))
    child = library.add(save(tiny_embedding(), tmp_path / "b.onnx"), parent=parent.digest, derivation=invented.BATCH_4)
    assert library.derived(parent, Derivation(DerivationKind.REBATCHED, batch=4)) == child
    assert library.derived(child, invented.BATCH_4) is None
    for other in (replace(invented.BATCH_4, batch=8), replace(invented.BATCH_4, said="tokens=1"), invented.INT8):
        assert library.derived(parent, other) is None


def test_a_removed_version_is_gone_and_its_children_stay(library: ModelLibrary, tmp_path: Path) -> None:
    parent = library.add(save(tiny_classifier(), tmp_path / "a.onnx"))
    child = library.add(save(tiny_embedding(), tmp_path / "b.onnx"), parent=parent.digest, derivation=invented.BATCH_4)
    library.remove(parent)
    assert library.versions() == [child]
    assert leftovers(library, tmp_path) == []
    with pytest.raises(ModelError, match="holds no version"):
        library.remove(parent)


def test_a_full_disk_leaves_nothing_behind(
    library: ModelLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tiny_classifier(), tmp_path / "a.onnx")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(library_module.os, "fsync", full)
    with pytest.raises(StoreError, match="No space left on device; free some space"):
        library.add(path)
    monkeypatch.undo()
    assert list((tmp_path / "library").iterdir()) == []
    assert library.add(path).name == "a"


def test_a_library_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"cannot write to the model library .*check that the folder can be written"):
        ModelLibrary(tmp_path / "file").add(save(tiny_classifier(), tmp_path / "a.onnx"))


def test_a_damaged_record_names_the_folder_to_delete(library: ModelLibrary, tmp_path: Path) -> None:
    version = library.add(save(tiny_classifier(), tmp_path / "a.onnx"))
    record = tmp_path / "library" / version.digest / "version.json"
    record.write_text(record.read_text()[:40])
    with pytest.raises(StoreError, match="delete the folder"):
        library.versions()


def test_a_record_of_a_newer_enginebench_is_told_as_one(library: ModelLibrary, tmp_path: Path) -> None:
    version = library.add(save(tiny_classifier(), tmp_path / "a.onnx"))
    record = tmp_path / "library" / version.digest / "version.json"
    known = json.loads(record.read_text())
    (file,) = known["files"]
    record.write_text(json.dumps({**known, "schema_version": 99, "files": [{**file, "later": 1}]}))
    with pytest.raises(StoreError, match=r"written by a newer enginebench; update this one$"):
        library.versions()
    record.write_text(json.dumps({**known, "derivation": {"kind": "distilled"}}))
    with pytest.raises(StoreError, match=r"\('distilled' is not .*\); update enginebench where a newer one wrote it"):
        library.versions()


def test_two_processes_adding_the_same_model_end_with_one(
    library: ModelLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tiny_classifier(), tmp_path / "a.onnx")
    first: list[ModelVersion] = []
    copy = library_module._copy

    def overtaken(*arguments: object) -> None:
        monkeypatch.undo()
        first.append(library.add(path))
        copy(*arguments)

    monkeypatch.setattr(library_module, "_copy", overtaken)
    assert library.add(path) == first[0]
    assert leftovers(library, tmp_path) == []


NET = FileFormat("net", (".net",), (".bin",), ((2, b"NET".hex()),), runs_code=False)


@pytest.fixture
def knowing(tmp_path: Path) -> ModelLibrary:
    """A library that knows what one plugin reads."""
    return ModelLibrary(tmp_path / "library", own_formats=lambda: [NET])


def test_a_model_that_only_its_engine_reads_is_kept_with_the_files_beside_it(
    knowing: ModelLibrary, tmp_path: Path
) -> None:
    (tmp_path / "Yolo.v8.NET").write_bytes(b"..NET")
    (tmp_path / "Yolo.v8.bin").write_bytes(b"weights")
    version = knowing.add(tmp_path / "Yolo.v8.NET")
    assert (version.name, version.format) == ("Yolo.v8", "net")
    assert [file.name for file in version.files] == ["model.net", "model.bin"]
    assert knowing.describe(version) == ModelDescription("net")
    assert ".net" in knowing.suffixes()


def test_a_file_of_another_beginning_or_without_its_companion_is_refused(knowing: ModelLibrary, tmp_path: Path) -> None:
    (tmp_path / "a.net").write_bytes(b"NET..")
    with pytest.raises(ModelError, match="does not begin as one"):
        knowing.add(tmp_path / "a.net")
    (tmp_path / "a.net").write_bytes(b"..NET")
    with pytest.raises(ModelError, match=r"keeps weights in a\.bin, which is not beside it"):
        knowing.add(tmp_path / "a.net")
    (tmp_path / "a.bin").symlink_to("/etc/hostname")
    with pytest.raises(ModelError, match="a link that leaves its folder"):
        knowing.add(tmp_path / "a.net")
    with pytest.raises(UnknownModelError, match=r"there is no model file b\.net"):
        knowing.resolve("b.net")


def test_a_file_that_nobody_is_known_to_read_or_two_are_is_refused(library: ModelLibrary, tmp_path: Path) -> None:
    (tmp_path / "a.net").write_bytes(b"..NET")
    with pytest.raises(UnknownFormatError, match=r"must end in \.onnx.*once `enginebench devices` has listed them"):
        library.add(tmp_path / "a.net")
    other = FileFormat("mesh", (".net",))
    both = ModelLibrary(tmp_path / "library", own_formats=lambda: [NET, other])
    with pytest.raises(ModelError, match="may be net or mesh"):
        both.add(tmp_path / "a.net")


def test_what_an_interrupted_derivation_left_behind_goes_with_the_next(library: ModelLibrary, tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; "
        "from enginebench_controller.models.library import ModelLibrary\n"
        "with ModelLibrary(Path(sys.argv[1])).scratch() as folder: print(folder, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, tmp_path / "library"], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        left = Path(other.stdout.readline().decode().strip())
        (left / "large").write_bytes(b"model")
        with library.scratch():
            assert left.is_dir(), "while its maker is there"
        other.kill()
    with library.scratch() as own:
        assert not left.exists()
        with library.scratch():
            assert own.is_dir(), "as this process is itself"
