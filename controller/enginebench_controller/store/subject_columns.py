"""The columns that measurements and profiles share: what ran where, and how it ended."""

import json

from enginebench_controller.records import EngineRef, Failure, Measurement, Profile, Status
from enginebench_controller.records.json_form import CONFIGURATION, EFFECTIVE, FAILURE
from enginebench_controller.store.json_column import to_json
from enginebench_controller.store.statements import Row


def to_subject_columns(outcome: Measurement | Profile) -> Row:
    """Give the columns."""
    asked = outcome.configuration
    return {
        "id": outcome.id,
        "target": outcome.target,
        "engine": outcome.engine.name,
        "engine_version": outcome.engine.version,
        "environment": outcome.engine.environment,
        "model_digest": outcome.model_digest,
        "model_name": outcome.model_name,
        "device": asked.device,
        "batch": asked.batch,
        "cores": asked.cores,
        "status": outcome.status.value,
        "failure_kind": outcome.failure.kind.value if outcome.failure else None,
        "configuration": to_json(CONFIGURATION.to_data(asked)),
        "effective": to_json(EFFECTIVE.to_data(outcome.effective)),
        "failure": to_json(FAILURE.to_data(outcome.failure)) if outcome.failure else None,
    }


def from_subject_columns(row: Row) -> Row:
    """Read the columns, as the fields that the records share."""
    return {
        "id": row["id"],
        "target": row["target"],
        "engine": EngineRef(row["engine"], row["environment"], row["engine_version"]),
        "model_digest": row["model_digest"],
        "model_name": row["model_name"],
        "configuration": CONFIGURATION.from_data(json.loads(row["configuration"])),
        "status": Status(row["status"]),
        "failure": _from_failure(row["failure"]),
        "effective": EFFECTIVE.from_data(json.loads(row["effective"])),
    }


def _from_failure(text: str | None) -> Failure | None:
    return None if text is None else FAILURE.from_data(json.loads(text))
