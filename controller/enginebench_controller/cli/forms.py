"""The forms of the documents that commands build themselves. No command loads this: it is for schemas and tests."""

from typing import Literal

from enginebench_controller.cli.searches import GoneOn
from enginebench_controller.files.benchmarks import ModelVersionForm, TargetForm
from enginebench_controller.files.forms import DocumentForm, EngineForm, Form, ModelForm, OutcomeForm
from enginebench_controller.jobs.record import Job
from enginebench_controller.records import Configuration, Failure, Peak, Reservation, SearchKind
from enginebench_controller.runs.plugin.check import BrokenPromise, LookedAt
from enginebench_controller.runs.resuming import TakenUp, Waiting
from enginebench_controller.targets.health import Health
from enginebench_proto.agreed.roles import CertificateKind, Role


class CaseForm(Form):
    """One configuration that would run."""

    target: str
    model: ModelForm
    engine: EngineForm
    configuration: Configuration


class DryRunDocument(DocumentForm):
    """What would run; the stop rules allow from the shortest to the longest time of measuring."""

    document = "dry_run"

    dry_run: Literal[True]
    configurations: tuple[CaseForm, ...]
    shortest_measuring_s: float
    longest_measuring_s: float
    notes: tuple[str, ...]


class SearchForm(Form):
    """A search that was interrupted, and can be gone on with."""

    id: str
    name: str
    kind: SearchKind


class WaitingDocument(DocumentForm):
    """What there is to be taken up."""

    document = "resume"

    dry_run: Literal[True]
    plans: tuple[Waiting, ...]
    searches: tuple[SearchForm, ...]


class TakenUpDocument(DocumentForm):
    """What was taken up, what came of the `searches` that were gone on with, and whether all of it can be used.

    `show` has the whole answers of the searches.
    """

    document = "resume"

    dry_run: Literal[False]
    plans: tuple[TakenUp, ...]
    searches: tuple[GoneOn, ...]
    outcome: OutcomeForm


ResumeDocument = WaitingDocument | TakenUpDocument


class JobsDocument(DocumentForm):
    """All jobs, newest first."""

    document = "jobs"

    jobs: tuple[Job, ...]


class JobDocument(DocumentForm):
    """One job, cell by cell."""

    document = "job"

    job: Job


class ModelsDocument(DocumentForm):
    """The model versions on this machine, and the names of those that can be built without a download."""

    document = "models"

    models: tuple[ModelVersionForm, ...]
    zoo: tuple[str, ...]


class AskedTargetForm(TargetForm):
    """What a target says of itself, and who has reserved it; null where nobody has."""

    reservation: Reservation | None


class DevicesDocument(DocumentForm):
    """Every target's engines and devices."""

    document = "devices"

    targets: tuple[AskedTargetForm, ...]


class ReservedForm(Form):
    """A target that was reserved, or is no more."""

    name: str
    reservation: Reservation | None


class ReservationsDocument(DocumentForm):
    """What was reserved, or released; of what was not reserved the reservation is null."""

    document = "reservations"

    targets: tuple[ReservedForm, ...]


class NoiseForm(Form):
    """How disturbed a target was when it measured during the last day: see `targets.choosing`."""

    target: str
    measurements: int
    disturbed: float | None
    spread: float | None
    is_noisy: bool


class AddedTargetForm(Form):
    """A target that is remembered."""

    name: str
    address: str
    tls: bool
    added_at_unix_ns: int
    labels: dict[str, str]
    noise: NoiseForm | None


class AnsweredForm(Form):
    """What a target answered when asked for its health."""

    name: str
    address: str
    health: Health


class CheckedForm(AnsweredForm):
    """The same, and who has reserved it; null where nobody has, or it does not answer."""

    reservation: Reservation | None


class FoundTargetForm(AnsweredForm):
    """An agent that announces itself; `cause` says why it gives no good answer, `target` what it is known as here."""

    cause: str | None
    target: str | None


class FoundTargetsDocument(DocumentForm):
    """The agents that announce themselves on this network."""

    document = "found_targets"

    found: tuple[FoundTargetForm, ...]


class FailedCalibrationForm(Form):
    """An engine on so many cores that could not be calibrated."""

    engine: EngineForm
    device: str
    cores: int
    failure: Failure


class CalibrationDocument(DocumentForm):
    """What a target's engines reach at best."""

    document = "calibration"

    peaks: tuple[Peak, ...]
    failures: tuple[FailedCalibrationForm, ...]


class CertificateForm(Form):
    """One certificate: an agent has hosts, a client a role; `serial` is in hexadecimal."""

    name: str
    kind: CertificateKind
    role: Role | None
    hosts: tuple[str, ...]
    serial: str
    begins_at_unix_ns: int
    ends_at_unix_ns: int
    revoked_at_unix_ns: int | None


class HandedOutForm(CertificateForm):
    """A new certificate, and the folder that its files were written to."""

    folder: str


class RevocationForm(Form):
    """The certificates of a name that are let in no longer, and the file with the list that agents need."""

    revocations: str
    certificates: tuple[CertificateForm, ...]


TargetList = tuple[AddedTargetForm, ...]
HealthList = tuple[CheckedForm, ...]
CertificateList = tuple[CertificateForm, ...]


class PluginCheckDocument(DocumentForm):
    """What a plugin was found to break of what it promises; `engines` are those that it brings."""

    document = "plugin_check"

    project: str
    engines: tuple[str, ...]
    broken: tuple[BrokenPromise, ...]
    notes: tuple[str, ...]
    looked_at: tuple[LookedAt, ...]
