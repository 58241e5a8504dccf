"""Accuracy of evaluators for learning policies; writes bench/results/accuracy.md.

    python -m bench.accuracy.run [--logs 100] [--jobs 2] [--worlds straight,digits]

Logs are drawn from every world under every logger, every evaluator estimates V_T, and the estimates are compared with
live runs. BACKCAST_DATA adds real data sets. Finished logs are stored under build/, so that a stopped run continues.
"""

from __future__ import annotations

import sys

from bench.accuracy.settings import CHECKPOINTS, SEED, evaluate_log, list_settings, make_parser, simulate_truth
from bench.accuracy.tables import Tables, accuracy_blocks, score_setting, setting_blocks
from bench.common.machine import describe_provenance, provenance
from bench.common.output import write_json, write_page
from bench.common.trials import TrialRunner
from bench.reproduction.datasets import find_data_folder


def main() -> None:
    parser = make_parser(__doc__, logs=100)
    parser.add_argument("--worlds", default="", help="only these, separated by commas")
    options = parser.parse_args()
    data, runner = find_data_folder(None), TrialRunner(CHECKPOINTS, SEED, options.jobs)
    tables: Tables = {}
    for setting in list_settings(data):
        if options.worlds and setting.world not in options.worlds.split(","):
            continue
        [truth] = setting.run_trials(runner, "truth", simulate_truth, (setting, data), 1)
        trials = setting.run_trials(runner, "estimates", evaluate_log, (setting, data), options.logs)
        tables[setting] = (truth, score_setting(setting, truth, trials))
        print("\n\n".join(setting_blocks(setting, *tables[setting])), flush=True)
    origin = provenance(" ".join(["python -m bench.accuracy.run", *sys.argv[1:]]))
    blocks = ["# Accuracy for learning policies", describe_provenance(origin), *accuracy_blocks(tables, options.logs)]
    write_page(options.output / "accuracy.md", blocks)
    records = {s.stem: {"truth": truth._asdict(), "rows": rows} for s, (truth, rows) in tables.items()}
    write_json(options.output / "accuracy.json", {**origin, "settings": records})


if __name__ == "__main__":
    main()
