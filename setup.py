"""The compiled modules, their compiler flags, and the description of the package.

Everything else is in pyproject.toml.
"""

import os
import re
import sys
import sysconfig
import tomllib
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# Builds that find memory errors in a test run (tests/checked_builds.py): TREECRF_CHECKS=bounds
# compiles Cython's bounds checks into the modules, TREECRF_CHECKS=sanitizers those of the compiler.
CHECKS = os.environ.get("TREECRF_CHECKS", "")
if CHECKS not in ("", "bounds", "sanitizers"):
    raise SystemExit(f"TREECRF_CHECKS is {CHECKS!r}; expected 'bounds' or 'sanitizers'")

# TREECRF_ABI3=1 compiles for the limited API: one wheel for Python 3.11 and all later versions.
# Python without the global interpreter lock does not have this API.
ABI3 = os.environ.get("TREECRF_ABI3") == "1" and not sysconfig.get_config_var("Py_GIL_DISABLED")
ABI3_MACROS = [("Py_LIMITED_API", "0x030b0000"), ("CYTHON_LIMITED_API", "1")]

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": CHECKS == "bounds",
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": CHECKS == "bounds",
    "freethreading_compatible": True,
}

# Neither set of flags lets the compiler reorder sums or fuse multiply and add: trees must be the
# same on every machine. OpenMP is used for its vector loops only, not for threads. Interpreters are
# often built with -g, which would double the time that compilation takes.
FLAGS = {
    "unix": [
        "-O3",
        "-g0",
        "-ffp-contract=off",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-fopenmp-simd",
    ],
    "msvc": ["/O2", "/fp:precise"],
}
LINK_FLAGS = ["-Wl,--strip-all"] if sys.platform == "linux" else []
if CHECKS == "sanitizers":
    SANITIZERS = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer"]
    FLAGS["unix"] += ["-O1", "-g1", *SANITIZERS]
    LINK_FLAGS = SANITIZERS

PACKAGE = Path("treecrf")
# Those of exported models are templates.
HEADERS = sorted(path.as_posix() for path in PACKAGE.rglob("*.h") if "templates" not in path.parts)

# Memoryviews and the like, which Cython would otherwise copy into every module.
SHARED = "treecrf._cyutility"

# The README of a checkout links to the newest pages, that of a package to those of its version.
LATEST = "https://treecrf.readthedocs.io/en/latest/"
STABLE = "https://treecrf.readthedocs.io/en/stable/"
REPOSITORY = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"][
    "urls"
].get("Repository")
# The pages of files.
PAGES = {
    "CHANGELOG.md": "changelog.html",
    "CONTRIBUTING.md": "contributing.html",
    "examples/dask_cluster.py": "gallery/dask_cluster.html",
}


def extensions() -> list[Extension]:
    """List a module for each Cython file, and the one that all of them share."""
    sources = sorted(PACKAGE.rglob("*.pyx"))
    modules = [extension(".".join(path.with_suffix("").parts), path) for path in sources]
    return [*modules, extension(SHARED, PACKAGE / "_cyutility.c")]


def extension(name: str, source: Path) -> Extension:
    """Describe a module. Any header may include any other, so that it depends on all of them."""
    return Extension(
        name,
        [source.as_posix()],
        include_dirs=[PACKAGE.as_posix()],
        depends=HEADERS,
        extra_link_args=LINK_FLAGS,
        define_macros=ABI3_MACROS if ABI3 else [],
        py_limited_api=ABI3,
    )


def description() -> str:
    """Read the README for package indexes, where links to files lead nowhere."""
    readme = Path("README.md").read_text(encoding="utf-8").replace(LATEST, STABLE)
    return re.sub(r"(!?\[([^]]*)\])\(([^)]*)\)", _absolute, readme)


def _absolute(link: re.Match) -> str:
    """Replace a link to a file by one to its page, or to the repository if it has an address."""
    text, label, target = link.groups()
    is_picture = target.startswith("docs/_static/")
    page = target.removeprefix("docs/") if is_picture else PAGES.get(target)
    if page:
        return f"{text}({STABLE}{page})"
    return f"{text}({REPOSITORY}/blob/main/{target})" if REPOSITORY else label


class BuildExt(build_ext):
    """Translate the Cython files and choose the flags, at the time of compilation."""

    def finalize_options(self):
        """Keep the results of in-place builds, so that the next one compiles changes only."""
        super().finalize_options()
        if self.inplace:
            self.build_lib = self.build_temp = "build/inplace"

    def build_extensions(self):
        """Translate all Cython files at once, then compile."""
        n_processors = os.cpu_count() or 1
        translated = cythonize(
            self.extensions,
            nthreads=n_processors,
            force=self.force,
            build_dir=f"build/{CHECKS or '.'}/cython",
            compiler_directives=DIRECTIVES,
            shared_utility_qualified_name=SHARED,
        )
        sources = {module.name: module.sources for module in translated}
        kind = "msvc" if self.compiler.compiler_type == "msvc" else "unix"
        for module in self.extensions:
            module.sources = sources[module.name]
            module.extra_compile_args = FLAGS[kind]
        self.parallel = self.parallel or n_processors
        super().build_extensions()


# Processes that translate may import this file again.
if __name__ == "__main__":
    setup(
        ext_modules=extensions(),
        long_description=description(),
        long_description_content_type="text/markdown",
        cmdclass={"build_ext": BuildExt},
        options={"bdist_wheel": {"py_limited_api": "cp311"}} if ABI3 else {},
    )
