"""What was evaluated, at the top of the report, and all settings that run it again, at its end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from backcast._format import MISSING, format_number, join_names
from backcast.errors import printable
from backcast.estimate import Estimate
from backcast.provenance import LogSource, Provenance
from backcast.report._decision_sections import ReportContent
from backcast.report._page import Block, Paragraph, Section, Table
from backcast.report._summary import ResultSummary

ALL_POLICIES = "all"
MOST_FILES = 3  # named at the top of the page
ROLES = ("context", "action", "reward", "propensity", "times")
SAME_NUMBERS = "The same settings on the same log give the same numbers."


def evaluated_rows(content: ReportContent) -> list[tuple[str, str]]:
    """Return what was evaluated: log, events, dates, reward, columns and rounds, as far as they are known."""
    summary, about = content.summary, content.about
    estimates = list(summary.estimates.values())
    provenances = [estimate.provenance for estimate in estimates if estimate.provenance is not None]
    if len({each.log.digest for each in provenances}) > 1:
        return [("Log", "more than one: see the settings of each policy below")]
    made = provenances[0] if provenances else None
    source = None if made is None else made.source
    reading = None if content.health is None else content.health.reading
    events = about.get("events") or (estimates[0].diagnostics.to_dict().get("events") if made is None else None)
    events = made.log.events if made is not None and not events else events
    horizons = {estimate.horizon for estimate in estimates if estimate.horizon is not None}
    rows = {
        "Log": _describe_files(source) or printable(str(about.get("log", ""))) or "in memory",
        "Events": _describe_events(events, None if reading is None else sum(item.count for item in reading.left_out)),
        "Dates": "" if made is None or made.log.times is None else " to ".join(made.log.times),
        "Reward": _describe_reward(summary, source),
        "Columns": _describe_columns(source),
        "Size": "" if made is None else _describe_size(made),
        "Rounds": " and ".join(format_number(horizon) for horizon in sorted(horizons)),
    }
    return [(name, text) for name, text in rows.items() if text]


def _describe_files(source: LogSource | None) -> str:
    if source is None:
        return ""
    names = [printable(path if "://" in path else PurePath(path).name) for path in source.paths]
    return join_names(names) if len(names) <= MOST_FILES else f"{names[0]} and {len(names) - 1:,} more files"


def _describe_events(events: Any, left_out: int | None) -> str:
    if events is None:
        return ""
    return f"{format_number(events)}{f' ({format_number(left_out)} left out)' if left_out else ''}"


def _describe_reward(summary: ResultSummary, source: LogSource | None) -> str:
    column = "" if source is None else source.options.get("reward", "")
    bounds = next((each.settings["reward_range"] for each in summary.estimates.values() if _has_range(each)), None)
    parts = [
        f"column {printable(str(column))}" if column else "",
        "" if bounds is None else f"from {format_number(bounds[0])} to {format_number(bounds[1])}",
        _describe_mean(summary),
    ]
    return ", ".join(filter(None, parts))


def _has_range(estimate: Estimate) -> bool:
    return isinstance(estimate.settings.get("reward_range"), list | tuple)


def _describe_mean(summary: ResultSummary) -> str:
    lift = next((each.lift for each in summary.estimates.values() if each.lift is not None), None)
    if lift is None:
        return ""
    first = next(each for each in summary.estimates.values() if each.lift is not None)
    return f"on average {format_number(first.value - lift.value)} per round in the log"


def _describe_columns(source: LogSource | None) -> str:
    if source is None:
        return ""
    columns = {role: source.options[role] for role in ROLES if source.options.get(role) is not None}
    return "; ".join(f"{role}: {format_option(value)}" for role, value in columns.items() if role != "reward")


def _describe_size(made: Provenance) -> str:
    features = f"{made.log.features:,} feature{'' if made.log.features == 1 else 's'}"
    return f"{made.log.actions:,} actions, {features}"


def settings_section(content: ReportContent) -> Section:
    """Return every setting that a second run needs, and the command that runs it."""
    blocks: list[Block] = []
    if content.result_file is not None:
        command = f"backcast rerun {_quote(content.result_file)}"
        blocks.append(Paragraph("This command runs the evaluation again and compares the numbers: ", code=command))
    else:
        blocks.append(
            Paragraph(
                "A result that is saved as a file (save_result, or --save-json) is run again by the command ",
                code="backcast rerun result.json",
            )
        )
    heads = ("Setting", "Policy", "Value") if len(content.summary.estimates) > 1 else ("Setting", "Value")
    settings = setting_rows(content.summary, content.about)
    rows = [[row[head.lower()] for head in heads] for row in settings]
    blocks.append(Table("settings", SAME_NUMBERS, heads, rows))
    return Section("settings", "Run it again", "Settings to run it again", blocks)


def _quote(path: str) -> str:
    shown = printable(path)
    return f'"{shown}"' if " " in shown else shown


def setting_rows(summary: ResultSummary, about: Mapping[str, object]) -> list[dict[str, str]]:
    """Return one row per setting that all policies share, else one for each policy."""
    rows = [{"setting": name, "policy": ALL_POLICIES, "value": format_number(value)} for name, value in about.items()]
    settings = {name: _settings_of(estimate) for name, estimate in summary.estimates.items()}
    for key in dict.fromkeys(key for by_key in settings.values() for key in by_key):
        values = {name: by_key.get(key, MISSING) for name, by_key in settings.items()}
        if len(values) > 1 and len(set(values.values())) == 1:
            values = {ALL_POLICIES: next(iter(values.values()))}
        rows += [{"setting": key, "policy": name, "value": value} for name, value in values.items()]
    return rows


def _settings_of(estimate: Estimate) -> dict[str, str]:
    """Return the settings of one estimate as they were used, what "auto" and None stood for included."""
    shown: dict[str, Any] = {"policy": estimate.policy, "evaluator": estimate.evaluator, "horizon": estimate.horizon}
    own = {key: tuple(value) if isinstance(value, list) else value for key, value in estimate.settings.items()}
    shown |= {key: value for key, value in own.items() if key not in shown}
    made = estimate.provenance
    if made is not None:
        as_given = {key: value for key, value in made.arguments.items() if made.options.get(key, value) != value}
        used = {key: value for key, value in made.options.items() if value is not None}
        shown |= {"policy": made.policy, **used}
        shown |= {f"{key}, as given": value for key, value in as_given.items() if value is not None}
        shown |= {key: value for key, value in made.arguments.items() if key not in made.options and value is not None}
        shown |= {"log digest": made.log.digest}
        if made.source is not None:
            shown |= {"read by": made.source.reader, "files": ", ".join(made.source.paths)}
            shown |= {f"{name} (reading)": value for name, value in made.source.options.items()}
        shown["versions"] = ", ".join(f"{name} {version}" for name, version in made.versions.items())
    return {printable(str(key)): printable(format_option(value)) for key, value in shown.items()}


def format_option(value: Any) -> str:
    """Return an option that :func:`backcast.provenance.describe_object` described, as it is written in code.

    >>> format_option({"type": "LinUCB", "options": {"alpha": 0.5, "batch_size": 1}})
    'LinUCB(alpha=0.5, batch_size=1)'
    >>> format_option({"tuple": [0.0, 1.0]}), format_option(["a", "b"]), format_option(None)
    ('0 to 1', 'a, b', '–')
    """
    if isinstance(value, list):
        return ", ".join(map(format_option, value))
    if not isinstance(value, dict):
        return format_number(value) if not isinstance(value, tuple) else " to ".join(map(format_number, value))
    if "type" in value:
        options = value.get("options", {})
        return f"{value['type']}({', '.join(f'{name}={_as_code(option)}' for name, option in options.items())})"
    if "tuple" in value:
        return " to ".join(map(format_option, value["tuple"])) if len(value["tuple"]) == 2 else _as_code(value)
    if "python" in value:
        return str(value.get("text", value["python"]))
    if "dict" in value or "array" in value:
        return _as_code(value)
    # how the command line made an object
    return ", ".join(f"{name}={_as_code(item)}" for name, item in value.items())


def _as_code(value: Any) -> str:
    if isinstance(value, dict):
        if "tuple" in value:
            return f"({', '.join(map(_as_code, value['tuple']))})"
        if "dict" in value:
            return f"{{{', '.join(f'{key!r}: {_as_code(item)}' for key, item in value['dict'].items())}}}"
        if "array" in value:
            return str(value["array"])
        return format_option(value)
    return f"[{', '.join(map(_as_code, value))}]" if isinstance(value, list) else repr(value)
