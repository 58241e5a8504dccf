"""The data sets of the experiments, read from a folder that the user names; scikit-learn's digits need none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast.environments import ClassificationEnvironment, classification_environment
from backcast.errors import SourceError

__all__ = ["UCI", "Campaign", "data_folder", "load_campaign", "load_world"]

UCI = ("ecoli", "glass", "vehicle", "yeast", "page-blocks", "optdigits", "satimage", "pendigits")

REMEDY = (
    "Give --data, or set BACKCAST_DATA. The folder holds rcv1/X.npz and rcv1/Y.npz (from sklearn.datasets.fetch_rcv1: "
    "features, and 'Y', an n x 4 mask of CCAT ECAT GCAT MCAT), hillstrom/hillstrom.csv.gz, obd/random/..., and "
    "uci/NAME.csv.gz with a column 'label'"
)


def data_folder(given: str | os.PathLike[str] | None) -> Path | None:
    """The folder given, or the one that BACKCAST_DATA names."""
    named = given or os.environ.get("BACKCAST_DATA")
    return None if not named else Path(named)


def _file(folder: Path | None, *parts: str) -> Path:
    path = None if folder is None else folder.joinpath(*parts)
    if path is None or not path.exists():
        raise SourceError(f"there is no {'/'.join(parts)} in {folder or 'any data folder'}. {REMEDY}")
    return path


def load_world(name: str, folder: Path | None) -> ClassificationEnvironment:
    """Labelled examples as a bandit world of losses: "digits", "rcv1", or one of the UCI sets.

    >>> len(load_world("digits", None))
    1797
    """
    if name == "digits":
        return _digits()
    if name == "rcv1":
        return _rcv1(folder)
    if name not in UCI:
        raise SourceError(f"{name!r} is no data set of the experiments; choose digits, rcv1, {', '.join(UCI)}")
    return _uci(_file(folder, "uci", f"{name}.csv.gz"))


def _digits() -> ClassificationEnvironment:
    from sklearn.datasets import load_digits

    features, labels = load_digits(return_X_y=True)
    return classification_environment(features / 16.0, labels, loss=True)


def _rcv1(folder: Path | None) -> ClassificationEnvironment:
    import scipy.sparse

    stored: Any = scipy.sparse.load_npz(_file(folder, "rcv1", "X.npz"))
    features = scipy.sparse.csr_array(stored, dtype=np.float64)
    with np.load(_file(folder, "rcv1", "Y.npz")) as file:
        return classification_environment(features, file["Y"].astype(np.bool_), loss=True)


def _uci(path: Path) -> ClassificationEnvironment:
    table = _table(path)
    features = np.column_stack([table[name] for name in table if name != "label"]).astype(np.float64)
    return classification_environment(_standardised(features), table["label"], loss=True)


def _table(path: Path) -> dict[str, Any]:
    from pyarrow import csv

    table = csv.read_csv(path)
    return {name: table[name].to_numpy() for name in table.column_names}


def _standardised(features: FloatArray) -> FloatArray:
    """Columns of mean 0 and standard deviation 1; constant ones are 0.

    >>> _standardised(np.array([[1.0, 5.0], [3.0, 5.0]]))
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    spread = features.std(axis=0)
    return np.asarray((features - features.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


class Campaign(NamedTuple):
    """A real experiment with uniform random actions: contexts, actions, rewards, and whom a marketer would mail what.

    ``favourite`` is the action that a non-uniform logger prefers at each event.
    """

    contexts: FloatArray
    actions: IntArray
    rewards: FloatArray
    n_actions: int
    favourite: IntArray


def load_campaign(name: str, folder: Path | None) -> Campaign:
    """Randomised data: "hillstrom", or "obd-all", "obd-men", "obd-women" for the Open Bandit sample."""
    return _hillstrom(_file(folder, "hillstrom", "hillstrom.csv.gz")) if name == "hillstrom" else _obd(name, folder)


def _hillstrom(path: Path) -> Campaign:
    table = _table(path)
    arms, actions = np.unique(table["segment"], return_inverse=True)
    plain = [table[name].astype(np.float64) for name in ("recency", "mens", "womens", "newbie")]
    groups = [table[name] == level for name in ("zip_code", "channel") for level in np.unique(table[name])[1:]]
    contexts = np.column_stack([*plain, np.log(table["history"]), *groups]).astype(np.float64)
    place = {arm: code for code, arm in enumerate(arms)}
    favourite = np.where(table["mens"] == 1, place["Mens E-Mail"], place["Womens E-Mail"])
    return Campaign(_standardised(contexts), actions, table["visit"].astype(np.float64), arms.size, favourite)


def _obd(name: str, folder: Path | None) -> Campaign:
    from backcast.io.obd import read_obd

    log = read_obd(_file(folder, "obd", "random", name.removeprefix("obd-")), affinities=False)
    raw: Any = log.contexts
    contexts = _standardised(raw.toarray() if hasattr(raw, "toarray") else np.asarray(raw))
    favourite = np.zeros(len(log), dtype=np.int64)
    return Campaign(contexts, np.array(log.actions), np.array(log.rewards), log.n_actions, favourite)
