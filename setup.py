"""The compiled modules and their compiler flags; everything else is in pyproject.toml."""

import os
from glob import glob

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# TREECRF_CHECKS=1 compiles the bounds checks in, for a test run that hunts memory errors.
CHECKS = os.environ.get("TREECRF_CHECKS") == "1"

# Neither flag set lets the compiler reorder sums or fuse multiply and add: trees must be the same
# on every machine. OpenMP stands for its vector loops alone, not for threads.
FLAGS = {
    "unix": ["-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"],
    "msvc": ["/O2", "/fp:precise"],
}


MODULES = (
    "_chain",
    "_inference",
    "_objectives",
    "_decode",
    "_local",
    "_features",
    "_members",
    "_surrogates",
    "_tree",
    "_answers",
    "_evaluate",
    "_lookup",
    "_walk",
    "_flat",
    "_context_scores",
    "_beam",
    "_linear",
    "_linear_chain",
    "_attribute_rows",
    "_labeled_chains",
    "_perceptron",
    "_max_margin",
    "_kernel_sums",
    "_sequence_boosting",
)
HEADERS = ["treecrf/_simd.h", "treecrf/_recursions.h", "treecrf/_slopes.h"]


class BuildExt(build_ext):
    """Choose the flags once the compiler is known."""

    def build_extensions(self):
        """Build all modules with the flags of the compiler at hand."""
        kind = "msvc" if self.compiler.compiler_type == "msvc" else "unix"
        for extension in self.extensions:
            extension.extra_compile_args = FLAGS[kind]
        self.parallel = self.parallel or os.cpu_count()
        super().build_extensions()


setup(
    ext_modules=cythonize(
        [
            Extension(
                f"treecrf.{name}",
                [f"treecrf/{name}.pyx"],
                depends=[*HEADERS, *glob(f"treecrf/{name}.h")],
            )
            for name in MODULES
        ],
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
