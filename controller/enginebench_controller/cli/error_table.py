"""Every exit code, every error of a command and every failure of a run: what it means and what to do.

This is the one table of them on the controller's side; docs/reference/errors.md is printed from it. What an agent
answers has its own in the agent, for the two meet only on the wire.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from enginebench_controller.errors import (
    INTERRUPTED,
    AgentError,
    BusyError,
    ChangedTargetError,
    DiskFullError,
    EnginebenchError,
    ExitCode,
    InputError,
    ModelError,
    NoProspectsError,
    OldAgentError,
    PlanError,
    RemoteError,
    ReservedError,
    RunUnknownError,
    StoreBusyError,
    StoreError,
    StoreUnreachableError,
    UnknownFormatError,
    UnknownModelError,
    UnreachableError,
    UnreadableFileError,
)
from enginebench_controller.records import FailureKind
from enginebench_controller.targets.addresses import SshError


@dataclass(frozen=True)
class ErrorExplanation:
    """What something means and what to do about it; both are sentences."""

    meaning: str
    remedy: str


EXITS: Mapping[int, ErrorExplanation] = {
    ExitCode.OK: ErrorExplanation(
        "Every configuration has numbers (status `ok` or `inconclusive`), and no outputs are wrong.", "Nothing."
    ),
    ExitCode.SOME_FAILED: ErrorExplanation(
        "Some configurations came to no numbers, or an engine's outputs are wrong (`≠`); all the others can be used. "
        "So end `run`, `rerun`, `resume`, `ladder`, `profile`, `compare` and the jobs of the pages; the last line and "
        "`outcome` in the document of `--json` say which. `resume` judges what it collected, and gates whole. Of "
        "`gate`: a side has no numbers, or outputs are wrong. Of `bisect`: good or bad cannot be run. Of `recommend`: "
        "nothing could be measured. Of `plugin check`: a promise is broken.",
        "Read the line of each, and `enginebench show ID --failures`; `enginebench rerun ID` measures all again.",
    ),
    ExitCode.USAGE: ErrorExplanation(
        "Wrong usage or input, or an impossible configuration: nothing was run.", "Do what the sentence says."
    ),
    ExitCode.UNREACHABLE: ErrorExplanation(
        "A target, or the object store of a lake, does not answer; or a target is not what it was when what is resumed "
        "began; or one of a search under way is somebody else's for now, or cannot measure, as its disk is full, say. "
        "A search that ends so has no answer yet, and goes on with `enginebench resume ID`.",
        "Start its agent, or correct its address; `enginebench targets check` asks again. Of a search: mend what the "
        "sentence names.",
    ),
    ExitCode.CONDITION_MET: ErrorExplanation(
        "Worse, beyond noise: a condition of `compare --fail-if` holds, or what `gate` calls worse, also one "
        "that `resume` took up. Of `recommend`: nothing holds the limits.",
        "Look at what the comparison shows; profiles name the layers. Loosen a limit.",
    ),
    ExitCode.CANNOT_TELL: ErrorExplanation(
        "Of `compare --fail-if` and `gate` with `--strict`: nothing is worse beyond noise, but noise hides whether "
        "something is, or a benchmark has nothing to compare with part of the first. Without `--strict` "
        "that is told and changes no exit code. Of `bisect`: none is named. "
        "Of `recommend`: whether anything holds the limits.",
        "Measure longer or on a quieter machine, and all that the first has; or tolerate more.",
    ),
    INTERRUPTED: ErrorExplanation(
        "Interrupted with Ctrl-C; what was finished is stored, running children were ended.", "Run it again."
    ),
}

ERRORS: Mapping[type[EnginebenchError], ErrorExplanation] = {
    InputError: ErrorExplanation(
        "A file, name, option or value that was given cannot be used.", "Correct what the sentence names."
    ),
    ModelError: ErrorExplanation(
        "A model file is missing, truncated or no model, or cannot be made to fit the configuration.",
        "Give another file, or the shapes the sentence asks for.",
    ),
    UnreadableFileError: ErrorExplanation(
        "A file of a model or an input was there when a plan was made, and could not be read when its turn came.",
        "Put it back, with `enginebench models add` where it is of a model; then run the same again.",
    ),
    UnknownFormatError: ErrorExplanation(
        "A file's name ends as no model's that is known: neither one of ours, nor one that a plugin reads.",
        "Rename the file, or add the engine that reads it on the target: `enginebench-agent environment add`.",
    ),
    UnknownModelError: ErrorExplanation(
        "No model is meant by a name, a digest or a path, or several are.",
        "Give one of the digests the sentence lists, or see `enginebench models list`.",
    ),
    PlanError: ErrorExplanation(
        "The plan asks for something impossible; each reason has a line.",
        "Correct the plan; `--dry-run` shows what it comes to.",
    ),
    StoreError: ErrorExplanation(
        "The results cannot be read or written: disk full, no permission, another program, damage, a newer file.",
        "Do what the sentence says; `enginebench store check` looks for damage, `store restore` takes up a copy.",
    ),
    StoreBusyError: ErrorExplanation(
        "Another program has kept the results for too long: for 30 s, or for ten minutes where one is to be stored.",
        "Wait for the program that the sentence names, or end it; what was measured meanwhile: `enginebench resume`.",
    ),
    StoreUnreachableError: ErrorExplanation(
        "The object store that a lake lies in does not answer, or refuses.",
        "See to the address, the bucket and the credentials in your environment; then do the same again.",
    ),
    SshError: ErrorExplanation(
        "The machine of a target cannot be reached with ssh.",
        "Make `ssh USER@HOST true` work without a question: an address, a known host, a key.",
    ),
    RemoteError: ErrorExplanation(
        "A command on the machine of a target failed.",
        "Mend what its own words name, then do the same again: what was done already is kept.",
    ),
    UnreachableError: ErrorExplanation(
        "A target does not answer, or went away; of a search also one that is somebody else's, or cannot measure.",
        "Start `enginebench-agent serve` there, or correct the address. `enginebench resume` collects what a command "
        "that was ended left there, and goes on with a search; what else was lost, `enginebench rerun` measures again.",
    ),
    ChangedTargetError: ErrorExplanation(
        "A target has another processor, kernel, tuning or enginebench than when a search began that is to go on.",
        "Search anew; or let the target be again what it was, and `enginebench resume` once more.",
    ),
    AgentError: ErrorExplanation(
        "A target answered with an error; the sentence is its agent's own.",
        "Look the agent's code up [below](#what-an-agent-answers).",
    ),
    RunUnknownError: ErrorExplanation(
        "A target does not know the run, the engine or the device it was asked about.",
        "See what it has with `enginebench devices`; a run is unknown when its agent was restarted before it ended.",
    ),
    BusyError: ErrorExplanation(
        "A target has as many runs or calls as its owner allows.",
        "Try again later, or let its owner allow more in agent.toml.",
    ),
    DiskFullError: ErrorExplanation(
        "A target has no room on its disk, or none left of what its owner allows for model files.",
        "Make room there, or allow more with max_cache_bytes in its agent.toml; then do the same again.",
    ),
    ReservedError: ErrorExplanation(
        "Somebody else has reserved a target; the sentence says who, and for how long.",
        "Wait (`targets reserve … --wait`), take another target, or have it released: `enginebench targets release`.",
    ),
    OldAgentError: ErrorExplanation(
        "A target's agent is older than what it was asked for.",
        "Upgrade the agent there; everything that both versions know goes on working meanwhile.",
    ),
    NoProspectsError: ErrorExplanation(
        "Passes were measured, but none of them came to something to show.", "Read why the passes failed."
    ),
    EnginebenchError: ErrorExplanation("Something else cannot be done here and now.", "Do what the sentence says."),
}

FAILURES: Mapping[FailureKind, ErrorExplanation] = {
    FailureKind.ENGINE_UNAVAILABLE: ErrorExplanation(
        "The engine could not be imported or started.",
        "See the reason with `enginebench devices --target NAME` (`local` is this machine); `enginebench-agent "
        "environment add` makes its environment anew.",
    ),
    FailureKind.COMPILE_FAILED: ErrorExplanation(
        "The engine could not read, convert or compile the model.",
        "Read the engine's own words; try another precision, or a model of an older opset.",
    ),
    FailureKind.INFERENCE_FAILED: ErrorExplanation(
        "An inference raised an error.", "Read the engine's own words; check shapes and inputs."
    ),
    FailureKind.CRASHED: ErrorExplanation(
        "The engine's process was ended by a signal, or exited without a result; the agent goes on.",
        "Run it again; if it crashes again, report it to the engine with the end of its output, which is kept.",
    ),
    FailureKind.OUT_OF_MEMORY: ErrorExplanation(
        "The engine's process ran out of memory.", "Use a smaller batch, fewer streams or a smaller model."
    ),
    FailureKind.TIMED_OUT: ErrorExplanation(
        "The engine's process did not finish within its time limit and was stopped.",
        "Give it longer with `--timeout`, up to `max_run_seconds` in the target's agent.toml.",
    ),
    FailureKind.CANCELLED: ErrorExplanation(
        "Somebody cancelled the run, or the command that carried it out ended before anything came of it.",
        "`enginebench rerun ID` measures it again.",
    ),
    FailureKind.REFUSED: ErrorExplanation(
        "The configuration is impossible for this engine, device or agent, or a file of it is not there any more.",
        "Change what the sentence names.",
    ),
    FailureKind.AGENT_LOST: ErrorExplanation(
        "The target's agent went away during the run, or was restarted.",
        "See to the machine and its agent, then `enginebench rerun ID`.",
    ),
    FailureKind.INTERNAL: ErrorExplanation(
        "A defect of enginebench itself, or what the target's disk kept was damaged, or could not be written there.",
        "Read the agent's log on standard error: mend the disk or folder that it names, or report what it says.",
    ),
    FailureKind.SHORTAGE: ErrorExplanation(
        "The target's disk is full, its agent cannot write there, or it got no more memory, files or processes.",
        "Do what the sentence names, then `enginebench rerun ID`, or `enginebench resume ID` of a search.",
    ),
}
