"""`python -m enginebench_plugins.testing ENGINE REPORT`: the contract tests of an engine that is installed here.

REPORT becomes a JSON object a line: how many `statements` there are, the name of a `statement` whenever it begins, and
once more with its `outcome`, and where that is "failed", `why` and the `promise` of the spec that is broken. A `note`
says why nothing is tested. A statement that fails is tried once more, since some of them look at times. The file is
touched with each compilation, too, so that one that is left as it is tells of a process that hangs.
`enginebench plugin check` calls this.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from enginebench_plugins import spec
from enginebench_plugins.testing import load_engine

TRIES = 2
MODULE = """
from pathlib import Path

from enginebench_plugins import spec
from enginebench_plugins.testing import EngineContract

class TestEngine(EngineContract):
    plugin, device = {plugin!r}, {device!r}

    def goes_on(self):
        Path({report!r}).touch()
"""
WITHOUT_F32 = """
    precision = spec.Precision.DEFAULT
    rtol = atol = 5e-2  # as measurements in f16 are compared
"""


class Report:
    """What pytest tells while it runs, a line each, so that the last one says where a process died."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._promise = self._said = ""

    def add(self, **told: Any) -> None:
        """One line."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Tell how many statements there are."""
        self.add(statements=len(session.items))

    def pytest_runtest_protocol(self, item: pytest.Function, nextitem: pytest.Item | None) -> bool:
        """Run a statement, and once more where it fails."""
        statement = _words(item.name)
        for _ in range(TRIES):
            self.add(statement=statement)
            self._promise, self._said = getattr(item.function, "promise", ""), ""
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
            failed = next((one for one in reports if one.failed), None)
            if failed is None:
                break
        outcome = "failed" if failed else "skipped" if any(one.skipped for one in reports) else "passed"
        why = {} if failed is None else {"why": self._said or _why(failed), "promise": self._promise}
        why |= {"why": _reason(reports)} if outcome == "skipped" else {}
        self.add(statement=statement, outcome=outcome, **why)
        return True

    def pytest_exception_interact(self, call: pytest.CallInfo[None]) -> None:
        """What is wrong may break another promise than the one that the statement is about, and says so itself."""
        if call.excinfo is not None and (promise := getattr(call.excinfo.value, "promise", "")):
            self._promise, self._said = promise, str(call.excinfo.value)


def _module(plugin: str, devices: Sequence[spec.Device], report: Path) -> str:
    """A test module for the processor, or the first device where that is none."""
    by_name = {device.name: device for device in devices}
    name = "CPU" if "CPU" in by_name or not by_name else next(iter(by_name))
    lacks_f32 = name in by_name and spec.Precision.F32 not in by_name[name].precisions
    return MODULE.format(plugin=plugin, device=name, report=str(report)) + (WITHOUT_F32 if lacks_f32 else "")


def _words(name: str) -> str:
    """The sentence that a test's name is, with its case in brackets."""
    said, bracket, case = name.removeprefix("test_").partition("[")
    return said.replace("_", " ") + (f" ({case.rstrip(']')})" if bracket else "")


def _reason(reports: Sequence[pytest.TestReport]) -> str:
    """Why a statement was skipped, as it says."""
    (told, *_) = (one.longrepr for one in reports if one.skipped)
    return str(told[-1] if isinstance(told, tuple) else told).removeprefix("Skipped: ")


def _why(report: pytest.TestReport) -> str:
    """The sentence that an assertion says; of another error its kind, too."""
    crash = getattr(report.longrepr, "reprcrash", None)
    said = str(report.longrepr) if crash is None else str(crash.message)
    said = said.strip().removeprefix("AssertionError").removeprefix("Failed").removeprefix(":").strip()
    return said.splitlines()[0].strip() if said else "it failed without a word"


def main() -> None:
    """Test the engine that the command line names."""
    name, path = sys.argv[1], Path(sys.argv[2]).absolute()
    report = Report(path)
    (entry,) = entry_points(group=spec.PROJECT_NAME, name=name)
    engine = load_engine(entry.load())
    if spec.ModelFormat.ONNX not in engine.info().formats:
        report.add(note="it reads no ONNX, which the models of the contract are: its own tests bring others")
        return
    devices = list(engine.devices())
    for imported in [name for name in sys.modules if name.startswith(__package__)]:
        del sys.modules[imported]  # pytest reads them anew, so that an assertion says what it compared
    with tempfile.TemporaryDirectory(prefix="enginebench-") as folder:
        module = Path(folder) / "test_contract.py"
        module.write_text(_module(entry.value, devices, path), encoding="utf-8")
        options = ("-q", "-p", "no:cacheprovider", "--import-mode=importlib", f"--basetemp={folder}/tmp")
        pytest.main([str(module), f"--rootdir={folder}", *options], plugins=[report])


if __name__ == "__main__":
    main()
