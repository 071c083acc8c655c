"""`enginebench plugin check`: each planted wrong is found with the sentence that it breaks, nothing of a sound one."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import invented
import offered
from agent_server import AgentProcess
from enginebench_controller.cli.commands import plugin
from enginebench_controller.errors import InputError, ModelError
from enginebench_controller.home import Home
from enginebench_controller.plan.plan import Plan
from enginebench_controller.records import (
    LOCAL_TARGET,
    Configuration,
    Effective,
    Measurement,
    Readback,
    ReadbackSource,
    Target,
)
from enginebench_controller.runs.plugin import check as plugin_check
from enginebench_controller.runs.plugin import contract
from enginebench_controller.runs.plugin.check import FOLDER, PROMISES, BrokenPromise, CheckPart, PluginCheck, examine
from enginebench_controller.targets.session import TargetSession
from enginebench_plugins import spec, types
from enginebench_plugins.testing import EngineContract
from integration.bench import Bench
from plugged import SCALE, Environment

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "tests" / "example_plugin"
SOURCE = (EXAMPLE / "src" / "enginebench_example" / "plugin.py").read_text()
RUN = "self.evaluator.run(None, dict(inputs))"
INFER = "return dict(zip(self.evaluator.output_names, self.evaluator.run(None, dict(inputs)), strict=True))"
PROFILE = "return spec.ModelProfile(tuple(layers), tuple(latency_ns))"
COMPILED = "return CompiledReference(model, source.inputs or own_inputs(model))"
VERSION = "version=onnx.__version__"
THREADS = "streams=spec.Readback(1, spec.Source.ASSUMED),"


def said(statement: str) -> str:
    """A statement of the contract, as the check tells that it does not hold."""
    assert hasattr(EngineContract, f"test_{statement}")
    return statement.replace("_", " ")


@dataclass(frozen=True)
class Wrong:
    """The example with a few words replaced, what is to be found with which reason, and in which part."""

    edits: Mapping[str, str]
    found: str
    why: str = ""
    part: CheckPart = CheckPart.CONTRACT


OF_WHAT_IT_COMPUTES = {
    "ignored input": Wrong(
        {
            INFER: f"""
        if len(inputs) == 1:  # the contract's classifier
            {INFER.replace("dict(inputs)", "{name: array * 0 for name, array in inputs.items()}")}
        {INFER}"""
        },
        said("different_inputs_give_different_outputs"),
        "logits is the same for two inputs",
    ),
    "lost batch": Wrong(
        {
            INFER: f"""
        if "token_weights" in inputs:  # the contract's embedding
            {INFER.replace(RUN, f"[array[0] for array in {RUN}]")}
        {INFER}"""
        },
        said("the_batch_axis_is_kept"),
        "embedding has the shape (8,), and the model's is (1, 8)",
    ),
    "cached outputs": Wrong(
        {
            INFER: f"""
        key = b"".join(array.tobytes() for array in inputs.values())
        self.known = getattr(self, "known", {{}})
        if key not in self.known:
            self.known[key] = {INFER.removeprefix("return ")}
        return self.known[key]"""
        },
        "outputs may come from a memory of earlier ones",
        part=CheckPart.MODEL,
    ),
    "threads beyond the cores": Wrong(
        {
            COMPILED: f"""
        import os, threading
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
        {COMPILED}"""
        },
        said("processor_time_stays_within_the_cores"),
        "under",
    ),
}
"""Of each kind of model the outputs are wrong in another way, so that one engine shows them all."""

OF_WHAT_IT_TELLS = {
    "output names": Wrong(
        {INFER: "return {f'output_{n}': one for n, one in enumerate(self.evaluator.run(None, dict(inputs)))}"},
        said("outputs_have_the_names_of_the_model"),
        "outputs have other names than in the model",
    ),
    "latency of other inferences": Wrong(
        {
            PROFILE: """
        request, others_ns = self.create_request(), []
        for iteration in range(iterations):
            begin_ns = time.perf_counter_ns()
            request.infer(inputs[iteration % len(inputs)])
            others_ns.append(time.perf_counter_ns() - begin_ns)
        return spec.ModelProfile(tuple(layers), tuple(others_ns))"""
        },
        said("a_profile_runs_the_inferences_asked_for_and_no_others"),
        "there were others",
    ),
    "echoed settings": Wrong(
        {
            THREADS: f"{THREADS} threads=spec.Readback(self.cores, spec.Source.ENGINE_API),",
            COMPILED: COMPILED.removesuffix(")") + ", settings.cores)",
            "inputs: Sequence[spec.TensorSpec] = ()": "inputs: Sequence[spec.TensorSpec] = ()\n    cores: int = 1",
        },
        said("threads_are_not_an_echo_of_the_request"),
        "is an echo",
    ),
    "oversize version": Wrong(
        {VERSION: "version='1.' * 500"},
        said("it_tells_its_version_and_what_it_can_do"),
        "the version has 1000 characters",
    ),
}
SOUND, WRONGS = "mine", {"computing": OF_WHAT_IT_COMPUTES, "telling": OF_WHAT_IT_TELLS}
"""The engines of one distribution, which share an environment and an agent: a check takes half a minute an engine."""


def edited(source: str, wrongs: Iterable[Wrong]) -> str:
    """The source with all that is wrong with it."""
    for old, new in (edit for wrong in wrongs for edit in wrong.edits.items()):
        assert source.count(old) == 1
        source = source.replace(old, new)
    return source


def checked(folder: Path, **sources: str) -> PluginCheck:
    """Check a distribution with engines of these sources.

    Its environment sees what the tests see, so that nothing is to be installed.
    """
    environment = Environment(folder / "venv")
    for name, source in sources.items():
        environment.add_plugin(name, source, module=f"my_{name}", distribution=f"my-{name}")
    agent = folder / "home" / "agent"
    agent.mkdir(parents=True)
    agent.joinpath("agent.toml").write_text(
        "[environments.default]\nengines = ['onnxruntime']\n"
        f"[environments.check]\npython = '{environment.python}'\nengines = {list(sources)}\n"
    )
    return asyncio.run(examine(Home(folder / "home"), "mine", lambda _: None))


@pytest.fixture(scope="module")
def three_engines(tmp_path_factory: pytest.TempPathFactory) -> PluginCheck:
    """What was found of a sound engine and of two with all wrongs between them."""
    planted = {engine: edited(SOURCE, wrongs.values()) for engine, wrongs in WRONGS.items()}
    return checked(tmp_path_factory.mktemp("three"), **{SOUND: SOURCE}, **planted)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.xdist_group("plugin-check")
@pytest.mark.parametrize(
    ("engine", "wrong"), [(engine, wrong) for engine, wrongs in WRONGS.items() for wrong in wrongs]
)
def test_each_planted_wrong_is_found(engine: str, wrong: str, three_engines: PluginCheck) -> None:
    planted = WRONGS[engine][wrong]
    mine = [one for one in three_engines.broken if one.engine == engine and one.part is planted.part]
    assert any(planted.found in f"{one.statement}: {one.found}" and planted.why in one.found for one in mine), mine
    assert all(one.promise for one in mine)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.xdist_group("plugin-check")
def test_of_the_sound_example_nothing_is_reported(three_engines: PluginCheck) -> None:
    assert (three_engines.project, three_engines.notes) == ("mine", ())
    assert sorted(three_engines.engines) == sorted([SOUND, *WRONGS])
    assert {one.engine for one in three_engines.broken} == set(WRONGS)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.xdist_group("plugin-check")
def test_what_was_found_is_a_document_that_tells_each_thing_once(
    three_engines: PluginCheck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "check_plugin", lambda *_: three_engines)
    document = Bench(tmp_path / "home").json("plugin", "check", EXAMPLE, expect=1)
    assert len({tuple(one.values()) for one in document["broken"]}) == len(document["broken"])
    assert all(one["left_out"] for one in document["looked_at"]), "the example runs one request at a time"
    assert not any("UnlikeError" in one["found"] for one in document["broken"])
    promises = {one["promise"] for one in document["broken"] if " values of " in one["found"]}
    assert promises == {PROMISES["outputs"]}, "whatever the statement is about"


@pytest.mark.slow
def test_a_name_that_is_taken_is_found(tmp_path: Path) -> None:
    (broken,) = checked(tmp_path, onnxruntime=SOURCE).broken
    assert (broken.part, broken.promise) == (CheckPart.DISCOVERY, PROMISES["name"])
    assert "More than one distribution brings an engine named 'onnxruntime'" in broken.found


@pytest.mark.slow
def test_a_plugin_that_cannot_be_imported_or_ends_its_process_is_found(tmp_path: Path) -> None:
    (broken,) = checked(tmp_path / "one", mine="raise RuntimeError('libmine.so.1 is missing')").broken
    assert (broken.part, broken.promise) == (CheckPart.DISCOVERY, PROMISES["alive"])
    assert "libmine.so.1 is missing" in broken.found
    dying = SOURCE.replace(INFER, "import os; os._exit(7)")
    found = checked(tmp_path / "two", mine=dying).broken
    assert found[0].part is CheckPart.CONTRACT
    assert "its process ended with exit code 7 in “outputs have the names of the model”" in found[0].found


@pytest.mark.parametrize(("threads", "cores", "is_found"), [(2, 2, False), (3, 2, False), (8, 2, True), (3, 1, True)])
def test_threads_beyond_the_cores_and_one_that_helps_are_found(threads: int, cores: int, is_found: bool) -> None:
    measured = invented.measured(
        "m1",
        configuration=Configuration("CPU", 1, cores),
        effective=Effective(threads=Readback(threads, ReadbackSource.OBSERVED)),
    )
    found = [sentence for promise, sentence in plugin_check._findings(measured, [measured], []) if promise == "cores"]
    assert any("threads work on" in sentence for sentence in found) == is_found


BEGUN = [{"statements": 3}, {"statement": "it works"}]
ENDED = {"statement": "it works", "outcome": "passed"}


@pytest.mark.parametrize(
    ("ended", "lines", "sentence"),
    [
        (1, [], "its process ended with exit code 1 before the first statement: no"),
        (3, [{"statements": 0}], "its process ended with exit code 3 before the first statement: no"),
        (0, [{"note": "it reads no ONNX"}], None),
        (0, [{"statements": 1}, *BEGUN[1:], ENDED], None),
        (
            None,
            BEGUN,
            "its process was at one step for more than 200 s in “it works”, so that 2 other statements were not "
            "looked at: no",
        ),
        (7, [{"statements": 1}, *BEGUN[1:]], "its process ended with exit code 7 in “it works”: no"),
    ],
)
def test_statements_that_were_not_looked_at_are_counted(
    ended: int | None, lines: list[dict[str, object]], sentence: str | None
) -> None:
    assert contract.unfinished(ended, "no", lines) == sentence


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step_s", "does", "ended"), [(3.0, 'for _ in 1 2 3 4; do touch "$5"; sleep 1; done', 0), (0.5, "sleep 60", None)]
)
async def test_a_process_that_goes_on_is_waited_for(
    step_s: float, does: str, ended: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "STEP_S", step_s)
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{does}\n")
    python.chmod(0o755)
    assert (await contract.tested_contract(python, "mine", tmp_path))[0] == ended


async def test_an_engine_that_runs_no_single_item_is_measured_at_its_smallest_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[Plan] = []

    async def nobody(*_: object) -> list[str]:
        return []

    async def refused(_: object, plan: Plan) -> Sequence[Measurement]:
        plans.append(plan)
        raise ModelError("it has an operator of its own")

    monkeypatch.setattr(plugin_check._Check, "_references", nobody)
    monkeypatch.setattr(plugin_check._Check, "_measured", refused)
    engines = [offered.engine("fours", batches=(8, 4)), offered.engine("any")]
    session = TargetSession({}, (offered.target(*engines),))
    check = plugin_check._Check(Home(tmp_path), session, None, lambda _: None, ["net"])
    for engine in engines:
        await check._model(engine)
    assert [plan.batch for plan in plans] == [(4,), (1,)]


def test_a_mistyped_folder_is_no_package_and_a_package_of_the_family_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("enginebench-abacus", "enginebench"):
        (tmp_path / name).mkdir()
    with pytest.raises(InputError, match=r"there is no folder enginebench-abacsu: did you mean enginebench-abacus\?"):
        plugin_check._requirement("enginebench-abacsu")
    with pytest.raises(InputError, match=r"there is no folder abacus: did you mean enginebench-abacus\?"):
        plugin_check._requirement("abacus")
    assert plugin_check._requirement("enginebench-tract") == "enginebench-tract"


def test_promises_are_sentences_of_the_spec() -> None:
    written = " ".join((Path(spec.__file__).read_text() + Path(types.__file__).read_text()).split())
    assert [one for one in PROMISES.values() if one not in written] == []


def test_what_cannot_be_checked_is_said_in_a_sentence(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "home")
    assert "there is no folder ./none" in bench.cli("plugin", "check", "./none", expect=2).stderr
    assert "has no pyproject.toml" in bench.cli("plugin", "check", tmp_path, expect=2).stderr
    (tmp_path / "pyproject.toml").write_text("this is no TOML\n")
    told = bench.cli("plugin", "check", tmp_path, expect=2).stderr
    assert "pyproject.toml cannot be read: Expected '=' after a key" in told and "installing" not in told
    (tmp_path / "pyproject.toml").write_text("[project]\n", encoding="utf-8-sig")
    told = bench.cli("plugin", "check", tmp_path, expect=2).stderr
    assert "pyproject.toml begins with a mark, which pip does not read" in told and "installing" not in told
    (tmp_path / "pyproject.toml").write_text("[project]\n", encoding="utf-16")
    told = bench.cli("plugin", "check", tmp_path, expect=2).stderr
    assert "pyproject.toml cannot be read: it is not UTF-8: save it as UTF-8" in told
    assert "'nuc'" in bench.cli("plugin", "check", "mine", "--target", "nuc", expect=2).stderr
    told = bench.cli("plugin", "check", "mine", "--target", "local", expect=2).stderr.replace("\n", " ")
    assert "local lists no engine mine; it lists" in told and "onnxruntime" in told
    Home(bench.home).store.add_target(Target(LOCAL_TARGET, "127.0.0.1:9", 1))
    assert "has an agent of its own" in bench.cli("plugin", "check", EXAMPLE, expect=2).stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_engine_of_a_target_is_checked_where_it_is(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    environment.add_plugin("mine", edited(SOURCE, [OF_WHAT_IT_COMPUTES["cached outputs"]]))
    environment.add_plugin("scale", SCALE.format(runs_code=False))
    config = (
        "[environments.default]\nengines = ['onnxruntime']\n"
        f"[environments.check]\npython = '{environment.python}'\nengines = ['mine', 'scale']\n"
    )
    bench = Bench(tmp_path / "home")
    board = AgentProcess(tmp_path / "board", config=config)
    try:
        bench.cli("targets", "add", "board", board.address)
        told = bench.cli("plugin", "check", "mine", "--target", "board", "--json", expect=1)
        found = json.loads(told.stdout)
        assert {one["part"] for one in found["broken"]} == {"model"}
        assert any("a memory of earlier ones" in one["found"] for one in found["broken"])
        assert "its contract is tested where it is installed" in found["notes"][0]

        net = tmp_path / "net.scale"
        net.write_bytes(b"SCALE")
        net.with_suffix(".factor").write_text("2.0")
        of_its_own = ("plugin", "check", "scale@check", "--target", "board")
        assert "no model was run" in bench.cli(*of_its_own).stderr
        told = bench.cli(*of_its_own, "--model", net, expect=1)
        assert "no onnxruntime is there that reads" in told.stderr
        assert "breaks 1 promise" in told.stdout, "a profile with times that nobody measured"
        assert "profiled inferences are told to take" in told.stdout
        assert "it lists mine@check, onnxruntime@default, scale@check" in (
            bench.cli("plugin", "check", "abacus", "--target", "board", expect=2).stderr.replace("\n", " ")
        )
    finally:
        board.stop()
    assert bench.cli("list", "--json").stdout.count('"id"') == 0, "a check leaves no results"
    assert not (bench.home / FOLDER).exists()


@pytest.mark.parametrize("is_sound", [True, False])
def test_what_was_found_is_told_with_the_sentences(
    is_sound: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = () if is_sound else (BrokenPromise("mine", CheckPart.CONTRACT, "it rests", "It works.", "it works"),)
    monkeypatch.setattr(plugin, "check_plugin", lambda *_: PluginCheck("./mine", ("mine",), broken, ()))
    told = Bench(tmp_path / "home").cli("plugin", "check", EXAMPLE, expect=0 if is_sound else 1).stdout
    if is_sound:
        assert told == "mine: keeps what the spec asks for\n"
    else:
        assert told.startswith("mine: breaks 1 promise\n✗ contract: it rests (“it works”)\n")
        assert told.endswith("  spec: “It works.”\n")


@pytest.mark.parametrize(("statement", "line"), [("it stops", "  the same of: it stops\n"), ("", "")])
def test_what_breaks_two_promises_alike_is_told_once(
    statement: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tuple(BrokenPromise("mine", CheckPart.MODEL, "it rests", "It works.", one) for one in ("", statement))
    monkeypatch.setattr(plugin, "check_plugin", lambda *_: PluginCheck("./mine", ("mine",), broken, ()))
    told = Bench(tmp_path / "home").cli("plugin", "check", EXAMPLE, expect=1).stdout
    assert told == f"mine: breaks 2 promises\n✗ model: it rests\n  spec: “It works.”\n{line}"


@pytest.mark.slow
def test_what_is_not_installed_or_is_interrupted_leaves_no_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path / "home")
    with monkeypatch.context() as offline:
        offline.setenv("PIP_NO_INDEX", "1")
        assert "cannot be installed" in bench.cli("plugin", "check", EXAMPLE, expect=2).stderr
    assert not (bench.home / FOLDER).exists()
    (bench.home / FOLDER / "left").mkdir(parents=True)
    command = [sys.executable, "-m", "enginebench_controller", "plugin", "check", str(EXAMPLE)]
    with subprocess.Popen(command, env=bench.variables, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "installing" in process.stderr.readline()
        venv = bench.home / FOLDER / "agent" / "environments" / plugin_check.ENVIRONMENT / "venv"
        while not venv.exists():
            assert process.poll() is None
        assert not (bench.home / FOLDER / "left").exists()
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == 130
    assert not (bench.home / FOLDER).exists()
