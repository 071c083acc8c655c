"""Records as plain values that can be compared: arrays have no equality of their own."""


def fields(measurement):
    """All fields of a measurement."""
    outputs = [one.__dict__ | {"values": one.values.tolist()} for one in measurement.captured_outputs]
    return measurement.__dict__ | {"captured_outputs": outputs}


def series(samples):
    """All series of samples, block by block."""
    names = ("latency_ns", "scheduled_ns", "sent_ns", "completed_ns")
    values = ([getattr(one, name) for name in names] for one in samples)
    lists = ([None if array is None else array.tolist() for array in arrays] for arrays in values)
    return [(one.process, one.block, *found) for one, found in zip(samples, lists, strict=True)]
