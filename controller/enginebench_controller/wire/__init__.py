"""Between messages and records: the only place in the controller that takes messages apart. No calls here.

Each pair `to_x` (record → message) and `from_x` (message → record) is the other's inverse, but for what never travels:
how many processes a measurement has, and how a person's inputs were prepared.
"""

from enginebench_controller.wire.configurations import from_configuration, from_input, to_configuration, to_model
from enginebench_controller.wire.fields import short
from enginebench_controller.wire.results import (
    from_block,
    from_bystanders,
    from_captured_output,
    from_effective,
    from_failure,
    from_layer,
    from_machine_use,
    from_outcome,
    from_phases,
    from_process,
    from_samples,
    to_block,
    to_captured_output,
    to_samples,
)
from enginebench_controller.wire.targets import from_engine, from_host, from_peak, from_reservation

__all__ = [
    "from_block",
    "from_bystanders",
    "from_captured_output",
    "from_configuration",
    "from_effective",
    "from_engine",
    "from_failure",
    "from_host",
    "from_input",
    "from_layer",
    "from_machine_use",
    "from_outcome",
    "from_peak",
    "from_phases",
    "from_process",
    "from_reservation",
    "from_samples",
    "short",
    "to_block",
    "to_captured_output",
    "to_configuration",
    "to_model",
    "to_samples",
]
