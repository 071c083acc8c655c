"""The fake engine's options: their allow-list, and what they come to."""

import random
from enum import StrEnum

from enginebench_plugins import spec
from enginebench_plugins.engines.fake.distributions import MOST_JITTER, Latency, LatencyDistribution
from enginebench_plugins.engines.fake.mishaps import Fault, FaultPhase, Wrong
from enginebench_proto.agreed.words import IMPOSED_SPARSITY, OPTIMIZATION_LEVEL

DEFAULT_LATENCY_US = 1000
MOST_PROCESS_SPREAD = 0.9


class Wait(StrEnum):
    """What an inference does meanwhile, as values of the option "wait"."""

    SPIN = "spin"
    SLEEP = "sleep"


def _values(members: type[StrEnum]) -> tuple[str, ...]:
    return tuple(member.value for member in members)


SPECS = (
    spec.OptionSpec("latency_us", int, "how long an inference typically takes, in microseconds"),
    spec.OptionSpec("distribution", str, "how latencies are distributed", choices=_values(LatencyDistribution)),
    spec.OptionSpec("jitter", float, f"even spread around the latency, as a share of it, up to {MOST_JITTER}"),
    spec.OptionSpec("drift_iterations", int, "distribution drift: inferences until it is over"),
    spec.OptionSpec("stall_every", int, "distribution stalls: every which inference takes 20 times as long"),
    spec.OptionSpec("process_spread", float, "how much processes differ: an even spread of their latencies"),
    spec.OptionSpec("seed", int, "what latencies are drawn from"),
    spec.OptionSpec("wait", str, "what an inference does meanwhile", choices=_values(Wait)),
    spec.OptionSpec("wrong", str, "what is wrong with the outputs", choices=_values(Wrong)),
    spec.OptionSpec("fault", str, "what goes wrong", choices=_values(Fault)),
    spec.OptionSpec(
        OPTIMIZATION_LEVEL, int, "profiles only: where given, layers take no time for the zeros in their weights"
    ),
    spec.OptionSpec(IMPOSED_SPARSITY, float, "profiles only: the share of zeros to take all weights to have"),
    spec.OptionSpec("fault_phase", str, "when it goes wrong", choices=_values(FaultPhase)),
)


def latency(settings: spec.Settings) -> Latency:
    """How long inferences are to take in this process. Raises `UnsupportedSettingsError` for a value out of range.

    With `process_spread` the typical latency differs from process to process, whatever the seed.
    """
    _check_range(settings, "latency_us", 0, 3_600_000_000)
    _check_range(settings, "jitter", 0.0, MOST_JITTER)
    _check_range(settings, "drift_iterations", 1, 10_000_000)
    _check_range(settings, "stall_every", 2, 10_000_000)
    _check_range(settings, "process_spread", 0.0, MOST_PROCESS_SPREAD)
    spread = float(settings.options.get("process_spread", 0.0))
    typical_ns = int(settings.options.get("latency_us", DEFAULT_LATENCY_US)) * 1000
    return Latency(
        typical_ns=round(typical_ns * (1.0 + random.SystemRandom().uniform(-spread, spread))),
        distribution=LatencyDistribution(str(settings.options.get("distribution", LatencyDistribution.CONSTANT))),
        jitter=float(settings.options.get("jitter", 0.0)),
        stall_every=int(settings.options.get("stall_every", Latency.stall_every)),
        drift_iterations=int(settings.options.get("drift_iterations", Latency.drift_iterations)),
    )


def seed(settings: spec.Settings) -> int:
    """What latencies are drawn from."""
    return int(settings.options.get("seed", 0))


def counts_zeros(settings: spec.Settings) -> bool:
    """Whether layers take less time for weights of zero."""
    return bool({OPTIMIZATION_LEVEL, IMPOSED_SPARSITY} & settings.options.keys())


def imposed_sparsity(settings: spec.Settings) -> float | None:
    """The share of zeros that all weights are taken to have; None for the one they do have."""
    _check_range(settings, IMPOSED_SPARSITY, 0.0, 1.0)
    chosen = settings.options.get(IMPOSED_SPARSITY)
    return None if chosen is None else float(chosen)


def wrong(settings: spec.Settings) -> Wrong:
    """What is wrong with the outputs."""
    return Wrong(str(settings.options.get("wrong", Wrong.NONE)))


def fault(settings: spec.Settings) -> tuple[Fault, FaultPhase]:
    """What goes wrong, and when unless the fault's name says so."""
    chosen = str(settings.options.get("fault", Fault.NONE))
    phase = str(settings.options.get("fault_phase", FaultPhase.INFERENCE))
    return Fault(chosen), FaultPhase(phase)


def _check_range(settings: spec.Settings, name: str, lowest: float, highest: float) -> None:
    value = settings.options.get(name, lowest)
    if not lowest <= float(value) <= highest:
        raise spec.UnsupportedSettingsError(
            f"option {name} of the fake engine lies between {lowest} and {highest}, not at {value}"
        )
