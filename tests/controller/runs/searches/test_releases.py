"""Which versions lie between two, as the package index has them; and what our plugin needs beside its engine."""

from pathlib import Path

import pytest
from benchmarks.planted_wheels import write_wheel

from enginebench_controller.errors import InputError
from enginebench_controller.runs.searches.releases import companions, package_of, releases_between, releases_named

VERSIONS = ("1.0", "1.1", "1.2rc1", "1.2", "1.10")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index in a folder, which pip is set up with."""
    folder = tmp_path / "simple" / "planted"
    folder.mkdir(parents=True)
    names = [write_wheel(folder, version, [1]).name for version in VERSIONS]
    (folder / "index.html").write_text("".join(f"<a href='{name}'>{name}</a>\n" for name in names))
    monkeypatch.setenv("PIP_INDEX_URL", folder.parent.as_uri())
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("index")
def test_the_index_tells_what_lies_between_and_previews_only_where_one_is_named() -> None:
    assert releases_between("planted", "1.0", "1.10") == ("1.0", "1.1", "1.2", "1.10")
    assert releases_between("planted", "1.0", "1.2rc1") == ("1.0", "1.1", "1.2rc1")
    lacks = (
        r"--bad 1\.3 is no version of planted that pip can install here \(Python 3\.\d+, \w+\): .*; the nearest are "
    )
    with pytest.raises(InputError, match=lacks):
        releases_between("planted", "1.0", "1.3")
    with pytest.raises(InputError, match="the package index knows no versions of nosuchthing: "):
        releases_between("nosuchthing", "1.0", "1.3")


@pytest.mark.slow
@pytest.mark.usefixtures("index")
def test_versions_that_are_listed_keep_their_order_and_are_there() -> None:
    assert releases_named("planted", ("1.10", "1.0.0", "1.2")) == ("1.10", "1.0", "1.2")
    assert releases_named("planted", ("1.2rc1", "1.2")) == ("1.2rc1", "1.2")
    with pytest.raises(
        InputError, match=r"--versions 1\.3 is no version of planted .*; the nearest are 1\.2 and 1\.10"
    ):
        releases_named("planted", ("1.0", "1.3", "1.10"))
    with pytest.raises(InputError, match="--versions 'new' is no version"):
        releases_named("planted", ("1.0", "new"))


def test_an_engine_of_ours_is_its_package_and_one_that_is_built_in_has_no_versions() -> None:
    assert package_of("onnxruntime") == "onnxruntime"
    assert package_of("somebodys", {"somebodys"}) == "somebodys"
    assert package_of("litert") == "ai-edge-litert"
    with pytest.raises(InputError, match="fake is built into enginebench and has no versions"):
        package_of("fake")


def test_a_name_that_no_engine_has_is_no_package_to_install_and_run() -> None:
    with pytest.raises(InputError, match=r"--engine six is no engine of ours \(.*onnxruntime, .*--package") as caught:
        package_of("six", {"somebodys"})
    assert "fake" not in str(caught.value), "which has no versions"
    with pytest.raises(InputError, match=r"on this machine; did you mean 'onnxruntime'\?$"):
        package_of("onnxruntim")


def test_what_a_plugin_needs_beside_its_engine_has_no_floor() -> None:
    assert companions("onnxruntime", "onnxruntime") == ("numpy",)
    assert set(companions("torch", "torch")) == {"numpy", "onnx"}
    assert companions("somebodys", "somebodys") == ()
