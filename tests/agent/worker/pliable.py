"""An engine whose every method can be told to misbehave, by a statement put in its place."""

ENGINE = """
import numpy as np
from enginebench_plugins import spec

class Mine(spec.Engine):
    def info(self):
        #info
        return spec.EngineInfo(version="4.2", formats=frozenset({spec.ModelFormat.ONNX}), profiling=True)
    def devices(self):
        return [spec.Device(name="CPU", full_name="any")]
    def read(self, source):
        #read
        return 3
    #convert
    def compile(self, model, source, settings):
        #compile
        return Compiled(model, source.inputs)

class Compiled(spec.CompiledModel):
    def __init__(self, factor, inputs):
        self.factor, self._inputs = factor, inputs
    @property
    def inputs(self):
        return self._inputs
    def effective(self):
        return spec.Effective(streams=spec.Readback(1, spec.Source.ENGINE_API))
    def create_request(self):
        #create_request
        return Request(self.factor)
    def profile(self, inputs, iterations, between):
        #profile
        layers = (spec.LayerProfile("scale", "Multiply", order=0, time_ns=(1000,) * iterations),
                  spec.LayerProfile("gone", "Identity", order=1, state=spec.LayerState.OPTIMIZED_AWAY))
        return spec.ModelProfile(layers, latency_ns=(5000,) * iterations)
    def close(self):
        #close
        pass

class Request(spec.InferRequest):
    calls = 0
    def __init__(self, factor):
        self.factor = factor
    def infer(self, inputs):
        Request.calls += 1
        #infer
        return {name + "_scaled": array * self.factor for name, array in inputs.items()}

@spec.hookimpl
def enginebench_engine():
    return Mine()
"""


def engine_with(**statements: str) -> str:
    """The engine's module, each statement put where its marker stands: `infer` at `#infer`."""
    source = ENGINE
    for place, statement in statements.items():
        assert f"#{place}\n" in source
        source = source.replace(f"#{place}\n", f"{statement}\n")
    return source
