"""What a person sees of `tune`: a line for each setting, or JSON."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path

from enginebench_agent import tuning
from enginebench_agent.data_folder import DataFolder


class Action(StrEnum):
    """What to do; each value is the key of its outcome in the JSON."""

    TUNE = "changed"
    SHOW = "would_change"
    UNDO = "restored"


def print_tuning(action: Action, folder: DataFolder, root: Path, *, as_json: bool) -> None:
    """Do it, and print what was done. Raises `SetupError` as `tuning.tune` and `tuning.undo` do."""
    nothing_to_set = not tuning.tunable(root)
    actions = {
        Action.TUNE: lambda: tuning.tune(folder, root),
        Action.SHOW: lambda: tuning.pending(root),
        Action.UNDO: lambda: tuning.undo(folder, root),
    }
    settings = actions[action]()
    if as_json:
        report = {action.value: [asdict(setting) for setting in settings], "in_effect": tuning.in_effect(folder, root)}
        json.dump(report, sys.stdout, indent=2)
        print()
    else:
        print("\n".join([*_lines(action, settings), *_remark(action, settings, nothing_to_set=nothing_to_set)]))


def _lines(action: Action, settings: Sequence[tuning.Setting]) -> list[str]:
    if action is Action.UNDO:
        return [f"{each.name}: {each.after} -> {each.before}" for each in settings]
    return [f"{each.name}: {each.before} -> {each.after}" for each in settings]


def _remark(action: Action, settings: Sequence[tuning.Setting], *, nothing_to_set: bool) -> list[str]:
    if settings:
        return ["`enginebench-agent tune --undo` puts it back."] if action is Action.TUNE else []
    if action is Action.UNDO:
        return ["Nothing was tuned, so there is nothing to undo."]
    if nothing_to_set:
        return ["This machine lets nothing be set: no frequency governor, no turbo switch. Virtual machines rarely do."]
    return ["Everything that can be set is set already."]
