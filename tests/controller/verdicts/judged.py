"""Measurements whose captured outputs are made up, and the check of them: what tests of the output check share."""

import numpy as np

import invented
from enginebench_controller.records import CapturedOutput, Configuration, Effective, Readback, ReadbackSource
from enginebench_controller.verdicts.output_check import check_outputs

INPUTS = 4
SHAPE = (4, 10)


def scores(seed=0, shape=SHAPE):
    """What a classifier answers: an array of scores for each input of the set."""
    return np.random.default_rng(seed).normal(0, 3, (INPUTS, *shape)).astype(np.float32)


def captured(values, name="scores", step=1):
    """The outputs for each input, as an agent would capture them."""
    return tuple(
        CapturedOutput(index, name, str(one.dtype), one.shape, step, one.ravel()[::step].astype(np.float32))
        for index, one in enumerate(values)
    )


def measured(engine, values, *, precision="f32", batch=4, outputs=None, **fields):
    configuration = fields.pop("configuration", Configuration("CPU", batch, cores=2))
    return invented.measured(
        f"of-{engine}",
        engine=engine,
        configuration=configuration,
        effective=Effective(precision=Readback(precision, ReadbackSource.ENGINE_API)),
        captured_outputs=captured(values) if outputs is None else outputs,
        **fields,
    )


def check(*measurements, models=()):
    """The checks by engine."""
    found = check_outputs(measurements, models)
    return {one.engine.name: found[one.id] for one in measurements if one.id in found}


def rounded(values, relative=1e-5):
    return values * (1 + relative * np.random.default_rng(9).uniform(-1, 1, values.shape)).astype(np.float32)


def off(values, share):
    """The values with one of them off by a share of the largest."""
    other = values.copy()
    other[0, 0, 0] += share * np.abs(values).max()
    return other
