"""All documents that leave or enter as JSON, in one table: name, schema version, form, and the commands that print it.

A version grows only when something is removed or changes its meaning; new fields may appear at any time. Forms are
named, not loaded: a command that prints one document needs no other. `files.schemas` prints docs/reference/schemas/.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

Document = dict[str, Any]
"""What a function that builds one returns: JSON-able data."""


@dataclass(frozen=True)
class DocumentKind:
    """A kind of document. `form` is where its pydantic form is, as "module:name" within enginebench_controller.

    `version` is None of what has no place for one, such as a list. `commands` print it with `--json`; `export` is the
    command that writes it to a file for others to import, and `kind` the word by which such a file is known.
    """

    name: str
    version: int | None
    form: str
    commands: tuple[str, ...]
    kind: str = ""
    export: str = ""

    def load(self) -> Any:
        """The form: a class, or a type that pydantic's `TypeAdapter` takes."""
        module, _, name = self.form.partition(":")
        return getattr(import_module(f"enginebench_controller.{module}"), name)


_ISSUING = ("ca issue agent", "ca issue client", "ca renew")
_DERIVING = ("models add", "models quantize", "models prune", "models convert")
_LADDERS = ("ladder throughput", "ladder latency", "ladder show")

_TABLE = (
    # 2: percentiles are a list with intervals, inputs are an `input_set`, and an export holds samples by the block.
    DocumentKind("benchmark", 2, "files.answers:BenchmarkDocument", ("run", "rerun", "demo", "show")),
    DocumentKind("gated_benchmark", 2, "files.verdicts.gates:GatedBenchmarkDocument", ("show",)),
    DocumentKind("benchmarks", 2, "files.benchmarks:BenchmarksDocument", ("list",)),
    DocumentKind(
        *("export", 2, "files.exports.benchmarks:ExportDocument", ()),
        kind="enginebench-export",
        export="enginebench export ID --output FILE",
    ),
    DocumentKind("comparison", 2, "files.verdicts.comparisons:ComparisonDocument", ("compare",)),
    DocumentKind(
        *("profile_comparison", 1, "files.verdicts.comparisons:ProfileComparisonDocument", ("compare",)),
        kind="enginebench-profile-comparison",
    ),
    DocumentKind("gate", 1, "files.verdicts.gates:GateDocument", ("gate", "run", "rerun"), kind="enginebench-gate"),
    DocumentKind(
        *(
            "recommendation",
            1,
            "files.verdicts.recommendations:RecommendationDocument",
            ("recommend", "show", "resume"),
        ),
        kind="enginebench-recommendation",
    ),
    DocumentKind(
        *(
            "recommendations",
            1,
            "files.verdicts.recommendations:RecommendationsDocument",
            ("recommend", "show", "resume"),
        ),
        kind="enginebench-recommendations",
    ),
    DocumentKind("bisect", 1, "files.verdicts.bisects:BisectDocument", ("bisect", "show"), kind="enginebench-bisect"),
    DocumentKind("trend", 1, "files.verdicts.gates:TrendDocument", ("trend",), kind="enginebench-trend"),
    DocumentKind("ladder", 1, "files.ladders:LadderDocument", _LADDERS),
    # 2: layers say what they were matched to, and a profile has nodes, work, coverage and figures.
    DocumentKind(
        *("profiles", 2, "files.profiles:ProfilesDocument", ("profile", "profiles show")),
        kind="enginebench-profiles",
        export="enginebench profiles export ID --output FILE",
    ),
    DocumentKind("profile_list", 2, "files.profiles:ProfileListDocument", ("profiles list",)),
    DocumentKind(
        *("prospects", 1, "files.prospects:ProspectsDocument", ("prospects pruning", "prospects show")),
        kind="enginebench-pruning-prospects",
    ),
    DocumentKind("advice", 1, "files.prospects:AdviceDocument", ("advise",), kind="enginebench-advice"),
    DocumentKind("flops", 1, "files.flops:FlopsDocument", ("flops",)),
    DocumentKind("query", 1, "files.store_answers:QueryDocument", ("query",)),
    DocumentKind("store_check", 1, "files.store_answers:StoreCheckDocument", ("store check",)),
    DocumentKind("store_sync", 1, "files.store_answers:StoreSyncDocument", ("store sync",)),
    DocumentKind("store_compact", 1, "files.store_answers:StoreCompactDocument", ("store compact",)),
    DocumentKind("plugin_check", 1, "cli.forms:PluginCheckDocument", ("plugin check",)),
    DocumentKind("dry_run", 1, "cli.forms:DryRunDocument", ("run --dry-run",)),
    DocumentKind("resume", 1, "cli.forms:ResumeDocument", ("resume",)),
    DocumentKind("jobs", 1, "cli.forms:JobsDocument", ("jobs list",)),
    DocumentKind("job", 1, "cli.forms:JobDocument", ("jobs show",)),
    DocumentKind("models", 1, "cli.forms:ModelsDocument", ("models list",)),
    DocumentKind("model", None, "files.benchmarks:ModelVersionForm", _DERIVING),
    DocumentKind("devices", 1, "cli.forms:DevicesDocument", ("devices",)),
    DocumentKind("targets", None, "cli.forms:TargetList", ("targets list",)),
    DocumentKind("target_health", None, "cli.forms:HealthList", ("targets check",)),
    DocumentKind("reservations", 1, "cli.forms:ReservationsDocument", ("targets reserve", "targets release")),
    DocumentKind("found_targets", 1, "cli.forms:FoundTargetsDocument", ("targets find",)),
    DocumentKind("calibration", 1, "cli.forms:CalibrationDocument", ("targets calibrate",)),
    DocumentKind("certificates", None, "cli.forms:CertificateList", ("ca list",)),
    DocumentKind("certificate", None, "cli.forms:HandedOutForm", _ISSUING),
    DocumentKind("revocation", None, "cli.forms:RevocationForm", ("ca revoke",)),
)

DOCUMENTS: Mapping[str, DocumentKind] = MappingProxyType({one.name: one for one in _TABLE})


def head(name: str) -> Document:
    """What a document of this name begins with: its schema version, and its kind where it has one."""
    found = DOCUMENTS[name]
    return {"schema_version": found.version} | ({"kind": found.kind} if found.kind else {})
