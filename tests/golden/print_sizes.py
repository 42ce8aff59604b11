"""Print sizes of the package, which nothing limits: ``python tests/golden/print_sizes.py``."""

import sys
from pathlib import Path

FOLDER = Path(__file__).parent

if __name__ == "__main__":
    sys.path[:0] = [str(FOLDER.parents[1]), str(FOLDER.parent)]
    from support.sizes import flow, lines, methods

    for sizes in (flow, lines, methods):
        print(f"{sizes.__name__}:")
        for name, size in sizes().items():
            print(f"  {name}: {size:,}")
