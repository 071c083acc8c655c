"""Executed layers."""

from enginebench_controller.records import Layer, LayerState
from enginebench_proto.v1 import profile_pb2

_LAYER_STATES = {
    profile_pb2.LAYER_STATE_EXECUTED: LayerState.EXECUTED,
    profile_pb2.LAYER_STATE_NOT_EXECUTED: LayerState.NOT_EXECUTED,
    profile_pb2.LAYER_STATE_OPTIMIZED_AWAY: LayerState.OPTIMIZED_AWAY,
}


def from_layer(message: profile_pb2.Layer) -> Layer:
    """One executed layer."""
    return Layer(
        name=message.name,
        type=message.type,
        order=message.order,
        state=_LAYER_STATES.get(message.state, LayerState.NO_DATA),
        time_ns=tuple(message.time_ns),
        calls=message.calls,
        kernel=message.kernel,
        precision=message.precision,
        output_shapes=tuple(tuple(shape.sizes) for shape in message.output_shapes),
        source_nodes=tuple(message.source_nodes),
        inputs=tuple(message.inputs),
        outputs=tuple(message.outputs),
        parameters=dict(message.parameters),
    )
