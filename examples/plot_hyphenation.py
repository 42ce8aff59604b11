"""
Where a word may be divided
===========================

Labels of letters that depend on their neighbors and on the labels before them.

A word is a sequence of letters. The label of a letter is ``-`` if a hyphen may follow it, and ``.``
otherwise. The correct label depends on the letters nearby and on the previous label, because two
hyphens are rarely close to each other.

If the environment variable ``TREECRF_DATA`` points to a folder with the data of the papers on
TREECRF (Dietterich, Hao and Ashenfelter 2008), this example uses the words of the papers.
Otherwise, it uses a list of about two hundred common English words from this file. These are enough
to show how it works, but too few for good results.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from treecrf import TreeCRF
from treecrf.datasets import fetch_hyphenation
from treecrf.metrics import sequence_accuracy_score, token_accuracy_score

COMMON_WORDS = """
ac-tion ac-tiv-i-ty ad-di-tion af-ter air-port al-go-rithm an-i-mal ap-ple ap-point-ment
ar-gu-ment bas-ket-ball beau-ti-ful be-cause be-come bed-room be-fore be-gin be-low be-tween
bot-tle bridge build-ing but-ter can-dle cap-i-tal care-ful-ly cel-e-bra-tion ce-ment cen-ter
cen-tu-ry char-ac-ter class-room cloud com-mit-ment com-mon com-mu-ni-ty com-pare com-plete
com-put-er con-di-tion con-nect con-sid-er con-tain con-trol con-ver-sa-tion de-cem-ber de-ci-sion
de-fend de-light de-pend de-sign de-vel-op-ment dif-fer-ent dif-fi-cult din-ner di-rec-tion
di-vi-sion doc-tor doc-u-ment dream driv-er ed-u-ca-tion el-e-ment en-er-gy en-ter en-vi-ron-ment
eve-ning ev-ery-thing ex-act-ly ex-am-ple ex-pect ex-per-i-ment ex-plain ex-press fac-to-ry
fam-i-ly farm-er fed-er-al fi-nal-ly foot-ball friend gar-den gen-er-al gen-er-a-tion gov-ern-ment
green ground hap-py his-to-ry home-work hos-pi-tal house hu-man imag-i-na-tion im-por-tant
im-pos-si-ble in-for-ma-tion in-side in-stru-ment in-ter-est in-ter-na-tion-al jump-ing let-ter
lib-er-al light lit-tle man-sion mar-ket mean-ing med-i-cal mem-ber mem-o-ry min-er-al min-is-ter
mis-sion mo-ment mon-u-ment moon-light morn-ing mo-tion move-ment mu-sic na-tion nat-u-ral
news-pa-per night num-ber ob-ser-va-tion op-er-a-tion or-ga-ni-za-tion out-side paint-er pa-per
pas-sion pa-tient peo-ple per-mis-sion pic-ture plant pop-u-la-tion po-si-tion pre-pare pre-tend
prob-lem pro-duc-tion pro-pose pro-tec-tion pro-vide pur-ple qual-i-ty ques-tion quick-ly rab-bit
rail-road read-ing re-al-i-ty re-cent re-mark re-mem-ber re-peat re-port rep-u-ta-tion re-turn
run-ning sam-ple school sec-tion sev-er-al si-lent sim-ple sing-er sing-ing sis-ter sit-u-a-tion
slow-ly so-ci-ety some-thing speak-er spring state-ment sta-tion stone street strength stu-dent
sud-den-ly sum-mer sun-light swim-ming sys-tem ta-ble teach-er teach-ing ten-sion thought through
thun-der ti-ger tra-di-tion train trans-por-ta-tion treat-ment un-der un-der-stand uni-ver-si-ty
va-ri-ety vic-to-ry vi-sion voice walk-ing wa-ter win-dow win-ter with-in with-out won-der
won-der-ful work-er world writ-er yel-low
"""

# %%
# The words
# ---------
# `treecrf.datasets.fetch_hyphenation` reads the files of the papers. They contain words and, for
# each letter, 1 if a hyphen may follow it and 0 otherwise.


def divided_words(subset: str) -> list[str]:
    """Read the words of a subset, with hyphens where they may be divided."""
    pairs = zip(*fetch_hyphenation(subset=subset, return_X_y=True), strict=True)
    return [
        "".join(letter + "-" * int(label) for letter, label in zip(word, labels, strict=True))
        for word, labels in pairs
    ]


def split(word: str) -> tuple[str, str]:
    """Split a hyphenated word into its letters and one label per letter."""
    pieces = word.split("-")
    return "".join(pieces), "-".join("." * (len(piece) - 1) for piece in pieces) + "."


def join(letters: str, labels: np.ndarray) -> str:
    """Insert hyphens into a word according to its labels."""
    return "".join(letter + label.strip(".") for letter, label in zip(letters, labels, strict=True))


if (Path(os.environ.get("TREECRF_DATA", "")) / "hyphen").is_dir():
    train, test = divided_words("train"), divided_words("test")
else:
    common = COMMON_WORDS.split()
    test = common[::4]
    train = [word for word in common if word not in test]

X_train, y_train = map(list, zip(*map(split, train), strict=True))
X_test, y_test = map(list, zip(*map(split, test), strict=True))
print(f"{len(train)} words for training, {len(test)} other words for testing")
print(X_train[7], y_train[7])

# %%
# Training
# --------
# A string is a sequence of symbols, so the words need no preprocessing. The window is the one of
# the papers. The letter accuracy excludes the last letter of each word, because no hyphen can
# follow it.

crf = TreeCRF(window=(2, 3), max_iter=60, max_leaf_nodes=100, l2_regularization=20)
crf.fit(X_train, y_train)
predicted = crf.predict(X_test)
letters = token_accuracy_score([y[:-1] for y in y_test], [labels[:-1] for labels in predicted])
words = sequence_accuracy_score(y_test, predicted)
print(f"{letters:.1%} of the letters and {words:.1%} of the words are correct")

# %%
# Predictions for some test words. If a prediction is wrong, the correct hyphenation follows.

for word, found in list(zip(test, map(join, X_test, predicted), strict=True))[:24]:
    print(f"{found:20s}" + ("" if found == word else f"should be {word}"))

# %%
# How sure is it?
# ---------------
# ``predict_proba`` returns the probability of a hyphen after each letter, given the whole word.
# Orange bars mark the correct positions of hyphens.

longest = sorted(range(len(test)), key=lambda i: -len(test[i]))[:8]
probabilities = crf.predict_proba([X_test[i] for i in longest])
hyphen = list(crf.classes_).index("-")

figure, axes = plt.subplots(4, 2, figsize=(7.5, 6.4), sharey=True, layout="constrained")
for ax, i, table in zip(axes.flat, longest, probabilities, strict=True):
    places = np.arange(len(X_test[i]))
    colors = ["#e0952f" if label == "-" else "#c9ced6" for label in y_test[i]]
    ax.bar(places + 0.5, table[:, hyphen], width=0.5, color=colors)
    ax.axhline(0.5, color="#8a8f98", linewidth=0.6, linestyle=":")
    ax.set_xticks(places, list(X_test[i]), family="monospace")
    ax.set(ylim=(0, 1), yticks=(0, 0.5, 1))
    ax.tick_params(length=0)
    ax.spines[["top", "right"]].set_visible(False)
figure.suptitle("Probability of a hyphen between two letters")
figure.supxlabel("orange: a hyphen is allowed here", fontsize=9, color="#8a5a14")
plt.show()
