"""The words of `--format`: every form in which something that is stored leaves for another program."""

from enum import StrEnum


class ExportFormat(StrEnum):
    """What can be exported as what: `profile_formats` and `measurement_formats` say of which things."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    PERFETTO = "perfetto"
    MODEL_EXPLORER = "model-explorer"
    MODEL_EXPLORER_FLOPS = "model-explorer-flops"
    GAB = "gab"
    GAB_BIGGER = "gab-bigger"
    BMF = "bmf"
    OTAVA = "otava"
    OPENMETRICS = "openmetrics"
