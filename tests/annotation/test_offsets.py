"""Spans of characters and labels of tokens, against their definitions and each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treecrf import LinearCRF, TreeCRF
from treecrf.annotation import offsets_to_tags, spans_to_offsets, tags_to_offsets, token_offsets
from treecrf.inputs.schemes import RULES, SCHEME_NAMES
from treecrf.inspection import find_spans

SCHEMES = sorted(RULES)
TEXT = "Ada Lovelace met Mary Somerville"
TAGS = {
    "iob1": "I-P I-P O I-P B-P I-Q",
    "iob2": "B-P I-P O B-P B-P B-Q",
    "ioe2": "I-P E-P O E-P E-P E-Q",
    "iobes": "B-P E-P O S-P S-P S-Q",
    "bilou": "B-P L-P O U-P U-P U-Q",
}
TOKENS = [(0, 2), (3, 5), (6, 8), (8, 9), (9, 11), (12, 13)]
ENTITIES = [(0, 5, "P"), (8, 9, "P"), (9, 11, "P"), (12, 13, "Q")]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tags_of_each_scheme(scheme):
    tags = TAGS[scheme].split()
    assert offsets_to_tags(TOKENS, ENTITIES[::-1], scheme=scheme) == tags
    assert tags_to_offsets(TOKENS, tags, scheme=scheme) == ENTITIES
    assert tags_to_offsets(TOKENS, np.array(tags)) == ENTITIES


@pytest.mark.parametrize("name", [*SCHEME_NAMES, "BIO", "Biluo"])
def test_names_of_schemes_are_those_of_estimators(name):
    tags = offsets_to_tags(TEXT, [(0, 12, "P"), (17, 21, "P"), (22, 32, "P")], scheme=name)
    X = [TEXT.split()] * 4
    crf = TreeCRF(max_iter=2, transitions=name).fit(X, [tags] * 4)
    assert crf.classes_.tolist() == sorted(set(tags))
    assert tags_to_offsets(TEXT, tags, scheme=name) == tags_to_offsets(TEXT, tags)


@st.composite
def annotated(draw):
    """Tokens, some apart, and spans of one or more of them."""
    gaps = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=9))
    tokens, end = [], 0
    for gap, length in gaps:
        tokens.append((end + gap, end + gap + length))
        end += gap + length
    cuts = draw(st.lists(st.booleans(), min_size=len(tokens), max_size=len(tokens)))
    starts = sorted({0, *(i for i, cut in enumerate(cuts) if cut)})
    kinds = st.sampled_from(["", "P", "Q", "a-b", None])
    spans = []
    for first, last in zip(starts, [*starts[1:], len(tokens)], strict=True):
        kind = draw(kinds)
        if kind is not None:
            spans.append((tokens[first][0], tokens[last - 1][1], kind))
    return tokens, spans


@pytest.mark.parametrize("scheme", SCHEMES)
@given(annotated())
def test_tags_give_the_spans_back(scheme, case):
    tokens, spans = case
    for mode in ("strict", "contract", "expand", "missing"):
        tags = offsets_to_tags(tokens, spans, scheme=scheme, alignment_mode=mode)
        assert len(tags) == len(tokens)
        assert tags_to_offsets(tokens, tags, scheme=scheme) == spans
        assert tags_to_offsets(tokens, tags) == spans


@given(annotated(), st.integers(0, 30), st.integers(1, 9))
def test_spans_that_do_not_fit_tokens(case, start, length):
    tokens, end = case[0], start + length
    touched = [i for i, (a, b) in enumerate(tokens) if a < end and b > start]
    whole = [i for i, (a, b) in enumerate(tokens) if start <= a and b <= end]
    fits = bool(whole) and (tokens[whole[0]][0], tokens[whole[-1]][1]) == (start, end)
    span = [(start, end, "P")]

    def tagged(mode):
        tags = offsets_to_tags(tokens, span, scheme="iobes", alignment_mode=mode)
        return [i for i, tag in enumerate(tags) if tag != "O"], tags

    assert tagged("expand")[0] == touched
    assert tagged("contract")[0] == whole
    indices, tags = tagged("missing")
    assert indices == touched
    assert all((tags[i] is not None) == fits for i in touched)
    if fits:
        assert tagged("strict")[0] == whole
    else:
        with pytest.raises(ValueError, match=r"the span \(.*, 'P'\) (does not|has no token)"):
            tagged("strict")


@pytest.mark.parametrize(
    ("tokens", "entities", "error", "message"),
    [
        (TEXT, [(0, 11, "P")], ValueError, r"not end where a token ends; .* \(0, 3\) to \(4, 12\)"),
        (TEXT, [(1, 3, "P")], ValueError, r"not begin where a token begins; the .* are \(0, 3\)$"),
        (TEXT, [(1, 11, "P")], ValueError, "does not begin and end where tokens do"),
        (TEXT, [(3, 4, "P")], ValueError, r"the span \(3, 4, 'P'\) has no token"),
        (TEXT, [(4, 4, "P")], ValueError, "holds no characters"),
        (TEXT, [(4, 2, "P")], ValueError, "holds no characters"),
        (TEXT, [(-4, 2, "P")], ValueError, "holds no characters"),
        (TEXT, [(22, 33, "P")], ValueError, "is outside of the text of 32 characters"),
        (TEXT, [(0, 12, "P"), (4, 12, "Q")], ValueError,
         r"\(0, 12, 'P'\) and \(4, 12, 'Q'\) have tokens in common"),
        (TEXT, [(0, 3, "P"), (0, 3, "P")], ValueError, "have tokens in common"),
        (TEXT, [(0, 3, 1)], TypeError, "has no str as its label"),
        (TEXT, [(0.0, 3, "P")], TypeError, "float"),
        (TEXT, [(0, 3)], TypeError, r"\(0, 3\) is not a span: expected a start, an en"),
        (TEXT, [{"start": 0}], TypeError, "{'start': 0} is not a span"),
        (TEXT.split(), [], TypeError, r"token 0: 'Ada' is not a pair .* token_offsets\(text"),
        (["is"], [], TypeError, "token 0: 'is' is not a pair"),
        ([(0, 1, 2)], [], TypeError, r"token 0: \(0, 1, 2\) is not a pair"),
        ([(0, 3), (2, 5)], [], ValueError, "token 1: it begins at 2, before token 0 ends at 3"),
        ([(0, 3), (3, 3)], [], ValueError, r"token 1: the offsets \(3, 3\) are not those of char"),
    ],
)  # fmt: skip
def test_spans_and_tokens_that_are_refused(tokens, entities, error, message):
    with pytest.raises(error, match=message):
        offsets_to_tags(tokens, entities)


@pytest.mark.parametrize(
    ("tags", "scheme", "message"),
    [
        (["O"], None, "1 tags for 2 tokens"),
        (["O", "PER"], None, "token 1: the label 'PER' is neither O nor a tag such as B-PER"),
        (["O", 1], None, "token 1: the label 1 is neither O nor"),
        (["O", "E-P"], "bio", "token 1: 'E-P' is not a tag of scheme='bio'"),
        (["O", "I-P"], "bio", "position 1: 'I-P' after 'O' is forbidden by scheme='bio'"),
        (["B-P", "O"], "bilou", "position 1: 'O' after 'B-P' is forbidden by scheme='bilou'"),
        (["O", "O"], "bi", "scheme='bi'"),
    ],
)
def test_tags_that_are_refused(tags, scheme, message):
    with pytest.raises(ValueError, match=message):
        tags_to_offsets("He ran", tags, scheme=scheme)


def test_tags_without_a_scheme_are_read_leniently():
    read = [span[2] for span in tags_to_offsets("a b c d", ["I-P", "I-Q", None, "L-Q"])]
    assert read == ["P", "Q", "Q"]
    assert tags_to_offsets("", []) == offsets_to_tags("", []) == []


def test_options_that_are_unknown():
    for options in ({"scheme": "bi"}, {"alignment_mode": "near"}):
        with pytest.raises(ValueError, match=next(iter(options.values()))):
            offsets_to_tags(TEXT, [], **options)


def test_offsets_of_tokens():
    text = " 10\xa0000  naïve—\n😀s "
    assert [text[a:b] for a, b in token_offsets(text)] == text.split()
    words = ["10", "000", "naïve", "—", "😀", "s"]
    assert [text[a:b] for a, b in token_offsets(text, words)] == words
    assert [text[a:b] for a, b in token_offsets(text, pattern="[0-9]*")] == ["10", "000"]
    for wrong in (["000", "10"], ["10", ""], ["11"]):
        with pytest.raises(ValueError, match="is not in the text after character"):
            token_offsets(text, wrong)


def test_missing_labels_are_accepted_in_training():
    tags = offsets_to_tags("Ada met Mary.", [(0, 3, "P"), (8, 12, "P")], alignment_mode="missing")
    assert tags == ["B-P", "O", None]
    LinearCRF(l2_regularization=1).fit([["Ada", "met", "Mary."]] * 3, [tags] * 3)


def test_spans_of_a_model_have_characters_and_probabilities():
    texts = [TEXT, "Mary ran", "ran"]
    X = [text.split() for text in texts]
    y = [offsets_to_tags(TEXT, [(0, 12, "P"), (17, 32, "P")]), ["B-P", "O"], ["O"]]
    crf = LinearCRF(l2_regularization=1).fit(X, y)
    spans = find_spans(crf, X, y)
    found = spans_to_offsets(texts, spans)
    assert [[span[:3] for span in some] for some in found] == list(map(tags_to_offsets, texts, y))
    assert [p for some in found for *_, p in some] == [span.probability for span in spans]
    for tokens in (texts[:1], [TEXT, "Mary", "ran"][1:]):
        with pytest.raises(ValueError, match="is not in the tokens"):
            spans_to_offsets(tokens, spans)
