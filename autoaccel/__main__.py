"""python -m autoaccel."""

from __future__ import annotations

import sys

from autoaccel.cli import main

sys.exit(main())
