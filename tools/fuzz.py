"""Let atheris look for bytes that a reader does not refuse in a sentence: `make fuzz SECONDS=3600`.

It goes by coverage: bytes that reach a line that none has reached are kept, and changed on. What it finds lies in the
corpus folder as `crash-*`; reproduce it with `python -m tools.fuzz READER crash-FILE`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

MAX_BYTES = 1 << 16  # of an input: larger than any seed; nesting, digits and lists of CPUs go wrong before that


def fuzz(name: str, seconds: int, corpus: Path) -> int:
    """Return the exit code of a fuzzer of one reader, in a process of its own: it ends its process when it is done."""
    corpus.mkdir(parents=True, exist_ok=True)
    own = [f"-max_total_time={seconds}", f"-max_len={MAX_BYTES}", "-rss_limit_mb=2048", "-timeout=5"]
    own += ["-print_final_stats=1", f"-artifact_prefix={corpus}/", str(corpus)]
    return subprocess.run([sys.executable, "-m", "tools.fuzz", name, *own]).returncode


def fuzz_all(seconds: int, corpus: Path) -> int:
    """Fuzz one reader after the other, each for its share of the time; return how many have failed."""
    from tests.hostile.readers import READERS

    share, failed = max(1, seconds // len(READERS)), list[str]()
    for name, (_, seed) in READERS.items():
        begin = time.monotonic()
        (corpus / name).mkdir(parents=True, exist_ok=True)
        (corpus / name / "seed").write_bytes(seed)
        if fuzz(name, share, corpus / name):
            failed.append(name)
        print(f"fuzz: {name}: {time.monotonic() - begin:.0f} s, {'FAILED' if name in failed else 'nothing found'}")
    print(f"fuzz: failed: {', '.join(failed) or 'none'}")
    return len(failed)


def _become_fuzzer(arguments: list[str]) -> None:
    import atheris

    with atheris.instrument_imports(include=["autoaccel"]):
        from tests.hostile.readers import read

    name = arguments.pop(1)
    atheris.Setup(arguments, lambda data: read(name, data))
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:2] == ["all"]:
        sys.exit(fuzz_all(int(sys.argv[2]), Path(sys.argv[3])))
    _become_fuzzer(sys.argv)
