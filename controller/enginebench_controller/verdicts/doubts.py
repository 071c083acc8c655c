"""Whether the numbers of a measurement can be believed: what speaks against them, in sentences."""

import math
from collections.abc import Iterator, Mapping
from enum import StrEnum
from statistics import median

from enginebench_controller.records import (
    ArrivalProcess,
    Arrivals,
    Block,
    CeilingBasis,
    Configuration,
    DisturbanceKind,
    Load,
    Measurement,
    Process,
    Status,
    StopReason,
)
from enginebench_controller.verdicts import disturbances
from enginebench_controller.verdicts.disturbances import summarize_evidence
from enginebench_controller.verdicts.parity import requested_is_not_effective
from enginebench_proto.agreed.overload import SCHEDULE_TOLERANCE, is_overload
from enginebench_proto.agreed.words import ON_BATTERY, UNSEEN_USERS

CORES_TOLERANCE = 1.05
"""Processor time ÷ wall clock may be this many times the cores asked for: clocks are read at slightly other moments."""
SPREAD_TOLERANCE = 0.05
"""Medians of equal processes that are this far apart are worth a word."""
MOSTLY_DISTURBED = 0.5
"""Beyond this share of its time a measurement is called disturbed wherever its status stands."""
SLOW_CLOCK_SHARE = 0.9
"""A process whose processors never reached this share of the highest frequency that another's did ran slower."""
SEVERAL_TIMES = 3.0
"""An input that was never seen may take longer than others, since its memory is met for the first time; not so much."""
LEAST_EXCESS_NS = 20_000
"""Below, a first touch of memory and a wake-up may be all there is."""
QUEUE_SHARE = 0.5
"""Of the requests that can be in flight: with fewer there on average, as a rule one is free for whoever arrives."""
LONGER_QUEUE = "requests waited longer and longer for each other: a lower --rate would tell whether it keeps up"
WARMER = "use a longer --warmup"
SLOWER = "the machine may have become slower (heat, power, its host): more --processes would tell"


class Mark(StrEnum):
    """What stands beside a status, because numbers with it are none to compare by."""

    IMPOSSIBLE = "impossible"
    DISTURBED = "disturbed"
    EMULATED = "emulated"


def doubts(measurement: Measurement) -> tuple[str, ...]:
    """Return one sentence for each reason not to take the numbers at face value, apart from the settings.

    The blocks are looked at only where the measurement was read with them.
    """
    if measurement.latency is None:
        return ()
    sentences = (
        _emulated(measurement),
        beyond_the_ceiling(measurement),
        slower_when_fresh(measurement),
        computed_ahead(measurement),
        too_many_cores(measurement),
        _cut_off(measurement),
        *_never_steady(measurement),
        *_drifted(measurement),
        _paused(measurement),
        _unwatched(measurement),
        *_stopped_beside(measurement),
        _disturbed(measurement),
        *_overload(measurement),
        _unlike_processes(measurement),
        _on_battery(measurement),
    )
    return tuple(sentence for sentence in sentences if sentence)


def marks(measurement: Measurement) -> tuple[Mark, ...]:
    """Return what stands beside the status: numbers that cannot be, and those of a machine that did other things."""
    if measurement.latency is None:
        return ()
    impossible = beyond_the_ceiling(measurement) or slower_when_fresh(measurement) or computed_ahead(measurement)
    share = summarize_evidence(measurement.blocks).disturbed_share or 0.0
    disturbed = share > MOSTLY_DISTURBED and not _measured_again(measurement)
    disturbed = disturbed or _had_no_quiet_time(measurement)
    found = {
        Mark.IMPOSSIBLE: impossible,
        Mark.DISTURBED: disturbed,
        Mark.EMULATED: measurement.grounds.emulation,
    }
    return tuple(mark for mark, applies in found.items() if applies)


def is_trusted(measurement: Measurement, problems: Mapping[str, str]) -> bool:
    """Whether a measurement may be called the best: conclusive, of a real machine, possible, not known to be wrong."""
    is_possible = not {Mark.IMPOSSIBLE, Mark.EMULATED}.intersection(marks(measurement))
    return measurement.status is Status.OK and is_possible and measurement.id not in problems


def status_words(measurement: Measurement) -> str:
    """Return the status with its marks: "ok", "ok, disturbed"."""
    return ", ".join([measurement.status.value, *marks(measurement)])


def flags(measurement: Measurement) -> tuple[str, ...]:
    """Return all that a reader of a measurement's numbers is to be told."""
    return requested_is_not_effective(measurement) + doubts(measurement)


def _unwatched(measurement: Measurement) -> str | None:
    """Of processors it is known; an H100 that was shared took 2.3 times as long, and its numbers looked quiet."""
    if UNSEEN_USERS not in disturbances.unseen(measurement):
        return None
    return f"{UNSEEN_USERS} ({measurement.configuration.device}) is not known: others slow it down unseen"


def _emulated(measurement: Measurement) -> str | None:
    how = measurement.grounds.emulation
    return f"{how}: these times say nothing of a real machine" if how else None


def beyond_the_ceiling(measurement: Measurement) -> str | None:
    """Return a sentence for a rate at which so many cores cannot do the work that is in the model."""
    ceiling, rate = measurement.grounds.ceiling, measurement.throughput_items_per_s
    if ceiling is None or rate is None or measurement.configuration.batch < 1:  # a file of others may have had that
        return None
    if rate <= ceiling.items_per_s(measurement.configuration.batch):
        return None
    done = rate / measurement.configuration.batch * ceiling.flops
    cores = "1 core does" if ceiling.cores == 1 else f"{ceiling.cores} cores do"
    how = {
        CeilingBasis.CALIBRATED: "as calibrated",
        CeilingBasis.ESTIMATED: "estimated from the instruction set and the highest frequency there is",
    }[ceiling.basis]
    return (
        f"impossible: {rate:,.0f} items/s take at least {_flops(done)}, and {cores} at most "
        f"{_flops(ceiling.flops_per_s)} in {ceiling.precision} ({how}); outputs may come from a memory of earlier ones"
    )


def _flops(per_s: float) -> str:
    return f"{per_s / 1e12:.3g} TFLOP/s" if per_s >= 1e12 else f"{per_s / 1e9:.3g} GFLOP/s"


def slower_when_fresh(measurement: Measurement) -> str | None:
    """Return a sentence where inputs never seen all take several times as long as those that the load repeats.

    It has to be so in most processes.
    """
    pairs = [found for process in measurement.processes if (found := _fresh_and_seen_ns(process)) is not None]
    slower = [(fresh, seen) for fresh, seen in pairs if _is_slower(fresh, seen)]
    if 2 * len(slower) <= len(pairs):
        return None
    fresh, seen = (median(side) for side in zip(*slower, strict=True))
    return (
        f"impossible: an input that was never seen takes {fresh / 1e6:.3g} ms, {fresh / seen:.3g} times the "
        f"{seen / 1e6:.3g} ms of those that were measured; outputs may come from a memory of earlier ones"
    )


def _is_slower(fresh_ns: float, seen_ns: float) -> bool:
    return fresh_ns > SEVERAL_TIMES * seen_ns and fresh_ns - seen_ns > LEAST_EXCESS_NS


def _fresh_and_seen_ns(process: Process) -> tuple[float, float] | None:
    """The quickest inference of an input never seen, and the median beside it: other work on the machine delays single
    inferences, and a memory of outputs spares none of the first kind.
    """
    found = process.afterwards
    if found is None or not found.fresh_ns or not found.seen_ns:
        return None
    return min(found.fresh_ns), median(found.seen_ns)


def computed_ahead(measurement: Measurement) -> str | None:
    """Return a sentence where most inferences are several times as quick as their mean, and as any that is never seen.

    Others then did their work: what the load repeats can be foretold, and what is never seen cannot. A machine that
    became slower after the steady state leaves its mean at its median; one that others use now and then does not, so
    that quiet blocks count alone. It has to be so in most processes.
    """
    found = [(one, *times) for one in measurement.processes if (times := _mean_and_fresh_ns(measurement, one))]
    ahead = [
        (process.median_ns, mean)
        for process, mean, fresh in found
        if process.median_ns and all(_is_slower(time, process.median_ns) for time in (mean, fresh))
    ]
    if 2 * len(ahead) <= len(found):
        return None
    middle, mean = (median(side) for side in zip(*ahead, strict=True))
    return (
        f"impossible: half of the inferences take {middle / 1e6:.3g} ms at most, and {mean / 1e6:.3g} ms on average, "
        "as long as one whose input was never seen: some may be computed ahead, while others are waited for"
    )


def _mean_and_fresh_ns(measurement: Measurement, process: Process) -> tuple[float, float] | None:
    own = [one for one in measurement.blocks if one.process == process.index]
    quiet = [one for one in own if one.iterations and not one.disturbances and not one.paused_ns]
    afterwards = process.afterwards
    if not quiet or afterwards is None or not afterwards.fresh_ns or measurement.configuration.load is not Load.SYNC:
        return None
    mean_ns = sum(one.duration_ns for one in quiet) / sum(one.iterations for one in quiet)
    return mean_ns, min(afterwards.fresh_ns)


def too_many_cores(measurement: Measurement) -> str | None:
    """Return a sentence where more processor time was used than that of the cores asked for."""
    used, asked = measurement.cpu_cores_used, measurement.configuration.cores
    if used is None or used <= asked * CORES_TOLERANCE:
        return None
    return f"used {used:.1f} cores, {asked} {'was' if asked == 1 else 'were'} asked for"


def _never_steady(measurement: Measurement) -> Iterator[str]:
    for process in measurement.processes:
        if process.warm_up is None or process.warm_up.steady:
            continue
        which = _which(process, measurement)
        if process.warm_up.steady is None:
            yield f"too few inferences to tell whether the warm-up was long enough{which}"
        else:
            reason = f": {process.warm_up.reason}" if process.warm_up.reason else ""
            yield f"never became steady while warming up{which}{reason}{_others_meanwhile(process)}"


def _others_meanwhile(process: Process) -> str:
    use = process.bystanders.meanwhile if process.bystanders else None
    if use is None or use.share <= disturbances.WORTH_A_WORD:
        return ""
    return f"; {disturbances.others_used(use, process.bystanders.unseen if process.bystanders else ())}"


def _drifted(measurement: Measurement) -> Iterator[str]:
    disturbed = Mark.DISTURBED in marks(measurement)
    for process in measurement.processes:
        if process.drift is not None:
            moved, remedy = ("rose", SLOWER) if process.drift > 0 else ("fell", WARMER)
            which = _which(process, measurement)
            if process.drift > 0 and _may_queue(process, measurement.configuration):
                remedy = LONGER_QUEUE
            remedy = "the machine was disturbed meanwhile" if disturbed else remedy
            yield f"the latency {moved} by {abs(process.drift):.0%} while it was measured{which}: {remedy}"


def _may_queue(process: Process, configuration: Configuration) -> bool:
    """Whether arrivals may have waited for each other: rate × latency of them are there on average (Little, 1961)."""
    if configuration.arrivals is None:
        return False
    there = configuration.arrivals.rate_per_s * (process.median_ns or 0.0) / 1e9
    return bool(process.unsent_arrivals) or there >= QUEUE_SHARE * configuration.requests


def _cut_off(measurement: Measurement) -> str | None:
    """Fewer inferences than were asked for are told apart from an interval that is wider: more time helps surely."""
    rule, latency = measurement.configuration.stop, measurement.latency
    over = any(process.stop_reason is StopReason.MAX_DURATION for process in measurement.processes)
    if not over or latency is None or latency.samples >= rule.min_iterations:
        return None
    return (
        f"cut off after {latency.samples:,} of {rule.min_iterations:,} --iterations: "
        f"--max-duration {rule.max_duration_ns / 1e9:g}s was over, so give it longer"
    )


def _paused(measurement: Measurement) -> str | None:
    paused_ns = [block.paused_ns for block in measurement.blocks if block.paused_ns]
    if not paused_ns:
        return None
    seconds = f"{max(paused_ns) / 1e9:.3g} s"
    left_out = measurement.latency is not None and measurement.latency.excluded
    return (
        f"the process stood still (stopped, frozen or suspended), for {seconds} at the longest: {len(paused_ns)} of "
        f"{len(measurement.blocks)} blocks are {'left out' if left_out else 'in the numbers, for want of others'}"
    )


def _stopped_beside(measurement: Measurement) -> Iterator[str]:
    """What stood still or jumped, and harms no number."""
    for process in measurement.processes:
        which = _which(process, measurement)
        for phase in process.phases:
            if phase.paused_ns:
                name = phase.name.replace("_", " ")
                yield f"the process stood still for {phase.paused_ns / 1e9:.3g} s of its {name}{which}"
        if process.agent_paused_ns:
            yield f"the agent stood still for {process.agent_paused_ns / 1e9:.3g} s meanwhile{which}"
        if process.clock_jump_ns:
            jump = f"{process.clock_jump_ns / 1e9:+.4g} s"
            yield f"the machine's clock was set by {jump} meanwhile{which}; no duration depends on it"


def _going_on(measurement: Measurement) -> tuple[Block, ...]:
    """The blocks in which the process did not stand still."""
    return tuple(block for block in measurement.blocks if not block.paused_ns)


def _measured_again(measurement: Measurement) -> bool:
    """Whether disturbed blocks are left out, beside those that stood still."""
    paused = sum(block.iterations for block in measurement.blocks if block.paused_ns)
    return measurement.latency is not None and measurement.latency.excluded > paused


def _disturbed(measurement: Measurement) -> str | None:
    summary = summarize_evidence(_going_on(measurement))
    if not summary.disturbed_share:
        return None
    again = ", and measured again" if _measured_again(measurement) else ""
    if not again and _had_no_quiet_time(measurement):
        again = ", and there was too little quiet time to measure it again"
    kinds = summary.disturbances
    causes = [f"; {words}" for kind in kinds if (words := _cause(kind, measurement))]
    share = f"{summary.disturbed_share:.0%}" if summary.disturbed_share >= 0.01 else "less than 1%"
    return f"{share} of the time was disturbed{again} ({', '.join(kinds)}){''.join(causes)}"


def _had_no_quiet_time(measurement: Measurement) -> bool:
    """Whether disturbed blocks were to be measured again, and count all the same, since nothing else is there."""
    disturbed = any(block.disturbances for block in _going_on(measurement))
    return measurement.configuration.stop.retry_noisy and disturbed and not _measured_again(measurement)


_HELD_BACK = "cool it, give it a stronger power supply, or let it rest between runs"
_PIN_IT = "`enginebench-agent tune` on the target pins it, or gives the line for sudo that does"


def _cause(kind: DisturbanceKind, measurement: Measurement) -> str:
    """Who or what it was, and what to do; "" where that is not known."""
    match kind:
        case DisturbanceKind.OTHER_PROCESSES:
            return _who(measurement)
        case DisturbanceKind.THROTTLED if (quota := _quota_cores(measurement)) is not None:
            return f"the agent's control group may use {quota:g} cores: raise its quota, or ask for fewer --cores"
        case DisturbanceKind.HELD_BACK:
            by = {block.evidence.held_back_by for block in measurement.blocks if block.evidence.held_back_by}
            return f"the board held its processor back ({', '.join(sorted(by))}): {_HELD_BACK}" if by else ""
        case DisturbanceKind.FREQUENCY:
            governors = {block.evidence.governor for block in measurement.blocks if block.evidence.governor}
            governor = f" (governor {', '.join(sorted(governors))})" if governors else ""
            return f"the frequency fell{governor}: {_PIN_IT}"
    return ""


def _who(measurement: Measurement) -> str:
    if own := disturbances.own_share(measurement):
        return f"{disturbances.own_used(own)}: let its pages and other commands rest while it measures"
    use = disturbances.meanwhile(measurement)
    if use is None or use.share < disturbances.LEAST_TOLD:  # short, and over: there is nothing to close
        return ""
    return f"{disturbances.others_used(use, disturbances.unseen(measurement))}: {disturbances.remedy(use)}"


def _quota_cores(measurement: Measurement) -> float | None:
    known = (process.bystanders.quota_cores for process in measurement.processes if process.bystanders)
    return next((cores for cores in known if cores is not None), None)


def _overload(measurement: Measurement) -> Iterator[str]:
    arrivals = measurement.configuration.arrivals
    if arrivals is None:
        return
    unsent = sum(process.unsent_arrivals or 0 for process in measurement.processes)
    scheduled = sum(process.scheduled_arrivals or 0 for process in measurement.processes)
    if is_overload(unsent, scheduled):
        yield f"overloaded: {unsent} of {scheduled} scheduled arrivals could not be sent in time"
        return
    done_per_s = (measurement.throughput_items_per_s or 0) / measurement.configuration.batch
    if done_per_s < arrivals.rate_per_s * least_share(arrivals, measurement.iterations or 1):
        yield f"overloaded: {done_per_s:.4g} inferences a second were completed, {arrivals.rate_per_s:.4g} arrived"


def least_share(arrivals: Arrivals, iterations: int) -> float:
    """The share of the nominal rate below which completions fall only when they do not keep up.

    The count of a Poisson schedule has a relative standard deviation of 1/√n by itself.
    """
    chance = 3 / math.sqrt(iterations) if arrivals.process is ArrivalProcess.POISSON else 0.0
    return 1 - SCHEDULE_TOLERANCE - chance


def _unlike_processes(measurement: Measurement) -> str | None:
    spread = measurement.process_spread
    if spread is None or spread <= SPREAD_TOLERANCE:
        return None
    medians = [process.median_ns for process in measurement.processes if process.median_ns is not None]
    between = f": medians from {min(medians) / 1e6:.3g} to {max(medians) / 1e6:.3g} ms" if medians else ""
    return f"equal processes differ by {spread:.0%}{between}{_slower_clock(measurement)}"


def _slower_clock(measurement: Measurement) -> str:
    """That a process never ran as fast as another did, which no block shows beside those of the same process."""
    seen = [_clock_and_heat(measurement, process) for process in measurement.processes]
    known = sorted((hz, heat) for hz, heat in seen if hz)
    if not known or known[0][0] >= SLOW_CLOCK_SHARE * known[-1][0]:
        return ""
    (slow_hz, slow_heat), (fast_hz, fast_heat) = known[0], known[-1]
    heat = f", at {slow_heat:.0f} and {fast_heat:.0f} °C" if slow_heat and fast_heat else ""
    return f"; their processors reached {slow_hz / 1e9:.2f} and {fast_hz / 1e9:.2f} GHz{heat}: {_HELD_BACK}"


def _clock_and_heat(measurement: Measurement, process: Process) -> tuple[int, float]:
    """The highest frequency in Hz and temperature in °C of a process; 0 where unknown."""
    evidence = [block.evidence for block in measurement.blocks if block.process == process.index]
    hottest = max((one.temperature_millicelsius or 0 for one in evidence), default=0)
    return max((one.max_frequency_hz or 0 for one in evidence), default=0), hottest / 1000


def _on_battery(measurement: Measurement) -> str | None:
    if not any(block.evidence.power_supply == ON_BATTERY for block in measurement.blocks):
        return None
    return "measured on battery power, which most machines save by running slower: plug it in"


def _which(process: Process, measurement: Measurement) -> str:
    count = len(measurement.processes)
    return f" (process {process.index + 1} of {count})" if count > 1 else ""
