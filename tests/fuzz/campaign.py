"""Run random cases for a given time: ``python tests/fuzz/campaign.py --seconds 600 --seed 0``.

Every case has a seed, so that a failure can be repeated: ``run_case(seed)`` of
`fuzz.models`, ``run_file(seed)`` of `fuzz.files`, ``run_command(seed)`` of
`fuzz.commands`, or ``run_objects(seed)`` of `fuzz.objects`. Cases run in a process
of their own with limits of memory and time; a crash ends it, is reported, and the next seed
follows.
"""

from __future__ import annotations

import argparse
import collections
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
MEMORY = 4 << 30
SECONDS_PER_CASE = 120


def worker(kind: str, seed: int, until: float) -> None:
    """Run the cases from a seed on; one line of output for each."""
    import resource  # only on POSIX

    sys.path[:0] = (
        [str(TESTS)] if "PYTHONSAFEPATH" in os.environ else [str(TESTS.parent), str(TESTS)]
    )
    from fuzz.commands import run_command
    from fuzz.files import run_file
    from fuzz.models import run_case
    from fuzz.objects import run_objects

    runs = {"models": run_case, "files": run_file, "commands": run_command, "objects": run_objects}
    run = runs[kind]
    if "ASAN_OPTIONS" not in os.environ:  # sanitizers reserve far more addresses than memory
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    while time.time() < until:
        signal.alarm(SECONDS_PER_CASE)
        try:
            outcome = run(seed)
        except AssertionError as error:
            outcome = f"failed {_first_line(error)}"
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            outcome = f"failed {error!r:.300} in {where.filename}:{where.lineno}".replace("\n", " ")
        print(seed, outcome, flush=True)
        seed += 1


def _first_line(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), repr(error))


def campaign(kind: str, seed: int, seconds: float) -> collections.Counter:
    """Run cases in workers, and print the failures."""
    found: collections.Counter = collections.Counter()
    until = time.time() + seconds
    while time.time() < until:
        command = [sys.executable, __file__, "--worker", kind, str(seed), str(until)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout or ():
                number, outcome, *reason = line.split(maxsplit=2)
                if not number.isdigit():
                    continue
                seed = int(number) + 1
                found[outcome] += 1
                if outcome == "failed":
                    print(f"{kind} {number}: {''.join(reason).strip()}", flush=True)
        if process.returncode:
            found["crashed"] += 1
            print(f"{kind} {seed}: the process ended with {process.returncode}", flush=True)
            seed += 1
    return found


def main() -> int:
    """Run a campaign of each kind; return 1 after failures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="total time")
    parser.add_argument("--seed", type=int, default=10_000, help="first seed")
    parser.add_argument("--kinds", nargs="+", default=["models", "files", "commands", "objects"])
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        kind, seed, until = options.worker
        worker(kind, int(seed), float(until))
        return 0
    failed = False
    for kind in options.kinds:
        found = campaign(kind, options.seed, options.seconds / len(options.kinds))
        print(f"{kind} from seed {options.seed}:", dict(found), flush=True)
        failed |= bool(found["failed"] or found["crashed"])
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
