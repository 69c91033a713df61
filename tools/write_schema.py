"""Write autoaccel/records/recipe.schema.json from the records: `python tools/write_schema.py`."""

from __future__ import annotations

import json
from pathlib import Path

from autoaccel.records.recipe import recipe_schema

SCHEMA = Path(__file__).parents[1] / "autoaccel" / "records" / "recipe.schema.json"

if __name__ == "__main__":
    SCHEMA.write_text(json.dumps(recipe_schema(), indent=2) + "\n", encoding="utf-8")
