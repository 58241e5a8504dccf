"""``backcast init``: guesses, doubts, and run files that can be run."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from backcast.cli import main
from backcast.cli.init import Draft, as_patterns
from backcast.io._column_guesses import Guess, Guesses, guess_columns, take_sample
from tests.support.cli import GOLDEN


def mails(events: int = 600) -> dict[str, Any]:
    """Three mails, chosen with known odds; the second is opened most, and on phones more."""
    rng = np.random.default_rng(0)
    odds = np.array([0.5, 0.25, 0.25])
    actions = rng.choice(3, size=events, p=odds)
    phone = rng.integers(2, size=events)
    opened = rng.random(events) < np.array([0.2, 0.5, 0.3])[actions] + 0.1 * phone
    return {
        "customer_id": [f"c{number}" for number in range(events)],
        "age": rng.integers(18, 80, size=events).tolist(),
        "phone": phone.tolist(),
        "city": rng.choice(["Bonn", "Graz", "Bern"], size=events).tolist(),
        "variant": np.array(["plain", "bold", "late"])[actions].tolist(),
        "opened": opened.astype(int).tolist(),
        "prob": odds[actions].tolist(),
    }


def write_csv(path: Path, columns: dict[str, Any]) -> None:
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")


def guesses(columns: dict[str, Any], folder: Path) -> Guesses:
    pyarrow.parquet.write_table(pa.table(columns), folder / "log.parquet")
    return guess_columns(take_sample(folder / "log.parquet"))


def written(name: str = "run.toml") -> dict[str, Any]:
    return tomllib.loads(Path(name).read_text(encoding="utf-8"))


class TestNewcomer:
    def test_three_commands_from_a_csv_to_a_report(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_csv(folder / "my.csv", mails())
        readme = (Path(__file__).parents[2] / "README.md").read_text()
        commands = re.findall(r"^backcast (\w+ (?:my\.csv|run\.toml))\b", readme, re.MULTILINE)
        assert len(commands) == 3
        for command in commands:
            assert main(command.split()) == 0
        assert capsys.readouterr().err.splitlines()[-1] == f"The report is in {(folder / 'report.html').resolve()}"
        assert "learner" in (folder / "report.html").read_text(encoding="utf-8")


class TestCommand:
    def test_what_it_prints_and_writes(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_csv(folder / "my.csv", mails())
        assert main(["init", "my.csv"]) == 0
        printed = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines()) + "\n"
        assert printed == (GOLDEN / "init.txt").read_text(encoding="utf-8")
        assert Path("run.toml").read_text(encoding="utf-8") == (GOLDEN / "run.toml").read_text(encoding="utf-8")

    def test_it_never_overwrites_without_force(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_csv(folder / "my.csv", mails(50))
        (folder / "run.toml").write_text("mine")
        assert main(["init", "my.csv"]) == 2
        assert "run.toml exists already; give --force" in capsys.readouterr().err
        assert (folder / "run.toml").read_text() == "mine"
        assert main(["init", "my.csv", "--force", "--quiet"]) == 0
        assert written()["action"] == "variant"
        assert capsys.readouterr().out == ""

    def test_json(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_csv(folder / "my.csv", mails())
        assert main(["init", "my.csv", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["run_file"] == str((folder / "run.toml").resolve())
        assert document["parts"]["action"] == {"columns": ["variant"], "why": "by its name", "sure": True}
        assert (document["events"], document["n_actions"], document["reward_range"]) == (600, 3, [0.0, 1.0])

    def test_the_log_is_named_from_where_the_run_file_is(self, folder: Path) -> None:
        (folder / "runs").mkdir()
        write_csv(folder / "my.csv", mails(50))
        assert main(["init", "my.csv", "--out", "runs/a.toml", "--quiet"]) == 0
        assert written("runs/a.toml")["log"] == "../my.csv"
        assert main(["check", "runs/a.toml", "--json"]) in (0, 1)

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["my.csv", "--out", "run.txt"], "its name must end in .toml"),
            (["my.csv", "--out", "no/run.toml"], "there is no folder 'no'"),
            (["none.csv"], "no such file or folder"),
            (["empty.csv"], "it has no rows"),
            (["my.csv", "--format", "xls"], "format is 'xls'"),
        ],
    )
    def test_bad_input(self, words: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_csv(folder / "my.csv", mails(50))
        (folder / "empty.csv").write_text("a,b\n")
        assert main(["init", *words]) == 2
        assert message in capsys.readouterr().err

    def test_names_cannot_break_out_of_the_file(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        hostile = 'x"]\nlog = "other'
        columns = {**mails(50), hostile: list(range(0, 100, 2)), "bad\n[policies]\nid": [f"u{i}" for i in range(50)]}
        pyarrow.parquet.write_table(pa.table(columns), folder / "log.parquet")
        assert main(["init", "log.parquet"]) == 0
        assert written()["log"] == "log.parquet"
        assert hostile in written()["context"]
        assert list(written()["policies"]) == ["even", "learner"]

    def test_vowpal_wabbit(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "day.vw").write_text("1:0.5:0.25 | age:2 new\n2:-1:0.75 | age:3\n" * 100)
        assert main(["init", "day.vw"]) == 0
        assert "cb: about 200 events, 2 actions, rewards from -0.5 to 1" in capsys.readouterr().out
        assert written()["format"] == "cb"
        assert main(["evaluate", "run.toml", "--horizon", "5", "--replicates", "none", "--quiet"]) == 0

    def test_what_the_file_does_not_show_can_be_given(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A delimiter that is not found, an encoding that is taken for another, and a name without a known ending."""
        columns = {**mails(200), "city": ["Łódź", "Gdańsk"] * 100}
        rows = [list(columns), *zip(*columns.values(), strict=True)]
        text = "\n".join("^".join(map(str, row)) for row in rows) + "\n"
        (folder / "my.txt").write_text(text, encoding="iso8859-2")
        assert main(["init", "my.txt", "--format", "csv"]) == 2
        assert "its lines have one field" in capsys.readouterr().err
        given = {"format": "csv", "delimiter": "^", "encoding": "iso8859-2"}
        flags = [word for name, value in given.items() for word in (f"--{name}", value)]
        assert main(["init", "my.txt", *flags]) == 0
        assert {name: written()[name] for name in given} == given
        assert written()["action"] == "variant"
        assert "city" in written()["context"]
        assert main(["check", "run.toml", "--quiet"]) == 0
        assert main(["init", "my.txt", "--force", "--delimiter", "^^"]) == 2
        assert "delimiter is '^^'; it must be one character" in capsys.readouterr().err

    def test_ndjson_with_lists(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        rows = []
        for _ in range(300):
            odds = [0.5, 0.25, 0.25]
            action = int(rng.choice(3, p=odds))
            rows.append({"x": rng.random(), "action": action, "reward": 0.5, "p": odds[action], "probs": odds})
        (folder / "log.ndjson").write_text("\n".join(map(json.dumps, rows)) + "\n")
        assert main(["init", "log.ndjson", "--quiet"]) == 0
        assert written()["logging_probabilities"] == ["probs"]
        assert "reward_range" not in written()
        assert main(["check", "run.toml", "--quiet"]) in (0, 1)


class TestGuesses:
    def test_parts_by_name(self, folder: Path) -> None:
        result = guesses(mails(), folder)
        columns = {part: guess.columns for part, guess in result.roles.items()}
        expected = {"action": ("variant",), "reward": ("opened",), "propensity": ("prob",)}
        assert columns == {**expected, "context": ("age", "phone", "city")}
        assert result.left_out == {"customer_id": "an identifier by its name"}
        assert result.doubts == []

    def test_guesses_from_values_are_unsure(self, folder: Path) -> None:
        names = {"variant": "c1", "opened": "c2", "prob": "c3", "city": "c4", "phone": "c5", "age": "c6"}
        renamed = {names[name]: values for name, values in mails().items() if name in names}
        result = guesses({name: renamed[name] for name in ("c6", "c1", "c2", "c3")}, folder)
        assert [result.column(part) for part in ("action", "reward", "propensity")] == ["c1", "c2", "c3"]
        assert not any(result.roles[part].sure for part in ("action", "reward", "propensity"))
        assert len(result.doubts) == 3

    def test_missing_columns_are_requested(self, folder: Path) -> None:
        columns = {name: values for name, values in mails().items() if name not in ("prob", "opened")}
        columns["phone"] = np.linspace(2, 3, 600).tolist()
        guessed = guesses(columns, folder)
        assert {doubt.partition(":")[0] for doubt in guessed.doubts} == {"reward", "propensity"}
        write_csv(folder / "my.csv", columns)
        assert main(["init", "my.csv", "--quiet"]) == 0
        assert written()["estimate_propensities"] is True
        assert "reward" not in written()
        assert '# reward = "..."' in Path("run.toml").read_text()

    def test_two_candidates(self, folder: Path) -> None:
        columns = {**mails(), "reward": [0.5, 0.25] * 300}
        result = guesses(columns, folder)
        assert result.column("reward") == "reward"
        assert result.doubts == ["reward: 'reward' was chosen, but 'opened' may be meant"]

    def test_an_implausible_propensity_is_doubted(self, folder: Path) -> None:
        # the score of some model, not the probability of the action: its reciprocals average 1.39, not 3
        result = guesses({**mails(), "prob": np.linspace(0.5, 1, 600).tolist()}, folder)
        assert result.doubts == [
            "propensity: the mean of 1/prob is 1.39 and there are 3 actions; "
            "the two agree if it is the probability of the logged action"
        ]

    def test_columns_with_one_value_per_action(self, folder: Path) -> None:
        columns = {name: values for name, values in mails().items() if name != "variant"}
        action = np.array([0, 1, 2] * 200)
        odds = {f"pi_{k}": np.full(600, [0.5, 0.25, 0.25][k]) for k in range(3)}
        open_to = {f"available_{k}": [True, k != 1] * 300 for k in range(3)}
        result = guesses({**columns, "action": action, **odds, **open_to}, folder)
        assert result.roles["logging_probabilities"].columns == ("pi_0", "pi_1", "pi_2")
        assert result.roles["available"].columns == ("available_0", "available_1", "available_2")

    def test_what_can_be_no_context_is_left_out_with_a_reason(self, folder: Path) -> None:
        more = {
            "row": list(range(600)),
            "when": pa.array(np.arange(600), pa.timestamp("s")),
            "seen": pa.array(np.arange(600), pa.timestamp("s")),
            "gaps": [None, 1.5, 2.5] * 200,
            "same": [1] * 600,
            "story": [f"text {number}" for number in range(600)],
        }
        result = guesses({**mails(), **more}, folder)
        assert result.roles["times"].columns == ("when",)
        assert {name: reason.split(";")[0] for name, reason in result.left_out.items()} == {
            "customer_id": "an identifier by its name",
            "row": "it counts the rows",
            "seen": "a time",
            "gaps": "missing in 200 of 600 rows",
            "same": "always the same",
            "story": "text with 600 different values",
        }

    def test_only_the_first_rows_are_read(self, folder: Path) -> None:
        rows = "0,0.5\n" * 800_000 + "broken\n"  # 4.8 MB, and blocks are of 1 MB
        (folder / "long.csv").write_text(f"a,p\n{rows}")
        sample = take_sample(folder / "long.csv", rows=100)
        assert sample.rows == 100
        assert sample.total == pytest.approx(800_001, rel=1e-4)


def test_columns_of_one_prefix_become_a_pattern() -> None:
    names = ("f_1", "f_2", "f_3", "f_4", "age", "g_1", "g_2", "h_1", "h_2", "h_3", "h_4")
    draft = Draft("csv", 10, 2, {"reward": Guess(("h_5",), "")})
    # h_* would match the column of the reward as well, so these columns are named one by one
    assert as_patterns(names, draft) == ["f_*", "age", "g_1", "g_2", "h_1", "h_2", "h_3", "h_4"]


class TestFaultyLogs:
    """What was guessed wrongly or written although the log cannot be read."""

    @pytest.mark.parametrize(
        ("change", "doubt"),
        [
            ({3: 1.7}, "'prob' has values outside of (0, 1] in row 3 (1.7); repair these rows"),
            ({5: 0.0, 9: -1.0}, "'prob' has values outside of (0, 1] in row 5 (0.0), row 9 (-1.0)"),
            ({7: None}, "row 7 (None)"),
        ],
    )
    def test_a_column_called_prob_stays_the_propensity(self, change: dict[int, Any], doubt: str, folder: Path) -> None:
        columns = mails()
        for row, value in change.items():
            columns["prob"][row] = value
        result = guesses(columns, folder)
        assert result.column("propensity") == "prob"
        assert not result.roles["propensity"].sure
        assert any(doubt in text for text in result.doubts)
        assert "prob" not in result.roles["context"].columns
        assert main(["init", "log.parquet", "--quiet"]) == 0
        assert written()["propensity"] == "prob"
        assert "estimate_propensities" not in written()

    def test_percents_are_recognized(self, folder: Path) -> None:
        columns = mails()
        result = guesses({**columns, "prob": [100 * p for p in columns["prob"]]}, folder)
        assert result.column("propensity") == "prob"
        assert "they look like percents: divide them by 100" in "".join(result.doubts)

    def test_outcomes_are_never_context(self, folder: Path) -> None:
        columns = mails()
        opened = np.array(columns.pop("opened"))
        more = {
            "clicked": np.where(opened, "yes", "no").tolist(),
            "revenue": (opened * 3.5).tolist(),
            "past_clicks": (np.arange(600) % 4).tolist(),
            # an outcome that its name does not show
            "amount": np.where(opened, 1.0 + np.arange(600) % 7, 0.0).tolist(),
        }
        pyarrow.parquet.write_table(pa.table({**columns, **more}), folder / "log.parquet")
        assert main(["init", "log.parquet", "--quiet"]) == 0
        assert written()["reward"] == "clicked"
        assert written()["context"] == ["age", "phone", "city", "past_clicks"]
        text = Path("run.toml").read_text()
        assert written()["outcomes"] == ["revenue"]
        assert "amount (it determines clicked" in text
        assert main(["check", "run.toml", "--quiet"]) == 0

    @pytest.mark.parametrize("names", [("signup", "event_time"), ("event_time", "signup"), ("signup_date", "shown_at")])
    def test_the_time_of_the_event_is_preferred(self, names: tuple[str, str], folder: Path) -> None:
        times = {name: pa.array(np.arange(600) * 977 % 5000, pa.timestamp("s")) for name in names}
        expected = "event_time" if "event_time" in names else "shown_at"
        assert guesses({**mails(), **times}, folder).column("times") == expected

    @pytest.mark.parametrize("delimiter", [";", "\t", "|"])
    def test_spreadsheets(self, delimiter: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        columns = mails()
        columns["city"] = ["Köln", "Graz", "Zürich"] * 200
        columns["day"] = [f"{1 + row % 28:02d}/12/2026" for row in range(600)]
        lines = [delimiter.join(columns)]
        lines += [delimiter.join(map(str, row)).replace(".", ",") for row in zip(*columns.values(), strict=True)]
        (folder / "my.csv").write_bytes("\r\n".join(lines).encode("latin-1"))
        assert main(["init", "my.csv"]) == 0
        assert "3 actions" in capsys.readouterr().out
        expected = {"action": "variant", "reward": "opened", "propensity": "prob", "times": "day"}
        assert {role: written()[role] for role in expected} == expected
        assert main(["check", "run.toml", "--quiet", "--not-exchangeable"]) == 0

    def test_no_run_file_for_a_log_that_cannot_be_read(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "my.csv").write_text("a/b/c\n1/2/3\n")
        assert main(["init", "my.csv"]) == 2
        assert "its lines have one field, 'a/b/c'" in capsys.readouterr().err
        (folder / "day.vw").write_text("| only features\n")
        assert main(["init", "day.vw"]) == 2
        assert "no decision" in capsys.readouterr().err
        assert not (folder / "run.toml").exists()
