"""A model that can execute code runs where the owner allows such formats, or this one model."""

from dataclasses import replace
from pathlib import Path

import pytest

from enginebench_agent.config import AgentConfig
from enginebench_agent.data_folder import DataFolder
from enginebench_agent.errors import InvalidRequestError
from enginebench_agent.runs.admission import check_format
from enginebench_proto.v1.engine_pb2 import AvailableEngine, FileFormat
from enginebench_proto.v1.model_pb2 import ModelVersion

TRUSTED, OTHER = "a" * 64, "b" * 64


@pytest.mark.fault(10)
@pytest.mark.parametrize("kind", ["torchscript", "torch_export", "net"])
def test_trust_is_for_one_model_only(tmp_path: Path, kind: str) -> None:
    folder, config = DataFolder(tmp_path), AgentConfig(environments=(), trusted_models=frozenset({TRUSTED}))
    engine = AvailableEngine(own_formats=[FileFormat(name="net", runs_code=True), FileFormat(name="plain")])
    check_format(ModelVersion(digest=TRUSTED, format=kind), engine, config, folder)
    with pytest.raises(InvalidRequestError, match="allow_executable_formats"):
        check_format(ModelVersion(digest=OTHER, format=kind), engine, config, folder)
    trusting = replace(config, allow_executable_formats=True)
    check_format(ModelVersion(digest=OTHER, format=kind), engine, trusting, folder)
    check_format(ModelVersion(digest=OTHER, format="plain"), engine, config, folder)
