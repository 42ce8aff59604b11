"""Training data of projects that use CRFsuite or CRF++, with their own attributes and settings.

The code that makes attributes is imported from the projects themselves. Sequences with the tokens
of an earlier one are left out, and of the others, every fifth tests.
"""

from __future__ import annotations

import functools
import io
import random
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from treecrf.datasets import fetch_conll2000
from treecrf.preprocessing import AttributeTemplates

N_EACH = 1600  # ingredients of each of the three files
N_SENTENCES = 750  # of the newspaper
N_TAGGED = 2000  # sentences that the tagger of ingredients learns from
MAX_LENGTH = 200  # of a line of Khmer, in clusters
# The template of the note on the tagger of Burmese.
BURMESE = "U00:%x[-2,0]\nU01:%x[-1,0]\nU02:%x[0,0]\nU03:%x[1,0]\nU04:%x[2,0]\nB\n"


@dataclass(frozen=True)
class Sequences:
    """Labeled sequences: the inputs of the project, and plain ones."""

    attributes: list[Any]
    plain: list[Any]  # of the position itself, without neighbors and conjunctions
    labels: list[list[str]]

    def part(self, is_test: bool) -> Sequences:
        """Return the test sequences, every fifth, or the others."""
        chosen = [i for i in range(len(self.labels)) if (i % 5 == 4) == is_test]
        columns = (self.attributes, self.plain, self.labels)
        return Sequences(*([column[i] for i in chosen] for column in columns))


@dataclass(frozen=True)
class Client:
    """A project, with the parameters of CRFsuite that it sets."""

    repositories: dict[str, str]  # and their commits
    read: Callable[..., Sequences]
    parameters: dict[str, Any]
    window: int  # how far its attributes reach, and at least 1


def distinct(
    pairs: Any, attributes: Callable[[list[str]], list], plain: Callable[[list[str]], list]
) -> Sequences:
    """Make the inputs of pairs of tokens and labels, without repeated tokens."""
    first: dict[tuple, list[str]] = {}
    for tokens, labels in pairs:
        if tokens:
            first.setdefault(tuple(tokens), list(labels))
    return Sequences(
        [attributes(list(tokens)) for tokens in first],
        [plain(list(tokens)) for tokens in first],
        list(first.values()),
    )


def imported(folder: Path, module: str) -> Any:
    """Import a module of a project."""
    sys.path.insert(0, str(folder))
    return import_module(module)


# Projects of parserator


def elements(path: Path) -> list[tuple[list[str], list[str]]]:
    """Read sequences of labeled tokens from XML."""
    found = []
    for sequence in ElementTree.parse(path).getroot():
        parts = [part for part in sequence if part.text]
        found.append(([part.text for part in parts], [part.tag for part in parts]))
    return found


def parsed(folder: Path, module: str, files: list[str]) -> Sequences:
    """Read a project that is made of the template of parserator."""
    project = imported(folder, module)
    pairs = [pair for name in files for pair in elements(folder / name)]
    return distinct(
        pairs, project.tokens2features, lambda tokens: list(map(project.tokenFeatures, tokens))
    )


PARSERATOR = {"c1": 0.1, "c2": 0.01}


# Ingredients


def ingredients(folder: Path) -> Sequences:
    """Read ingredients; the tagger of parts of speech is trained here."""
    preprocess = imported(folder, "ingredient_parser.preprocess")
    sys.modules["ingredient_parser"].PreProcessor = preprocess.PreProcessor
    training = imported(folder, "train.training_utils")
    preprocess.pos_tag = tagger().tag
    first: dict[tuple, tuple] = {}
    for path in sorted((folder / "train" / "data").glob("*/*-clean.csv")):
        for sentence, spans in zip(*training.load_csv(path, N_EACH), strict=True):
            made = preprocess.PreProcessor(sentence)
            tokens = made.tokenized_sentence
            labels = training.match_labels(tokens, spans)
            if tokens:
                first.setdefault(tuple(tokens), (made.sentence_features(), labels))
    X, y = map(list, zip(*first.values(), strict=True))
    return Sequences(X, [list(map(without_neighbors, x)) for x in X], y)


def without_neighbors(features: dict[str, Any]) -> dict[str, Any]:
    """Leave out the features of the positions before and after."""
    return {
        name: value for name, value in features.items() if not name.startswith(("prev_", "next_"))
    }


@functools.cache
def tagger() -> Any:
    """Return NLTK's tagger, trained on sentences of the newspaper."""
    perceptron = import_module("nltk.tag.perceptron").PerceptronTagger(load=False)
    sentences = fetch_conll2000().data[:N_TAGGED]
    random.seed(0)
    perceptron.train([[(row["word"], row["tag"]) for row in sentence] for sentence in sentences])
    return perceptron


# Taggers


def chunks() -> Sequences:
    """Read chunks of a newspaper, with the attributes of NLTK's ``CRFTagger``."""
    function = import_module("nltk.tag.crf").CRFTagger()._get_features
    data = fetch_conll2000()
    pairs = [
        ([row["word"] for row in sentence], labels)
        for sentence, labels in zip(data.data, data.target, strict=True)
    ]

    def attributes(tokens: list[str]) -> list[list[str]]:
        return [function(tokens, i) for i in range(len(tokens))]

    return distinct(pairs[:N_SENTENCES], attributes, attributes)


def burmese(folder: Path) -> Sequences:
    """Read parts of speech of Burmese words."""
    text = (folder / "corpus-draft-ver-1.0/data/t1/train1.nopipe").read_text("utf-8")
    pairs = []
    for line in text.splitlines():
        words = [word.rpartition("/") for word in line.split()]
        pairs.append(([word for word, _, _ in words], [tag for _, _, tag in words]))
    templates = AttributeTemplates(BURMESE)
    return distinct(
        pairs,
        lambda words: templates.transform([words])[0],
        lambda words: [{"word": word} for word in words],
    )


def khmer(folder: Path, texts: Path) -> Sequences:
    """Read Khmer text: whether a word begins at a cluster of characters."""
    features = imported(folder, "khmernltk.word_tokenize.features")
    clusters = imported(folder, "khmernltk.utils.data").seg_kcc
    pairs = []
    for line in khmer_lines(texts):
        words = [clusters(word) for word in line.split()]
        tokens = [cluster for word in words for cluster in word][:MAX_LENGTH]
        labels = ["01"[i == 0] for word in words for i in range(len(word))][:MAX_LENGTH]
        pairs.append((tokens, labels))

    def plain(tokens: list[str]) -> list[dict]:
        rows = features.create_kcc_features(tokens)
        return [{name: row[name] for name in ("kcc", "t", "ns")} for row in rows]

    return distinct(pairs, features.create_kcc_features, plain)


def khmer_lines(folder: Path) -> Any:
    """Yield the lines of the texts, with spaces between words."""
    with zipfile.ZipFile(folder / "data" / "kh_data_100.zip") as archive:
        for name in sorted(archive.namelist()):
            if name.endswith("_seg.txt"):
                with io.TextIOWrapper(archive.open(name), "utf-8") as file:
                    yield from file


CLIENTS = {
    "usaddress": Client(
        {"datamade/usaddress": "aa7699b53a0843fc443f9e87285b88cbd9eaf50a"},
        lambda folder: parsed(
            folder,
            "usaddress",
            [
                "training/labeled.xml",
                "training/us50_train_tagged.xml",
                "training/multi_word_state_addresses.xml",
            ],
        ),
        PARSERATOR,
        window=1,
    ),
    "probablepeople": Client(
        {"datamade/probablepeople": "f1ef5dd1c84d9267f14e8a57d558f7f755354bf5"},
        lambda folder: parsed(
            folder,
            "probablepeople",
            ["name_data/labeled/person_labeled.xml", "name_data/labeled/company_labeled.xml"],
        ),
        PARSERATOR,
        window=1,
    ),
    "ingredient-parser": Client(
        {"strangetom/ingredient-parser": "43beba75433c7a5a4ac31bb7fae01a537620c526"},
        ingredients,
        {
            "c1": 0.2,
            "c2": 1.0,
            "feature.possible_states": True,
            "feature.possible_transitions": True,
        },
        window=2,
    ),
    "NLTK CRFTagger": Client({}, chunks, {}, window=1),
    "myPOS": Client(
        {"ye-kyaw-thu/myPOS": "8f715697516b4d8aaf28172bb8936a8c91aa3ff6"},
        burmese,
        {"c2": 0.5, "feature.possible_states": True, "feature.possible_transitions": True},
        window=2,
    ),
    "khmer-nltk": Client(
        {
            "VietHoang1512/khmer-nltk": "b47693858031d4dea6f471b713e7efa66eaabe84",
            "phylypo/segmentation-crf-khmer": "ecf97c5b7eae3b3365eda08927a7d55d9fe5c626",
        },
        khmer,
        {
            "c1": 0.015,
            "c2": 0.0037,
            "max_iterations": 100,
            "feature.possible_transitions": True,
        },
        window=3,
    ),
}
