"""`tune` makes the machine steadier for measurements, `tune --undo` puts it back, and both tell what they did.

What was changed is recorded in the data folder before anything changes, so that it can be undone whatever happens.
`root` is the file system's root everywhere, so that tests can bring their own.
"""

import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

from enginebench_agent.data_folder import DataFolder
from enginebench_agent.errors import SetupError
from enginebench_agent.machine.cores import CPU_FOLDER, policies, turbo_switch
from enginebench_proto.agreed.durable import whole_file

RECORD = "tuned.json"
HIGHEST_PERFORMANCE_BIAS = "0"
"""Of `energy_perf_bias`, which goes from 0 (performance) to 15 (saving power)."""


@dataclass(frozen=True)
class Setting:
    """One file of the kernel's, what it is to say, and what it said before it was tuned.

    `path` is absolute, as below the root "/"; `name` is what a person calls it.
    """

    name: str
    path: str
    before: str
    after: str


def tunable(root: Path) -> list[Setting]:
    """Everything this machine lets one set, in the order to set it, whether or not it says so already."""
    settings = (_setting(root, *wish) for wish in _wishes(root))
    return [setting for setting in settings if setting is not None]


def tune(folder: DataFolder, root: Path = Path("/")) -> list[Setting]:
    """Set what is not set yet; returns what was changed, `before` being what it said just before.

    Nothing is changed where a single setting may not be written. Should one fail later on, those before it stay set
    and recorded, and the others are left alone.
    Raises `SetupError` in both cases, naming the file, and where the record cannot be kept.
    """
    changes = pending(root)
    _refuse_unwritable(changes, folder, root)
    recorded = read_record(folder)
    if changes:
        _write_record(folder, _merged(recorded, changes))
    for done, setting in enumerate(changes):
        try:
            _write(root, setting.path, setting.after)
        except OSError as error:
            _write_record(folder, _merged(recorded, changes[:done]))
            raise SetupError(_stopped(setting, error, done)) from error
    return changes


def pending(root: Path = Path("/")) -> list[Setting]:
    """What `tune` would change."""
    return [setting for setting in tunable(root) if setting.before != setting.after]


def undo(folder: DataFolder, root: Path = Path("/")) -> list[Setting]:
    """Put back what `tune` found, the last first; returns what was put back. Files that are gone are passed over.

    So are files that `tune` would not touch: the record lies in a user's folder, and this may run as root.
    Raises `SetupError` naming every file that could not be written; those stay recorded.
    """
    recorded, known = read_record(folder), {setting.path for setting in tunable(root)}
    restored: list[Setting] = []
    failed: list[tuple[Setting, OSError]] = []
    for setting in reversed([each for each in recorded if each.path in known]):
        try:
            _write(root, setting.path, setting.before)
            restored.append(setting)
        except OSError as error:
            failed.append((setting, error))
    left = {setting.path for setting, _ in failed}
    _write_record(folder, [setting for setting in recorded if setting.path in left])
    if failed:
        raise SetupError(_not_restored(failed, folder))
    return restored


def in_effect(folder: DataFolder, root: Path = Path("/")) -> list[str]:
    """What `tune` set and still holds, in words such as "governor of policy0: performance (was powersave)".

    After a restart of the machine this is empty: the kernel starts from its own settings.
    """
    held = (setting for setting in read_record(folder) if _read(root, setting.path) == setting.after)
    return [f"{setting.name}: {setting.after} (was {setting.before})" for setting in held]


def read_record(folder: DataFolder) -> list[Setting]:
    """What was changed and not undone yet. Raises `SetupError` for a record that cannot be read."""
    path = folder.root / RECORD
    try:
        return [Setting(**each) for each in json.loads(path.read_text())["settings"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise SetupError(f"cannot read the record of what was tuned, {path}: {error}") from error


def _wishes(root: Path) -> Iterator[tuple[str, Path, str]]:
    """Name, file and value of each setting. Preference and bias come before the governor: the governor
    "performance" of intel_pstate refuses every change of the preference. Undoing goes the other way round."""
    if switch := turbo_switch(root):
        # Not "turbo": "turbo: 0 -> 1" would tell the opposite of what no_turbo means.
        yield switch.path.name, switch.path, switch.off
    for policy in policies(root):
        if "performance" in _words(policy / "energy_performance_available_preferences"):
            yield f"energy preference of {policy.name}", policy / "energy_performance_preference", "performance"
    for bias in sorted((root / CPU_FOLDER).glob("cpu[0-9]*/power/energy_perf_bias")):
        yield f"energy bias of {bias.parent.parent.name}", bias, HIGHEST_PERFORMANCE_BIAS
    for policy in policies(root):
        if "performance" in _words(policy / "scaling_available_governors"):
            yield f"governor of {policy.name}", policy / "scaling_governor", "performance"


def _setting(root: Path, name: str, file: Path, value: str) -> Setting | None:
    path = f"/{file.relative_to(root)}"
    before = _read(root, path)
    return None if before is None else Setting(name, path, before, value)


def _refuse_unwritable(changes: Sequence[Setting], folder: DataFolder, root: Path) -> None:
    refused = [each.path for each in changes if not os.access(_below(root, each.path), os.W_OK)]
    if refused:
        more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
        raise SetupError(f"may not write {refused[0]}{more}, so nothing was changed: run `{_with_rights(folder)}`")


def _stopped(setting: Setting, error: OSError, done: int) -> str:
    before = "nothing was changed"
    if done:
        before = f"{done} settings before it were changed; the same with --undo restores them"
    return f"cannot set {setting.path} to {setting.after} ({error.strerror}): {before}"


def _not_restored(failed: Sequence[tuple[Setting, OSError]], folder: DataFolder) -> str:
    files = ", ".join(f"{setting.path} to {setting.before} ({error.strerror})" for setting, error in failed)
    again = _with_rights(folder, "--undo")
    return f"could not restore {files}: run `{again}`"


def _with_rights(folder: DataFolder, *more: str) -> str:
    """What to type: `sudo` finds neither a program that only this user's PATH leads to, nor this user's data folder."""
    tune = [sys.executable, "-P", "-m", "enginebench_agent", "tune", *more, "--data-dir", str(folder.root)]
    return shlex.join(["sudo", *tune])


def _merged(recorded: Sequence[Setting], changes: Sequence[Setting]) -> list[Setting]:
    """The record after these changes: what a file said before it was first tuned is what counts."""
    originals = {setting.path: setting for setting in recorded}
    for setting in changes:
        first = originals.get(setting.path, setting)
        originals[setting.path] = replace(setting, before=first.before)
    return list(originals.values())


def _write_record(folder: DataFolder, settings: Sequence[Setting]) -> None:
    path = folder.root / RECORD
    try:
        if not settings:
            path.unlink(missing_ok=True)
            return
        _make_folder(folder.root)
        with whole_file(path) as stream:
            stream.write(json.dumps({"settings": [asdict(setting) for setting in settings]}, indent=2).encode())
            os.fchmod(stream.fileno(), 0o644)  # written by root, read by the agent of a user
    except OSError as error:
        raise SetupError(f"cannot record what is tuned in {path} ({error.strerror})") from error


def _make_folder(folder: Path) -> None:
    """Make the folder as its owner would: `sudo` must not leave a folder behind that the user's agent cannot use."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(mode=0o700)
    if os.geteuid() == 0:
        owner = folder.parent.stat()
        os.chown(folder, owner.st_uid, owner.st_gid)


def _read(root: Path, path: str) -> str | None:
    try:
        return _below(root, path).read_text().strip()
    except OSError:
        return None


def _write(root: Path, path: str, value: str) -> None:
    # Never created, and the kernel's refusal comes from this very write, not from closing a buffered file.
    descriptor = os.open(_below(root, path), os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)


def _below(root: Path, path: str) -> Path:
    return root / path.removeprefix("/")


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


class Action(StrEnum):
    """What to do; each value is the key of its outcome in the JSON."""

    TUNE = "changed"
    SHOW = "would_change"
    UNDO = "restored"


def print_tuning(action: Action, folder: DataFolder, root: Path, *, as_json: bool) -> None:
    """Do it, and print what was done. Raises `SetupError` as `tuning.tune` and `tuning.undo` do."""
    nothing_to_set = not tunable(root)
    actions = {
        Action.TUNE: lambda: tune(folder, root),
        Action.SHOW: lambda: pending(root),
        Action.UNDO: lambda: undo(folder, root),
    }
    settings = actions[action]()
    if as_json:
        report = {action.value: [asdict(setting) for setting in settings], "in_effect": in_effect(folder, root)}
        json.dump(report, sys.stdout, indent=2)
        print()
    else:
        print("\n".join([*_lines(action, settings), *_remark(action, settings, nothing_to_set=nothing_to_set)]))


def _lines(action: Action, settings: Sequence[Setting]) -> list[str]:
    if action is Action.UNDO:
        return [f"{each.name}: {each.after} -> {each.before}" for each in settings]
    return [f"{each.name}: {each.before} -> {each.after}" for each in settings]


def _remark(action: Action, settings: Sequence[Setting], *, nothing_to_set: bool) -> list[str]:
    if settings:
        return ["The same with `--undo` puts it back."] if action is Action.TUNE else []
    if action is Action.UNDO:
        return ["Nothing was tuned, so there is nothing to undo."]
    if nothing_to_set:
        return ["This machine lets nothing be set: no frequency governor, no turbo switch. Virtual machines rarely do."]
    return ["Everything that can be set is set already."]
