"""read_obd: the Open Bandit Dataset (Saito, Aihara, Matsutani, Narita 2021, "Open Bandit Dataset and Pipeline")."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from backcast._arrays import is_sparse
from backcast._files import check_readable
from backcast.errors import LogError, OptionError, SourceError
from backcast.io._files import convert_read_errors
from backcast.io.tables import read_log
from backcast.log import Log, replace_columns
from backcast.provenance import log_source


def read_obd(
    folder: str | os.PathLike[str], *, position: int | None = None, affinities: bool = True, hash_size: int = 32
) -> Log:
    r"""Read one campaign of the Open Bandit Dataset, such as ``obd/random/all``.

    The folder holds the log (``all.csv`` or ``all.csv.gz``) and ``item_context.csv``, which has a row per item. An
    event is one recommended item: the action is its ``item_id``, the reward its ``click``, the propensity its
    ``propensity_score``, which is the probability of the item at its position. Contexts are the position, the hashed
    user features and the user's affinities to the items; times are kept.

    Parameters
    ----------
    folder
        Folder of one campaign.
    position
        Keep only the events at this position (1, 2 or 3); it is then not a feature.
    affinities
        Whether the affinities are features.
    hash_size
        Features that each of the user features is hashed into.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "item_context.csv").write_text(",item_id,item_feature_0\n0,0,0.5\n1,1,0.25\n2,2,0.5\n")
    >>> _ = (folder / "all.csv").write_text(
    ...     ",timestamp,item_id,position,click,propensity_score,user_feature_0\n0,2019-11-24,2,3,1,0.25,ab12\n")
    >>> read_obd(folder, affinities=False, hash_size=8)
    Log(1 events, 3 actions, 9 features)
    """
    if position not in (None, 1, 2, 3):
        raise OptionError(f"position is {position!r}; it must be 1, 2, 3, or None for all")
    check_readable(folder)
    if not os.path.isdir(folder):
        raise SourceError(f"{folder}: no such folder")
    files = sorted(Path(folder).glob("*.csv")) + sorted(Path(folder).glob("*.csv.gz"))
    items = [file for file in files if file.name.startswith("item_context.csv")]
    logs = [file for file in files if file not in items]
    if len(items) != 1 or len(logs) != 1:
        names = ", ".join(file.name for file in files) or "no such files"
        raise SourceError(f"{folder}: it must hold a log such as all.csv, and item_context.csv; it holds {names}")
    log = read_log(
        logs[0],
        context=["position", "user_feature_*", *(["user-item_affinity_*"] if affinities else [])],
        action="item_id",
        reward="click",
        propensity="propensity_score",
        times="timestamp",
        n_actions=_count_items(items[0]),
        reward_range=(0.0, 1.0),
        hash_size=hash_size,
        # Campaigns are compared with each other, so that a value must be the same feature in all of them.
        one_hot=False,
    )
    log = log if position is None else _select_position(log, position)
    options = {"position": position, "affinities": affinities, "hash_size": hash_size}
    return replace_columns(log, source=log_source("read_obd", folder, options))


def _count_items(file: Path) -> int:
    check_readable(file)
    with convert_read_errors(str(file), "csv"):
        table = pa.csv.read_csv(file)
        names = table.column_names  # raises here, not later, if a name is not UTF-8
    if "item_id" not in names:
        raise SourceError(f"{file}: there is no column 'item_id'")
    return int(table.num_rows)


def _select_position(log: Log, position: int) -> Log:
    """Return the events at a position, without their first feature, the position."""
    positions: Any = log.columns.contexts[:, [0]]
    rows = np.flatnonzero((positions.toarray() if is_sparse(positions) else positions).ravel() == position)
    if not rows.size:
        raise LogError(f"no event is at position {position}")
    selected = log[rows]
    contexts = selected.columns.contexts[:, 1:]
    contexts = contexts if is_sparse(contexts) else np.ascontiguousarray(contexts)
    return replace_columns(selected, contexts=contexts, _names=log.feature_names[1:])
