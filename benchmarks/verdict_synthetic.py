"""Process pairs that nobody measured: noise of known kinds, in the form of recordings, to try estimators on.

The kinds are those seen in real ones: processes that differ by 1 % as wholes, blocks that scatter by 3 % and now and
then by far more, one process in forty that is slower by a tenth or more for as long as it lives, and a neighbour that
is busy in spells of some pairs. The SD of a pair's log ratio is then 2 %, as of SqueezeNet on two cores.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.verdict_recordings import EQUAL, RecordedSide, Round

BLOCKS = 10
BLOCK_NS = 50_000_000
USUAL_NS = 1_800_000.0
ROUND_NS = 3_000_000_000
BLOCK_SD = 0.03
BAD_PROCESSES = 0.025


@dataclass(frozen=True)
class Noise:
    """The SD of a process's log median; the share of pairs in busy spells; how much more all scatters in one."""

    condition: str
    process_sd: float
    busy_share: float = 0.0
    busy_factor: float = 5.0
    spell_pairs: float = 3.0


NOISES = (
    Noise("synthetic quiet", 0.01),
    Noise("synthetic noisy", 0.01, busy_share=0.3),
)


def rounds(noise: Noise, case: str, true: float, count: int, seed: int) -> Iterator[Round]:
    """So many rounds of base, control and head, of which head takes 1 + `true` times as long."""
    generator = np.random.default_rng(seed)
    busy = generator.random() < noise.busy_share
    for pair in range(count):
        factor = noise.busy_factor if busy else 1.0
        sides = tuple(_side(generator, noise.process_sd * factor, shift) for shift in (0.0, 0.0, np.log1p(true)))
        yield Round(noise.condition, "made up", "none", case, pair, pair * ROUND_NS, ROUND_NS, sides)
        busy = _next(generator, noise, busy=busy)


def all_rounds(count: int = 300) -> list[Round]:
    """Equal things, and ones that take 3 and 5 % longer, in each kind of noise."""
    cases = {EQUAL: 0.0, "planted 3 %": 0.03, "planted 5 %": 0.05}
    return [
        one
        for place, noise in enumerate(NOISES)
        for number, (case, true) in enumerate(cases.items())
        for one in rounds(noise, case, true, count, seed=10 * place + number)
    ]


def _next(generator: np.random.Generator, noise: Noise, *, busy: bool) -> bool:
    if busy:
        return bool(generator.random() >= 1 / noise.spell_pairs)
    return bool(generator.random() < noise.busy_share / (1 - noise.busy_share) / noise.spell_pairs)


def _side(generator: np.random.Generator, process_sd: float, shift: float) -> RecordedSide:
    process = generator.normal(0, process_sd)
    if generator.random() < BAD_PROCESSES:
        process += generator.uniform(0.1, 0.4)
    blocks: NDArray[np.float64] = generator.standard_t(3, BLOCKS) / np.sqrt(3) * BLOCK_SD
    medians = USUAL_NS * np.exp(shift + process + blocks)
    return RecordedSide(tuple(round(one) for one in medians), (0,) * BLOCKS, (BLOCK_NS,) * BLOCKS)
