"""Public labeled sequences of numbers and mixed tables: where they are, and how they are read.

Each set is read by one function from the files of one public repository at one commit. The files
and their SHA-256 checksums are listed in ``real_files.sha256``, in the format of ``sha256sum``; see
`real_files.py` for the download. Rows are positions, and each position has a label. Sequences are
tested in folds by person (or station, song, machine, ...), so that no person is in both parts.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.io
from real_sequences import TRAIN_ONLY, LabeledSequences, folds_by_person


@dataclass(frozen=True)
class RealSet:
    """A public set.

    Attributes
    ----------
    repository, commit : str
        Where the files are, on GitHub.
    license : str
        Of the data.
    read : callable
        Reads the sequences from a folder with the files of the repository.
    """

    repository: str
    commit: str
    license: str
    read: Callable[[Path], LabeledSequences]


def labeled(
    tables: Sequence[pd.DataFrame],
    labels: Sequence[Sequence[str]],
    names: Sequence[str],
    folds: Sequence[int],
) -> LabeledSequences:
    """Collect tables of numbers and their labels."""
    X = [table.to_numpy(np.float32) for table in tables]
    y = [np.asarray(each, dtype=str) for each in labels]
    return LabeledSequences(X, y, list(names), list(folds), list(map(str, tables[0].columns)))


SETS: dict[str, RealSet] = {}


def real_set(repository: str, commit: str, license: str) -> Callable:
    """Enter a function into ``SETS`` that reads a set ``NAME``; it is called ``read_NAME``."""

    def enter(read: Callable[[Path], LabeledSequences]) -> Callable[[Path], LabeledSequences]:
        name = read.__name__.removeprefix("read_")
        SETS[name] = RealSet(repository, commit, license, read)
        return read

    return enter


# Movements


@real_set(
    "GeoTecINIT/sp-sw-har-dataset",
    "1408d85a512a53861de7bc4729dee283fff2ea9d",
    "CC BY 4.0",
)
def read_phone(folder: Path) -> LabeledSequences:
    """Five activities of four persons with a phone and a watch, ten a second.

    Means and deviations over a tenth of a second of the accelerometers and gyroscopes.
    """
    paths = sorted(folder.glob("DATA/s*/*_sp.csv"))
    tables, labels, names = [], [], []
    for path in paths:
        phone = pd.read_csv(path)
        watch = pd.read_csv(path.with_name(path.name.replace("_sp", "_sw")))
        start = max(phone["timestamp"].min(), watch["timestamp"].min())
        blocks = [_tenths(each, start) for each in (phone, watch)]
        joined = blocks[0].join(blocks[1], lsuffix="_phone", rsuffix="_watch", how="inner")
        tenth = (phone["timestamp"] - start) // 100
        tables.append(joined)
        labels.append(phone["label"].groupby(tenth).agg(lambda each: each.mode()[0])[joined.index])
        names.append(f"{path.parent.name}/{path.stem}")
    return labeled(tables, labels, names, folds_by_person(names, 4))


def _tenths(sensor: pd.DataFrame, start: int) -> pd.DataFrame:
    """Return means and deviations of a sensor's axes and magnitudes, over tenths of a second."""
    values = sensor[["x_acc", "y_acc", "z_acc", "x_gyro", "y_gyro", "z_gyro"]].copy()
    for kind in ("acc", "gyro"):
        values[kind] = np.sqrt((values[[f"{axis}_{kind}" for axis in "xyz"]] ** 2).sum(axis=1))
    tenth = (sensor["timestamp"] - start) // 100
    moments = values.groupby(tenth).agg(["mean", "std"])
    moments.columns = ["_".join(pair) for pair in moments.columns]
    return moments


EYE_EVENTS = dict(enumerate(["fixation", "saccade", "glissade", "pursuit", "blink", "other"], 1))


@real_set(
    "richardandersson/EyeMovementDetectorEvaluation",
    "3e12416ab3fd6254c81811cf03f8e5d67c5d7129",
    "GPL-3.0",
)
def read_eye(folder: Path) -> LabeledSequences:
    """Eye movements of viewers of pictures, by coder MN: 4.8 s, every second of 500 a second.

    The position on the screen, missing where the eye was lost, and its velocity.
    """
    paths = sorted(folder.glob("annotated_data/data used in the article/img/*_MN.mat"))
    tables, labels, names = [], [], []
    for path in paths:
        samples = scipy.io.loadmat(path)["ETdata"]["pos"][0, 0]
        position = np.where(samples[:, 3:4] == 0, np.nan, samples[:, 3:5])
        velocity = np.gradient(position, axis=0)
        table = np.column_stack([position, velocity, np.hypot(*velocity.T)])[::2][:1200]
        tables.append(pd.DataFrame(table, columns=["x", "y", "velocity_x", "velocity_y", "speed"]))
        labels.append([EYE_EVENTS[int(code)] for code in samples[::2, 5][:1200]])
        names.append(f"{path.name[:4]}/{path.stem}")
    return labeled(tables, labels, names, folds_by_person(names, 2))


@real_set(
    "amazon-science/goal-gps-ordered-activity-labels",
    "730ae08c7009c554035ff3d78f42f45ff1edd988",
    "CC BY 4.0",
)
def read_gps(folder: Path) -> LabeledSequences:
    """Parcel carriers on foot or driving: 6 minutes, a position each 5 s; the first 300 traces.

    Seconds and meters since the position before.
    """
    archive = zipfile.ZipFile(folder / "trajectories.zip")
    members = sorted(name for name in archive.namelist() if name.endswith(".csv"))[:300]
    traces = [pd.read_csv(io.BytesIO(archive.read(name))) for name in members]
    tables = [_steps(trace) for trace in traces]
    names = [f"{i}/{Path(name).stem}" for i, name in enumerate(members)]
    folds = [0 if i % 3 == 2 else TRAIN_ONLY for i in range(len(names))]
    return labeled(tables, [trace["groundtruth"] for trace in traces], names, folds)


def _steps(trace: pd.DataFrame) -> pd.DataFrame:
    """Return the steps between the positions of a trace; those of the first row are missing."""
    steps = trace[["x", "y"]].diff()
    steps["seconds"] = pd.to_datetime(trace["timestamp"]).diff().dt.total_seconds()
    steps["speed"] = np.hypot(steps["x"], steps["y"]) / steps["seconds"]
    return steps


GESTURES = ("rest", "flexion", "extension", "radial", "ulnar", "pronation", "supination", "fist")


@real_set(
    "aljazfrancic/myo-readings-dataset",
    "2630b1dd8b83b2fa386f06d536f64254ad541ac5",
    "MIT",
)
def read_muscles(folder: Path) -> LabeledSequences:
    """Seven gestures of the hand and rest, from eight electrodes on the forearm, of six persons.

    Mean absolute value and mean absolute change over a fifth of a second (40 samples).
    """
    paths = sorted(folder.glob("_readings_right_hand/*-1/[1-7].txt"))
    tables, labels, names = [], [], []
    for path in paths:
        samples = pd.read_csv(path, names=range(9), on_bad_lines="skip").dropna().to_numpy(float)
        n_blocks = len(samples) // 40
        signals = samples[: 40 * n_blocks, :8].reshape(n_blocks, 40, 8)
        changes = np.abs(np.diff(signals, axis=1)).mean(axis=1)
        tables.append(pd.DataFrame(np.hstack([np.abs(signals).mean(axis=1), changes])))
        labels.append([GESTURES[int(code)] for code in samples[20 : 40 * n_blocks : 40, 8]])
        names.append(f"{path.parent.name[:5]}/{path.stem}")
    return labeled(tables, labels, names, folds_by_person(names, 2))


POSTURES = {
    "LYING_DOWN": "lying", "SITTING": "sitting", "OR_standing": "standing",
    "FIX_walking": "walking", "FIX_running": "running", "BICYCLING": "cycling",
}  # fmt: skip
PHONE_COLUMNS = [
    *(f"{sensor}:magnitude_stats:{moment}" for moment in ("mean", "std", "time_entropy")
      for sensor in ("raw_acc", "proc_gyro", "watch_acceleration")),
    *(f"{sensor}:3d:mean_{axis}" for axis in "xyz" for sensor in ("raw_acc", "watch_acceleration")),
    "location:max_speed", "location:log_diameter",
    *(f"audio_naive:mfcc{i}:mean" for i in range(4)),
    "discrete:app_state:is_active", "discrete:battery_state:is_charging",
    "discrete:on_the_phone:is_True", "discrete:wifi_status:is_reachable_via_wifi",
    "lf_measurements:screen_brightness", "lf_measurements:light",
    *(f"discrete:time_of_day:between{hours}" for hours in ("0and6", "6and12", "12and18")),
]  # fmt: skip


@real_set(
    "rohankumar1999/Extrasensory-Dataset",
    "8522ae5b4c7aeaafcf8296d84290b7b9dbd8a618",
    "CC BY-NC-SA 4.0",
)
def read_days(folder: Path) -> LabeledSequences:
    """Postures of ten persons in their daily lives (ExtraSensory), each minute, from their phones.

    Stretches of 20 labeled minutes or more, at most 100 minutes each; many sensors are missing.
    """
    tables, labels, names = [], [], []
    for i, path in enumerate(sorted(folder.glob("user_data/*.csv.gz"))):
        minutes = pd.read_csv(path)
        marks = minutes[[f"label:{name}" for name in POSTURES]].fillna(0)
        minutes, marks = minutes[marks.sum(axis=1) == 1], marks[marks.sum(axis=1) == 1]
        postures = np.array(list(POSTURES.values()))[marks.to_numpy().argmax(axis=1)]
        stretch = (minutes["timestamp"].diff() > 180).cumsum().to_numpy()
        for j in np.unique(stretch):
            rows = np.flatnonzero(stretch == j)
            if len(rows) >= 20:
                tables.append(minutes[PHONE_COLUMNS].iloc[rows[:100]])
                labels.append(postures[rows[:100]])
                names.append(f"{i}/{j}")
    return labeled(tables, labels, names, folds_by_person(names, 2))


# Machines

SKAB_TESTED = "1000100100110100101000011100010110"


@real_set(
    "waico/SKAB",
    "b2c0d46c2971dcbfe71e26087b6d231998bb91c2",
    "GPL-3.0",
)
def read_skab(folder: Path) -> LabeledSequences:
    """Anomalies of a pump and its valves (SKAB), from eight sensors, every fourth second."""
    paths = sorted(folder.glob("data/*/*.csv"))
    logs = [pd.read_csv(path, sep=";")[::4] for path in paths]
    tables = [log.drop(columns=["datetime", "anomaly", "changepoint"]) for log in logs]
    labels = [log["anomaly"].astype(int) for log in logs]
    names = [f"{path.parent.name}-{path.stem}/experiment" for path in paths]
    folds = [0 if tested == "1" else TRAIN_ONLY for tested in SKAB_TESTED]
    return labeled(tables, labels, names, folds)


# Weather

COMPASS = ("N", "NNE", "NE", "ENE", "E", "ESE", "SE", "SSE",
           "S", "SSW", "SW", "WSW", "W", "WNW", "NW", "NNW")  # fmt: skip
WIND_DIRECTIONS = ["WindGustDir", "WindDir9am", "WindDir3pm"]


@real_set(
    "cran/rattle.data",
    "7c4af93150a711deebb7f4c8dbd7258a878881fc",
    "GPL-2.0",
)
def read_weather(folder: Path) -> LabeledSequences:
    """Rain at 24 Australian stations each day of 2014, from all instruments but the gauge.

    Instruments that a station does not have are missing; directions of the wind are categories.
    """
    import rdata  # not a requirement of other benchmarks

    days = rdata.read_rda(folder / "data/weatherAUS.RData")["weatherAUS"]
    days["Date"] = pd.to_datetime(days["Date"], unit="D")
    days = days[(days["Date"].dt.year == 2014) & days["RainToday"].notna()]
    stations = sorted(days["Location"].unique())[::2][:24]
    tables = [_weather_table(days[days["Location"] == station]) for station in stations]
    labels = [days.loc[days["Location"] == station, "RainToday"] for station in stations]
    names = [f"{station}/2014" for station in stations]
    return labeled(tables, labels, names, folds_by_person(names, 2))


def _weather_table(days: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers of each day, and indicators of the directions of the wind."""
    rain = ["Rainfall", "RainToday", "RISK_MM", "RainTomorrow"]
    numbers = days.drop(columns=["Date", "Location", *rain, *WIND_DIRECTIONS])
    winds = days[WIND_DIRECTIONS].astype(pd.CategoricalDtype(COMPASS))
    return pd.concat([numbers.astype(float), pd.get_dummies(winds).astype(float)], axis=1)


# The earth


@real_set(
    "seg/2016-ml-contest",
    "160430c84659785c7cfc74fd380ffa05c387b8cb",
    "data of the contest: open",
)
def read_facies(folder: Path) -> LabeledSequences:
    """Facies of the rock along ten wells, half a foot a row, from well logs and the formation."""
    logs = pd.read_csv(folder / "facies_vectors.csv").sort_values(["Well Name", "Depth"])
    formations = pd.get_dummies(logs["Formation"]).astype(float)
    measured = ["GR", "ILD_log10", "DeltaPHI", "PHIND", "PE", "NM_M", "RELPOS"]
    table = pd.concat([logs[measured], formations], axis=1)
    wells = [rows for _, rows in logs.groupby("Well Name").groups.items()]
    names = [f"{name}/well" for name in logs.groupby("Well Name").groups]
    folds = [int(fold) for fold in "1100011100"]
    return labeled([table.loc[rows] for rows in wells],
                   [logs.loc[rows, "Facies"] for rows in wells], names, folds)  # fmt: skip


# Markets

WEEK = 7 * 48  # half hours


@real_set(
    "scikit-multiflow/streaming-datasets",
    "f1eb9f068c3450233721c3beac6fb0e880e9e7d7",
    "Harries (1999): public",
)
def read_elec(folder: Path) -> LabeledSequences:
    """Price of electricity up or down (Elec2), half hours, in weeks; the last 25 are tested."""
    log = pd.read_csv(folder / "elec.csv").iloc[-57 * WEEK :]
    weeks = [log.iloc[start : start + WEEK] for start in range(0, len(log), WEEK)]
    names = [f"{i}/week" for i in range(len(weeks))]
    folds = [TRAIN_ONLY if i < 32 else 0 for i in range(len(weeks))]
    return labeled([week.drop(columns="class") for week in weeks],
                   [week["class"] for week in weeks], names, folds)  # fmt: skip


@real_set(
    "vincentarelbundock/Rdatasets",
    "1dcc2bf5f955cc1224a3e1307256e1fe86b68dae",
    "GPL-3.0",
)
def read_unions(folder: Path) -> LabeledSequences:
    """Whether a man is a member of a union, each year from 1980 to 1987; 545 men."""
    years = pd.read_csv(folder / "csv/plm/Males.csv")
    numbers = years[["year", "school", "exper", "wage"]]
    categories = ["ethn", "married", "health", "industry", "occupation", "residence"]
    indicators = pd.get_dummies(years[categories]).astype(float)
    residences = [name for name in indicators if name.startswith("residence")]
    indicators.loc[years["residence"].isna(), residences] = np.nan
    table = pd.concat([numbers, indicators], axis=1)
    men = years.groupby("nr").groups
    folds = [0 if i % 3 == 2 else TRAIN_ONLY for i in range(len(men))]
    return labeled([table.loc[rows] for rows in men.values()],
                   [years.loc[rows, "union"] for rows in men.values()],
                   [f"{man}/years" for man in men], folds)  # fmt: skip


# Biology

NIGHTS = ("01a", "01b", "02a", "02b", "03", "04", "14", "16", "32",
          "37", "41", "45", "48", "59", "60", "61", "66", "67")  # fmt: skip


@real_set(
    "fennialesmana/sleep-stage-identification",
    "e21842d3ddf7d1cd5cc265f4ed2586ecedae01df",
    "data of PhysioNet: ODC-BY",
)
def read_sleep(folder: Path) -> LabeledSequences:
    """Stages of sleep each 30 s, from 18 features of the heart rate, in 18 nights of 16 persons."""
    features = scipy.io.loadmat(folder / "features/hrv_features_unorm.mat")["hrv_features_unorm"]
    stages = scipy.io.loadmat(folder / "features/target.mat")["target"][:, 3]
    lengths = scipy.io.loadmat(folder / "nRecSamples.mat")["nRecSamples"].ravel()
    cuts = np.cumsum(lengths[:-1])
    names = [f"{night[:2]}/{night}" for night in NIGHTS]
    folds = [int(fold) for fold in "000000110011111001"]
    tables = [pd.DataFrame(rows) for rows in np.split(features, cuts)]
    return labeled(tables, np.split(stages.astype(int), cuts), names, folds)


@real_set(
    "mad-lab-fau/tpcp",
    "8180e2fb0804484c18b0f06a94610cf8285eb467",
    "data of PhysioNet: ODC-BY",
)
def read_heartbeats(folder: Path) -> LabeledSequences:
    """Premature ventricular beats among all beats of 12 persons, from the times between beats."""
    paths = sorted(folder.glob("example_data/ecg_mit_bih_arrhythmia/data/*_all.csv"))
    tables, labels, names = [], [], []
    for path in paths:
        beats = pd.read_csv(path)["R"].to_numpy()
        premature = pd.read_csv(str(path).replace("_all", "_pvc"))["PVC"]
        gaps = np.diff(beats) / 360
        before = np.append(np.nan, gaps)
        tables.append(pd.DataFrame({"before": before, "after": np.append(gaps, np.nan)}))
        labels.append(np.where(np.isin(beats, premature), "premature", "other"))
        names.append(f"{path.stem[:3]}/record")
    return labeled(tables, labels, names, folds_by_person(names, 2))


@real_set(
    "eternagame/EternaBench",
    "3f68978c357f1158d681df59ee7a9d5b9bd2a4f2",
    "MIT",
)
def read_rna(folder: Path) -> LabeledSequences:
    """Whether a nucleotide is paired in the known structure, from the base and SHAPE reactivity."""
    path = folder / "analysis/SHAPE_guided_folding/shape_dataset_input.txt"
    molecules = pd.read_csv(path, sep="\t")
    molecules = molecules[molecules["dataset"].str.startswith("shapeknots")]
    tables, labels, names = [], [], []
    for i, molecule in molecules.iterrows():
        bases = pd.Series(list(molecule["sequence"])).astype(pd.CategoricalDtype(list("ACGU")))
        table = pd.get_dummies(bases).astype(float)
        reactivity = np.array(molecule["reactivity"].strip("[]").split(","), dtype=float)
        table["reactivity"] = np.where(reactivity < -500, np.nan, reactivity)
        tables.append(table)
        labels.append(["unpaired" if s == "." else "paired" for s in molecule["GT_struct"]])
        names.append(f"{i}/{molecule['name'].strip()}")
    return labeled(tables, labels, names, folds_by_person(names, 2))


AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
HYDROPATHY = dict(zip("ARNDCQEGHILKMFPSTWYV", [
    1.8, -4.5, -3.5, -3.5, 2.5, -3.5, -3.5, -0.4, -3.2, 4.5,
    3.8, -3.9, 1.9, 2.8, -1.6, -0.8, -0.7, -0.9, -1.3, 4.2,
], strict=True))  # fmt: skip


@real_set(
    "BernhoferM/TMbed",
    "e87e5dd49738766ad3952fe043c25996827c056d",
    "Apache-2.0",
)
def read_membrane(folder: Path) -> LabeledSequences:
    """Topology of 130 proteins in membranes: helix, signal, inside or outside; known residues.

    Indicators of the amino acid and its hydropathy (Kyte and Doolittle).
    """
    lines = (folder / "data/datasets/alpha.fasta").read_text().split()
    names = [line[1:].split("|")[0] for line in lines[0::3]]
    proteins = dict(zip(names, zip(lines[1::3], lines[2::3], strict=True), strict=True))
    chosen = Path(__file__).with_name("membrane_proteins.txt").read_text().split()
    tables, labels = [], []
    for name in chosen:
        known = [(a, label) for a, label in zip(*proteins[name], strict=True) if label != "U"]
        acids = pd.Series([acid for acid, _ in known])
        table = pd.get_dummies(acids.astype(pd.CategoricalDtype(list(AMINO_ACIDS)))).astype(float)
        tables.append(table.assign(hydropathy=acids.map(HYDROPATHY)))
        labels.append([label.upper() for _, label in known])
    folds = [TRAIN_ONLY if i < 80 else 0 for i in range(len(chosen))]
    return labeled(tables, labels, [f"{name}/protein" for name in chosen], folds)


@real_set(
    "NickleDave/hybrid-vocal-classifier",
    "782f21289ea71265b25a4a43e189fa763d57c629",
    "BSD-3-Clause",
)
def read_songs(folder: Path) -> LabeledSequences:
    """Syllables in 42 songs of a Bengalese finch on four days, from durations and pauses in ms."""
    paths = sorted(folder.glob("tests/data_for_tests/cbins/gy6or6/*/*.not.mat"))
    tables, labels, names = [], [], []
    for path in paths:
        song = scipy.io.loadmat(path, squeeze_me=True)
        onsets, offsets = song["onsets"], song["offsets"]
        pauses = onsets[1:] - offsets[:-1]
        tables.append(pd.DataFrame({
            "duration": offsets - onsets,
            "before": np.append(np.nan, pauses), "after": np.append(pauses, np.nan),
        }))  # fmt: skip
        syllables = str(song["labels"])
        labels.append([each if each in "abcdefghijk" else "other" for each in syllables])
        names.append(f"{path.parent.name}/{path.stem}")
    return labeled(tables, labels, names, folds_by_person(names, 2))


# Music

SEMITONES = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}
ROOTS = ("C", "C#", "D", "Eb", "E", "F", "F#", "G", "Ab", "A", "Bb", "B")


@real_set(
    "BITSgithub/bach",
    "d1bea0707aee4cf851ec9aecf51797674ee874af",
    "data of UCI: CC BY 4.0",
)
def read_chorales(folder: Path) -> LabeledSequences:
    """Roots of the chords in 60 chorales of Bach, from the notes that sound at each event."""
    path = folder / "jsbach_chorals_harmony.data"
    events = pd.read_csv(path, skipinitialspace=True)
    events["root"] = [ROOTS[_semitone(chord.strip())] for chord in events["Chord"]]
    events["bass"] = [_semitone(note.strip()) for note in events["Bass"]]
    tables, labels, names = [], [], []
    for name, chorale in events.groupby("Choral_ID"):
        notes = chorale[[f"PC{i}" for i in range(1, 13)]].eq("YES").astype(float)
        bass = pd.get_dummies(chorale["bass"].astype(pd.CategoricalDtype(range(12))), prefix="bass")
        tables.append(pd.concat([notes, bass.astype(float), chorale["Meter"]], axis=1))
        labels.append(chorale["root"])
        names.append(f"{name}/chorale")
    return labeled(tables, labels, names, folds_by_person(names, 2))


def _semitone(name: str) -> int:
    """Return the number of a note, such as ``C#`` in ``C#m7``: semitones above C."""
    accidental = {"#": 1, "b": -1}.get(name[1:2], 0)
    return (SEMITONES[name[0]] + accidental) % 12
