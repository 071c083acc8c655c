"""What runs are called in log lines and metrics: the names of the wire's enums as plain lower-case words."""

from dataclasses import dataclass
from typing import Any

from enginebench_proto.v1.run_pb2 import FailureKind, Outcome, RunKind, RunResult

NONE = "none"


@dataclass(frozen=True)
class Ending:
    """How a run of this kind ended; `failure` is the kind of its failure, `NONE` where there is none."""

    kind: str
    outcome: str
    failure: str


def ending_of(result: RunResult) -> Ending:
    """How the run of this result ended."""
    return Ending(
        kind=kind_word(result.spec.kind),
        outcome=_word(Outcome, result.outcome),
        failure=_word(FailureKind, result.failure.kind) if result.HasField("failure") else NONE,
    )


def kind_word(kind: RunKind) -> str:
    """RUN_KIND_MEASURE → "measure"."""
    return _word(RunKind, kind)


def _word(values: Any, number: int) -> str:
    """Its name without the enum's; "unspecified" for a number without one, as only a child gone wild sends it."""
    prefix = values.Name(0).removesuffix("UNSPECIFIED")
    return str(values.Name(number if number in values.values() else 0)).removeprefix(prefix).lower()
