"""The published schema of the output: valid, strict enough to fail, the same in manual and package."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator, ValidationError

from tests.support.cli import COMPARE, EVEN_AND_MORE, OUTPUT_SCHEMA, SCHEMA_FILE, run

DOCS = Path(__file__).parents[2] / "docs"


def test_the_schema_is_valid_packaged_and_in_the_manual() -> None:
    text = SCHEMA_FILE.read_text(encoding="utf-8")
    Draft202012Validator.check_schema(json.loads(text))
    assert (files("backcast.cli") / "output.schema.json").read_text(encoding="utf-8") == text
    assert (DOCS / "output.schema.json").read_text(encoding="utf-8") == text
    assert "output.schema.json" in (DOCS / "pipeline.md").read_text(encoding="utf-8")


def test_a_document_without_one_of_its_entries_does_not_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"{COMPARE} {EVEN_AND_MORE} --json") == 0
    document = json.loads(capsys.readouterr().out)
    OUTPUT_SCHEMA.validate(document)
    for key in ("format", "partial", "provenance", "estimates", "lifts", "baseline", "verdict", "ranking"):
        with pytest.raises(ValidationError):
            OUTPUT_SCHEMA.validate({name: entry for name, entry in document.items() if name != key})
    wrong = [
        {**document, "verdict": {**document["verdict"], "decision": "good"}},
        {**document, "lifts": {"more": {**document["lifts"]["more"], "value": "0.1"}}},
        {**document, "baseline": {**document["baseline"], "reliability": None}},
        {"error": "failed"},
        {},
    ]
    for each in wrong:
        with pytest.raises(ValidationError):
            OUTPUT_SCHEMA.validate(each)
