"""From where on the advisor speaks up. Shares are parts of 1."""

from dataclasses import dataclass

from enginebench_controller.stats.comparison import LAYERS_PRACTICAL


@dataclass(frozen=True)
class Thresholds:
    """The numbers in the advisor's rules.

    `least_int8_gain`: a machine whose INT8 peak is this many times its f32 peak is able to, whatever its instructions.
    `worthwhile_float`: floating products that take less of the time are no reason to quantize.
    `much_rearranging`: reorders and converts beyond this share of the time. WB's advisor had the same 10 %.
    `low_roofline`, `relevant_layer`: a layer below the first, of what its roofline allows, that takes more than the
    second of the time.
    `dominant_layer`: a single layer beyond this share of the time.
    `trustworthy_coverage`: time led back to source nodes below this is to be read with care.
    `distortion`: profiled ÷ unprofiled latency beyond this.
    `sum_off`: Σ layers ÷ latency further than this from 1.
    `worthwhile_pruning`: the speed-up from which on imposed sparsity is worth a word.
    `slower`: how much slower a layer of the second profile has to be.
    `layers_named`: so many layers a piece of advice names at most, slowest first.
    """

    least_int8_gain: float = 1.2
    worthwhile_float: float = 0.1
    much_rearranging: float = 0.1
    low_roofline: float = 0.3
    relevant_layer: float = 0.05
    dominant_layer: float = 0.2
    trustworthy_coverage: float = 0.95
    distortion: float = 1.2
    sum_off: float = 0.1
    worthwhile_pruning: float = 1.2
    slower: float = LAYERS_PRACTICAL
    layers_named: int = 50


DEFAULT = Thresholds()
