"""Run the tests of the kernels on builds that find memory errors: ``make sanitize``.

There are two builds, each in a folder of its own below ``build/``: one with AddressSanitizer and
UndefinedBehaviorSanitizer, and one with Cython's bounds checks. Before the tests, each build must
find a known error. Needs GCC or Clang on Linux.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KERNEL_TESTS = ["tests/chains", "tests/trees", "tests/encoding", "tests/inputs"]
KERNEL_TESTS += ["tests/crfsuite", "tests/preprocessing"]
LEARNERS = ("boosted", "flat", "linear", "short", "structured")
KERNEL_TESTS += [f"tests/learners/{kind}" for kind in LEARNERS]

# Writes behind the end of an array, which only a build with checks notices.
KNOWN_ERROR = """
import numpy as np
import treecrf
from treecrf.chains._decode import viterbi
print(treecrf.__file__)
viterbi(np.zeros((2, 2000, 2)), np.array([0, 2000]), 0, 1, np.zeros(1000, np.int32), np.zeros(1))
"""
SIGNS = {"bounds": "IndexError", "sanitizers": "AddressSanitizer: heap-buffer-overflow"}


def build(checks: str) -> Path:
    """Compile the package and return its folder."""
    folder = ROOT / "build" / checks
    base = ["--build-base", str(folder), "--build-lib", str(folder / "lib")]
    command = [sys.executable, "setup.py", "--quiet", "build", *base]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "TREECRF_CHECKS": checks}, check=True)
    return folder


def environment(checks: str, folder: Path) -> dict[str, str]:
    """Define the variables with which Python imports a build."""
    variables = {**os.environ, "PYTHONPATH": str(folder / "lib"), "PYTHONSAFEPATH": "1"}
    if checks == "sanitizers":
        # Python was not compiled with sanitizers: they must be loaded first, with the library that
        # throws exceptions. Python keeps memory until it ends, so that leaks are not reported.
        libraries = ["libasan.so", "libubsan.so", "libstdc++.so.6"]
        options = f"log_path={folder / 'report'}"
        variables |= {
            "LD_PRELOAD": " ".join(_library(name) for name in libraries),
            "PYTHONMALLOC": "malloc",
            "ASAN_OPTIONS": f"detect_leaks=0:allocator_may_return_null=1:{options}",
            "UBSAN_OPTIONS": f"print_stacktrace=1:{options}",
        }
    return variables


def _library(name: str) -> str:
    command = [os.environ.get("CC", "cc").split()[-1], f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def reports(folder: Path) -> str:
    """Read and remove the reports of the sanitizers."""
    paths = sorted(folder.glob("report.*"))
    text = "\n".join(path.read_text(errors="replace") for path in paths)
    for path in paths:
        path.unlink()
    return text


def check_known_error(checks: str, folder: Path) -> None:
    """Make sure that the build is the one that runs, and that it finds an error."""
    reports(folder)
    command = [sys.executable, "-c", KNOWN_ERROR]
    variables = environment(checks, folder)
    process = subprocess.run(command, capture_output=True, text=True, env=variables, cwd=folder)
    output = process.stdout + process.stderr + reports(folder)
    if str(folder / "lib") not in output or SIGNS[checks] not in output:
        raise SystemExit(f"{checks}: the known error was not found\n{output}")
    print(f"{checks}: the known error was found", flush=True)


def run_tests(checks: str, folder: Path, arguments: list[str]) -> bool:
    """Run tests; return whether they pass without reports."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    status = subprocess.run(command, cwd=ROOT, env=environment(checks, folder)).returncode
    found = reports(folder)
    n_found = found.count("runtime error:") + found.count("ERROR: AddressSanitizer")
    print(f"{found}\n{checks}: exit status {status}, {n_found} errors reported", flush=True)
    return status == 0 and not n_found


def main() -> int:
    """Build and test; return 1 if a test fails or an error is reported."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checks", nargs="+", choices=SIGNS, default=list(SIGNS))
    parser.add_argument("pytest", nargs="*", help="other tests, and options of pytest after --")
    options = parser.parse_args()
    arguments = options.pytest or ["--quiet", "-m", "not exhaustive", *KERNEL_TESTS]
    passed = True
    for checks in options.checks:
        folder = build(checks)
        check_known_error(checks, folder)
        passed &= run_tests(checks, folder, arguments)
    return not passed


if __name__ == "__main__":
    sys.exit(main())
