"""Generated inputs: few for each target in CI, the same every time; many others in the recorded run (`make fuzz`).

What went through is counted by target; with `ENGINEBENCH_FUZZ_COUNTS=FOLDER` each process of a run writes its counts
into that folder at the end.
"""

import functools
import inspect
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

RECORDED = os.environ.get("ENGINEBENCH_FUZZ") == "recorded"
COUNTS: Counter[str] = Counter()


def extent(*, quick: int, recorded: int, steps: int = 50) -> settings:
    """How many examples a test gets, of up to `steps` steps where it is a state machine."""
    return settings(
        max_examples=recorded if RECORDED else quick,
        stateful_step_count=steps,
        derandomize=not RECORDED,
        database=None,
        deadline=None,
        # What a shrunk example would show is not worth the minutes it takes where each step is a call or a file.
        phases=(Phase.explicit, Phase.generate, Phase.shrink) if not RECORDED else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )


def count(target: str) -> None:
    """Note that one more input went through."""
    COUNTS[target] += 1


def fuzzed(target: str, *, quick: int, recorded: int, **strategies: SearchStrategy[Any]) -> Callable[..., Any]:
    """Run a test on inputs drawn from `strategies`, each counted for `target`."""

    def decorate(test: Callable[..., None]) -> Any:
        @functools.wraps(test)
        def counted(*arguments: Any, **drawn: Any) -> None:
            count(target)
            test(*arguments, **drawn)

        counted.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]  # where Hypothesis looks
        return extent(quick=quick, recorded=recorded)(given(**strategies)(counted))

    return decorate


def write_counts() -> None:
    """Write what this process counted to where the environment says, if it says so."""
    if folder := os.environ.get("ENGINEBENCH_FUZZ_COUNTS"):
        (Path(folder) / f"{os.getpid()}.json").write_text(json.dumps(COUNTS))
