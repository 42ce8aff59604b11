"""Datasets from a folder, and downloaded from a local server."""

import functools
import hashlib
import http.server
import shutil
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from treecrf import datasets
from treecrf.datasets import sources

TEXT = b"He PRP B-NP\nreckons VBZ B-VP\n\nYes UH O\n"


@pytest.fixture(autouse=True)
def no_folder(monkeypatch):
    """The environment names no folder."""
    monkeypatch.delenv(sources.FOLDER_VARIABLE, raising=False)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A separate cache for the test."""
    pooch = pytest.importorskip("pooch")
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache" / name)
    return tmp_path / "cache"


@pytest.fixture
def address():
    """Address of a local server, and the folder that it serves."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    def serve(folder):
        handler = functools.partial(Handler, directory=folder)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    servers = []
    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def offer(monkeypatch, url, content=TEXT):
    download = sources.Download(url, hashlib.sha256(content).hexdigest())
    monkeypatch.setitem(sources.DOWNLOADS, "conll2000/train.txt", download)


# Downloads


def test_files_are_downloaded_once(address, tmp_path, monkeypatch, cache):
    (tmp_path / "train.txt").write_bytes(TEXT)
    offer(monkeypatch, f"{address(tmp_path)}/train.txt")
    X, y = datasets.fetch_conll2000(return_X_y=True)
    assert y == [["B-NP", "B-VP"], ["O"]]
    (tmp_path / "train.txt").unlink()
    again = datasets.fetch_conll2000()
    assert again.data == X
    assert Path(again.filename) == cache / "treecrf" / "conll2000" / "train.txt"


@pytest.mark.usefixtures("cache")
def test_other_bytes_than_expected_are_refused(address, tmp_path, monkeypatch):
    (tmp_path / "train.txt").write_bytes(b"something else")
    offer(monkeypatch, f"{address(tmp_path)}/train.txt")
    with pytest.raises(OSError, match=r"(?s)SHA256 hash .* does not match.*save it in a folder as"):
        datasets.fetch_conll2000()


@pytest.mark.usefixtures("cache")
def test_without_a_network_the_error_explains_where_to_put_the_file(monkeypatch):
    offer(monkeypatch, "http://127.0.0.1:9/train.txt")
    with pytest.raises(OSError, match="the download failed") as caught:
        datasets.fetch_conll2000()
    message = str(caught.value)
    for part in (
        "http://127.0.0.1:9/train.txt",
        "conll2000/train.txt",
        "data_home",
        "TREECRF_DATA",
    ):
        assert part in message


def test_without_pooch_the_error_explains_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r'pip install "treecrf\[datasets\]".*TREECRF_DATA'):
        datasets.fetch_protein()


def test_addresses_do_not_change_their_content():
    for name, (url, checksum) in sources.DOWNLOADS.items():
        assert url.startswith("https://"), name
        assert len(bytes.fromhex(checksum)) == 32, name
        assert any(len(part) == 40 for part in url.split("/")), f"{name} is not at a commit"


# Folders


def test_a_folder_is_named_by_the_argument_or_else_by_the_environment(tmp_path, monkeypatch):
    for name, text in (("one", TEXT), ("two", b"No UH O\n")):
        (tmp_path / name / "conll2000").mkdir(parents=True)
        (tmp_path / name / "conll2000" / "train.txt").write_bytes(text)
    monkeypatch.setenv("TREECRF_DATA", str(tmp_path / "two"))
    assert datasets.fetch_conll2000().target == [["O"]]
    assert datasets.fetch_conll2000(data_home=tmp_path / "one").target[1] == ["O"]
    assert len(datasets.fetch_conll2000(data_home=str(tmp_path / "one")).data) == 2


def test_a_file_that_the_folder_lacks_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"esp\.testa is missing; download it from https"):
        datasets.fetch_conll2002(subset="validation", data_home=tmp_path)


@pytest.mark.parametrize(
    "fetch",
    [
        datasets.fetch_conll2000,
        datasets.fetch_conll2002,
        datasets.fetch_hyphenation,
        datasets.fetch_nettalk,
        datasets.fetch_occupancy,
        datasets.fetch_protein,
    ],
)
def test_bad_parameters_are_named(fetch):
    with pytest.raises(ValueError, match=r"'subset'.*Got 'dev'"):
        fetch(subset="dev")
    with pytest.raises(ValueError, match=r"'data_home'.*Got 3"):
        fetch(data_home=3)


OCCUPANCY = (
    '"date","Temperature","Humidity","Light","CO2","HumidityRatio","Occupancy"\n'
    '"1","2015-02-04 17:51:00",23.18,27.272,426,721.25,0.00479,1\n'
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the columns date, Temperature"),
        (OCCUPANCY.replace("CO2", "CO"), "line 1: expected the columns date, Temperature"),
        (OCCUPANCY.split("\n")[0], "the file ends after its header"),
        (OCCUPANCY + "1,2\n", "line 3: 2 columns; expected 8"),
        (OCCUPANCY.replace("27.272", "wet"), "line 2: could not convert .*wet"),
        (OCCUPANCY.replace("27.272", "nan"), "line 2: expected numbers, and 0 or 1 last"),
        (OCCUPANCY.replace(",1\n", ",2\n"), "line 2: expected numbers, and 0 or 1 last"),
        (OCCUPANCY.replace("2015-02-04", "yesterday"), "line 2: Error parsing datetime"),
    ],
)
def test_damaged_occupancy_files_are_refused(text, message, tmp_path):
    (tmp_path / "occupancy").mkdir()
    (tmp_path / "occupancy" / "datatraining.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        datasets.fetch_occupancy(data_home=tmp_path)


def test_rows_that_are_not_windows_are_refused(tmp_path):
    (tmp_path / "protein").mkdir()
    (tmp_path / "protein" / "sparse.protein.11.train").write_text("1 3 231\n1 1 1 5 0\n")
    with pytest.raises(ValueError, match="sequence 1: the rows are not windows of 'ACDEF"):
        datasets.fetch_protein(data_home=tmp_path)


# Real data


def sizes(bunch):
    assert [len(x) for x in bunch.data] == [len(y) for y in bunch.target]
    return len(bunch.data), sum(map(len, bunch.data))


@pytest.mark.parametrize(
    ("fetch", "subset", "expected"),
    [
        (datasets.fetch_protein, "train", (111, 18105)),
        (datasets.fetch_protein, "test", (17, 3520)),
        (datasets.fetch_hyphenation, "train", (1951, 14000)),
        (datasets.fetch_hyphenation, "test", (908, 6744)),
        (datasets.fetch_nettalk, "train", (1000, 7230)),
        (datasets.fetch_nettalk, "test", (1000, 7242)),
        pytest.param(
            datasets.fetch_conll2000, "train", (8936, 211727), marks=pytest.mark.exhaustive
        ),
        (datasets.fetch_conll2000, "test", (2012, 47377)),
        pytest.param(
            datasets.fetch_conll2002, "train", (8323, 264715), marks=pytest.mark.exhaustive
        ),
        pytest.param(
            datasets.fetch_conll2002, "validation", (1915, 52923), marks=pytest.mark.exhaustive
        ),
        (datasets.fetch_conll2002, "test", (1517, 51533)),
        (datasets.fetch_occupancy, "train", (1, 8143)),
        (datasets.fetch_occupancy, "test", (2, 2665 + 9752)),
    ],
)
def test_sizes_are_the_published_ones(fetch, subset, expected, data_folder):
    assert sizes(fetch(subset=subset, data_home=data_folder)) == expected


@pytest.mark.exhaustive
def test_labels_are_the_published_ones(data_folder):
    def labels(fetch, **options):
        bunch = fetch(data_home=data_folder, **options)
        return {label for labels in bunch.target for label in labels}

    assert labels(datasets.fetch_protein) == set("_eh")
    assert labels(datasets.fetch_hyphenation) == set("01")
    assert labels(datasets.fetch_nettalk) == set("012<>")
    assert len(labels(datasets.fetch_nettalk, task="phoneme")) == 51
    assert len(labels(datasets.fetch_nettalk, task="full")) == 126
    assert len(labels(datasets.fetch_conll2000)) == 22
    assert len(labels(datasets.fetch_conll2002)) == 9
    assert labels(datasets.fetch_occupancy) == {0, 1}


def test_the_checksums_are_those_of_the_files(data_folder):
    for name, (_, checksum) in sources.DOWNLOADS.items():
        content = (data_folder / name).read_bytes()
        # The authors' files do not name the column of row numbers.
        content = content.removeprefix(b'"sno",') if "occupancy" in name else content
        assert hashlib.sha256(content).hexdigest() == checksum, name


def test_occupancy_with_and_without_the_name_of_the_first_column(data_folder, tmp_path):
    shutil.copytree(data_folder / "occupancy", tmp_path / "occupancy")
    path = tmp_path / "occupancy" / "datatraining.txt"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().removeprefix(b'"sno",'))
    here, there = (datasets.fetch_occupancy(data_home=home) for home in (tmp_path, data_folder))
    np.testing.assert_array_equal(here.data[0], there.data[0])
    np.testing.assert_array_equal(here.dates[0], there.dates[0])
    assert here.data[0][0].tolist() == [23.18, 27.272, 426, 721.25, 0.00479298817650529]


def test_occupancy_as_data_frames(data_folder):
    pd = pytest.importorskip("pandas")
    room = datasets.fetch_occupancy(data_home=data_folder, subset="test", as_frame=True)
    assert list(room.data[1].columns) == room.feature_names
    assert room.data[1].index[0] == pd.Timestamp("2015-02-11 14:48:00")


def test_nettalk_words_without_the_published_lists(data_folder, tmp_path):
    (tmp_path / "nettalk").mkdir()
    shutil.copy(data_folder / "nettalk" / "nettalk.data", tmp_path / "nettalk")
    train, test = (
        datasets.fetch_nettalk(task="full", subset=subset, data_home=tmp_path)
        for subset in ("train", "test")
    )
    assert train.split == test.split == "random"
    assert len(train.data) == len(test.data) == 1000
    assert not set(train.data) & set(test.data)
    assert train.data[:3] == ["disharmony", "corporate", "bakery"]
    published = datasets.fetch_nettalk(task="full", data_home=data_folder)
    assert published.split == "published"
    assert (published.data[0], published.target[0]) == ("to", ["t>", "x0"])


def test_a_small_nettalk_dictionary_is_refused(tmp_path):
    (tmp_path / "nettalk").mkdir()
    (tmp_path / "nettalk" / "nettalk.data").write_text("to\ttx\t>0\t0\n")
    with pytest.raises(ValueError, match="has 1 words; expected at least 2000"):
        datasets.fetch_nettalk(data_home=tmp_path)
