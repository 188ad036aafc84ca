"""`memory-fs pages`: the page table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from memory_fs.cli_options import DEFAULT_VAULT, JsonOption, VaultOption, group, open_vault, say
from memory_fs.errors import ModelError

pages_app = group("The page table.")


@pages_app.command()
def pages(
    on_disk: Annotated[int, typer.Option(min=0, help="Also so many notes and messages that are on disk.")] = 0,
    vault: VaultOption = DEFAULT_VAULT,
    as_json: JsonOption = False,
) -> None:
    """List what is in context, page by page: tokens, who wrote it, last use, marks."""
    from memory_fs.agent import Agent
    from memory_fs.bench.table import table
    from memory_fs.loading import NoModel
    from memory_fs.page_table import page_table
    from memory_fs.show import emit_json

    with open_vault(vault) as opened:
        try:
            counter = NoModel.counting(opened)
        except ModelError as error:
            counter = NoModel(opened.settings)
            say(f"tokens are a guess, four characters each: {error}")
    with open_vault(vault) as opened, Agent(opened, counter, say=say) as agent:
        rows = [asdict(entry) for entry in page_table(agent, counter.count_text, on_disk)]
        away = agent.search.count("archival") + agent.search.count("recall")
        away -= sum(row["page"].startswith(("archival/", "recall/")) for row in rows)
    emit_json({"pages": rows, "on_disk": away}) if as_json else print(f"{table(rows)}\n{away} more on disk")
