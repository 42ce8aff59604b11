"""Draw the moving picture of the README: probabilities of labels while measurements arrive.

Run in the root of the project: python docs/pictures/stream.py. It writes docs/_static/stream.gif.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.patches import Patch

from treecrf import TreeCRF
from treecrf.plotting.common import style_of

TARGET = Path(__file__).parents[1] / "_static" / "stream.gif"
STATES = np.array(["off", "idle", "busy"])
STYLES = [style_of(k) | {"linewidth": 0} for k in range(len(STATES))]
N_SHOWN = 90
LAG = 2
# Positions that arrive between two frames.
STEP = 2


def simulate(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return two noisy sensors of a machine, and its state."""
    state = np.cumsum(rng.random(300) < 0.06) % 3
    power = np.array([0.0, 1.0, 1.4])[state] + rng.normal(scale=0.6, size=300)
    sound = np.array([0.0, 0.3, 1.5])[state] + rng.normal(scale=0.9, size=300)
    return np.column_stack([power, sound]), STATES[state]


def main() -> None:
    rng = np.random.default_rng(2)
    X, y = zip(*(simulate(rng) for _ in range(41)), strict=True)
    crf = TreeCRF(window=(5, 0), random_state=0).fit(X[:40], y[:40])
    x, truth = X[40][:N_SHOWN], y[40][:N_SHOWN]
    stream = crf.stream(lag=LAG)
    arrived = [row for row in map(stream.push, x) if row is not None]
    proba = np.array([*arrived, *stream.finish()])
    figure, (sensors, shares) = plt.subplots(
        2, figsize=(8, 3.4), dpi=90, sharex=True, height_ratios=[1, 1.3], layout="constrained"
    )
    order = [list(crf.classes_).index(state) for state in STATES]

    def draw(n: int) -> list:
        """Draw the first n measurements, and the probabilities that are known by then."""
        for ax in (sensors, shares):
            ax.clear()
            ax.spines[["top", "right"]].set_visible(False)
        sensors.plot(x[:n, 0], color="#333333", lw=1.2)
        sensors.plot(x[:n, 1], color="#9a9a9a", lw=1.2)
        sensors.set(ylabel="sensors", ylim=(-2.2, 4.6), yticks=[])
        n_known = max(n - LAG, 0)
        places = np.arange(n_known)
        tops = np.cumsum(proba[:n_known, order], axis=1).T
        for low, high, style in zip([0 * places, *tops], tops, STYLES, strict=False):
            shares.fill_between(places, low, high, step="mid", **style)
        for state, style in zip(STATES, STYLES, strict=True):
            runs = [(t - 0.5, 1) for t in range(n) if truth[t] == state]
            shares.broken_barh(runs, (1.06, 0.1), **style)
        shares.set(ylim=(0, 1.18), xlim=(0, N_SHOWN - 1), xlabel="minutes", ylabel="probability")
        shares.set_yticks([0, 0.5, 1, 1.11], ["0", "0.5", "1", "true"])
        patches = [Patch(**style) for style in STYLES]
        sensors.legend(patches, STATES, loc="upper right", ncols=3, fontsize="small", frameon=False)
        return []

    frames = [*range(2, N_SHOWN + 1, STEP), *[N_SHOWN] * 12]
    FuncAnimation(figure, draw, frames).save(TARGET, PillowWriter(fps=8))
    print(f"{TARGET}: {TARGET.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
