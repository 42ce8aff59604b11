"""The compiled modules and their compiler flags; everything else is in pyproject.toml."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# TREECRF_CHECKS=1 compiles the bounds checks in, for a test run that hunts memory errors.
CHECKS = os.environ.get("TREECRF_CHECKS") == "1"

# Neither flag set lets the compiler reorder sums or fuse multiply and add: trees must be the same
# on every machine. OpenMP stands for its vector loops alone, not for threads.
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


SOURCES = sorted(Path("treecrf").rglob("*.pyx"))
HEADERS = sorted(str(path) for path in Path("treecrf").rglob("*.h"))
# What all modules need of Cython's own code is compiled once, in a module that they share.
SHARED = "treecrf._cyutility"


class BuildExt(build_ext):
    """Choose the flags once the compiler is known."""

    def build_extensions(self):
        """Build all modules with the flags of the compiler at hand."""
        kind = "msvc" if self.compiler.compiler_type == "msvc" else "unix"
        for extension in self.extensions:
            extension.extra_compile_args = FLAGS[kind]
        self.parallel = self.parallel or os.cpu_count()
        super().build_extensions()


extensions = [
    Extension(
        ".".join(path.with_suffix("").parts),
        [str(path)],
        include_dirs=["treecrf"],
        depends=HEADERS,
    )
    for path in SOURCES
]

setup(
    ext_modules=cythonize(
        [*extensions, Extension(SHARED, ["treecrf/_cyutility.c"])],
        nthreads=os.cpu_count() or 1,
        shared_utility_qualified_name=SHARED,
        compiler_directives={
            "language_level": 3,
            "boundscheck": CHECKS,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": CHECKS,
            "freethreading_compatible": True,
        },
    ),
    cmdclass={"build_ext": BuildExt},
)
