"""backcast rerun: a saved result gives the same bits again from its file and the log alone, or says why not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast.cli.app import main
from backcast.provenance import build_object, describe_object

COLUMNS: dict[str, Any] = {"context": ["x"], "action": "shown", "reward": "click", "propensity": "p"}
FLAGS = ["--context", "x", "--action", "shown", "--reward", "click", "--propensity", "p"]


@pytest.fixture
def log_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=300)
    clicks = (rng.random(300) < 0.3 + 0.3 * actions).astype(int)
    rows = [f"{x:.3f},{a},{c},0.5" for x, a, c in zip(rng.random(300), actions, clicks, strict=True)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["x,shown,click,p", *rows]) + "\n")
    return path


def rerun_elsewhere(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command in another process, started in another folder."""
    command = [sys.executable, "-m", "backcast.cli", "rerun", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_result_of_the_command_line_is_the_same_in_another_process(log_file: Path, tmp_path: Path) -> None:
    words = ["--policy", "a=egreedy:epsilon=0.2", "--policy", "b=fixed:probabilities=[0.25,0.75]"]
    assert main(["evaluate", "log.csv", *FLAGS, *words, "--evaluator", "dr-ns:q=0.05", "--save-json", "r.json"]) == 0
    (tmp_path / "other").mkdir()
    done = rerun_elsewhere(tmp_path / "other", str(tmp_path / "r.json"), "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["same"] is True
    assert document["now"] == document["before"]
    assert document["now"] == {name: each.value for name, each in bc.load_result("r.json").result.items()}  # type: ignore[union-attr]


def test_a_comparison_is_the_same(log_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--policy", "a=egreedy", "--policy", "b=ucb1", "--horizon", "10", "--replicates", "60", "--seed", "3"]
    assert main(["compare", "log.csv", *FLAGS, *words, "--save-json", "r.json"]) == 0
    capsys.readouterr()
    assert main(["rerun", "r.json"]) == 0
    assert "The result is the same to the bit. All versions are the same." in " ".join(capsys.readouterr().out.split())


def test_a_stream_is_the_same(log_file: Path) -> None:
    words = ["--stream", "--policy", "a=ucb1", "--evaluator", "dr-ns:q=0.05"]
    assert main(["evaluate", "log.csv", *FLAGS, *words, "--save-json", "r.json"]) == 0
    assert main(["rerun", "r.json", "--quiet"]) == 0


def test_another_value_has_its_own_exit_code(log_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "log.csv", *FLAGS, "--policy", "uniform", "--save-json", "r.json"]) == 0
    document = json.loads(Path("r.json").read_text())
    [estimate] = document["estimates"].values()
    estimate["value"] = float(np.nextafter(estimate["value"], 1.0))  # one bit
    Path("r.json").write_text(json.dumps(document))
    capsys.readouterr()
    assert main(["rerun", "r.json"]) == 9
    assert "The result is not the same." in " ".join(capsys.readouterr().out.split())


def test_a_log_that_changed_is_refused(log_file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["evaluate", "log.csv", *FLAGS, "--policy", "uniform", "--save-json", "r.json"]) == 0
    moved = tmp_path / "moved.csv"
    log_file.rename(moved)
    assert main(["rerun", "r.json"]) == 2
    assert main(["rerun", "r.json", "--log", "moved.csv"]) == 0
    moved.write_text(moved.read_text().replace(",1,0.5\n", ",0,0.5\n", 1))
    capsys.readouterr()
    assert main(["rerun", "r.json", "--log", "moved.csv"]) == 2
    assert "the log has changed: its digest was" in capsys.readouterr().err
    assert main(["rerun", "r.json", "--log", "moved.csv", "--force"]) == 9


def test_code_of_a_user_is_imported_on_request_only(
    log_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_rerun.py").write_text(
        "import numpy as np\n"
        "class Mine:\n"
        "    def __init__(self, share):\n        self.share = share\n"
        "    def probabilities(self, contexts, available=None):\n"
        "        return np.tile([self.share, 1 - self.share], (contexts.shape[0], 1))\n"
    )
    policy = "mine=mine_rerun:Mine:share=0.25"
    assert main(["evaluate", "log.csv", *FLAGS, "--policy", policy, "--save-json", "r.json"]) == 0
    (tmp_path / "other").mkdir()
    refused = rerun_elsewhere(tmp_path / "other", str(tmp_path / "r.json"))
    assert refused.returncode == 2
    assert "policy 'mine' is made by mine_rerun:Mine, code of a user's module; --import-code imports" in refused.stderr
    done = rerun_elsewhere(tmp_path / "other", str(tmp_path / "r.json"), "--import-code")
    assert done.returncode == 0, done.stderr


def test_from_python_with_a_policy_and_a_log_of_ones_own(log_file: Path) -> None:
    log = bc.read_log(log_file, **COLUMNS)
    policy = bc.FromScores(lambda x: np.column_stack([x[:, 0], 1 - x[:, 0]]), epsilon=0.5)
    file = bc.save_result(bc.evaluate(log, policy, bc.DR(), reward_model=bc.CrossFit(bc.Joint())), "r.json")
    with pytest.raises(bc.OptionError, match=r"scores of the policy is a Python object of .*lambda>, which"):
        bc.rerun_result(file)
    assert bc.rerun_result(file, policies={"": policy}).same
    part = bc.save_result(bc.evaluate(log[:200], bc.Uniform(), bc.SNIPS()), "part.json")
    with pytest.raises(bc.SourceError, match="only a part of it was evaluated; give it in Python"):
        bc.rerun_result(part)
    assert bc.rerun_result(part, log=log[:200]).same
    assert "before" in str(bc.rerun_result(part, log=log[:200]))


def test_provenance_is_complete(log_file: Path) -> None:
    log = bc.read_log(log_file, **COLUMNS, reward_range=(0, 1))
    estimate = bc.evaluate(log, bc.LinUCB(0.5), horizon=10, replicates=60, seed=3, exchangeable=True)
    file = bc.save_result(estimate, "r.json")
    read = bc.load_result(file).result
    assert isinstance(read, bc.Estimate)
    run = read.provenance
    assert run is not None
    assert run == estimate.provenance
    assert run.date.endswith("+00:00")
    assert (run.log.digest, run.log.events, run.log.actions, run.log.features) == (log.fingerprint(), 300, 2, 1)
    assert run.source is not None
    assert run.source.paths == (str(log_file),)
    assert run.source.options == {**COLUMNS, "reward_range": {"tuple": [0, 1]}}
    assert run.policy == {"type": "LinUCB", "options": {"alpha": 0.5, "ridge": 1.0, "batch_size": 1}}
    assert run.arguments["exchangeable"] is True
    assert run.arguments["evaluator"] == "auto"
    assert run.options["evaluator"]["type"] == "ClockReplay"
    assert run.options["reward_model"]["options"]["model"]["type"] == "LowVariance"
    assert run.options["interval"] == estimate.interval.method
    assert {key: run.options[key] for key in ("horizon", "level", "seed", "replicates")} == {
        "horizon": 10,
        "level": 0.95,
        "seed": 3,
        "replicates": 60,
    }
    assert set(run.versions) >= {"python", "backcast", "numpy", "numba", "scipy", "scikit-learn", "pyarrow"}


def test_the_default_reward_model_is_named(log_file: Path) -> None:
    log = bc.read_log(log_file, **COLUMNS)
    for evaluator, policy, model in (
        (bc.DR(), bc.Uniform(), "CrossFit"),
        (bc.DRns(q=0.05), bc.UCB1(), "Progressive"),
        (bc.DM(), bc.Uniform(), "CrossFit"),
    ):
        provenance = bc.evaluate(log, policy, evaluator).provenance
        assert provenance is not None
        assert model in str(provenance.options["reward_model"])


def test_files_of_older_versions_are_read_and_refused_for_a_rerun(log_file: Path) -> None:
    file = bc.save_result(bc.evaluate(bc.read_log(log_file, **COLUMNS), bc.Uniform(), bc.IPS()), "r.json")
    document = json.loads(file.read_text())
    del document["provenance"]
    file.write_text(json.dumps(document))
    assert isinstance(bc.load_result(file).result, bc.Estimate)
    with pytest.raises(bc.SourceError, match="does not say how it was obtained"):
        bc.rerun_result(file)


def test_a_partial_result_is_refused(log_file: Path) -> None:
    estimate = bc.evaluate(bc.read_log(log_file, **COLUMNS), bc.Uniform(), bc.IPS())
    file = bc.save_result(estimate, "r.json", partial=True)
    with pytest.raises(bc.SourceError, match="stopped before its end"):
        bc.rerun_result(file)


OBJECTS: list[Any] = [
    *(bc.EpsilonGreedy(0.25), bc.Softmax(0.5), bc.LinUCB(0.5), bc.LinearThompson(0.5), bc.UCB1(0.5), bc.RoundRobin()),
    *(bc.Uniform(), bc.Fixed([0.25, 0.75]), bc.Logged(), bc.Logged(np.full((3, 2), 0.5))),
    *(bc.CrossFit(bc.Joint(), folds=3), bc.Split(bc.LowVariance()), bc.Progressive(bc.PerAction()), bc.Constant(0.5)),
    *(bc.DRns(q=0.05), bc.DRns(acceptance=bc.Budget(0.1)), bc.WC(), bc.RS(), bc.ClockReplay(pool=10), bc.MRDR(folds=3)),
    *(bc.SwitchDR(2.0), bc.CVaR(0.25, "high"), bc.RewardQuantile(0.5)),
    *(bc.Segments(4), bc.Anytime(), bc.TheoremTwo(), bc.Bootstrap(100), bc.Betting(), bc.GroupJackknife(20)),
]


@pytest.mark.parametrize("value", OBJECTS, ids=repr)
def test_objects_are_built_again_from_their_descriptions(value: Any) -> None:
    description = json.loads(json.dumps(describe_object(value)))
    assert repr(build_object(description, "it")) == repr(value)


@pytest.mark.parametrize(
    "description",
    [{"type": "save_report", "options": {"path": "x"}}, {"type": "os.system", "options": {}}, {"type": "Fitted"}, {}],
)
def test_a_file_cannot_call_anything_else(description: Any) -> None:
    with pytest.raises(bc.OptionError, match="cannot be built again"):
        build_object(description, "the policy")
