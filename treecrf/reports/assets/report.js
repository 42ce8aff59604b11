"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const labels = data.labels;
const main = document.getElementById("sections");
main.textContent = "";

// Elements. Texts of the user become text nodes, never markup.

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "onclick") element.addEventListener("click", value);
    else if (key !== "code") element.setAttribute(key, value);
  }
  if ("code" in attributes) showLabel(element, attributes.code);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function draw(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function section(id, title, ...children) {
  main.append(make("section", { id }, make("h2", {}, title), ...children));
  document.getElementById("contents").append(make("a", { href: `#${id}` }, title));
}

function table(headings, rows, attributes = {}) {
  const head = make("tr", {}, ...headings.map((heading) => make("th", { scope: "col" }, heading)));
  const body = rows.map((row) => make("tr", {}, ...row.map(
    (cell) => (cell instanceof HTMLTableCellElement ? cell : make("td", {}, cell)))));
  return make("div", { class: "scroll", tabindex: 0, ...attributes },
    make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
}

const whole = (n) => n.toLocaleString("en-US");
const counted = (n, name) => `${whole(n)} ${name}${n === 1 ? "" : "s"}`;
const percent = (share) => (share === null ? "–" : `${(100 * share).toFixed(1)} %`);
const number = (value, digits = 3) => (value === null ? "–" : value.toFixed(digits));
const signed = (value, digits = 2) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`;
const say = (...texts) => make("p", {}, ...texts);
const note = (...texts) => make("p", { class: "muted" }, ...texts);
// "a", "a and b", or "a, b, and c"; with a limit, how many more there are.
function enumerated(items, limit = items.length) {
  const shown = items.slice(0, limit);
  if (items.length > limit) shown.push(`${items.length - limit} more`);
  if (shown.length < 3) return shown.join(" and ");
  return `${shown.slice(0, -1).join(", ")}, and ${shown[shown.length - 1]}`;
}

const sum = (values) => values.reduce((a, b) => a + b, 0);
// Indices in the order of their values, the greatest first.
const ranked = (values) => values.map((_, k) => k).sort((a, b) => values[b] - values[a]);

// Labels: colors that color-blind people can distinguish, then hues in between, and short keys, so
// that labels can be told apart without colors.

const PALETTE = ["#3b82c4", "#e69f00", "#12a077", "#cc79a7", "#56b4e9", "#d9632a", "#b8a800", "#8a8f98"];
const color = (k) => (k < 0 ? "var(--others)" : k < PALETTE.length ? PALETTE[k]
  : `hsl(${(k * 137.5) % 360} 55% ${k % 2 ? 45 : 62}%)`);

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const areShort = labels.every((label) => /^[\w+-]{1,2}$/.test(label));
const KEYS = labels.map((label, k) => (areShort ? label : labels.length <= ALPHABET.length ? ALPHABET[k] : String(k + 1)));

// A label within a sentence.
const quoted = (k) => (areShort ? `“${labels[k]}”` : labels[k]);

// Black or white, whichever has more contrast.
const inks = new Map();
function ink(k) {
  if (!inks.has(k)) {
    const pen = document.createElement("canvas").getContext("2d");
    pen.fillStyle = color(k);
    const channels = [1, 3, 5].map((i) => parseInt(pen.fillStyle.slice(i, i + 2), 16) / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    const luminance = 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2];
    inks.set(k, luminance > 0.179 ? "#000000" : "#ffffff");
  }
  return inks.get(k);
}

function showLabel(element, k) {
  element.style.setProperty("--of-label", color(k));
  element.style.setProperty("--ink", ink(k));
  element.setAttribute("data-key", KEYS[k]);
}

function legend(codes) {
  return make("div", { class: "legend" },
    ...codes.map((k) => make("span", { code: k }, areShort ? "" : labels[k])));
}

// What was measured

function card(name, value, below, meaning) {
  return make("div", { class: "card" }, name, make("b", {}, value),
    ...[below, meaning].filter(Boolean).map((line) => make("span", { class: "muted" }, line)));
}

const AS_SHARE = new Set(["accuracy", "macro F1", "whole sequences"]);
const score = (name, value) => (AS_SHARE.has(name) ? percent(value) : number(value));

const SCORE_NAMES = { "whole sequences": "sequences without errors" };
const MEANINGS = {
  accuracy: "positions with the correct label",
  "macro F1": "unweighted mean of the F1 scores of all labels",
  "log loss": `0 is perfect, ${Math.log(labels.length).toFixed(3)} is uniform guessing`,
  "whole sequences": "sequences with every label correct",
};
const FEW_SEQUENCES = 10;

function scoreCards({ scores, changes }) {
  const cards = scores.map(({ name, value, interval }) => card(SCORE_NAMES[name] || name, score(name, value),
    interval ? `95 % interval: ${score(name, interval[0])} to ${score(name, interval[1])}` : "", MEANINGS[name]));
  if (changes) {
    const [seen, found] = changes;
    cards.push(card("label changes", whole(found), `${whole(seen)} in the true labels`, "positions where a new label begins"));
  }
  return make("div", { class: "cards" }, ...cards);
}

function showScores(evaluation, nSequences) {
  const { scores, confusion, n_unknown: nUnknown } = evaluation;
  const frequencies = confusion.map(sum);
  const [common] = ranked(frequencies);
  const baseline = frequencies[common] / sum(frequencies);
  const [{ value: accuracy }] = scores;
  const verdict = accuracy > baseline ? "Always" : "This is no better than a trivial model: always";
  const intervals = nSequences === 1 ? "There are no confidence intervals, because there is only one sequence."
    : "The 95 % confidence intervals are bootstrap intervals from 1,000 resamples of whole sequences." + (nSequences < FEW_SEQUENCES ? ` With only ${nSequences} sequences, they are rough.` : "");
  return [
    say(`The model labels ${percent(accuracy)} of the positions correctly. ${verdict} predicting ${quoted(common)}, the most ` +
      `frequent label, would reach ${percent(baseline)}.`),
    scoreCards(evaluation),
    note(intervals),
    nUnknown ? note(`${counted(nUnknown, "position")} without a true label ${nUnknown === 1 ? "is" : "are"} not scored.`) : null,
  ];
}

// How certain the model is of the label that it finds most probable at each position.
const CERTAINTY_ENDS = [0.5, 0.6, 0.7, 0.8, 0.9, 1.01];

function certaintyRows() {
  const counts = CERTAINTY_ENDS.map(() => 0);
  const n = shares.length / stored.n_stored;
  for (let row = 0; row < n; row += 1) {
    const share = shares[row * stored.n_stored] / 255;
    counts[CERTAINTY_ENDS.findIndex((end) => share < end)] += 1;
  }
  const names = CERTAINTY_ENDS.map((end, i) => (i ? `${100 * CERTAINTY_ENDS[i - 1]} to ${Math.min(100, 100 * end)} %` : "below 50 %"));
  return counts.map((count, i) => ({ name: names[i], n: count, share: count / n }));
}

function showCertainty(certainty) {
  const rows = certaintyRows();
  return [
    say("There are no true labels, so this report shows what the model predicts and how certain it is, but not how often it is correct."),
    make("div", { class: "cards" }, card("mean certainty", percent(certainty), "", "mean probability of the most probable label"),
      card("uncertain positions", whole(rows[0].n), `${percent(rows[0].share)} of all`, "no label reaches a probability of 50 %")),
    make("h3", {}, "Certainty of the labels"),
    barChart("Certainty of the labels", "probability of the most probable label", rows, "share of the positions"),
  ];
}

const FITTED_NAMES = {
  n_iter_: "number of training iterations",
  window_: "how many positions before and after the model sees",
  constant_transitions_: "whether the transition scores are the same at all positions",
  multi_strategy_: "whether each label has its own trees",
  temperature_: "temperature that calibrates the probabilities",
  n_features_in_: "number of input columns",
};

function settingsTable({ parameters, learned }) {
  const rows = [...Object.entries(parameters).map(([name, value]) => [name, value, "parameter (not the default)"]),
    ...Object.entries(learned).map(([name, value]) => [name, value, FITTED_NAMES[name] || "set during training"])];
  if (!rows.length) return null;
  return make("details", {}, make("summary", {}, "Settings of the model"), table(["name", "value", "meaning"], rows));
}

function showSummary() {
  const { model, evaluation, sequences, certainty, training } = data;
  const nPositions = stored.offsets[sequences.length];
  section("summary", "Summary",
    say(`${model.class}, a model with ${counted(labels.length, "label")}, was applied to ${counted(nPositions, "position")} in ` +
      `${counted(sequences.length, "sequence")}.`,
    training ? ` The training data have ${counted(training.n_positions, "position")} in ${counted(training.n_sequences, "sequence")}.` : ""),
    ...(evaluation ? showScores(evaluation, sequences.length) : showCertainty(certainty)),
    settingsTable(model));
}

function confusionSentence(confusion) {
  const pairs = confusion.flatMap((row, k) => row.map((n, j) => [n, k, j])).filter(([n, k, j]) => n && k !== j);
  const worst = pairs.sort(([a], [b]) => b - a).slice(0, 3);
  if (!worst.length) return "No label is confused with another.";
  return `Most frequent errors: ${worst.map(([n, k, j]) =>
    `${quoted(k)} predicted as ${quoted(j)} (${whole(n)} of ${counted(sum(confusion[k]), "position")})`).join("; ")}.`;
}

function labelSentence({ confusion, by_label: scores }) {
  const totals = confusion.map(sum);
  const present = labels.map((_, k) => k).filter((k) => totals[k]);
  const order = present.sort((a, b) => (scores.f1[a] || 0) - (scores.f1[b] || 0));
  const never = order.filter((k) => confusion.every((row) => !row[k]));
  const score = (k) => `(${percent(scores.f1[k])})`;
  const [worst, best] = [order[0], order[order.length - 1]];
  const parts = [];
  if (order.length > 1) parts.push(`${quoted(best)} has the highest F1 score ${score(best)}, ${quoted(worst)} the lowest ${score(worst)}.`);
  if (never.length) parts.push(`Never predicted: ${enumerated(never.map(quoted), 5)}.`);
  return parts.join(" ");
}

function showLabels() {
  const { evaluation, predicted: frequencies } = data;
  if (!evaluation) {
    const total = sum(frequencies);
    const [common] = ranked(frequencies);
    section("labels", "Predicted labels",
      say(`The model predicts ${quoted(common)} most often. Check whether the shares of the labels are plausible.`),
      table(["label", "positions", "share"], labels.map((name, k) => [name, whole(frequencies[k]), percent(frequencies[k] / total)])));
    return;
  }
  const { confusion, by_label: scores } = evaluation;
  const rows = labels.map((name, k) => [name, whole(sum(confusion[k])),
    percent(scores.precision[k]), percent(scores.recall[k]), percent(scores.f1[k])]);
  section("labels", "Labels", say(labelSentence(evaluation)), make("div", { class: "columns" },
    make("div", {}, make("h3", {}, "Scores of each label"),
      table(["label", "positions", "precision", "recall", "F1"], rows),
      note("Precision: how many of the positions with this predicted label are correct. Recall: how many of the positions with this " +
        "true label are found. F1: the harmonic mean of precision and recall. A dash: the score is undefined, because there are no such positions.")),
    make("div", { class: labels.length > 5 ? "wide" : "" }, make("h3", {}, "Confusion"), say(confusionSentence(confusion)), confusionTable(confusion),
      note("Number of positions with the true label in the row and the predicted label in the column. Correct predictions are blue, " +
        "errors red; the stronger the color, the larger the share of the row."))));
}

const MAX_CONFUSED = 25;

// A table with a column for each of some labels; many or long names stand upright. The first column
// stays in sight.
function labelMatrix(corner, names, rows, title) {
  const isUpright = names.some((name) => name.length > (names.length > 4 ? 3 : 20));
  const matrix = table([corner, ...names.map((name) => make("span", { title: name }, name))], rows, { "aria-label": title });
  matrix.firstChild.classList.add("matrix");
  if (isUpright) matrix.firstChild.classList.add("upright");
  return matrix;
}

function confusionTable(confusion) {
  const errors = labels.map((_, k) => confusion[k].reduce((sum, n, j) => sum + (j === k ? 0 : n + confusion[j][k]), 0));
  let shown = labels.map((_, k) => k);
  if (shown.length > MAX_CONFUSED) {
    shown = shown.sort((a, b) => errors[b] - errors[a]).slice(0, MAX_CONFUSED).sort((a, b) => a - b);
  }
  const rows = shown.map((k) => {
    const total = Math.max(1, sum(confusion[k]));
    return [labels[k], ...shown.map((j) => {
      const share = Math.round((100 * confusion[k][j]) / total);
      const shade = j === k ? "var(--accent)" : "var(--wrong)";
      return make("td", { class: "cell", style: `background: color-mix(in srgb, ${shade} ${share * 0.6}%, transparent)` },
        confusion[k][j] ? whole(confusion[k][j]) : "");
    })];
  });
  const matrix = labelMatrix("true ↓ predicted →", shown.map((k) => labels[k]), rows, "Confusion of labels");
  if (shown.length < labels.length) matrix.prepend(note(`Only the ${MAX_CONFUSED} labels with the most errors are shown.`));
  return matrix;
}

// Charts

const WIDTH = 420;
const HEIGHT = 260;
const BOX = { left: 52, right: 24, top: 26, bottom: 54 };
const across = (x) => BOX.left + x * (WIDTH - BOX.left - BOX.right);
const up = (y) => HEIGHT - BOX.bottom - y * (HEIGHT - BOX.top - BOX.bottom);

function frame(title, yLabel, xLabel, xTicks) {
  const chart = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, role: "img", "aria-label": title });
  for (const y of [0, 0.25, 0.5, 0.75, 1]) {
    chart.append(draw("line", { class: "grid", x1: across(0), x2: across(1), y1: up(y), y2: up(y) }),
      draw("text", { x: BOX.left - 6, y: up(y) + 4, "text-anchor": "end" }, `${100 * y} %`));
  }
  for (const [x, name] of xTicks) {
    chart.append(draw("text", { x: across(x), y: HEIGHT - BOX.bottom + 16, "text-anchor": "middle" }, name));
  }
  chart.append(draw("text", { x: across(0.5), y: HEIGHT - 4, "text-anchor": "middle" }, xLabel),
    draw("text", { x: 4, y: 12 }, yLabel));
  return chart;
}

const hint = (text) => draw("title", {}, text);

function calibrationChart(bins) {
  const chart = frame("Calibration", "correct positions", "probability of the most probable label", [0, 0.5, 1].map((x) => [x, `${100 * x} %`]));
  chart.append(draw("line", { class: "axis", x1: across(0), y1: up(0), x2: across(1), y2: up(1), "stroke-dasharray": "4 4" }));
  const largest = Math.max(...bins.map((bin) => bin.n));
  const path = bins.map((bin, i) => `${i ? "L" : "M"}${across(bin.predicted)} ${up(bin.observed)}`).join("");
  chart.append(draw("path", { d: path, fill: "none", stroke: "var(--accent)", "stroke-width": 2 }));
  for (const bin of bins) {
    chart.append(draw("circle", { cx: across(bin.predicted), cy: up(bin.observed), fill: "var(--accent)",
      r: 3 + 6 * Math.sqrt(bin.n / largest) },
    hint(`${whole(bin.n)} positions: predicted ${percent(bin.predicted)}, correct ${percent(bin.observed)}`)));
  }
  return chart;
}

// Bars with their values above and numbers of positions below.
function barChart(title, xLabel, rows, yLabel = "correct positions") {
  const step = 1 / rows.length;
  const short = (name) => name.replace(" to ", "–").replace(" or more", "+").replace("below ", "< ").replace(" %", "");
  const chart = frame(title, yLabel, xLabel, rows.map((row, i) => [(i + 0.5) * step, short(row.name)]));
  rows.forEach((row, i) => {
    const share = row.share ?? row.accuracy;
    const middle = { x: across((i + 0.5) * step), "text-anchor": "middle", class: "small" };
    chart.append(draw("rect", { x: across((i + 0.15) * step), width: across(0.7 * step) - across(0),
      y: up(share), height: up(0) - up(share), fill: "var(--accent)" },
    hint(`${row.name}: ${percent(share)} of ${counted(row.n, "position")}`)),
    draw("text", { ...middle, y: up(share) - 4 }, percent(share)),
    draw("text", { ...middle, y: HEIGHT - BOX.bottom + 31 }, `n=${row.n < 10000 ? whole(row.n) : `${Math.round(row.n / 1000)}k`}`));
  });
  return chart;
}

function calibrationSentence(bins) {
  const n = sum(bins.map((bin) => bin.n));
  const mean = (name) => sum(bins.map((bin) => bin.n * bin[name])) / n;
  const [claimed, observed] = [mean("predicted"), mean("observed")];
  const off = sum(bins.map((bin) => bin.n * Math.abs(bin.predicted - bin.observed))) / n;
  const verdict = claimed - observed > 0.05 ? "the model is overconfident" : claimed - observed > 0.02 ? "the model is slightly overconfident"
    : observed - claimed > 0.02 ? "the model is underconfident" : "overall, the model is neither over- nor underconfident";
  return `On average, the most probable label has a probability of ${percent(claimed)} and is correct at ${percent(observed)} of the ` +
    `positions: ${verdict}. The expected calibration error over the bins of the chart is ${(100 * off).toFixed(1)} percentage points.`;
}

// Shares of fewer positions are not worth a sentence.
const FEW_POSITIONS = 30;

function lengthSentence(rows) {
  const reliable = rows.filter((row) => row.n >= FEW_POSITIONS);
  if (reliable.length < 2) return "";
  const order = ranked(reliable.map((row) => row.accuracy));
  const about = (row) => `in segments of ${row.name} position${row.name === "1" ? "" : "s"} (${percent(row.accuracy)})`;
  return `Accuracy is highest ${about(reliable[order[0]])} and lowest ${about(reliable[order[order.length - 1]])}.`;
}

function boundarySentence(rows) {
  if (rows.length < 2) return "";
  const [near, ...farther] = rows;
  const far = sum(farther.map((row) => row.n * row.accuracy)) / sum(farther.map((row) => row.n));
  return `Accuracy is ${percent(near.accuracy)} right next to a label change and ${percent(far)} farther away: ` +
    (near.accuracy < far - 0.05 ? "many errors are slightly misplaced boundaries." : "errors are not concentrated at boundaries.");
}

function showAccuracy() {
  const { evaluation } = data;
  if (!evaluation) return;
  const chart = (title, sentence, drawing, ...notes) => make("div", { class: "figure" }, make("h3", {}, title),
    sentence ? say(sentence) : null, drawing, ...notes.map((text) => note(text)));
  const { calibration, by_length: byLength, by_distance: byDistance } = evaluation;
  const charts = [chart("Calibration", calibrationSentence(calibration), calibrationChart(calibration),
    "On the dashed line, labels with a probability of 80 % are correct 80 % of the time; below it, the model is overconfident. " +
    "Each dot is a bin of probabilities; larger dots stand for more positions.")];
  if (byLength.length) {
    charts.push(chart("Accuracy by length of the true segment", lengthSentence(byLength),
      barChart("Accuracy by segment length", "positions in the segment", byLength),
      "A segment is a run of positions with the same true label; n is the number of positions in segments of this length."));
  }
  if (byDistance.length) {
    charts.push(chart("Accuracy near changes of the true label", boundarySentence(byDistance),
      barChart("Accuracy by distance", "distance from the nearest change, in positions", byDistance),
      "The last position before a change and the first one after it have distance 1. In sequences without a change, all positions count as farthest away."));
  }
  section("accuracy", "Where the model is right", make("div", { class: "columns figures" }, ...charts));
}

// Sequences

function decode(text, nBytes, isSigned) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  if (nBytes === 1) return isSigned ? new Int8Array(bytes.buffer) : bytes;
  const view = new DataView(bytes.buffer);
  return Int16Array.from({ length: bytes.length / 2 }, (_, i) => view.getInt16(2 * i, true));
}

const stored = data.positions;
const codes = (text) => decode(text, stored.code_bytes, true);
const predicted = codes(stored.predicted);
const truth = stored.true ? codes(stored.true) : null;
const second = data.comparison ? codes(data.comparison.predicted) : null;
const shareLabels = codes(stored.labels);
const shares = decode(stored.shares, 1, false);
const nameOf = (index) => (stored.names ? stored.names[index] : String(index));
// The sequences in the order of the list: their indices, labeled positions and wrong ones.
const sequences = data.sequences.map(([index, nKnown, wrong]) => ({ index, nKnown, wrong, n: stored.offsets[index + 1] - stored.offsets[index] }));
// Names of the two models, also if both are of one class.
const isSameClass = data.comparison && data.comparison.class === data.model.class;
const firstName = isSameClass ? `first ${data.model.class}` : data.model.class;
const secondName = !data.comparison ? "" : isSameClass ? `second ${data.comparison.class}` : data.comparison.class;
const isWrong = (row) => truth !== null && truth[row] >= 0 && truth[row] !== predicted[row];

const view = { sequence: 0, position: 0, zoom: 1 };
const strips = [[second ? `predicted by ${firstName}` : "predicted", predicted]];
if (second) strips.push([`predicted by ${secondName}`, second]);
if (truth) strips.push(["true", truth]);
const STRIP = 18;
const AREA = 110;
const canvas = make("canvas", { tabindex: 0, role: "img", "aria-label": "Timeline of the sequence" });
canvas.height = AREA + strips.length * (STRIP + 4) + 22;
canvas.style.height = `${canvas.height}px`;
const heading = make("h3", { "aria-live": "polite" });
const details = make("div", { "aria-live": "polite" });
const text = stored.texts ? make("div", { class: "text" }) : null;
const list = make("ul", { class: "list", "aria-label": "Sequences, the worst first" });
const MAX_LISTED = 1000;

function bounds() {
  const { index } = sequences[view.sequence];
  return [stored.offsets[index], stored.offsets[index + 1]];
}

// The positions that are visible: all of them, or 1 / zoom of them around the chosen one.
function visible() {
  const [first, last] = bounds();
  const n = last - first;
  const size = Math.max(Math.min(n, 5), Math.ceil(n / view.zoom));
  const start = Math.max(0, Math.min(n - size, Math.round(view.position - size / 2)));
  return [first + start, first + start + size];
}

function paint() {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = parseInt(canvas.style.height, 10);
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.clearRect(0, 0, width, height);
  const style = getComputedStyle(document.documentElement);
  const named = (name) => style.getPropertyValue(name).trim();
  const fill = (k) => (k < 0 ? named("--others") : color(k));
  const [start, end] = visible();
  const x = (row) => ((row - start) / (end - start)) * width;
  paintShares(pen, start, end, width, named("--others"));
  pen.font = "11px sans-serif";
  strips.forEach(([name, strip], i) => {
    const top = AREA + 4 + i * (STRIP + 4);
    let from = start;
    for (let row = start + 1; row <= end; row += 1) {
      if (row < end && (strip[row] === strip[from] || x(row) - x(from) < 0.5)) continue;
      const size = Math.max(x(row) - x(from), 0.5);
      pen.fillStyle = fill(strip[from]);
      pen.fillRect(x(from), top, size, STRIP);
      paintName(pen, strip[from], x(from), size, top + 13);
      from = row;
    }
    const room = pen.measureText(name).width + 8;
    pen.fillStyle = named("--back");
    pen.globalAlpha = 0.8;
    pen.fillRect(2, top + 2, room, STRIP - 4);
    pen.globalAlpha = 1;
    pen.fillStyle = named("--text");
    pen.fillText(name, 6, top + 13);
  });
  const bottom = height - 18;
  pen.fillStyle = named("--wrong");
  let marked = -1;
  for (let row = start; row < end; row += 1) {
    if (!isWrong(row) || x(row) - marked < 0.5) continue;
    marked = x(row);
    pen.fillRect(marked, bottom, Math.max(x(row + 1) - marked, 1), 6);
  }
  const chosen = bounds()[0] + view.position;
  pen.strokeStyle = named("--text");
  pen.lineWidth = 2;
  pen.strokeRect(x(chosen), 1, Math.max(x(chosen + 1) - x(chosen), 2), height - 10);
}

// The name of a label within its segment, or its key, where there is room.
function paintName(pen, k, left, size, baseline) {
  if (k < 0 || size < 10) return;
  const name = [labels[k], KEYS[k]].find((text) => text.length < 60 && pen.measureText(text).width + 6 <= size);
  if (!name) return;
  pen.fillStyle = ink(k);
  pen.fillText(name, left + (size - pen.measureText(name).width) / 2, baseline);
}

// Probabilities, stacked. Of several positions in one column of pixels, one is drawn.
function paintShares(pen, start, end, width, others) {
  const step = Math.max(1, Math.floor((end - start) / (2 * width)));
  pen.fillStyle = others;
  pen.fillRect(0, 0, width, AREA);
  for (let row = start; row < end; row += step) {
    const left = ((row - start) / (end - start)) * width;
    const room = (step / (end - start)) * width + 0.4;
    const order = Array.from({ length: stored.n_stored }, (_, j) => row * stored.n_stored + j);
    order.sort((a, b) => shareLabels[a] - shareLabels[b]);
    let bottom = AREA;
    for (const place of order) {
      const size = (shares[place] / 255) * AREA;
      pen.fillStyle = color(shareLabels[place]);
      pen.fillRect(left, bottom - size, room, size);
      bottom -= size;
    }
  }
}

function showText() {
  if (!text) return;
  const [first, last] = bounds();
  const chosen = first + view.position;
  const from = Math.max(first, chosen - 300);
  const to = Math.min(last, chosen + 300);
  const parts = stored.texts.slice(from, to);
  const space = parts.some((part) => part.length > 1) ? " " : "";
  text.replaceChildren(...parts.flatMap((part, i) => {
    const row = from + i;
    const kinds = [isWrong(row) ? "error" : "", row === chosen ? "here" : ""].join(" ").trim();
    const word = make("span", { code: predicted[row], class: kinds, title: labels[predicted[row]],
      onclick: () => choose(view.sequence, row - first) }, part);
    return [word, space];
  }));
  const here = text.querySelector(".here");
  text.scrollTop = here.offsetTop - text.offsetTop - text.clientHeight / 2;
}

function showDetails() {
  const [first, last] = bounds();
  const row = first + view.position;
  const { index, wrong } = sequences[view.sequence];
  heading.textContent = `Sequence ${nameOf(index)}: ${counted(last - first, "position")}` +
    (truth ? `, ${whole(wrong)} wrong` : "");
  const places = Array.from({ length: stored.n_stored }, (_, j) => row * stored.n_stored + j);
  const rows = places.map((place) => [labels[shareLabels[place]], make("td", {},
    make("span", { class: "share", code: shareLabels[place], style: `width: ${shares[place] / 2.55 / 20}rem` }),
    percent(shares[place] / 255))]);
  const facts = [`Position ${whole(view.position)}`, `predicted: ${labels[predicted[row]]}`];
  if (truth) facts.push(`true: ${truth[row] < 0 ? "unknown" : labels[truth[row]]}`);
  if (second) facts.push(`${secondName}: ${labels[second[row]]}`);
  if (stored.texts) facts.push(`text: ${stored.texts[row]}`);
  details.replaceChildren(make("p", { class: isWrong(row) ? "wrong" : "" }, facts.join(" · ")),
    make("div", { class: "columns" }, make("div", {}, make("h3", {}, "Most probable labels"), table(["label", "probability"], rows)), explanationOf(row)));
}

const isExplained = Object.keys(data.explanations || {}).length > 0;

function explanationOf(row) {
  const found = data.explanations && data.explanations[row];
  if (!found) {
    if (data.explanations && !isExplained) return note("This report was made without contributions.");
    return make("div", {}, note(data.explanations
      ? "There are no contributions for this position, only for the " +
        `${counted(Object.keys(data.explanations).length, "position")} where the model is ${truth ? "most wrong" : "least certain"}: press W.`
      : "There are no contributions, because the scores of this model are not sums over features."));
  }
  const [a, b] = found.labels;
  const items = [["base value", found.base], ...found.items];
  if (Math.abs(found.others) > 1e-4) items.push(["all other inputs", found.others]);
  const largest = Math.max(...items.map(([, value]) => Math.abs(value)), 1e-9);
  const rows = items.map(([name, value]) => {
    const size = (50 * Math.abs(value)) / largest;
    const bar = make("i", { style: `width: ${size}%; ${value < 0 ? "right" : "left"}: 50%; background: ${color(value < 0 ? b : a)}` });
    return [make("td", { class: "name", title: name }, name), make("td", {}, make("div", { class: "bar" }, bar)), signed(value)];
  });
  const total = sum(items.map(([, value]) => value));
  rows.push([make("td", { class: "name" }, make("b", {}, "sum")), make("td", {}), make("b", {}, signed(total))]);
  return make("div", { class: "bars" }, make("h3", {}, `Why ${quoted(a)} rather than ${quoted(b)}`),
    table(["input", "", "contribution"], rows),
    note(`Positive contributions (bars to the right) favor ${quoted(a)}, negative ones ${quoted(b)}. Their sum is the difference between ` +
      "the scores of the two labels at this position. [0] is the position itself, [-1] the one before it, [+1] the one after it."));
}

function choose(sequence, position) {
  const n = sequences.length;
  view.sequence = Math.max(0, Math.min(n - 1, sequence));
  const [first, last] = bounds();
  view.position = Math.max(0, Math.min(last - first - 1, position));
  list.querySelector("[aria-current=true]")?.setAttribute("aria-current", "false");
  list.children[view.sequence]?.firstChild.setAttribute("aria-current", "true");
  refresh();
}

// Scroll the list, and not the page, to the chosen sequence.
function showInList() {
  const item = list.children[view.sequence];
  if (!item) return;
  const top = item.offsetTop - list.offsetTop;
  const isVisible = top >= list.scrollTop && top + item.offsetHeight <= list.scrollTop + list.clientHeight;
  if (!isVisible) list.scrollTop = top - list.clientHeight / 2;
}

let isWaiting = false;

function refresh() {
  if (isWaiting) return;
  isWaiting = true;
  requestAnimationFrame(() => {
    isWaiting = false;
    if (sequences.length === 0) return;
    paint();
    showText();
    showDetails();
  });
}

function firstWrong(sequence) {
  const { index } = sequences[sequence];
  for (let row = stored.offsets[index]; row < stored.offsets[index + 1]; row += 1) {
    if (isWrong(row)) return row - stored.offsets[index];
  }
  return 0;
}

function nextWrong(direction) {
  const [first, last] = bounds();
  for (let row = first + view.position + direction; row >= first && row < last; row += direction) {
    if (isWrong(row)) return choose(view.sequence, row - first);
  }
  return undefined;
}

let lastWorst = -1;

function nextExplained() {
  const rows = Object.keys(data.explanations || {}).map(Number);
  if (!rows.length) return;
  lastWorst = (lastWorst + 1) % rows.length;
  const row = rows[lastWorst];
  const sequence = sequences.findIndex(
    ({ index }) => stored.offsets[index] <= row && row < stored.offsets[index + 1]);
  choose(sequence, row - stored.offsets[sequences[sequence].index]);
  showInList();
}

function zoom(factor) {
  const [first, last] = bounds();
  view.zoom = Math.max(1, Math.min((last - first) / 5, view.zoom * factor));
  refresh();
}

function turn(direction) {
  choose(view.sequence + direction, 0);
  showInList();
}

const STEPS = {
  ArrowLeft: () => choose(view.sequence, view.position - 1),
  ArrowRight: () => choose(view.sequence, view.position + 1),
  ArrowUp: () => turn(-1),
  ArrowDown: () => turn(1),
  "+": () => zoom(2),
  "=": () => zoom(2),
  "-": () => zoom(0.5),
  n: () => nextWrong(1),
  p: () => nextWrong(-1),
  w: () => nextExplained(),
};

function pictureMeaning() {
  const names = strips.map(([name]) => (name.includes(" by ") ? `the labels ${name}` : `the ${name} labels`));
  return `The height of each color is the probability of its label. The ${names.length === 1 ? "strip below shows" : "strips below show"} ${enumerated(names)}.` +
    (truth ? " Red marks are errors." : "") + " Positions are numbered from 0.";
}

function sequencesSentence() {
  if (!truth) return "The first sequences show where the model may need more training data.";
  const known = sequences.filter(({ nKnown }) => nKnown);
  const flawless = known.filter(({ wrong }) => !wrong).length;
  const errors = known.map(({ wrong }) => wrong).sort((a, b) => b - a);
  const tenth = Math.ceil(known.length / 10);
  const total = sum(errors);
  const found = flawless ? `${whole(flawless)} of ${counted(known.length, "sequence")} ${flawless === 1 ? "has" : "have"} no errors.`
    : known.length === 1 ? "The only labeled sequence has errors." : "All sequences have errors.";
  if (!total || known.length < 2) return found;
  return `${found} The ${tenth === 1 ? "sequence" : `${whole(tenth)} sequences`} with the most errors ${tenth === 1 ? "accounts" : "account"} for ` +
    `${percent(sum(errors.slice(0, tenth)) / total)} of all ${counted(total, "error")}.`;
}

function showSequences() {
  const many = sequences.length > MAX_LISTED;
  for (const [k, { index, n, nKnown, wrong }] of sequences.slice(0, MAX_LISTED).entries()) {
    const result = !truth ? counted(n, "position") : nKnown ? `${whole(wrong)} of ${whole(nKnown)} wrong` : "no true labels";
    list.append(make("li", {}, make("button", { type: "button", title: nameOf(index), onclick: () => choose(k, firstWrong(k)) },
      `${nameOf(index)} · ${result}`)));
  }
  const tool = (name, key) => make("button", { class: "tool", type: "button", onclick: STEPS[key] }, name);
  const present = labels.map((_, k) => k).filter((k) => data.predicted[k] || (truth && truth.includes(k)));
  const keys = "Click on the timeline to use the keys: ← and → move between positions, ↑ and ↓ between sequences, + and − zoom" +
    (truth ? ", N and P jump to the next and the previous error" : "") +
    (isExplained ? `, and W jumps to the next of the positions where the model is ${truth ? "most wrong" : "least certain"}.` : ".");
  const main = make("div", {}, heading, make("div", { class: "screen" }, legend(present)), canvas,
    make("div", { class: "tools" }, tool("◀", "ArrowLeft"), tool("▶", "ArrowRight"), tool("zoom in", "+"), tool("zoom out", "-"),
      truth ? tool("next error", "n") : null, isExplained ? tool(truth ? "next of the worst positions" : "next uncertain position", "w") : null),
    make("p", { class: "muted screen" }, pictureMeaning()), make("p", { class: "muted screen" }, keys), text, details);
  section("sequences", "Sequences",
    say(sequencesSentence()),
    note(truth ? "Sequences are sorted by their mean log loss, the worst first."
      : "Sequences are sorted by the certainty of the model, the least certain first.",
    many ? ` The first ${whole(MAX_LISTED)} are listed; the keys ↑ and ↓ also reach the others.` : ""),
    make("div", { class: "browser" }, list, main));
  canvas.addEventListener("click", (event) => {
    const [start, end] = visible();
    const place = (event.clientX - canvas.getBoundingClientRect().left) / canvas.clientWidth;
    choose(view.sequence, start + Math.floor(place * (end - start)) - bounds()[0]);
    canvas.focus();
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = STEPS[event.key] || STEPS[event.key.toLowerCase()];
    const isInside = document.getElementById("sequences").contains(document.activeElement);
    const isArrow = event.key.startsWith("Arrow");
    if (!step || (isArrow && !isInside)) return;
    event.preventDefault();
    step();
  });
  window.addEventListener("resize", refresh);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
  choose(0, firstWrong(0));
}

// On paper: all parts unfolded, and the worst sequences as pictures with patterns and letters, which
// can be told apart without colors.

const N_PRINTED = 10;
const N_PRINTED_COLUMNS = 700;
const N_PRINTED_WORDS = 150;
const PRINTED = { width: 700, area: 60, strip: 15, name: 12 };
const HATCHES = ["", "M0 6L6 0", "M0 3H6", "M0 0L6 6", "M3 0V6", "M0 6L6 0M0 0L6 6", "M3 2V4", "M0 3H6M3 0V6"];

const patternOf = (k) => (k < 0 ? "var(--others)" : `url(#pattern-${k})`);

function patterns(used) {
  return draw("defs", {}, ...used.map((k) => draw("pattern", { id: `pattern-${k}`, width: 6, height: 6, patternUnits: "userSpaceOnUse" },
    draw("rect", { width: 6, height: 6, fill: color(k) }),
    draw("path", { d: HATCHES[k % HATCHES.length] || "M0 0", stroke: ink(k), "stroke-opacity": 0.5, "stroke-width": 0.8 }))));
}

function keyOf(x, y, k) {
  return draw("text", { x, y, "text-anchor": "middle", class: "key small" }, KEYS[k]);
}

function printedLegend(used) {
  const items = used.map((k) => make("span", {},
    draw("svg", { viewBox: "0 0 30 15", width: 30 }, draw("rect", { width: 30, height: 15, fill: patternOf(k) }), keyOf(15, 11, k)),
    areShort ? "" : ` ${labels[k]}`));
  return make("div", { class: "keys" }, draw("svg", { width: 0, height: 0 }, patterns(used)), ...items);
}

// Runs of one label in the columns of a picture, each of which shows one position.
function runsOf(strip, rows) {
  const starts = rows.map((_, i) => i).filter((i) => !i || strip[rows[i]] !== strip[rows[i - 1]]);
  return starts.map((start, i) => [start, i + 1 < starts.length ? starts[i + 1] : rows.length, strip[rows[start]]]);
}

// Rectangles by label: one shape for each, since every filling with a pattern makes a file larger.
class Shapes {
  constructor() { this.paths = new Map(); }

  add(k, x, y, width, height) {
    this.paths.set(k, `${this.paths.get(k) || ""}M${x.toFixed(1)} ${y.toFixed(1)}h${width.toFixed(1)}v${height.toFixed(1)}h${(-width).toFixed(1)}z`);
  }

  drawn() {
    return [...this.paths].map(([k, d]) => draw("path", { d, fill: patternOf(k) }));
  }
}

function addShares(shapes, rows, size) {
  rows.forEach((row, i) => {
    const order = Array.from({ length: stored.n_stored }, (_, j) => row * stored.n_stored + j);
    order.sort((a, b) => shareLabels[a] - shareLabels[b]);
    let bottom = PRINTED.area;
    for (const place of order) {
      const height = (shares[place] / 255) * PRINTED.area;
      if (height < 0.3) continue;
      bottom -= height;
      shapes.add(shareLabels[place], i * size, bottom, size + 0.1, height);
    }
  });
}

function printedTimeline(first, last) {
  const step = Math.max(1, Math.ceil((last - first) / N_PRINTED_COLUMNS));
  const rows = Array.from({ length: Math.ceil((last - first) / step) }, (_, i) => first + i * step);
  const size = PRINTED.width / rows.length;
  const height = PRINTED.area + strips.length * (PRINTED.strip + PRINTED.name) + 10;
  const shapes = new Shapes();
  const texts = [];
  addShares(shapes, rows, size);
  strips.forEach(([name, strip], i) => {
    const top = PRINTED.area + i * (PRINTED.strip + PRINTED.name) + PRINTED.name;
    texts.push(draw("text", { x: 0, y: top - 3, class: "small" }, name));
    for (const [from, to, k] of runsOf(strip, rows)) {
      const wide = (to - from) * size;
      shapes.add(k, from * size, top, wide, PRINTED.strip);
      if (k >= 0 && wide >= 6 * KEYS[k].length + 4) texts.push(keyOf((from + to) / 2 * size, top + 11, k));
    }
  });
  const errors = new Shapes();
  rows.forEach((row, i) => {
    const isError = Array.from({ length: Math.min(step, last - row) }, (_, j) => row + j).some(isWrong);
    if (isError) errors.add(-1, i * size, height - 7, Math.max(size, 0.7), 6);
  });
  const marks = [...errors.paths.values()].map((d) => draw("path", { d, fill: "var(--wrong)" }));
  return draw("svg", { viewBox: `0 0 ${PRINTED.width} ${height}`, width: PRINTED.width }, ...shapes.drawn(), ...texts, ...marks);
}

// Words around the first error, each with the key of its label, or of the predicted and the true one.
function printedText(first, last, start) {
  const from = Math.max(first, start - Math.floor(N_PRINTED_WORDS / 3));
  const parts = stored.texts.slice(from, Math.min(last, from + N_PRINTED_WORDS));
  const space = parts.some((part) => part.length > 1) ? " " : "";
  return make("div", { class: "text" }, ...parts.flatMap((part, i) => {
    const row = from + i;
    const key = isWrong(row) ? `${KEYS[predicted[row]]}≠${KEYS[truth[row]]}` : space ? KEYS[predicted[row]] : null;
    return [make("span", { class: isWrong(row) ? "error" : "" }, part, key === null ? null : make("sub", {}, key)), space];
  }));
}

function printedSequence({ index, n, wrong }, k) {
  const [first, last] = [stored.offsets[index], stored.offsets[index + 1]];
  const title = `Sequence ${nameOf(index)}: ${counted(n, "position")}${truth ? `, ${whole(wrong)} wrong` : ""}`;
  return make("div", { class: "figure" }, make("h3", {}, title), printedTimeline(first, last),
    stored.texts ? printedText(first, last, first + firstWrong(k)) : null);
}

function printedSequences() {
  const used = labels.map((_, k) => k).filter((k) => data.predicted[k] || (truth && truth.includes(k)));
  const worst = sequences.slice(0, N_PRINTED);
  const block = make("div", { class: "printed" }, note(pictureMeaning()), printedLegend(used), ...worst.map(printedSequence));
  if (worst.length < sequences.length) block.append(note(`Only the first ${worst.length} of ${counted(sequences.length, "sequence")} are printed.`));
  return block;
}

const folded = [];

window.addEventListener("beforeprint", () => {
  for (const element of document.querySelectorAll("details:not([open])")) {
    element.open = true;
    folded.push(element);
  }
  document.querySelector(".browser").before(printedSequences());
});
window.addEventListener("afterprint", () => {
  for (const element of folded.splice(0)) element.open = false;
  document.querySelector(".printed").remove();
});

// Inside the model

function shaded(value, largest) {
  return `background: color-mix(in srgb, var(--accent) ${largest ? Math.round((60 * Math.sqrt(value / largest))) : 0}%, transparent)`;
}

function importanceSentence(features, gains) {
  const totals = gains.map(sum);
  return `The model relies most on ${enumerated(features.slice(0, 3).map((name, i) => `${name} (${percent(totals[i])})`))}.`;
}

function importanceTable({ features, offsets, gains, labels_before: before, has_linear_start: hasStart }) {
  const largest = Math.max(...gains.flat(), 0);
  const rows = features.map((name, i) => [make("td", { class: "name", title: name }, name), ...gains[i].map((gain) =>
    make("td", { class: "cell", style: shaded(gain, largest) }, gain >= 0.0005 ? (100 * gain).toFixed(1) : ""))]);
  const headings = offsets.map((offset) => (offset > 0 ? `+${offset}` : String(offset)));
  return make("div", {}, make("h3", {}, "Importance of features by offset"),
    say(importanceSentence(features, gains)), table(["feature", ...headings], rows),
    note("Share of the total gain of all splits on inputs, in percent. Column 0 is the position itself, " +
      "−1 the position before it, +1 the one after it. ",
    before > 0 ? `The total gain of splits on previous labels is ${before.toFixed(2)} times that of all inputs.` : "",
    hasStart ? " The linear model that the trees start from is not included." : ""));
}

function weightTable(weights) {
  return make("div", {}, make("h3", {}, "Strongest weights"),
    table(["attribute", "label", "weight"], weights.map(([label, name, value]) => [
      make("td", { class: "name", title: name }, name), label, signed(value)])),
    note("A weight is added to the score of the label where the attribute is present; positive weights make the label more probable. [0] is the " +
      "position itself, [-1] the one before it, [+1] the one after it."));
}

function transitionTable({ table: cells, backward }) {
  const largest = Math.max(...cells.flat().filter((value) => value !== null).map(Math.abs), 1e-9);
  const rows = cells.map((row, i) => [labels[i], ...row.map((value, j) => {
    if (value === null) return make("td", { class: "cell faint", title: `${labels[i]}, ${labels[j]}: ruled out` }, "–");
    const shade = value < 0 ? "var(--wrong)" : "var(--accent)";
    const share = Math.round((60 * Math.abs(value)) / largest);
    return make("td", { class: "cell", title: `${labels[i]}, ${labels[j]}`,
      style: `background: color-mix(in srgb, ${shade} ${share}%, transparent)` }, Math.abs(value) < 0.05 ? "0.0" : value.toFixed(1).replace("-", "−"));
  })]);
  const place = backward ? "next" : "previous";
  return make("div", { class: labels.length > 5 ? "wide" : "" }, make("h3", {}, "Transition scores"),
    labelMatrix(`${place} ↓ this →`, labels, rows, "Transition scores"),
    note(`Mean score of the label in the column when the ${place} label is the one in the row. Compare scores within a row: the ` +
      "higher, the more probable. Positive scores are blue, negative ones red. A dash: the model rules this transition out."));
}

const DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 4", "12 3"];

// Move texts apart that would overlap.
function apart(places) {
  const sorted = places.sort(([a], [b]) => a - b);
  for (let i = 1; i < sorted.length; i += 1) sorted[i][0] = Math.max(sorted[i][0], sorted[i - 1][0] + 10);
  for (let i = sorted.length - 1; i >= 0; i -= 1) {
    const lowest = i === sorted.length - 1 ? HEIGHT - BOX.bottom + 4 : sorted[i + 1][0] - 10;
    sorted[i][0] = Math.min(sorted[i][0], lowest);
  }
  return sorted;
}

function effectChart({ name, values, labels: codes, average }) {
  const n = values.length;
  const range = Math.max(values[n - 1] - values[0], 1e-12);
  const x = (value) => across((value - values[0]) / range);
  const ticks = [...new Set([0, n - 1])].map((i) => [(values[i] - values[0]) / range, String(Number(values[i].toPrecision(3)))]);
  const chart = frame(`Effect of ${name}`, "mean probability", name, ticks);
  const ends = codes.map((k, column) => {
    const path = average.map((row, i) => `${i ? "L" : "M"}${x(values[i])} ${up(row[column])}`).join("");
    chart.append(draw("path", { d: path, fill: "none", stroke: color(k), "stroke-width": 2, "stroke-dasharray": DASHES[column % DASHES.length] },
      hint(labels[k])));
    return [up(average[n - 1][column]) + 4, KEYS[k]];
  });
  for (const [y, key] of apart(ends)) chart.append(draw("text", { x: WIDTH - BOX.right + 4, y, class: "small" }, key));
  return make("div", { class: "figure" }, make("h3", {}, name), chart, legend(codes));
}

// A value within a table; a blank one is quoted.
const shownValue = (value) => (value.trim() ? value : `“${value}”`);

function effectSentence({ values, labels: codes, average }) {
  const columns = codes.map((_, column) => average.map((row) => row[column]));
  const changes = columns.map((column) => Math.max(...column) - Math.min(...column));
  const [widest] = ranked(changes);
  const order = ranked(columns[widest]);
  const at = (i) => `${percent(columns[widest][i])} for “${values[i]}”`;
  if (changes[widest] < 0.01) return "No label changes by more than one percentage point among these values.";
  return `${quoted(codes[widest])} changes the most: from ${at(order[order.length - 1])} to ${at(order[0])}.`;
}

// Values of a category in rows, and labels in columns, with all other labels together.
function effectTable(effect) {
  const { name, values, counts, n_values: nValues, labels: codes, average } = effect;
  const cell = (share, place, label) => make("td", { class: share < 0.005 ? "cell faint" : "cell", title: `${place}, ${label}: ${percent(share)}`,
    style: `background: color-mix(in srgb, var(--accent) ${Math.round(60 * share)}%, transparent)` }, (100 * share).toFixed(0));
  const rows = values.map((value, i) => {
    const rest = codes.length < labels.length ? [cell(Math.max(0, 1 - sum(average[i])), shownValue(value), "other labels")] : [];
    return [make("td", { title: value }, shownValue(value)), whole(counts[i]),
      ...codes.map((k, column) => cell(average[i][column], shownValue(value), labels[k])), ...rest];
  });
  const headings = ["positions", ...codes.map((k) => labels[k])];
  if (codes.length < labels.length) headings.push("other labels");
  const matrix = labelMatrix("value", headings, rows, `Effect of ${name}`);
  const left = nValues - values.length;
  const extent = left ? `The ${counted(values.length, "most frequent value")} of ${whole(nValues)}; ${whole(left)} ${left === 1 ? "is" : "are"} not shown.`
    : "All values, the most frequent first.";
  return make("div", { class: "figure effect" }, make("h3", {}, name), say(effectSentence(effect)), matrix, note(extent));
}

function showModel() {
  const { importances, transitions, effects } = data;
  const tables = [];
  if (importances && importances.weights) tables.push(weightTable(importances.weights));
  else if (importances && importances.features.length) tables.push(importanceTable(importances));
  if (transitions) tables.push(transitionTable(transitions));
  if (tables.length) section("model", "Inside the model", make("div", { class: "columns" }, ...tables));
  if (effects.length) {
    const hasTables = effects.some((effect) => !effect.is_number);
    section("effects", "Effects of features",
      say(`Partial dependence: the mean probabilities of the labels over ${counted(effects[0].n, "position")} if one input had the same ` +
        "value at all of them."),
      note("NAME[0] is the value at the position itself, NAME[-1] the one before it, NAME[+1] the one after it. Only the labels " +
        "whose probability changes the most are shown." + (hasTables ? " Tables show percentages; compare within a column. Values " +
        "that do not occur in the training data are left out." : "")),
      make("div", { class: "columns figures effects" }, ...effects.map((effect) => (effect.is_number ? effectChart(effect) : effectTable(effect)))));
  }
}

function showComparison() {
  const { comparison, evaluation } = data;
  if (!comparison) return;
  const { differences, mcnemar, sequences: changes } = comparison;
  const sign = (name, value) => (AS_SHARE.has(name) ? `${signed(100 * value)} points` : signed(value, 3));
  const rows = differences.map(({ name, value, interval }, i) => [SCORE_NAMES[name] || name, score(name, evaluation.scores[i].value),
    score(name, evaluation.scores[i].value + value), sign(name, value),
    interval ? `${sign(name, interval[0]).replace(" points", "")} to ${sign(name, interval[1])}` : "–"]);
  const [[, onlyFirst], [onlySecond]] = mcnemar.table;
  const places = new Map(sequences.map(({ index }, k) => [index, k]));
  const go = (index) => () => {
    choose(places.get(index), firstDifference(index));
    showInList();
    document.getElementById("sequences").scrollIntoView();
  };
  const changed = changes.map(([index, gain]) => [make("td", {},
    make("button", { class: "tool", type: "button", onclick: go(index) }, nameOf(index))), whole(stored.offsets[index + 1] - stored.offsets[index]),
    `${gain < 0 ? "−" : "+"}${whole(Math.abs(gain))}`]);
  section("comparison", `${secondName} compared with ${firstName}`, say(comparisonSentence(differences[0])), make("div", { class: "columns" },
    make("div", { class: "wide" }, make("h3", {}, "Scores"), table(["score", firstName, secondName, "difference", "95 % interval"], rows),
      note(`Differences are ${secondName} minus ${firstName}, in percentage points except for log loss, where lower is better.` +
        (differences[0].interval ? " Their bootstrap intervals use the same resamples of sequences for both models. If an interval " +
        "excludes 0, chance alone hardly explains the difference." : "")),
      note(`Only ${firstName} is correct at ${counted(onlyFirst, "position")}, only ${secondName} at ${whole(onlySecond)}. ` +
        `McNemar's test of equal accuracy: p\u00a0${mcnemar.pvalue < 0.001 ? "<\u00a00.001" : `=\u00a0${mcnemar.pvalue.toFixed(3)}`}. The test treats all ` +
        "positions as independent. Those of a sequence are not, so p tends to be too small" + (differences[0].interval ? "; rely on the intervals instead." : "."))),
    make("div", {}, make("h3", {}, "Sequences that differ the most"),
      changed.length ? table(["sequence", "positions", "change in correct positions"], changed) : note("None."),
      changed.length ? note(`How many more positions ${secondName} labels correctly than ${firstName}. Click a sequence to show it.`) : null)));
}

function firstDifference(index) {
  for (let row = stored.offsets[index]; row < stored.offsets[index + 1]; row += 1) {
    if (predicted[row] !== second[row]) return row - stored.offsets[index];
  }
  return 0;
}

function comparisonSentence({ value, interval }) {
  if (!value) return "Both models have the same accuracy.";
  const size = `${Math.abs(100 * value).toFixed(2)} percentage points`;
  const start = `The accuracy of ${secondName} is ${size} ${value > 0 ? "higher" : "lower"} than that of ${firstName}.`;
  if (!interval) return `${start} A single sequence does not tell whether this holds for others.`;
  const isClear = interval[0] > 0 || interval[1] < 0;
  return `${start} ${isClear ? "The interval excludes 0, so chance alone hardly explains the difference."
    : "The interval includes 0, so these sequences do not show which model is better."}` +
    (sequences.length < FEW_SEQUENCES ? ` With only ${sequences.length} sequences, the interval is rough.` : "");
}

const NOTABLE = 0.1;

function driftSentence(drift) {
  const moved = drift.filter(({ distance, within, missing }) =>
    distance > Math.max(NOTABLE, 2 * (within || 0)) || Math.abs(missing[1] - missing[0]) > NOTABLE);
  if (!moved.length) return "No column differs clearly from the training data.";
  const names = enumerated(moved.map(({ name }) => name), 5);
  return `${counted(moved.length, "column")} ${moved.length === 1 ? "differs" : "differ"} from the training data more than expected: ${names}. ` +
    `The model may be less accurate on these data. Find out why ${moved.length === 1 ? "the column has" : "the columns have"} changed.`;
}

function showDrift() {
  if (!data.training) return;
  const { drift } = data.training;
  const title = "Inputs compared with the training data";
  if (!drift) {
    section("drift", title, note("Inputs with more than 1,000 columns are not compared."));
    return;
  }
  const digits = (value) => String(Number(value.toPrecision(4)));
  const rows = drift.map(({ name, distance, within, missing, medians }) => [make("td", { class: "name", title: name }, name),
    number(distance), number(within), medians ? `${digits(medians[0])} → ${digits(medians[1])}` : "–",
    `${percent(missing[0])} → ${percent(missing[1])}`]);
  section("drift", title, say(driftSentence(drift)),
    table(["column", "distance", "within training", "median", "missing values"], rows),
    note("The distance between the distributions in the training data and here ranges from 0, if they are equal, to 1. For numbers, it is " +
      "the Kolmogorov–Smirnov distance, the largest difference between the two distribution functions; for categories, the total " +
      "variation distance, half the sum of the absolute differences between the frequencies. “Within training” is the largest distance between two halves " +
      "of the training sequences, in ten random splits. A column counts as changed if its distance exceeds both 0.1 and twice that value, or " +
      "if its share of missing values has changed by more than 10 percentage points. Arrows point from the training data to these data."));
}

showSummary();
showSequences();
showLabels();
showAccuracy();
showComparison();
showDrift();
showModel();
document.body.append(make("footer", {}, note(`Made with treecrf ${data.version}. This page loads nothing from the network.`)));
