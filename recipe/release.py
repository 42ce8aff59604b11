"""Set the version, date, and repository of a release in all files that state them.

    python recipe/release.py 0.1.0 2026-12-31 https://example.org/owner/treecrf
    python recipe/release.py --check 0.1.0

The check fails, and names the files, if one of them states another version, or still has a
placeholder or a note that there is no release yet. `make release` and the workflow that publishes
packages run it first.
"""

import argparse
import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Passage:
    """A passage of a file, and what stands there in a release."""

    file: str
    pattern: str  # matches the passage before and after it is set, unless it is a note
    text: str  # with version, date and repository in braces
    is_note: bool = False  # gone after the first release

    def set(self, content: str, release: dict[str, str]) -> str:
        """Return the content of the file in a release."""
        new = self.text.format(**release)
        content, n = re.subn(self.pattern, lambda _: new, content, flags=re.M | re.S)
        if n != 1 and not (n == 0 and self.is_note):
            raise SystemExit(f"{self.file}: {n} passages match {self.pattern!r}; expected 1")
        return content

    def is_set(self, content: str, version: str) -> bool:
        """Return whether the passage is that of a release of this version."""
        found = re.search(self.pattern, content, flags=re.M | re.S)
        if self.is_note:
            return found is None
        values = {"version": re.escape(version), "date": r"\d{4}-\d\d-\d\d", "url": r"https://\S+"}
        expected = re.sub(r"\\{(\w+)\\}", lambda name: values[name[1]], re.escape(self.text))
        return found is not None and re.fullmatch(expected, found[0]) is not None


PASSAGES = [
    Passage("treecrf/_version.py", r'^__version__ = "[^"\n]*"', '__version__ = "{version}"'),
    Passage("recipe/recipe.yaml", r'^  version: "[^"\n]*"', '  version: "{version}"'),
    Passage(
        "recipe/recipe.yaml",
        r"^about:\n(  repository: [^\n]*\n)?",
        "about:\n  repository: {url}\n",
    ),
    Passage(
        "CITATION.cff",
        r"^version: [^\n]*\n(date-released: [^\n]*\n)?(repository-code: [^\n]*\n)?",
        "version: {version}\ndate-released: {date}\nrepository-code: {url}\n",
    ),
    # The latest version is the first one.
    Passage(
        "CHANGELOG.md", r"(?<=html>\.\n\n)\S+, \S+\n-+\n", "{version}, {date}\n-----------------\n"
    ),
    Passage(
        "pyproject.toml",
        r"^\[project\.urls\]\n(Repository = [^\n]*\nIssues = [^\n]*\n)?",
        '[project.urls]\nRepository = "{url}"\nIssues = "{url}/issues"\n',
    ),
    Passage("docs/conf.py", r'^REPOSITORY = "[^"\n]*"', 'REPOSITORY = "{url}"'),
    Passage("README.md", r"^    pip install \. [^\n]*", "    pip install treecrf", True),
    Passage("README.md", r'`pip install "\.\[cli\]"`', '`pip install "treecrf[cli]"`', True),
    Passage("README.md", r'`pip install "\.\[all\]"`', '`pip install "treecrf[all]"`', True),
    Passage(
        "docs/index.rst",
        r"^   \$ pip install \.\n\nVersion [^\n]*\n[^\n]*\n",
        "   $ pip install treecrf\n",
        True,
    ),
    Passage(
        "docs/install.rst",
        r"^\.\. note::\n\n   Version [\d.]+ has not been released yet\..*?::\n\n[^\n]*\n\n",
        "",
        True,
    ),
    Passage("SECURITY.md", r" Version [\d.]+ has not\s+been released yet;[^.]*\.", "", True),
]


def main() -> None:
    """Set the passages, or check them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="change nothing")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of the project")
    parser.add_argument("version")
    parser.add_argument("date", nargs="?", type=date.fromisoformat)
    parser.add_argument("repository", nargs="?")
    options = parser.parse_args()
    if options.check:
        check(options.root, options.version)
        return
    if options.repository is None:
        parser.error("expected a version, a date, and the URL of the repository")
    url = options.repository.removesuffix("/")
    release = {"version": options.version, "date": str(options.date), "url": url}
    for passage in PASSAGES:
        path = options.root / passage.file
        content = passage.set(path.read_text(encoding="utf-8"), release)
        path.write_text(content, encoding="utf-8")
    check(options.root, options.version)


def check(root: Path, version: str) -> None:
    """Exit with a message that names the files that are not ready."""
    unready = {
        passage.file
        for passage in PASSAGES
        if not passage.is_set((root / passage.file).read_text(encoding="utf-8"), version)
    }
    if unready:
        raise SystemExit(
            f"not ready for the release of {version}: {', '.join(sorted(unready))}; "
            "run: python recipe/release.py VERSION DATE REPOSITORY"
        )
    print(f"ready for the release of {version}")


if __name__ == "__main__":
    main()
