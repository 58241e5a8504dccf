"""read_vw and scan_vw: contextual-bandit logs of Vowpal Wabbit (dsjson, cb and adf text)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from backcast.io._files import FilePath
from backcast.io._vw_events import VwEvent
from backcast.io._vw_files import ReadingCounts, detect_format, find_vw_files, no_decision_error, read_events
from backcast.io._vw_log_builder import LocatedEvent, VwOptions, VwSurvey, build_vw_log
from backcast.io._vw_stream import open_vw_stream
from backcast.io.stream import LogStream
from backcast.log import Log, replace_columns
from backcast.provenance import log_source


def read_vw(
    path: FilePath | Sequence[FilePath],
    *,
    format: str | None = None,  # noqa: A002
    hash_size: int = 128,
    interactions: str | Sequence[str] | None = "auto",
    n_actions: int | None = None,
    reward_scale: float = -1.0,
    reward_range: tuple[float, float] | None = None,
) -> Log:
    r"""Read a contextual-bandit log of Vowpal Wabbit.

    Features are hashed into ``hash_size`` numbers (signed, as by scikit-learn's FeatureHasher). Decisions that list
    their actions (dsjson with ``_multi``, text with one line per action) give contexts ``(n, K, d)``: the features of
    each action, the shared ones, and the products of both; zeros and a mask if a decision has fewer than K actions. The
    logging probabilities of all actions are kept if dsjson has them. Events are in the order of ``Timestamp`` if all
    decisions have one.

    As in Vowpal Wabbit's learning, decisions without a label, decisions marked ``_skipLearn`` and observations without
    a decision are left out; ``log.reading`` contains their numbers. Decisions on several slots (ccb, slates),
    continuous actions (cats) and interaction-grounded feedback (igl) are refused, and so are logs that were subsampled
    at varying rates (``pdrop``).

    Parameters
    ----------
    path
        A file, a folder, a pattern, or a list of these; ``.gz``, ``.bz2`` and ``.xz`` are decompressed.
    format
        ``"dsjson"``, ``"cb"`` (one line per decision) or ``"adf"`` (one line per action); by default detected.
    hash_size
        Number of features d. Dense contexts take ``8 n K d`` bytes.
    interactions
        Features to cross, that is, to multiply. "auto": every shared feature with every feature of the action, without
        which a linear policy ranks the actions alike for all users. Pairs of first letters of namespaces are those of
        Vowpal Wabbit's ``-q``: ``["UA"]``, with ``":"`` for any namespace. None for no crossing.
    n_actions
        Number of actions K; by default the largest number in the log.
    reward_scale
        Factor that turns a cost into a reward.
    reward_range
        Known bounds of the reward.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "log.vw")
    >>> _ = file.write_text("1:0.5:0.25 | age:2 new\n2:-1:0.75 | age:3\n")
    >>> log = read_vw(file)
    >>> log, log.action_labels, log.rewards
    (Log(2 events, 2 actions, 128 features), (1, 2), array([-0.5,  1. ]))
    """
    options = VwOptions(format, hash_size, interactions, n_actions, reward_scale, reward_range)
    files, counts, survey = find_vw_files(path), ReadingCounts(), VwSurvey(options.pairs)
    located: list[LocatedEvent] = []
    for file in files:
        for event in read_events(file, format or detect_format(file), counts):
            located.append(LocatedEvent(file, event))
            survey.add(located[-1])
    if not located:
        raise no_decision_error(files, counts)
    layout = survey.layout(n_actions)
    log = build_vw_log(located, layout, options)
    reading = replace(
        log.reading,
        files=tuple(files),
        lines=counts.lines,
        left_out=counts.list_left_out(),
        interactions=layout.interactions,
    )
    return replace_columns(log, reading=reading, source=log_source("read_vw", path, options.describe()))


def scan_vw(
    path: FilePath | Sequence[FilePath],
    *,
    format: str | None = None,  # noqa: A002
    hash_size: int = 128,
    interactions: str | Sequence[str] | None = "auto",
    n_actions: int | None = None,
    reward_scale: float = -1.0,
    reward_range: tuple[float, float] | None = None,
    batch_rows: int = 4_096,
) -> LogStream:
    r"""Read a log of Vowpal Wabbit in parts, for logs larger than memory; arguments are those of :func:`read_vw`.

    One pass over the files, now, finds what all parts have in common: the number of actions, what is left out, and
    whether decisions are in the order of their ``Timestamp``. Decisions out of that order are refused, because a stream
    cannot be sorted; files may come in any order.

    Parameters
    ----------
    batch_rows
        Number of decisions in a part; fewer if they do not fit in memory.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "log.vw")
    >>> _ = file.write_text("1:0.5:0.25 | age:2 new\n2:-1:0.75 | age:3\n1:0:0.25 | age:2\n")
    >>> stream = scan_vw(file, batch_rows=2)
    >>> stream
    LogStream(3 events in 1 file, 2 actions)
    >>> [part.rewards.tolist() for part in stream]
    [[-0.5, 1.0], [0.0]]
    """
    options = VwOptions(format, hash_size, interactions, n_actions, reward_scale, reward_range)
    source = log_source("scan_vw", path, {**options.describe(), "batch_rows": batch_rows})
    return replace(open_vw_stream(find_vw_files(path), options, batch_rows), source=source)


def sample_vw(path: str, n_events: int, vw_format: str | None = None) -> tuple[str, list[VwEvent]]:
    """Return the format of a log of Vowpal Wabbit, and its first decisions."""
    file = find_vw_files(path)[0]
    vw_format = vw_format or detect_format(file)
    return vw_format, list(islice(read_events(file, vw_format, ReadingCounts()), n_events))
