"""Errors on horizons that exhaust the log, and on horizons longer than the log; writes bench/results/horizon.md.

    python -m bench.horizon.accuracy [--rounds 300,1000,3000,10000] [--logs 100,40,10,6] [--jobs 2]

Each log is evaluated by the default call, by passes without filling, by DRns and RS, and by a simulation from the
reward model alone. The worlds of real data need BACKCAST_DATA. Finished logs are stored under build/, so that a stopped
run continues, and a run with more logs or cells adds to it; the page has the cells of the last command.
"""

from __future__ import annotations

import shlex
import sys
from argparse import ArgumentParser

from bench.accuracy.settings import CHECKPOINTS, make_parser
from bench.common.machine import describe_provenance, provenance
from bench.common.output import write_json, write_page
from bench.common.trials import TrialRunner
from bench.horizon.cells import Setting, make_grid, pair_policies, parse_cells, parse_names, parse_numbers
from bench.horizon.page import make_blocks, make_records
from bench.horizon.trial import RIVALS, SEED, DefaultCall, Trial, Truth, find_truth, run_trials
from bench.horizon.worlds import NAMES, NEED_DATA, POLICIES
from bench.reproduction.datasets import find_data_folder


def make_options(worlds: list[str]) -> ArgumentParser:
    """Return the parser of the command; ``worlds`` are those that can be made."""
    parser = make_parser(__doc__, logs="100,40,10,6")
    parser.add_argument(
        "--worlds",
        type=lambda text: parse_names(text, ",", NAMES),
        default=worlds,
        help="names, separated by commas; '' for none",
    )
    parser.add_argument(
        "--policies",
        type=lambda text: parse_names(text, ";", list(POLICIES)),
        default=[],
        help="names, separated by semicolons, each in every world; otherwise they alternate",
    )
    parser.add_argument("--events", type=parse_numbers, default=[10_000], help="lengths of logs")
    parser.add_argument("--rounds", type=parse_numbers, default=[300, 1_000, 3_000, 10_000])
    parser.add_argument("--cells", type=parse_cells, default={}, help="further cells: world:policy:n:T:logs;...")
    return parser


def main() -> None:
    data = find_data_folder(None)
    parser = make_options([name for name in NAMES if data or name not in NEED_DATA])
    options = parser.parse_args()
    runner = TrialRunner(CHECKPOINTS, SEED, options.jobs)
    pairs = pair_policies(options.worlds, options.policies)
    try:
        cells = make_grid(pairs, options.events, options.rounds, parse_numbers(options.logs)) | options.cells
    except ValueError as error:
        parser.error(str(error))
    origin = provenance(" ".join(["python -m bench.horizon.accuracy", shlex.join(sys.argv[1:])]))
    results: dict[Setting, tuple[Truth, list[Trial]]] = {}
    for setting, logs in cells.items():
        truth = find_truth(runner, setting, data)
        results[setting] = truth, run_trials(runner, setting, data, logs)
        # after every cell: an interrupted run leaves the page of what it finished
        blocks = ["# Long horizons", describe_provenance(origin), *make_blocks(results)]
        write_page(options.output / "horizon.md", blocks)
        records = {"columns": [*DefaultCall._fields, *RIVALS], "settings": make_records(results)}
        write_json(options.output / "horizon.json", {**origin, **records})


if __name__ == "__main__":
    main()
