"""Between the wire and the records: the only place in the controller that takes proto messages apart.

Each pair `to_x` (record → message) and `from_x` (message → record) is the other's inverse, but for what never travels:
how many processes a measurement has, and how a person's inputs were prepared.
"""

from enginebench_controller.convert.block import from_block, from_samples, to_block, to_samples
from enginebench_controller.convert.bounds import short
from enginebench_controller.convert.job import from_configuration, to_configuration, to_model
from enginebench_controller.convert.peaks import from_peak
from enginebench_controller.convert.process import (
    from_captured_output,
    from_machine_use,
    from_process,
    to_captured_output,
)
from enginebench_controller.convert.profile import from_layer
from enginebench_controller.convert.run import from_effective, from_failure, from_outcome, from_phases
from enginebench_controller.convert.target import from_engine, from_host

__all__ = [
    "from_block",
    "from_captured_output",
    "from_configuration",
    "from_effective",
    "from_engine",
    "from_failure",
    "from_host",
    "from_layer",
    "from_machine_use",
    "from_outcome",
    "from_peak",
    "from_phases",
    "from_process",
    "from_samples",
    "short",
    "to_block",
    "to_captured_output",
    "to_configuration",
    "to_model",
    "to_samples",
]
