"""Whether all that was asked for came to numbers that can be used: what failed, and whose outputs are wrong.

The one rule behind exit code 1 of what measures, its last line, and what a document or a job says of its whole.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from enginebench_controller.records import Benchmark, Measurement, ModelVersion, Profile
from enginebench_controller.verdicts.output_check import check_outputs
from enginebench_controller.verdicts.words import named


@dataclass(frozen=True)
class Soundness:
    """What of some measurements, or profiles, cannot be used.

    `without_numbers` failed or were cancelled; `wrong` have outputs that are not what the model computes, with the
    sentence that says so by measurement id. `left_out` says of models that never came so far why.
    """

    total: int
    without_numbers: tuple[Measurement | Profile, ...]
    wrong: tuple[Measurement | Profile, ...]
    problems: Mapping[str, str]
    left_out: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether all can be used."""
        return not self.without_numbers and not self.wrong and not self.left_out

    @property
    def sentence(self) -> str:
        """What cannot be used, by name; "" where all can."""
        failed = f"{len(self.without_numbers)} of {self.total} without numbers: {named(self.without_numbers)}"
        wrong = f"{len(self.wrong)} of {self.total} with wrong outputs (≠): {named(self.wrong)}"
        parts = ((self.without_numbers, failed), (self.wrong, wrong))
        return "; ".join([*(words for found, words in parts if found), *self.left_out])

    @property
    def document(self) -> dict[str, object]:
        """The same as JSON-able data."""
        return {
            "sound": bool(self),
            "without_numbers": [one.id for one in self.without_numbers],
            "wrong_outputs": [one.id for one in self.wrong],
            "left_out": list(self.left_out),
        }


def soundness(
    outcomes: Sequence[Measurement | Profile],
    models: Iterable[ModelVersion] = (),
    among: Collection[str] | None = None,
) -> Soundness:
    """Judge measurements and profiles, all together; `among` has the ids of those asked about, if not all are.

    `models`, all those of the store, tell which versions are to compute the same. Profiles have no outputs.
    """
    measurements = [one for one in outcomes if isinstance(one, Measurement)]
    checks = check_outputs(measurements, models)
    problems = {id_: check.problem for id_, check in checks.items() if check.problem}
    asked = [one for one in outcomes if among is None or one.id in among]
    return Soundness(
        total=len(asked),
        without_numbers=tuple(one for one in asked if not one.status.has_numbers),
        wrong=tuple(one for one in asked if one.id in problems),
        problems=problems,
    )


def of_benchmark(
    benchmark: Benchmark, measurements: Sequence[Measurement], models: Iterable[ModelVersion]
) -> Soundness:
    """As `soundness`, of all that the benchmark was to measure."""
    return replace(soundness(measurements, models), left_out=left_out([benchmark]))


def left_out(benchmarks: Iterable[Benchmark]) -> tuple[str, ...]:
    """Why models of these benchmarks never came so far, a sentence each."""
    return tuple(sentence for one in benchmarks for sentence in one.listed("left_out"))
