"""The GitHub Action and the GitLab template, their steps run in a repository whose latest commit changes a model."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper
from packaging.requirements import Requirement

from agent_server import only
from integration.bench import ROOT

ACTION = ROOT / "deploy" / "github-action" / "action.yml"
TEMPLATE = ROOT / "deploy" / "gitlab" / "enginebench-gate.yml"
CHANNELS = 16

_GH = """#!/usr/bin/env python3
import json, os, re, sys
arguments = sys.argv[1:]
kept = os.environ["COMMENTS"]
comments = json.load(open(kept)) if os.path.exists(kept) else {}
given = dict(zip(arguments, arguments[1:]))
path = next(one for one in arguments if one.startswith("repos/"))
host = os.environ.get("GH_HOST", "github.com")
token = os.environ["GH_TOKEN" if host == "github.com" else "GH_ENTERPRISE_TOKEN"]
assert host == "git.example.org", host
if token == "may nothing":
    sys.exit("gh: Resource not accessible by integration (HTTP 403)")
if "--method" not in given:  # asks for the comment that begins with the mark
    assert given["--jq"] == '.[] | select(.body | startswith(env.MARK)) | .id', given
    print(*(number for number, body in comments.items() if body.startswith(os.environ["MARK"])), sep="\\n")
elif token == "may only read":
    sys.exit("gh: Resource not accessible by integration (HTTP 403)")
else:
    assert token == "secret"
    name, _, file = given["-F"].partition("=@")
    number = path.rpartition("/")[2] if given["--method"] == "PATCH" else str(len(comments) + 1)
    json.dump(comments | {number: open(file).read()}, open(kept, "w"))
"""

_ASKED = """#!/usr/bin/env python3
import os, sys
from pathlib import Path
arguments = sys.argv[1:]
Path(os.environ["ASKED_OF_GATE"]).write_text("\\0".join(arguments))
sys.exit("error: hunter2 is no token")
"""

_ENGINEBENCH = """
from enginebench_controller.__main__ import main
from enginebench_controller.plan import gate
from enginebench_controller.runs import gate as running

gate.SHORTEST_BUDGET_S = 2.5  # so that a test which cannot tell needs no half minute for that,
running.FEWEST_PAIRS = 1  # nor the second pair that would tell
main()
"""


def convolutions(path: Path, count: int) -> None:
    """A model of so many equal 1 × 1 convolutions, one behind the other."""
    weights = np.eye(CHANNELS, dtype=np.float32).reshape(CHANNELS, CHANNELS, 1, 1)
    nodes = [helper.make_node("Conv", [f"t{n}", "w"], [f"t{n + 1}"], f"conv_{n}") for n in range(count)]
    shape = [1, CHANNELS, 48, 48]
    graph = helper.make_graph(
        nodes,
        "convolutions",
        [helper.make_tensor_value_info("t0", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(f"t{count}", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(weights, "w")],
    )
    path.parent.mkdir(exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


@dataclass
class Repository:
    """A checkout on a runner, with what a runner has in its variables."""

    folder: Path

    def __post_init__(self) -> None:
        self.work = self.folder / "work"
        self.work.mkdir()
        for name in ("temp", "bin"):
            (self.folder / name).mkdir()
        (self.folder / "home" / "agent").mkdir(parents=True)
        (self.folder / "home" / "agent" / "agent.toml").write_text(only("onnxruntime"))
        self.program("gh", _GH)
        self.program("enginebench", f"#!{sys.executable}\n{_ENGINEBENCH}")
        self.program("python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        self.git("init", "--quiet", "--initial-branch", "main")

    def program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=someone", "-c", "user.email=someone@example.org")
        command = ("git", *who, *arguments)
        return subprocess.run(command, cwd=self.work, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, layers: int) -> str:
        convolutions(self.work / "models" / "net.onnx", layers)
        (self.work / "README.md").write_text(f"a net of {layers}\n")
        self.git("add", ".")
        self.git("commit", "--quiet", "--allow-empty", "--message", f"{layers} layers")
        return self.git("rev-parse", "HEAD")

    def shell(self, script: str, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run the script of a step as a runner does."""
        known = os.environ | {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "ENGINEBENCH_HOME": str(self.folder / "home"),
            "COMMENTS": str(self.folder / "comments.json"),
            "ASKED_OF_GATE": str(self.folder / "asked"),
            "RUNNER_TEMP": str(self.folder / "temp"),
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
            "GITHUB_REPOSITORY": "someone/net",
            "GITHUB_SERVER_URL": "https://git.example.org",
        }
        command = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
        return subprocess.run(
            command, cwd=self.work, env=known | variables, capture_output=True, text=True, timeout=280, check=False
        )

    @property
    def engine_asked(self) -> str | None:
        """What `enginebench gate` was last given as `--engine`, where it is the program that only notes that."""
        arguments = (self.folder / "asked").read_text().split("\0")
        return arguments[arguments.index("--engine") + 1] if "--engine" in arguments else None

    @property
    def worktrees(self) -> int:
        """How many there are, with the checkout itself."""
        return len(self.git("worktree", "list").splitlines())

    @property
    def comments(self) -> list[str]:
        kept = self.folder / "comments.json"
        return list(json.loads(kept.read_text()).values()) if kept.exists() else []


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def run_action(repository: Repository, base_commit: str, *, job_index: str = "0", **inputs: str) -> int:
    """The steps of the action, with its inputs filled in; the exit code of the first that fails, or 0."""
    action = yaml.safe_load(ACTION.read_text())
    context = {f"inputs.{name}": one.get("default", "") for name, one in action["inputs"].items()}
    context |= {f"inputs.{name}": value for name, value in inputs.items()}
    context |= {
        "github.token": "secret",
        "inputs.token": inputs.get("token", "secret"),
        "github.workflow": "models",
        "github.job": "gate",
        "strategy.job-index": job_index,
        "github.event_name": "pull_request",
        "github.event.pull_request.number": "7",
        "github.event.pull_request.base.sha": base_commit,
        "github.event.pull_request.head.sha": repository.git("rev-parse", "HEAD"),
    }
    (repository.folder / "output").write_text("")
    code = 0
    for step in action["runs"]["steps"]:
        context |= _outputs(repository, step_id="gate")
        if not _holds(step.get("if", ""), context, failed=code != 0):
            continue
        variables = {name: _filled(value, context) for name, value in step.get("env", {}).items()}
        done = repository.shell(step["run"], variables)
        assert "Traceback" not in done.stderr
        code = code or done.returncode
    return code


def run_template(repository: Repository, base_commit: str, **given: str) -> subprocess.CompletedProcess[str]:
    """The scripts of the template's job, in a merge request that began at a commit, with these variables of it."""
    job = yaml.safe_load(TEMPLATE.read_text())[".enginebench-gate"]
    variables = {name: str(value) for name, value in job["variables"].items()}
    variables |= {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base_commit, **given}
    done = repository.shell("\n".join([*job["before_script"], *job["script"]]), variables)
    # A shell of its own, after each end of the scripts, and no part of the job's exit code.
    status = {"CI_JOB_STATUS": "failed" if done.returncode else "success"}
    after = repository.shell("\n".join(job["after_script"]), status | variables)
    assert after.returncode == 0, after.stderr
    done.stdout += after.stdout
    return done


def _outputs(repository: Repository, step_id: str) -> dict[str, str]:
    lines = (repository.folder / "output").read_text().splitlines()
    said = dict(line.split("=", 1) for line in lines)
    return {f"steps.{step_id}.outputs.{name}": said.get(name, "") for name in ("code", "outcome")}


def _filled(text: Any, context: dict[str, str]) -> str:
    return re.sub(r"\$\{\{\s*([\w.-]+)\s*\}\}", lambda found: context[found[1]], str(text))


def _holds(condition: str, context: dict[str, str], *, failed: bool) -> bool:
    """Of the conditions that stand in the action: comparisons with a text, all of which must hold.

    After a step that failed there is no other, but for one that asks only not to be cancelled.
    """
    parts = [part.strip() for part in condition.removeprefix("${{").removesuffix("}}").split("&&") if part]
    if failed and "!cancelled()" not in parts:
        return False
    for part in parts:
        if part == "!cancelled()":
            continue
        name, sign, text = part.split()
        assert sign in ("==", "!="), part
        if (context[name] == text.strip("'")) is not (sign == "=="):
            return False
    return True


def test_a_pull_request_that_makes_the_model_slower_fails_with_a_comment_that_says_so(repository: Repository) -> None:
    before = repository.commit(4)
    repository.commit(60)
    asked = {"model": "models/net.onnx", "engine": "onnxruntime", "budget": "45s"}
    assert run_action(repository, before, **asked) == 4

    (comment,) = repository.comments
    mark, _, told = comment.partition("\n\n")
    assert mark.startswith("<!-- ") and mark.endswith(" -->") and "\n" not in mark
    assert told.startswith("## enginebench gate: worse\n\n**worse: head takes ")
    assert "| latency (decides) |" in comment
    assert "conv" in comment, "the layers that explain it"
    assert "process pairs" in comment
    assert "D = " in comment
    assert (repository.folder / "summary.md").read_text() in comment
    assert comment.endswith(f"\nOf commit {repository.git('rev-parse', 'HEAD')}.\n")
    assert repository.worktrees == 1, "what was checked out to compare with is gone"

    repository.git("reset", "--quiet", "--hard", before)
    assert run_action(repository, before, **asked, tolerate="99%") == 0
    (comment,) = repository.comments
    assert "## enginebench gate: pass" in comment, "the comment there is is written anew"


def test_what_cannot_be_told_fails_a_pull_request_only_if_strict(repository: Repository) -> None:
    before = repository.commit(4)
    asked = {"model": "models/net.onnx", "budget": "2.5s", "comment": "false"}
    assert run_action(repository, before, **asked, strict="true") == 5
    assert _outputs(repository, "gate")["steps.gate.outputs.outcome"] == "cannot_tell"
    assert repository.comments == []


def test_a_pull_request_from_a_fork_whose_token_may_only_read_ends_with_the_verdict(repository: Repository) -> None:
    before = repository.commit(4)
    asked = {"model": "models/net.onnx", "budget": "2.5s", "token": "may only read"}
    assert run_action(repository, before, **asked) == 0
    assert run_action(repository, before, **asked, strict="true") == 5
    assert repository.comments == [] and "cannot tell" in (repository.folder / "summary.md").read_text()


@pytest.mark.parametrize("has_gh", [True, False])
def test_where_comments_cannot_be_read_the_action_ends_with_the_verdict(
    repository: Repository, *, has_gh: bool
) -> None:
    before = repository.commit(4)
    if not has_gh:
        (repository.folder / "bin" / "gh").unlink()
    asked = {"model": "models/net.onnx", "budget": "2.5s", "token": "may nothing", "strict": "true"}
    assert run_action(repository, before, **asked) == 5
    assert "cannot tell" in (repository.folder / "summary.md").read_text()


def test_each_gate_of_a_pull_request_has_a_comment_of_its_own(repository: Repository) -> None:
    before = repository.commit(4)
    asked = {"model": "models/net.onnx", "budget": "2.5s"}
    for others in ({}, {"job_index": "1"}, {"arguments": "--batch 2"}, {}):
        assert run_action(repository, before, **asked, **others) == 0
    assert len(repository.comments) == 3, "and the first is rewritten"
    assert not any("--batch 2" in one for one in repository.comments), "arguments may hold a password"


def test_a_runner_without_enginebench_gets_the_one_that_the_action_or_the_template_names(tmp_path: Path) -> None:
    by_action, by_template = (installs(tmp_path, engine="openvino") for installs in (_by_action, _by_template))
    assert by_action.name == by_template.name == "enginebench"
    assert by_action.extras == by_template.extras == {"controller", "openvino"}
    assert by_action.url == ROOT.as_uri()
    assert by_template.url is None

    source = "git+https://example.org/enginebench@main"
    assert _by_template(tmp_path, engine="openvino", source=source).url == source


@pytest.mark.parametrize(
    ("engine", "base", "head", "engines"),
    [
        ("", "", "", {"onnxruntime"}),
        ("", "openvino==2025.1", "openvino@new:HINT=LATENCY", {"openvino"}),
        ("", "onnxruntime", "openvino", {"onnxruntime", "openvino"}),
        ("openvino", "==2025.1", ":HINT=LATENCY", {"openvino"}),
        ("onnxruntime==1.24.1", "", "", {"onnxruntime"}),
        ("", "plugin:main/plugin", "plugin:plugin", set()),
    ],
)
def test_a_runner_without_enginebench_gets_the_engines_that_are_compared(
    tmp_path: Path, engine: str, base: str, head: str, engines: set[str]
) -> None:
    for installs in (_by_action, _by_template):
        assert installs(tmp_path, engine=engine, base=base, head=head).extras == {"controller"} | engines


def _by_action(folder: Path, *, engine: str, base: str = "", head: str = "") -> Requirement:
    """What the action has pip install."""
    variables = {"ENGINE": engine, "BASE": base, "HEAD": head, "GITHUB_ACTION_PATH": str(ACTION.parent)}
    step = yaml.safe_load(ACTION.read_text())["runs"]["steps"][0]
    assert set(variables) == {*step["env"], "GITHUB_ACTION_PATH"}
    return _installed(folder, step["run"], variables)


def _by_template(folder: Path, *, engine: str, base: str = "", head: str = "", source: str = "") -> Requirement:
    """What the template has pip install."""
    variables = {"GATE_ENGINE": engine, "GATE_BASE": base, "GATE_HEAD": head, "GATE_SOURCE": source}
    job = yaml.safe_load(TEMPLATE.read_text())[".enginebench-gate"]
    return _installed(folder, "\n".join(job["before_script"]), variables)


def _installed(folder: Path, script: str, variables: dict[str, str]) -> Requirement:
    (folder / "python").write_text('#!/bin/sh\nfor last; do :; done; echo "$last"\n')
    (folder / "python").chmod(0o755)
    for name in ("realpath", "rm"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(str(shutil.which(name)))
    command = (str(shutil.which("bash")), "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
    known = {"PATH": str(folder), **variables}
    done = subprocess.run(command, cwd=folder, env=known, check=True, capture_output=True, text=True)
    return Requirement(done.stdout.strip())


@pytest.mark.parametrize(
    ("engine", "base", "head", "asked"),
    [
        ("", "", "", "onnxruntime"),
        ("openvino", "", "", "openvino"),
        ("", "openvino==2025.1", "openvino==2025.2", None),
        ("openvino", "==2025.1", "==2025.2", "openvino"),
        ("onnxruntime", "openvino==2025.1", "openvino==2025.2", "onnxruntime"),
    ],
)
def test_an_engine_is_asked_for_that_is_given_or_of_two_models(
    repository: Repository, engine: str, base: str, head: str, asked: str | None
) -> None:
    before = repository.commit(1)
    repository.program("enginebench", _ASKED)
    given = {name: text for name, text in (("engine", engine), ("base", base), ("head", head)) if text}
    assert run_action(repository, before, model="models/net.onnx", **given) == 1
    assert repository.engine_asked == asked

    of_job = {f"GATE_{name.upper()}": text for name, text in given.items()}
    assert run_template(repository, before, GATE_MODEL="models/net.onnx", **of_job).returncode == 1
    assert repository.engine_asked == asked


def test_a_gate_that_cannot_begin_fails_with_its_code_and_comments_nothing(repository: Repository) -> None:
    before = repository.commit(4)
    assert run_action(repository, before, model="models/no-such.onnx", budget="30s") == 2
    assert repository.comments == []
    assert "exit code 2; the log of the job says why" in (repository.folder / "summary.md").read_text()
    assert repository.worktrees == 1


def test_a_push_that_cannot_be_measured_rewrites_the_comment_on_the_one_before(repository: Repository) -> None:
    before = repository.commit(4)
    asked = {"model": "models/net.onnx", "budget": "2.5s"}
    assert run_action(repository, before, **asked) == 0

    (repository.work / "models" / "net.onnx").write_bytes(b"no model")
    repository.git("commit", "--quiet", "--all", "--message", "broken")
    assert run_action(repository, before, **asked) == 2
    (comment,) = repository.comments
    _, _, told = comment.partition("\n\n")
    said = "It ended with exit code 2; the log of the job says why."
    assert told.startswith(f"## enginebench gate: nothing was measured\n\n{said}\n"), told
    assert told.endswith(f"\nOf commit {repository.git('rev-parse', 'HEAD')}.\n")

    assert run_action(repository, "0" * 40, **asked) != 0, "no such commit: the step fails before it measures"
    (comment,) = repository.comments
    said = "nothing was measured\n\nThe log of the job says why."
    assert said in comment and said in (repository.folder / "summary.md").read_text()


@pytest.mark.parametrize("arguments", ["--option token=abc:hunter2,x", "--password=-hunter2"])
def test_what_an_error_quotes_of_the_arguments_stays_in_the_log(repository: Repository, arguments: str) -> None:
    before = repository.commit(1)
    asked = {"model": "models/net.onnx", "arguments": arguments}
    repository.program("enginebench", _ASKED)
    assert run_action(repository, before, **asked) == 1
    summary = (repository.folder / "summary.md").read_text()
    assert "exit code 1; the log of the job says why" in summary and "hunter2" not in summary


def test_a_model_that_is_new_in_a_pull_request_passes_with_nothing_to_compare(repository: Repository) -> None:
    (repository.work / "README.md").write_text("no model yet\n")
    repository.git("add", ".")
    repository.git("commit", "--quiet", "--message", "empty")
    before = repository.git("rev-parse", "HEAD")
    repository.commit(4)
    assert run_action(repository, before, model="models/net.onnx") == 0
    assert _outputs(repository, "gate")["steps.gate.outputs.outcome"] == ""
    assert repository.comments == []
    assert "nothing to compare it with" in (repository.folder / "summary.md").read_text()

    done = run_template(repository, before, GATE_MODEL="models/net.onnx")
    assert done.returncode == 0 and "nothing to compare it with" in done.stdout
    assert repository.worktrees == 1


def test_a_model_that_git_holds_is_compared_by_its_absolute_path_too(repository: Repository) -> None:
    before = repository.commit(4)
    path = str(repository.work / "models" / "net.onnx")
    assert run_action(repository, before, model=path, budget="2.5s", comment="false") == 0
    assert _outputs(repository, "gate")["steps.gate.outputs.outcome"] == "cannot_tell"
    assert run_template(repository, before, GATE_MODEL=path, GATE_BUDGET="2.5s").returncode == 5


@pytest.mark.parametrize("folder", ["work/build", "elsewhere"])
def test_a_model_that_git_does_not_hold_is_not_taken_for_a_new_one(repository: Repository, folder: str) -> None:
    before = repository.commit(4)
    path = repository.folder / folder / "net.onnx"
    convolutions(path, 4)
    name = os.path.relpath(path, repository.work) if folder.startswith("work") else str(path)
    assert run_action(repository, before, model=name) == 2
    done = run_template(repository, before, GATE_MODEL=name)
    assert done.returncode == 2 and "there is no model file" in done.stderr
    assert (repository.work / "gate.md").read_text().startswith("## enginebench gate: nothing was measured\n")
    assert repository.worktrees == 1, "of a gate that fails nothing is left checked out, either"


def test_what_the_target_branch_did_meanwhile_is_no_doing_of_a_merge_request(repository: Repository) -> None:
    """Of merged results: HEAD is the branch merged into its target."""
    before = repository.commit(4)
    repository.git("checkout", "--quiet", "-b", "branch")
    (repository.work / "notes.md").write_text("of the branch\n")
    repository.git("add", ".")
    repository.git("commit", "--quiet", "--message", "notes")
    repository.git("checkout", "--quiet", "main")
    target = repository.commit(60)
    repository.git("merge", "--quiet", "branch")
    shas = {"CI_MERGE_REQUEST_TARGET_BRANCH_SHA": target}
    done = run_template(repository, before, GATE_MODEL="models/net.onnx", GATE_BUDGET="2.5s", **shas)
    assert done.returncode == 5 and "base and head are the very same" in done.stderr, done.stderr


@pytest.mark.parametrize(("layers", "budget", "code"), [(60, "45s", 4), (4, "2.5s", 5)])
def test_the_template_for_gitlab_ends_with_the_same_codes(
    repository: Repository, layers: int, budget: str, code: int
) -> None:
    before = repository.commit(4)
    repository.commit(layers)
    done = run_template(repository, before, GATE_MODEL="models/net.onnx", GATE_BUDGET=budget)
    job = yaml.safe_load(TEMPLATE.read_text())[".enginebench-gate"]
    assert done.returncode == code, done.stderr
    assert (repository.work / job["artifacts"]["paths"][0]).read_text().startswith("## enginebench gate: ")
    assert "<testsuites" in (repository.work / job["artifacts"]["reports"]["junit"]).read_text()
    assert (code == 5) is (code == job["allow_failure"]["exit_codes"])
    assert repository.worktrees == 1


class Notes(BaseHTTPRequestHandler):
    """The notes of a merge request, as GitLab's REST API has them; `token` may read and write them."""

    token = "secret"
    kept: ClassVar[dict[int, str]] = {}

    def do_GET(self) -> None:
        known = [{"id": number, "body": body} for number, body in self.kept.items()]
        asked = {name: int(values[0]) for name, values in parse_qs(urlsplit(self.path).query).items() if name != "sort"}
        count = min(asked.get("per_page", 20), 100)
        begin = (asked.get("page", 1) - 1) * count
        self._answer(known[begin : begin + count] if self.headers["PRIVATE-TOKEN"] == self.token else None)

    def do_POST(self) -> None:
        self._keep(len(self.kept) + 1)

    def do_PUT(self) -> None:
        self._keep(int(self.path.rpartition("/")[2]))

    def _keep(self, number: int) -> None:
        assert self.path.startswith("/projects/3/merge_requests/7/notes")
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.kept[number] = parse_qs(text)["body"][0].strip()
        self._answer({"id": number})

    def _answer(self, document: object) -> None:
        self.send_response(200 if document is not None else 403)
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def log_message(self, *_: object) -> None:
        """Nothing on the console."""


@pytest.fixture
def notes() -> Iterator[dict[str, str]]:
    """What a runner has in its variables, where somebody gave the job a token that may write notes."""
    Notes.kept.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Notes) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {
            "CI_API_V4_URL": f"http://127.0.0.1:{server.server_port}",
            "CI_MERGE_REQUEST_PROJECT_ID": "3",
            "CI_MERGE_REQUEST_IID": "7",
            "CI_JOB_NAME": "gate",
            "CI_COMMIT_SHA": "c0ffee",
            "GATE_MODEL": "models/net.onnx",
            "GATE_BUDGET": "2.5s",
            "GATE_TOKEN": Notes.token,
        }
        server.shutdown()


def test_with_a_token_a_merge_request_has_one_note_a_gate_which_is_rewritten(
    repository: Repository, notes: dict[str, str]
) -> None:
    before = repository.commit(4)
    Notes.kept[1] = "looks good to me"
    assert run_template(repository, before, **notes).returncode == 5
    assert Notes.kept[2].startswith("## enginebench gate: cannot tell\n") and "\nOf commit c0ffee.\n" in Notes.kept[2]

    (repository.work / "models" / "net.onnx").write_bytes(b"no model")
    repository.git("commit", "--quiet", "--all", "--message", "broken")
    assert run_template(repository, before, **notes, CI_MERGE_REQUEST_SOURCE_BRANCH_SHA="beef").returncode == 2
    assert Notes.kept[2].startswith("## enginebench gate: nothing was measured\n")
    assert "\nOf commit beef.\n" in Notes.kept[2]
    assert Notes.kept[1] == "looks good to me"

    assert run_template(repository, before, **(notes | {"CI_JOB_NAME": "other"})).returncode == 2
    assert len(Notes.kept) == 2, "where nothing was measured there is no new note"


def test_a_note_that_may_not_be_written_is_no_verdict(repository: Repository, notes: dict[str, str]) -> None:
    before = repository.commit(4)
    done = run_template(repository, before, **(notes | {"GATE_TOKEN": "expired"}))
    assert done.returncode == 5 and "the notes of the merge request could not be read" in done.stdout
    assert not Notes.kept


MEASURED = "## enginebench gate: pass\n\n<!-- enginebench gate gate -->"
UNMEASURED = "## enginebench gate: nothing was measured\n"


def test_a_note_behind_many_others_is_the_one_that_is_rewritten(repository: Repository, notes: dict[str, str]) -> None:
    before = repository.commit(1)
    Notes.kept.update(dict.fromkeys(range(1, 251), "changed the description"))
    Notes.kept[251] = MEASURED
    repository.program("enginebench", "#!/bin/sh\necho '## enginebench gate: worse' > gate.md\nexit 4\n")
    assert run_template(repository, before, **notes).returncode == 4
    assert len(Notes.kept) == 251
    assert Notes.kept[251].startswith("## enginebench gate: worse\n")

    Notes.kept[251] = "changed the description"
    assert run_template(repository, before, **notes).returncode == 4
    assert len(Notes.kept) == 252, "there was none yet"


def test_a_job_that_ends_before_it_measures_rewrites_the_note_too(
    repository: Repository, notes: dict[str, str]
) -> None:
    before = repository.commit(1)
    repository.program("enginebench", "#!/bin/sh\necho '## enginebench gate: pass' > gate.md\n")
    assert run_template(repository, "0" * 40, **notes).returncode == 128
    assert not Notes.kept, "where nothing was measured there is no new note"

    assert run_template(repository, before, **notes).returncode == 0
    assert Notes.kept[1].startswith("## enginebench gate: pass\n")
    assert run_template(repository, "0" * 40, **notes, CI_JOB_STATUS="canceled").returncode == 128
    assert Notes.kept[1].startswith("## enginebench gate: pass\n"), "who cancels a job is told nothing by it"
    assert run_template(repository, "0" * 40, **notes).returncode == 128
    assert Notes.kept[1].startswith(UNMEASURED) and "\nOf commit c0ffee.\n" in Notes.kept[1]
    assert (repository.work / "gate.md").read_text().startswith(UNMEASURED)


def test_a_job_that_cannot_install_rewrites_the_note_too(repository: Repository, notes: dict[str, str]) -> None:
    before = repository.commit(1)
    Notes.kept[1] = MEASURED
    (repository.work / "gate.md").write_text(
        "## enginebench gate: pass\n"
    )  # of the job before, as a runner may keep it
    (repository.folder / "bin" / "enginebench").unlink()
    installs = f'#!/bin/sh\n[ "$1" = -m ] && exit 3\nexec {sys.executable} "$@"\n'
    repository.program("python", installs)
    others = [one for one in os.environ["PATH"].split(":") if not (Path(one) / "enginebench").exists()]
    path = ":".join([str(repository.folder / "bin"), *others])
    done = run_template(repository, before, **notes, PATH=path)
    assert done.returncode == 3, done.stderr
    assert Notes.kept[1].startswith(UNMEASURED)
