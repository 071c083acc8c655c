"""The kinds of cores of a machine whose cores are not alike: big and little ones, Intel's P and E, AMD's dense ones."""

from collections.abc import Iterable
from pathlib import Path

from enginebench_agent.machine.cores import capacity, cores_by_kind, max_frequency_hz
from enginebench_proto.agreed.processor import arm_cores
from enginebench_proto.v1.host_pb2 import CoreCluster


def clusters(cpus: Iterable[int], root: Path = Path("/")) -> list[CoreCluster]:
    """The kinds of the physical cores that these logical processors belong to, the fastest first; none of one kind."""
    return [_cluster(name, cores, root) for name, cores in cores_by_kind(cpus, root).items()]


def _cluster(name: str, cores: list[int], root: Path) -> CoreCluster:
    known = arm_cores(root)
    models = {known.get(cpu) for cpu in cores}
    frequencies = [hertz for cpu in cores if (hertz := max_frequency_hz(root, cpu))]
    return CoreCluster(
        name=name,
        physical_cores=len(cores),
        model=models.pop() if len(models) == 1 else None,
        capacity=capacity(root, cores[0]),
        max_frequency_hz=max(frequencies, default=None),
    )
