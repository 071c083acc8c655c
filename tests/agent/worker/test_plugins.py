"""Plugins are found without importing them, and whatever one of them does is a reason in a list."""

from collections.abc import Callable
from pathlib import Path

import pytest

from enginebench_plugins import spec
from enginebench_proto.v1 import engine_pb2

PLUGIN = """
from enginebench_plugins import spec

class Mine(spec.Engine):
    def info(self):
        {info}
        return spec.EngineInfo(version="4.2", formats=frozenset({{spec.ModelFormat.ONNX}}), profiling=True)

    def devices(self):
        {devices}
        return [spec.Device(name="CPU", full_name="any", properties={{"kind": "test"}})]

    def read(self, source): ...
    def compile(self, model, source, settings): ...

@spec.hookimpl
def enginebench_engine():
    return Mine()
"""


def plugin(info: str = "", devices: str = "") -> str:
    return PLUGIN.format(info=info or "pass", devices=devices or "pass")


def options(text: str) -> str:
    return f"return spec.EngineInfo('1', frozenset({{spec.ModelFormat.ONNX}}), options=({text},))"


def own(text: str) -> str:
    return f"return spec.EngineInfo('1', own_formats=({text},))"


def test_the_list_names_every_entry_point_without_importing_one(run_worker: Callable, install_plugin: Callable) -> None:
    child = run_worker("list", folders=[install_plugin("mine", "raise SystemExit('imported')")])
    assert child.returncode == 0
    assert {"mine", "fake", "onnxruntime", "openvino", "torch", "deepsparse"} <= child.engines.keys()
    mine = child.engines["mine"]
    assert mine.distribution == "mine-plugin 1.0"
    assert mine.environment.python_version.startswith("3.")
    assert mine.WhichOneof("state") is None


def test_a_working_plugin_tells_its_abilities_and_devices(run_worker: Callable, install_plugin: Callable) -> None:
    engine = run_worker("describe", "mine", folders=[install_plugin("mine", plugin())]).engines["mine"]
    assert engine.distribution == "mine-plugin 1.0"
    assert (engine.available.version, engine.available.profiling) == ("4.2", True)
    assert list(engine.available.formats) == ["onnx"]
    assert engine.available.devices[0].properties == {"kind": "test"}


def test_a_format_that_a_plugin_brings_is_told_whole(run_worker: Callable, install_plugin: Callable) -> None:
    brought = "spec.FileFormat('net', ('.net', '.txt'), ('.bin',), ((4, b'NET3'), (0, b'\\x00')), True)"
    engine = run_worker("describe", "mine", folders=[install_plugin("mine", plugin(info=own(brought)))]).engines["mine"]
    assert list(engine.available.formats) == ["net"]
    (told,) = engine.available.own_formats
    assert (told.name, list(told.suffixes), list(told.companions)) == ("net", [".net", ".txt"], [".bin"])
    assert [(one.offset, one.content) for one in told.begins] == [(4, b"NET3"), (0, b"\0")]
    assert told.runs_code


def test_batches_are_told_as_far_as_they_are_listed(run_worker: Callable, install_plugin: Callable) -> None:
    info = "return spec.EngineInfo('1', frozenset({spec.ModelFormat.ONNX}), batches=range(1, 1_000_000))"
    engine = run_worker("describe", "mine", folders=[install_plugin("mine", plugin(info=info))]).engines["mine"]
    assert list(engine.available.batches) == list(range(1, 4097))


@pytest.mark.parametrize("version", [1, spec.SPEC_VERSION, spec.SPEC_VERSION + 1])
def test_only_a_plugin_of_a_newer_contract_is_unavailable(
    version: int, run_worker: Callable, install_plugin: Callable
) -> None:
    source = plugin().replace("class Mine(spec.Engine):", f"class Mine(spec.Engine):\n    spec_version = {version}\n")
    engine = run_worker("describe", "mine", folders=[install_plugin("mine", source)]).engines["mine"]
    if version <= spec.SPEC_VERSION:
        assert engine.available.version == "4.2"
    else:
        assert engine.unavailable.kind == engine_pb2.UNAVAILABLE_KIND_UNSUPPORTED
        assert engine.unavailable.reason == (
            f"The plugin 'mine' is written for version {version} of the contract, and this enginebench knows those up "
            f"to {version - 1}: install a newer enginebench."
        )


def test_prints_of_a_plugin_do_not_reach_the_channel(run_worker: Callable, install_plugin: Callable) -> None:
    noisy = "import os\nprint('python')\nos.system('echo shell')\nos.write(1, b'raw')\n" + plugin()
    child = run_worker("describe", "mine", folders=[install_plugin("mine", noisy)])
    assert child.engines["mine"].available.version == "4.2"
    assert all(word in child.stderr for word in ("python", "shell", "raw"))


def test_what_a_plugin_warns_of_is_told_to_the_agent(run_worker: Callable, install_plugin: Callable) -> None:
    warning = "import warnings; warnings.warn('no driver for the second card', RuntimeWarning)"
    child = run_worker("describe", "mine", folders=[install_plugin("mine", plugin(devices=warning))])
    assert child.engines["mine"].available.version == "4.2"
    assert [one.notice for one in child.messages if one.HasField("notice")] == ["mine: no driver for the second card"]


BROKEN = engine_pb2.UNAVAILABLE_KIND_BROKEN


@pytest.mark.slow
@pytest.mark.fault(18)
@pytest.mark.parametrize(
    ("source", "kind", "words"),
    [
        ("raise RuntimeError('boom')", BROKEN, "could not be loaded: RuntimeError: boom"),
        ("raise SystemExit('bye')", BROKEN, "SystemExit: bye"),
        ("import no_such_engine", BROKEN, "No module named 'no_such_engine'"),
        ("def f(:", BROKEN, "SyntaxError"),
        ("x = 1", BROKEN, "returned NoneType"),
        (plugin().replace("return Mine()", "return 'Mine'"), BROKEN, "returned str"),
        (plugin().replace("return Mine()", "raise KeyError('k')"), BROKEN, "KeyError: 'k'"),
        (plugin().replace("def devices", "def others"), BROKEN, "abstract method"),
        (plugin(info="raise ValueError('no version')"), BROKEN, "ValueError: no version"),
        (plugin(info="return None"), BROKEN, "info() returned NoneType instead of EngineInfo"),
        (plugin(info="return spec.EngineInfo(version=1, formats=())"), BROKEN, "TypeError"),
        (plugin(info=options("spec.OptionSpec('o', list, 'h')")), BROKEN, "the option 'o' has the type <class 'list'>"),
        (plugin(info=options("spec.OptionSpec('o', int, 'h', (1, '2'))")), BROKEN, "has a choice '2', which is no int"),
        (plugin(info=options("spec.OptionSpec('o', int, 'h', (True,))")), BROKEN, "has a choice True, which is no int"),
        (plugin(info=own("'net'")), BROKEN, "info() has str among its own formats instead of FileFormat"),
        (plugin(info=own("spec.FileFormat('onnx', ('.net',))")), BROKEN, "cannot be called 'onnx'"),
        (plugin(info=own("spec.FileFormat('My Net', ('.net',))")), BROKEN, "cannot be called 'My Net'"),
        (plugin(info=own("spec.FileFormat('net', ())")), BROKEN, "the format net needs a suffix"),
        (plugin(info=own("spec.FileFormat('net', ('net',))")), BROKEN, "has 'net' where an ending such as '.net'"),
        (plugin(info=own("spec.FileFormat('net', ('.net',), ('/../a',))")), BROKEN, "has '/../a' where an ending"),
        (plugin(info=own("spec.FileFormat('net', ('.net', '.xml'))")), BROKEN, "cannot take .xml"),
        (plugin(info=own("spec.FileFormat('net', ('.net',), begins=((0, b''),))")), BROKEN, "or with nothing"),
        (plugin(info=own("spec.FileFormat('net', ('.net',), begins=((250, b'1234567'),))")), BROKEN, "256 bytes"),
        (plugin(info=options("'o'")), BROKEN, "info() has str among its options instead of OptionSpec"),
        (plugin(devices="raise SystemExit(3)"), BROKEN, "SystemExit: 3"),
        (plugin(devices="return ['CPU']"), BROKEN, "devices() returned str instead of Device"),
        (plugin(devices="return [spec.Device('A', ''), spec.Device('A', '')]"), BROKEN, "one name twice"),
        (
            plugin(info="raise spec.EngineUnavailableError('Get it.', installed=False)"),
            engine_pb2.UNAVAILABLE_KIND_NOT_INSTALLED,
            "Get it.",
        ),
        (
            plugin(info="raise spec.EngineUnavailableError('Needs AVX2.')"),
            engine_pb2.UNAVAILABLE_KIND_UNSUPPORTED,
            "Needs AVX2.",
        ),
    ],
)
def test_an_unusable_plugin_is_listed_with_its_reason(
    run_worker: Callable, install_plugin: Callable, source: str, kind: int, words: str
) -> None:
    child = run_worker("describe", "mine", folders=[install_plugin("mine", source)])
    engine = child.engines["mine"]
    assert child.returncode == 0
    assert engine.distribution == "mine-plugin 1.0"
    assert engine.unavailable.kind == kind
    assert words in engine.unavailable.reason


@pytest.mark.slow
@pytest.mark.fault(18)
def test_two_distributions_with_one_engine_name_are_both_named(run_worker: Callable, install_plugin: Callable) -> None:
    folders: list[Path] = [
        install_plugin("mine", plugin(), distribution=name, module=f"{name}_module") for name in ("one", "two")
    ]
    assert run_worker("list", folders=folders).engines["mine"].distribution == "one 1.0, two 1.0"
    unavailable = run_worker("describe", "mine", folders=folders).engines["mine"].unavailable
    assert unavailable.kind == BROKEN
    assert "one 1.0, two 1.0" in unavailable.reason


def test_an_engine_that_is_not_there_is_not_installed(run_worker: Callable) -> None:
    unavailable = run_worker("describe", "nosuch").engines["nosuch"].unavailable
    assert unavailable.kind == engine_pb2.UNAVAILABLE_KIND_NOT_INSTALLED
    assert unavailable.reason == "No engine named 'nosuch' is installed in this environment."


def test_a_plugin_that_crashes_at_exit_has_answered_before(run_worker: Callable, install_plugin: Callable) -> None:
    crashing = "import atexit, os, signal\natexit.register(os.kill, os.getpid(), signal.SIGSEGV)\n" + plugin()
    child = run_worker("describe", "mine", folders=[install_plugin("mine", crashing)])
    assert (child.returncode, child.engines["mine"].available.version) == (0, "4.2")
