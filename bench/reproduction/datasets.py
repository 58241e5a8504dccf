"""Data sets of the experiments, read from a folder; scikit-learn's digits need none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast.environments import ClassificationEnvironment, classification_environment
from backcast.errors import SourceError

UCI = ("ecoli", "glass", "vehicle", "yeast", "page-blocks", "optdigits", "satimage", "pendigits")
REMEDY = (
    "Give --data, or set BACKCAST_DATA. The folder holds rcv1/X.npz and rcv1/Y.npz (from sklearn.datasets.fetch_rcv1: "
    "features, and 'Y', an n x 4 mask of CCAT ECAT GCAT MCAT), hillstrom/hillstrom.csv.gz, obd/random/..., and "
    "uci/NAME.csv.gz with a column 'label'"
)


class Campaign(NamedTuple):
    """A real experiment with uniform random actions.

    ``favourite`` is the action that a non-uniform logger would prefer at each event.
    """

    contexts: FloatArray
    actions: IntArray
    rewards: FloatArray
    n_actions: int
    favourite: IntArray


def find_data_folder(path: str | os.PathLike[str] | None) -> Path | None:
    """Return the path, or the folder in BACKCAST_DATA, or None."""
    folder = path or os.environ.get("BACKCAST_DATA")
    return Path(folder) if folder else None


def load_world(name: str, folder: Path | None) -> ClassificationEnvironment:
    """Return labelled examples as a bandit of losses: "digits", "rcv1", or one of the UCI sets.

    >>> len(load_world("digits", None))
    1797
    """
    if name == "digits":
        from sklearn.datasets import load_digits

        features, labels = load_digits(return_X_y=True)
        return classification_environment(features / 16.0, labels, loss=True)
    if name == "rcv1":
        return _load_rcv1(folder)
    if name not in UCI:
        raise SourceError(f"{name!r} is no data set of the experiments; choose digits, rcv1, {', '.join(UCI)}")
    table = _read_csv(_find_file(folder, "uci", f"{name}.csv.gz"))
    features = np.column_stack([table[column] for column in table if column != "label"]).astype(np.float64)
    return classification_environment(_standardize(features), table["label"], loss=True)


def _load_rcv1(folder: Path | None) -> ClassificationEnvironment:
    import scipy.sparse

    stored: Any = scipy.sparse.load_npz(_find_file(folder, "rcv1", "X.npz"))
    features = scipy.sparse.csr_array(stored, dtype=np.float64)
    with np.load(_find_file(folder, "rcv1", "Y.npz")) as file:
        return classification_environment(features, file["Y"].astype(np.bool_), loss=True)


def load_campaign(name: str, folder: Path | None) -> Campaign:
    """Return randomised data: "hillstrom", or "obd-all", "obd-men", "obd-women" of the Open Bandit sample."""
    return _load_hillstrom(folder) if name == "hillstrom" else _load_obd(name.removeprefix("obd-"), folder)


def _load_hillstrom(folder: Path | None) -> Campaign:
    table = _read_csv(_find_file(folder, "hillstrom", "hillstrom.csv.gz"))
    labels, actions = np.unique(table["segment"], return_inverse=True)
    numbers = [table[name].astype(np.float64) for name in ("recency", "mens", "womens", "newbie")]
    groups = [table[name] == level for name in ("zip_code", "channel") for level in np.unique(table[name])[1:]]
    contexts = np.column_stack([*numbers, np.log(table["history"]), *groups]).astype(np.float64)
    codes = {label: code for code, label in enumerate(labels)}
    favourite = np.where(table["mens"] == 1, codes["Mens E-Mail"], codes["Womens E-Mail"])
    return Campaign(_standardize(contexts), actions, table["visit"].astype(np.float64), labels.size, favourite)


def _load_obd(name: str, folder: Path | None) -> Campaign:
    from backcast.io.obd import read_obd

    log = read_obd(_find_file(folder, "obd", "random", name), affinities=False)
    stored: Any = log.contexts
    contexts = _standardize(stored.toarray() if hasattr(stored, "toarray") else np.asarray(stored))
    favourite = np.zeros(len(log), dtype=np.int64)
    return Campaign(contexts, np.array(log.actions), np.array(log.rewards), log.n_actions, favourite)


def _find_file(folder: Path | None, *parts: str) -> Path:
    path = None if folder is None else folder.joinpath(*parts)
    if path is None or not path.exists():
        raise SourceError(f"there is no {'/'.join(parts)} in {folder or 'any data folder'}. {REMEDY}")
    return path


def _read_csv(path: Path) -> dict[str, Any]:
    from pyarrow import csv

    table = csv.read_csv(path)
    return {name: table[name].to_numpy() for name in table.column_names}


def _standardize(features: FloatArray) -> FloatArray:
    """Return columns of mean 0 and standard deviation 1; constant columns become 0.

    >>> _standardize(np.array([[1.0, 5.0], [3.0, 5.0]]))
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    spread = features.std(axis=0)
    return np.asarray((features - features.mean(axis=0)) / np.where(spread > 0, spread, 1.0))
