"""The conversation that a memory has to get right, on the real default model."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_fs.bench.conversation import six
from memory_fs.bench.table import percentile, table
from memory_fs.llm.llama import LlamaModel


@pytest.mark.model
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_default_model_remembers_what_it_was_told(default_model_path: Path, tmp_path: Path, language: str) -> None:
    """Name, dog and the new home are saved, the old home is gone, both questions are answered, most tokens reused."""
    lines: list[str] = []
    with LlamaModel(default_model_path, window=4096, kv_folder=tmp_path / "kv") as model:
        found = six(model, lines.append, language)
    told = "\n".join([*lines, str(found)])
    assert found["saved"], told
    assert found["lines outdated"] == 0, told
    assert found["answers"] == "2 of 2", told
    assert float(str(found["from KV cache"]).rstrip("%")) >= 80, told


def test_a_table_is_markdown() -> None:
    """Figures print as a Markdown table with one width a column, numbers to four digits."""
    assert table([{"a": 1.23456, "long": "x"}]) == "| a     | long |\n|-------|------|\n| 1.235 | x    |"
    assert table([]) == "(nothing measured)"


def test_percentiles_are_values_that_were_measured() -> None:
    """The nearest rank is taken, also of one value and of none."""
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0], 0.95) == 1.0
    assert percentile([], 0.5) == 0.0
