"""What calibrations of this machine's engines found, on disk: one JSON file, replaced as a whole."""

import json
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from enginebench_proto.agreed.durable import whole_file
from enginebench_proto.v1.peaks_pb2 import PEAK_KIND_BANDWIDTH, PEAK_KIND_FLOPS, Peak, Rate

SCHEMA_VERSION = 1
UNFINISHED_SUFFIX = ".unfinished"
DAMAGED_SUFFIX = ".damaged"

_KINDS = {"flops": PEAK_KIND_FLOPS, "bandwidth": PEAK_KIND_BANDWIDTH}
_KIND_NAMES = {kind: name for name, kind in _KINDS.items()}

_log = logging.getLogger(__name__)


class PeakFile:
    """The peaks of every engine, version, device and number of cores, as its last calibration found them."""

    def __init__(self, path: Path) -> None:
        """A file that cannot be read is set aside under another name and reported in the log, never deleted."""
        self._path = path
        self._peaks = _read(path)

    def all(self) -> tuple[Peak, ...]:
        """All peaks, the latest calibration last."""
        return self._peaks

    def keep(self, peaks: Iterable[Peak]) -> None:
        """Put these in the place of what is known of the same engines and cores. Blocks on the disk; raises `OSError`.

        The file is replaced at once: whenever the machine stops, it holds the old peaks or the new ones.
        """
        found = tuple(peaks)
        replaced = {_subject(peak) for peak in found}
        kept = (*(peak for peak in self._peaks if _subject(peak) not in replaced), *found)
        text = json.dumps(peak_document(kept), indent=1, ensure_ascii=False)
        with whole_file(self._path, partial=self._path.with_name(self._path.name + UNFINISHED_SUFFIX)) as stream:
            stream.write(text.encode())
        self._peaks = kept


def peak_document(peaks: Iterable[Peak]) -> dict[str, Any]:
    """Peaks as plain data, as they stand in the file and as the command line prints them."""
    return {"schema_version": SCHEMA_VERSION, "peaks": [_to_data(peak) for peak in peaks]}


def from_peak_document(document: Mapping[str, Any]) -> tuple[Peak, ...]:
    """The peaks that `peak_document` was given. Raises `ValueError`, `TypeError` or `KeyError` for anything else."""
    if document["schema_version"] != SCHEMA_VERSION:
        raise ValueError(f"schema version {document['schema_version']} instead of {SCHEMA_VERSION}")
    return tuple(_from_data(entry) for entry in document["peaks"])


def _subject(peak: Peak) -> tuple[str, str, str, str, int]:
    """What one calibration is about."""
    return peak.engine, peak.environment, peak.engine_version, peak.device, peak.cores


def _to_data(peak: Peak) -> dict[str, Any]:
    """Every field by its name on the wire; null where it is absent or says nothing."""
    fields = {field.name: getattr(peak, field.name) or None for field in Peak.DESCRIPTOR.fields}
    rate = {field.name: getattr(peak.rate, field.name) for field in Rate.DESCRIPTOR.fields}
    return fields | {
        "kind": _KIND_NAMES[peak.kind],
        "may_be_winograd": peak.may_be_winograd,
        "rate": rate if peak.HasField("rate") else None,
    }


def _from_data(entry: Mapping[str, Any]) -> Peak:
    fields = {name: value for name, value in entry.items() if value is not None}
    fields["kind"] = _KINDS[entry["kind"]]
    if "rate" in fields:
        fields["rate"] = Rate(**fields["rate"])
    return Peak(**fields)


def _read(path: Path) -> tuple[Peak, ...]:
    if not path.exists():
        return ()
    try:
        return from_peak_document(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        _log.error("the peaks in %s cannot be read and were set aside: %r", path, error)
    path.rename(path.with_name(path.name + DAMAGED_SUFFIX))
    return ()
