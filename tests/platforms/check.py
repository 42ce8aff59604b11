"""Compile for other platforms, and compare results in emulators: ``make platforms``.

- x86: processors without AVX and with AVX2, by the code that the wheel chooses for them.
- aarch64: all modules are cross-compiled; they run with Debian's Python for ARM.
- windows: all modules are compiled by MinGW and linked with the functions of Python's limited API.
  They are not run, and Microsoft's compiler is not tested.

Needs Debian with qemu-user, debootstrap, gcc-aarch64-linux-gnu and gcc-mingw-w64-x86-64, and
for Windows the source code of Python (``apt-get source python3.11``).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIGESTS = ROOT / "tests" / "platforms" / "digests.py"
BUILD = ROOT / "build"
# The last digits of its results depend on the linear algebra library.
INEXACT = {"linear CRF"}
# Sorting in NumPy with AVX2 crashes in QEMU 7.2.
PROCESSORS = {"Nehalem": {}, "Haswell": {"NPY_DISABLE_CPU_FEATURES": "AVX2 X86_V3"}}
ARM_PLATFORMS = [f"manylinux_2_{minor}_aarch64" for minor in (17, 24, 27, 28)]
ARM_PACKAGES = ["numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl", "narwhals"]
PROGRAMS = {
    "x86": ["qemu-x86_64"],
    "aarch64": ["qemu-aarch64", "debootstrap", "dpkg", "aarch64-linux-gnu-gcc"],
    "windows": ["x86_64-w64-mingw32-gcc", "x86_64-w64-mingw32-dlltool"],
}
LIMITED_API = ["-DPy_LIMITED_API=0x030b0000", "-DCYTHON_LIMITED_API=1"]


def run(*command: str | Path, **variables: str) -> str:
    """Run a command and return its output."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **variables}
    process = subprocess.run(
        [str(word) for word in command], env=environment, cwd=ROOT, text=True,
        stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    return process.stdout


def read_digests(*command: str | Path, **variables: str) -> dict[str, list[str]]:
    """Compute the digests with an interpreter, by name of the model."""
    output = run(*command, "-P", DIGESTS, OPENBLAS_NUM_THREADS="1", **variables)
    return {name: digests for name, *digests in (line.split("\t") for line in output.splitlines())}


def compare(platform: str, here: dict[str, list[str]], there: dict[str, list[str]]) -> bool:
    """Print and return whether the digests are equal."""
    different = [name for name in here if here[name] != there.get(name)]
    failed = [name for name in different if name not in INEXACT or here[name][0] != there[name][0]]
    print(
        f"{platform}: {len(here) - len(different)} of {len(here)} models are equal to the bit; "
        f"equal except for last digits: {sorted(set(different) - set(failed))}; "
        f"different: {failed}",
        flush=True,
    )
    return not failed


def check_x86(python: Path) -> bool:
    """Run on emulated processors."""
    here, passed = read_digests(python), True
    for processor, variables in PROCESSORS.items():
        emulated = read_digests("qemu-x86_64", "-cpu", processor, python, **variables)
        passed &= compare(f"x86-64, {processor}", here, emulated)
    return passed


def arm_python() -> Path:
    """Unpack Debian's Python for ARM; return the root folder."""
    root = BUILD / "aarch64" / "root"
    if not (root / "usr/bin/python3.11").exists():
        shutil.rmtree(root, ignore_errors=True)
        packages = "--include=python3.11,libpython3.11-dev"
        run("debootstrap", "--foreign", "--variant=minbase", "--arch=arm64", packages,
            "bookworm", root)  # fmt: skip
        for package in sorted((root / "var/cache/apt/archives").glob("*.deb")):
            run("dpkg", "-x", package, root)
    return root


def arm_libraries() -> Path:
    """Install the dependencies for ARM; return their folder."""
    folder = BUILD / "aarch64" / "site"
    if not folder.exists():
        platforms = [f"--platform={name}" for name in ARM_PLATFORMS]
        run(sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", *platforms,
            "--python-version=3.11", "--target", folder, *ARM_PACKAGES)  # fmt: skip
    return folder


def check_aarch64(python: Path) -> bool:
    """Compile for ARM and run in an emulator."""
    root, libraries, lib = arm_python(), arm_libraries(), BUILD / "aarch64" / "lib"
    headers = f"-I{root}/usr/include/python3.11 -I{root}/usr/include"
    run(sys.executable, "setup.py", "--quiet", "build", "--build-base", lib.parent, "--build-lib",
        lib, TREECRF_ABI3="1", CC="aarch64-linux-gnu-gcc", CFLAGS=headers,
        LDSHARED="aarch64-linux-gnu-gcc -shared")  # fmt: skip
    there = read_digests(
        "qemu-aarch64", "-L", root, root / "usr/bin/python3.11", PYTHONPATH=f"{lib}:{libraries}"
    )
    return compare("aarch64", read_digests(python), there)


def windows_headers(cpython: Path) -> Path:
    """Collect Python's headers and make its import library."""
    folder = BUILD / "windows" / "python"
    shutil.copytree(cpython / "Include", folder, dirs_exist_ok=True)
    shutil.copy(cpython / "PC" / "pyconfig.h", folder)
    exported = re.findall(
        r"^EXPORT_(FUNC|DATA)\((\w+)\)", (cpython / "PC" / "python3dll.c").read_text(), re.M
    )
    lines = [name + (" DATA" if kind == "DATA" else "") for kind, name in exported]
    definitions = folder / "python3.def"
    definitions.write_text("\n".join(["LIBRARY python3.dll", "EXPORTS", *lines, ""]))
    run("x86_64-w64-mingw32-dlltool", "-d", definitions, "-l", folder / "libpython3.a")
    return folder


def check_windows(cpython: Path | None) -> bool:
    """Compile and link for Windows."""
    if cpython is None:
        print("windows: not checked without the source code of Python (--cpython)")
        return True
    sys.path.insert(0, str(ROOT))
    from setup import FLAGS, PACKAGE

    run(sys.executable, "setup.py", "--quiet", "build_ext", "--inplace")
    python = windows_headers(cpython)
    sources = sorted((BUILD / "cython").rglob("*.c"))
    for source in sources:
        module = BUILD / "windows" / "lib" / source.relative_to(BUILD / "cython")
        module.parent.mkdir(parents=True, exist_ok=True)
        run("x86_64-w64-mingw32-gcc", *FLAGS["unix"], *LIMITED_API, "-DMS_WIN64",
            "-Wno-discarded-qualifiers", f"-I{PACKAGE}", f"-I{python}", source, "-shared",
            "-static-libgcc", f"-L{python}", "-lpython3",
            "-o", module.with_suffix(".pyd"))  # fmt: skip
    print(f"windows: {len(sources)} modules compiled and linked, not run", flush=True)
    return True


def main() -> int:
    """Check platforms; return 1 if results differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ["x86", "aarch64", "windows"]
    parser.add_argument("--platforms", nargs="+", choices=names, default=names)
    parser.add_argument(
        "--python", type=Path, default=sys.executable, help="in whose environment the wheel is"
    )
    parser.add_argument("--cpython", type=Path, help="folder of the source code of Python")
    options = parser.parse_args()
    checked = [name for name in options.platforms if name != "windows" or options.cpython]
    needed = [program for name in checked for program in PROGRAMS[name]]
    if missing := [program for program in needed if shutil.which(program) is None]:
        parser.error(f"not installed: {', '.join(missing)}; --help lists the packages of Debian")
    checks = {
        "x86": lambda: check_x86(options.python),
        "aarch64": lambda: check_aarch64(options.python),
        "windows": lambda: check_windows(options.cpython),
    }
    passed = [checks[name]() for name in options.platforms]
    return int(not all(passed))


if __name__ == "__main__":
    sys.exit(main())
