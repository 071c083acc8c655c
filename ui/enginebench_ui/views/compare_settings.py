"""Settings in which two profiles differ, and what the advisor says of each, as rows and lines."""

from collections.abc import Sequence

from enginebench_controller.comparing.profiles import ProfileComparison
from enginebench_controller.comparing.settings import SettingDifference, letter
from enginebench_ui.views.text import Row, cells


def setting_rows(settings: Sequence[SettingDifference]) -> tuple[Row, ...]:
    """Return a table row a setting that is not the same on both sides."""
    return tuple(
        cells({"Setting": one.setting} | {letter(place): value for place, value in enumerate(one.values)})
        for one in settings
    )


def advice_lines(comparison: ProfileComparison) -> tuple[str, ...]:
    """Return a line a piece of advice, with the side it is for."""
    places = {one.id: letter(place) for place, one in enumerate(comparison.profiles)}
    return tuple(f"{places[one.profile_id]}: {one.sentence}: {one.remedy}" for one in comparison.advice)
