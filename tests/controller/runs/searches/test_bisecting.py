"""A version that does not run is made once more with an older NumPy where that may be the reason, and only there."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import invented
import invented_bisects
from enginebench_controller.home import Home
from enginebench_controller.plan.gate import NeededEnvironment
from enginebench_controller.records import TargetSnapshot, UnavailableEngine
from enginebench_controller.runs.searches import bisecting
from enginebench_controller.targets.session import TargetSession
from enginebench_controller.verdicts.bisect.answer import Asked, Replay
from enginebench_controller.verdicts.bisect.decision import GatePurpose, GateSeen, Question
from enginebench_controller.verdicts.gate.rule import GateOutcome

HEAD = 1
QUESTION = Question(0, HEAD, 0.05, GatePurpose.STEP, 2)
NO_LIBRARY = (
    "ONNX Runtime is installed but does not load (libdnnl.so.3: cannot open): reinstall it in this environment."
)
OLD_NUMPY = "ONNX Runtime is installed but does not load (numpy.core.multiarray failed to import): reinstall it."
NEWER_NUMPY = (
    "ONNX Runtime is installed but does not load (\nA module that was compiled using NumPy 1.x cannot be run in\n"
    "NumPy 2.4.6 as it may crash): reinstall it in this environment."
)
CRASHED = "The engine 'onnxruntime' was ended by SIGSEGV."


class Told(bisecting.BisectWatcher):
    """Keeps what was said."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def said(self, sentence: str) -> None:
        self.sentences.append(sentence)


class Installed:
    """Environments that all have the same engines, none of which can be used, by the reason; no pip is asked."""

    def __init__(self, home: Home, monkeypatch: pytest.MonkeyPatch, reasons: Mapping[str, str]) -> None:
        self.names: list[str] = []
        self.told = Told()
        self._reasons = reasons
        self.bisect = bisecting._Bisect(home, invented_bisects.search(None), invented_bisects.ORDER, self.told)
        self.bisect._session = TargetSession({}, (invented.snapshot(),))
        for one in (self.install, self.uninstall, self.completed):
            monkeypatch.setattr(bisecting, one.__name__, one)

    async def install(self, _: Home, wanted: NeededEnvironment, __: object, tell: Any, **___: object) -> None:
        self.names.append(wanted.name)
        tell(f"installing {wanted.what}")

    async def uninstall(self, *_: object) -> None:
        return

    async def completed(self, *_: object, **__: object) -> TargetSnapshot:
        like = {"environment": self.names[-1], "python_version": "3.11", "distribution": "any"}
        engines = [UnavailableEngine(name=name, reason=reason, **like) for name, reason in self._reasons.items()]
        return replace(invented.snapshot(), engines=tuple(engines))


def nothing_asked(broken: Mapping[str, str]) -> Replay:
    return Replay((), QUESTION, broken)


@pytest.mark.parametrize(("reason", "times"), [(NO_LIBRARY, 1), (OLD_NUMPY, 2), (NEWER_NUMPY, 2), (CRASHED, 2)])
async def test_one_that_does_not_load_is_made_again_where_numpy_may_be_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str, times: int
) -> None:
    made = Installed(Home(tmp_path), monkeypatch, {"onnxruntime": reason})
    told = await made.bisect._lack_of(HEAD, QUESTION, nothing_asked({}))
    assert len(made.names) == times
    assert told is not None and " ".join(reason.split()).startswith(told)
    assert "in this environment" not in told, "which is gone"


async def test_what_another_engine_lacks_there_is_no_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Installed(Home(tmp_path), monkeypatch, {"deepsparse": "DeepSparse is not installed here: numpy"})
    assert await made.bisect._lack_of(HEAD, QUESTION, nothing_asked({})) == (
        "what was installed brings no engine onnxruntime"
    )
    assert len(made.names) == 1


async def test_one_that_failed_in_its_gate_for_something_else_is_not_made_again_unless_it_had_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Installed(Home(tmp_path), monkeypatch, {"onnxruntime": NO_LIBRARY})
    (first, _) = invented_bisects.ORDER.environments(invented_bisects.ID, HEAD)
    broken = nothing_asked({first: "the model takes more memory than there is"})
    assert await made.bisect._lack_of(HEAD, QUESTION, broken) == broken.broken[first]
    assert made.names == []

    ran = Asked(QUESTION, GateSeen(GateOutcome.PASSES), object())  # type: ignore[arg-type]
    await made.bisect._lack_of(HEAD, QUESTION, replace(broken, asked=(ran,)))
    assert made.names == [f"{first}-numpy1"]


async def test_as_it_installs_it_says_how_many_follow_and_how_long_the_last_one_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Installed(Home(tmp_path), monkeypatch, {"onnxruntime": OLD_NUMPY})
    ends = Question(0, 3, 0.05, GatePurpose.ENDS, 4)
    await made.bisect._lack_of(0, ends, nothing_asked({}))
    assert made.told.sentences == [
        "installing onnxruntime==1.20.0; about 3 more to come",
        "installing onnxruntime==1.20.0 with numpy<2; about 3 more to come; the last one took 0 s",
    ]
