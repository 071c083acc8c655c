"""Profiles that travel: what `profiles export` wrote as JSON, read back without loss and at most once."""

from pathlib import Path

from enginebench_controller.documents.profiles import KIND, PROFILES_VERSION
from enginebench_controller.exchange.exported_file import ExportKind, read_export
from enginebench_controller.exchange.profile_form import ProfilesForm
from enginebench_controller.store.store import Store

_EXPORT = ExportKind(KIND, "enginebench profiles export ID --output FILE", PROFILES_VERSION, ProfilesForm)


def import_profiles(store: Store, path: Path) -> tuple[str, ...]:
    """Store what an export holds and return the ids that are new here, marked as imported; all or none.

    Raises `InputError` for a file that is missing, not such an export, made by a newer enginebench or damaged.
    """
    return store.add_profiles([form.to_record() for form in read_export(path, _EXPORT).profiles])
