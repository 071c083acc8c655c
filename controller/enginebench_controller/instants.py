"""Instants as a person reads them: by this machine's clock on the wall, which shows one hour of autumn twice."""

import time
from datetime import UTC, datetime


def local_instant(unix_ns: int, form: str, *, with_zone: bool = False) -> str:
    """An instant in this machine's time zone, by a form of `strftime`; with the zone's name where it needs one.

    So it does in the hour that the end of summer time repeats: 02:50 CEST comes before 02:10 CET.
    """
    shown = datetime.fromtimestamp(unix_ns / 1e9, UTC).astimezone()
    wall = shown.replace(tzinfo=None)
    first, second = (wall.replace(fold=fold).astimezone().utcoffset() for fold in (0, 1))
    return shown.strftime(f"{form} %Z" if with_zone or first != second else form)


def zone_name() -> str:
    """What this machine's time zone is called, in winter and in summer: "CET/CEST"."""
    return "/".join(dict.fromkeys(time.tzname[: 2 if time.daylight else 1]))
