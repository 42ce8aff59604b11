"""Reports in a browser: no errors, keys that work, narrow and dark screens."""

import re
import shutil

import numpy as np
import pytest

from treecrf import LinearCRF, TreeCRF, report

webdriver = pytest.importorskip("selenium.webdriver")
keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser():
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("no Chromium with its driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def numbers():
    """Sequences of numbers, some of which are missing, with three states."""
    rng = np.random.default_rng(0)
    X = []
    y = []
    for _ in range(12):
        state = np.cumsum(rng.random(80) < 0.05) % 3
        x = state[:, None] + rng.normal(size=(80, 2))
        x[rng.random(80) < 0.1, 1] = np.nan
        X.append(x)
        y.append(np.array(["idle", "busy", "off"])[state])
    return X, y


def many_words():
    """A text of 25 different words, some of which are hostile, each rarer than the one before."""
    words = ["<b>bold</b>", "</script>", " ", "a" * 60] + [f"word{k}" for k in range(21)]
    text = [word for k, word in enumerate(words) for _ in range(25 - k)]
    chunks = ["O", "B-NP", "I-NP", "B-<i>VP</i>"]
    return text, [chunks[words.index(word) % 4] for word in text]


@pytest.fixture(scope="module")
def pages(numbers, tmp_path_factory):
    """Files of reports by name."""
    X, y = numbers
    crf = TreeCRF(window=1, max_iter=10, early_stopping=False).fit(X[:8], y[:8])
    linear = LinearCRF(window=1).fit(X[:8], y[:8])
    evil = ["<i>a</i>", "</script>", "b & c", "'\""] * 3
    tags = ["<b>x</b>", "O", "</script><script>document.title = 'broken'</script>"] * 4
    text = LinearCRF().fit([evil] * 3, [tags] * 3)
    words, chunks = many_words()
    forest = TreeCRF(max_iter=10, early_stopping=False, min_samples_leaf=1, transitions="bio")
    forest.fit([words] * 2, [chunks] * 2)
    made = {
        "single": report(linear, X[8:9], y[8:9], other=crf, n_explained=0),
        "numbers": report(crf, X[8:], y[8:], other=linear, X_train=X[:8], title="Machines"),
        "unlabeled": report(crf, X[8:]),
        "words": report(forest, [words], [chunks]),
        "hostile": report(text, [evil] * 2, [tags[::-1]] * 2, title="<b>Title</b>"),
    }
    folder = tmp_path_factory.mktemp("reports")
    for name, page in made.items():
        page.save(folder / f"{name}.html")
    return {name: (folder / f"{name}.html").as_uri() for name in made}


def opened(browser, address, width=1280, scheme="light"):
    """Open a page at a width and in a color scheme; it must not log anything."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(address)
    waited = (
        "return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
    browser.execute_script(waited)
    assert browser.get_log("browser") == []
    return browser


def text_of(browser, selector):
    browser.execute_script("return new Promise((done) => requestAnimationFrame(done))")
    return browser.find_element("css selector", selector).text


def press(browser, *pressed):
    webdriver.ActionChains(browser).send_keys(*pressed).perform()


CHOSEN = "#sequences [aria-live]:not(h3) p"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", ["numbers", "unlabeled", "words", "hostile"])
def test_a_page_loads_and_fits(browser, pages, name, width, scheme):
    opened(browser, pages[name], width, scheme)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert len(browser.find_elements("css selector", "section")) >= 4
    painted = browser.execute_script(
        "const c = document.querySelector('canvas');"
        "return new Set(c.getContext('2d').getImageData(0, 50, c.width, 1).data).size"
    )
    assert painted > 1


def luminance(color):
    channels = np.array([float(part) for part in color[color.index("(") + 1 : -1].split(",")[:3]])
    linear = np.where(
        channels / 255 <= 0.04045, channels / 255 / 12.92, ((channels / 255 + 0.055) / 1.055) ** 2.4
    )
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast(browser, pages, scheme):
    opened(browser, pages["numbers"], scheme=scheme)
    style = "return getComputedStyle(document.querySelector(arguments[0])).{}"
    back = luminance(browser.execute_script(style.format("backgroundColor"), "body"))
    for selector in ("body", ".muted", "nav a"):
        front = luminance(browser.execute_script(style.format("color"), selector))
        high, low = max(front, back), min(front, back)
        assert (high + 0.05) / (low + 0.05) >= 4.5


def test_keys_step_and_zoom(browser, pages):
    opened(browser, pages["numbers"])
    browser.find_element("css selector", "canvas").click()
    first = text_of(browser, "#sequences h3")
    start = text_of(browser, CHOSEN)
    press(browser, keys.ARROW_RIGHT, keys.ARROW_RIGHT)
    later = text_of(browser, CHOSEN)
    number = int(later.split(" ·")[0].removeprefix("Position "))
    assert number == int(start.split(" ·")[0].removeprefix("Position ")) + 2
    press(browser, keys.ARROW_DOWN)
    assert text_of(browser, "#sequences h3") != first
    before = browser.execute_script("return document.querySelector('canvas').toDataURL()")
    press(browser, "+")
    text_of(browser, CHOSEN)
    assert browser.execute_script("return document.querySelector('canvas').toDataURL()") != before
    press(browser, "w")
    assert "contribution" in text_of(browser, "#sequences .bars")
    assert browser.find_element("css selector", ".bars .bar").size["width"] > 60
    fits = (
        "const s = document.querySelector('.bars .scroll'); return s.scrollWidth <= s.clientWidth"
    )
    assert browser.execute_script(fits)
    press(browser, "n")
    assert "true: " in text_of(browser, CHOSEN)
    assert browser.get_log("browser") == []


def test_sections_say_what_to_conclude(browser, pages):
    opened(browser, pages["numbers"])
    confusion = np.array(browser.execute_script("return data.evaluation.confusion"))
    labels = browser.execute_script("return labels")
    n = confusion.sum()
    accuracy = 100 * np.trace(confusion) / n
    common = confusion.sum(axis=1)
    summary = text_of(browser, "#summary")
    assert f"The model labels {accuracy:.1f} % of the positions correctly." in summary
    assert f"Always predicting {labels[common.argmax()]}, the most frequent label," in summary
    assert f"would reach {100 * common.max() / n:.1f} %." in summary
    errors = confusion - np.diag(np.diag(confusion))
    i, j = np.unravel_index(errors.argmax(), errors.shape)
    worst = f"{labels[i]} predicted as {labels[j]} ({errors[i, j]} of {common[i]} positions)"
    assert worst in text_of(browser, "#labels")
    scores = np.array(browser.execute_script("return data.evaluation.by_label.f1"))
    best, worst = scores.argmax(), scores.argmin()
    assert (
        f"{labels[best]} has the highest F1 score ({100 * scores[best]:.1f} %), "
        f"{labels[worst]} the lowest ({100 * scores[worst]:.1f} %)."
    ) in text_of(browser, "#labels")
    bins = browser.execute_script("return data.evaluation.calibration")
    error = sum(bin["n"] * abs(bin["predicted"] - bin["observed"]) for bin in bins) / n
    calibration = f"expected calibration error over the bins of the chart is {100 * error:.1f} "
    assert calibration in text_of(browser, "#accuracy")
    difference = browser.execute_script("return data.comparison.differences[0].value")
    comparison = text_of(browser, "#comparison")
    assert f"{abs(100 * difference):.2f} percentage points" in comparison
    assert f"{'higher' if difference > 0 else 'lower'} than that of TreeCRF." in comparison
    assert "No column differs clearly" in text_of(browser, "#drift")
    opened(browser, pages["unlabeled"])
    assert "There are no true labels" in text_of(browser, "#summary")


def test_a_single_sequence_has_no_word_of_intervals(browser, pages):
    opened(browser, pages["single"])
    assert "because there is only one sequence" in text_of(browser, "#summary")
    assert "A single sequence does not tell" in text_of(browser, "#comparison")
    assert "intervals" not in text_of(browser, "#comparison")
    opened(browser, pages["numbers"])
    assert "rely on the intervals instead" in text_of(browser, "#comparison")


def test_lists_read_as_sentences(browser, pages):
    opened(browser, pages["numbers"])
    for arguments, expected in {
        '["a"]': "a",
        '["a", "b"]': "a and b",
        '["a", "b", "c"]': "a, b, and c",
        '["a", "b", "c", "d"], 2': "a, b, and 2 more",
    }.items():
        assert browser.execute_script(f"return enumerated({arguments})") == expected


def test_a_click_chooses_a_sequence(browser, pages):
    opened(browser, pages["numbers"])
    items = browser.find_elements("css selector", ".list button")
    items[2].click()
    name = items[2].text.split(" · ")[0]
    assert text_of(browser, "#sequences h3").startswith(f"Sequence {name}:")
    assert items[2].get_attribute("aria-current") == "true"
    browser.find_element("css selector", "#comparison button").click()
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("name", ["numbers", "unlabeled", "words", "hostile"])
def test_a_printed_page_is_white_and_whole(browser, pages, name):
    opened(browser, pages[name], width=700, scheme="dark")
    media = {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    style = "return getComputedStyle(document.body).{}"
    assert browser.execute_script(style.format("backgroundColor")) == "rgb(255, 255, 255)"
    assert browser.execute_script(style.format("color")) == "rgb(0, 0, 0)"
    assert (
        browser.execute_script("return document.querySelectorAll('details:not([open])').length")
        == 0
    )
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 700
    for selector in ("canvas", "nav", ".tools", ".list"):
        assert not browser.find_element("css selector", selector).is_displayed()
    n = browser.execute_script("return data.sequences.length")
    figures = browser.find_elements("css selector", ".printed .figure")
    assert len(figures) == n and all(figure.is_displayed() for figure in figures)
    # Labels have a pattern and a letter each.
    keys = browser.execute_script("return KEYS")
    assert len(set(keys)) == len(keys)
    seen = {
        key.get_attribute("textContent")
        for key in browser.find_elements("css selector", ".printed .key")
    }
    assert seen and seen <= set(keys)
    browser.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert not browser.find_elements("css selector", ".printed")
    assert browser.get_log("browser") == []


def test_effects_of_words_are_a_table(browser, pages):
    opened(browser, pages["words"])
    (effect,) = browser.execute_script("return data.effects")
    labels = browser.execute_script("return labels")
    assert not browser.find_elements("css selector", "#effects svg")
    cells = browser.execute_script(
        "return [...document.querySelectorAll('#effects tr')].map((row) =>"
        "[...row.cells].map((cell) => cell.textContent))"
    )
    assert cells[0] == ["value", "positions", *labels]
    assert len(cells) == 21
    for row, value, count, average in zip(
        cells[1:], effect["values"], effect["counts"], effect["average"], strict=True
    ):
        assert row[:2] == ["“ ”" if value == " " else value, str(count)]
        np.testing.assert_allclose(np.array(row[2:], float), 100 * np.array(average), atol=0.51)
    assert "The 20 most frequent values of 25; 5 are not shown." in text_of(browser, "#effects")
    average = np.array(effect["average"])
    column = np.ptp(average, axis=0).argmax()
    sentence = browser.find_element("css selector", "#effects .effect p")
    found = re.fullmatch(
        "(.*) changes the most: from (.*) % for “(.*)” to (.*) % for “(.*)”.",
        sentence.get_property("textContent"),
    )
    assert found[1].strip("“”") == labels[column]
    for share, value, end in ((found[2], found[3], np.min), (found[4], found[5], np.max)):
        assert average[effect["values"].index(value), column] == end(average[:, column])
        assert share == f"{100 * end(average[:, column]):.1f}"


def opacity_of_shade(browser, cell):
    color = browser.execute_script("return getComputedStyle(arguments[0]).backgroundColor", cell)
    return float(color.rstrip(")").split("/")[1]) if "/" in color else 0.0


def test_cells_of_effects_are_shaded_by_their_probabilities(browser, pages):
    opened(browser, pages["words"])
    cells = browser.find_elements("css selector", "#effects td.cell")
    shares = np.array([float(cell.text) for cell in cells])
    shades = np.array([opacity_of_shade(browser, cell) for cell in cells])
    np.testing.assert_allclose(shades, 0.6 * shares / 100, atol=0.011)


@pytest.mark.parametrize("width", [360, 1280])
def test_wide_tables_keep_their_first_column_in_sight(browser, pages, width):
    opened(browser, pages["words"], width)
    left = browser.execute_script(
        "const box = document.querySelector('#effects .scroll'); box.scrollLeft = 1000;"
        "const cell = box.querySelector('tbody td');"
        "return [cell.getBoundingClientRect().left - box.getBoundingClientRect().left,"
        "cell.offsetWidth / box.clientWidth]"
    )
    assert abs(left[0]) <= 1 and left[1] < 0.6


def test_transitions_that_are_ruled_out_are_muted_dashes(browser, pages):
    opened(browser, pages["words"])
    table = browser.execute_script("return data.transitions.table")
    labels = browser.execute_script("return labels")
    dashes = browser.find_elements("css selector", "#model td.faint")
    assert {cell.text for cell in dashes} == {"\N{EN DASH}"}
    assert len(dashes) == sum(value is None for row in table for value in row)
    row = labels.index("O")
    assert table[row][labels.index("I-NP")] is None
    assert dashes[0].get_attribute("title").endswith(": ruled out")
    assert "A dash: the model rules this transition out." in text_of(browser, "#model")


def test_hostile_texts_are_shown_as_they_are(browser, pages):
    opened(browser, pages["hostile"])
    assert browser.title == "<b>Title</b>"
    assert text_of(browser, "h1") == "<b>Title</b>"
    assert text_of(browser, ".text").startswith("<i>a</i> </script> b & c '\"")
    assert "</script><script>document.title = 'broken'</script>" in text_of(browser, ".legend")
