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
    else if (key !== "color") element.setAttribute(key, value);
  }
  if (attributes.color) element.style.setProperty("--of-label", attributes.color);
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
const percent = (share) => (share === null ? "–" : `${(100 * share).toFixed(1)} %`);
const number = (value, digits = 3) => (value === null ? "–" : value.toFixed(digits));
const signed = (value, digits = 2) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`;
const note = (...texts) => make("p", { class: "muted" }, ...texts);

// Colors of labels: a palette that color-blind people can distinguish, then hues in between.

const PALETTE = ["#3b82c4", "#e69f00", "#12a077", "#cc79a7", "#56b4e9", "#d9632a", "#b8a800", "#8a8f98"];
const color = (k) => (k < 0 ? "var(--others)" : k < PALETTE.length ? PALETTE[k]
  : `hsl(${(k * 137.5) % 360} 55% ${k % 2 ? 45 : 62}%)`);

function legend(codes) {
  return make("div", { class: "legend" },
    ...codes.map((k) => make("span", { color: color(k) }, labels[k])));
}

// What was measured

function card(name, value, below) {
  return make("div", { class: "card" }, name, make("b", {}, value), make("span", { class: "muted" }, below));
}

const AS_SHARE = new Set(["accuracy", "macro F1", "whole sequences"]);
const score = (name, value) => (AS_SHARE.has(name) ? percent(value) : number(value));

function scoreCards(evaluation) {
  const cards = evaluation.scores.map(({ name, value, interval }) => card(name, score(name, value),
    interval ? `95 %: ${score(name, interval[0])} to ${score(name, interval[1])}` : ""));
  if (evaluation.changes) {
    const [seen, predicted] = evaluation.changes;
    cards.push(card("changes of label", whole(predicted), `true: ${whole(seen)}`));
  }
  return make("div", { class: "cards" }, ...cards);
}

function showSummary() {
  const { model, evaluation, sequences, certainty, positions } = data;
  const nPositions = positions.offsets[positions.offsets.length - 1];
  const known = Object.entries({ ...model.parameters, ...model.learned });
  const about = `${model.class} labels ${whole(nPositions)} positions in ${whole(sequences.length)} ` +
    `sequence${sequences.length === 1 ? "" : "s"} with ${labels.length} label${labels.length === 1 ? "" : "s"}.`;
  section("summary", "Summary", make("p", {}, about),
    evaluation ? scoreCards(evaluation)
      : make("div", { class: "cards" }, card("mean certainty", percent(certainty), "probability of the best label")),
    evaluation && evaluation.n_unknown
      ? note(`${whole(evaluation.n_unknown)} positions without a label have no part in the scores.`) : null,
    evaluation ? note("Intervals come from resampling whole sequences. Log loss: lower is better.") : null,
    known.length ? make("details", {}, make("summary", {}, "Settings of the model"),
      table(["parameter", "value"], known.map(([name, value]) => [name, value]))) : null);
}

function showLabels() {
  const { evaluation, predicted } = data;
  if (!evaluation) {
    const total = predicted.reduce((a, b) => a + b, 0);
    section("labels", "Predicted labels", table(["label", "positions", "share"],
      labels.map((name, k) => [name, whole(predicted[k]), percent(predicted[k] / total)])));
    return;
  }
  const { confusion, by_label: scores } = evaluation;
  const rows = labels.map((name, k) => [name, whole(confusion[k].reduce((a, b) => a + b, 0)),
    percent(scores.precision[k]), percent(scores.recall[k]), percent(scores.f1[k])]);
  section("labels", "Labels", make("div", { class: "columns" },
    make("div", {}, make("h3", {}, "Scores of each label"),
      table(["label", "positions", "precision", "recall", "F1"], rows)),
    make("div", {}, make("h3", {}, "Confusion"), confusionTable(confusion),
      note("Rows are true labels, columns predicted ones. The darker, the larger the share of the row."))));
}

const MAX_CONFUSED = 25;

function confusionTable(confusion) {
  const errors = labels.map((_, k) => confusion[k].reduce((sum, n, j) => sum + (j === k ? 0 : n + confusion[j][k]), 0));
  let shown = labels.map((_, k) => k);
  if (shown.length > MAX_CONFUSED) {
    shown = shown.sort((a, b) => errors[b] - errors[a]).slice(0, MAX_CONFUSED).sort((a, b) => a - b);
  }
  const rows = shown.map((k) => {
    const total = Math.max(1, confusion[k].reduce((a, b) => a + b, 0));
    return [labels[k], ...shown.map((j) => {
      const share = Math.round((100 * confusion[k][j]) / total);
      const ink = j === k ? "var(--accent)" : "var(--wrong)";
      return make("td", { class: "cell", style: `background: color-mix(in srgb, ${ink} ${share * 0.6}%, transparent)` },
        confusion[k][j] ? whole(confusion[k][j]) : "");
    })];
  });
  return table(["true", ...shown.map((k) => labels[k])], rows, { "aria-label": "Confusion of labels" });
}

// Charts

const WIDTH = 420;
const HEIGHT = 240;
const BOX = { left: 44, right: 8, top: 8, bottom: 38 };
const across = (x) => BOX.left + x * (WIDTH - BOX.left - BOX.right);
const up = (y) => HEIGHT - BOX.bottom - y * (HEIGHT - BOX.top - BOX.bottom);

function frame(title, xLabel, xTicks) {
  const chart = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, role: "img", "aria-label": title });
  for (const y of [0, 0.25, 0.5, 0.75, 1]) {
    chart.append(draw("line", { class: "grid", x1: across(0), x2: across(1), y1: up(y), y2: up(y) }),
      draw("text", { x: BOX.left - 6, y: up(y) + 4, "text-anchor": "end" }, `${100 * y} %`));
  }
  for (const [x, name] of xTicks) {
    chart.append(draw("text", { x: across(x), y: HEIGHT - BOX.bottom + 16, "text-anchor": "middle" }, name));
  }
  chart.append(draw("text", { x: across(0.5), y: HEIGHT - 4, "text-anchor": "middle" }, xLabel));
  return chart;
}

const hint = (text) => draw("title", {}, text);

function calibrationChart(bins) {
  const chart = frame("Calibration", "probability of the predicted label", [0, 0.5, 1].map((x) => [x, `${100 * x} %`]));
  chart.append(draw("line", { class: "axis", x1: across(0), y1: up(0), x2: across(1), y2: up(1), "stroke-dasharray": "4 4" }));
  const largest = Math.max(...bins.map((bin) => bin.n));
  const path = bins.map((bin, i) => `${i ? "L" : "M"}${across(bin.predicted)} ${up(bin.observed)}`).join("");
  chart.append(draw("path", { d: path, fill: "none", stroke: "var(--accent)", "stroke-width": 2 }));
  for (const bin of bins) {
    chart.append(draw("circle", { cx: across(bin.predicted), cy: up(bin.observed), fill: "var(--accent)",
      r: 3 + 6 * Math.sqrt(bin.n / largest) },
    hint(`${whole(bin.n)} positions: predicted ${percent(bin.predicted)}, right ${percent(bin.observed)}`)));
  }
  return chart;
}

function barChart(title, xLabel, rows) {
  const step = 1 / rows.length;
  const chart = frame(title, xLabel, rows.map((row, i) => [(i + 0.5) * step, row.name.replace(" to ", "–").replace(" or more", "+")]));
  rows.forEach((row, i) => chart.append(draw("rect", { x: across((i + 0.15) * step), width: across(0.7 * step) - across(0),
    y: up(row.accuracy), height: up(0) - up(row.accuracy), fill: "var(--accent)" },
  hint(`${row.name}: ${percent(row.accuracy)} of ${whole(row.n)} positions`))));
  return chart;
}

function showAccuracy() {
  const { evaluation } = data;
  if (!evaluation) return;
  const charts = [make("div", {}, make("h3", {}, "Calibration"), calibrationChart(evaluation.calibration),
    note("On the dashed line, probabilities are right. Larger dots hold more positions."))];
  if (evaluation.by_length.length) {
    charts.push(make("div", {}, make("h3", {}, "Accuracy by the length of the true segment"),
      barChart("Accuracy by segment length", "positions in the segment", evaluation.by_length)));
  }
  if (evaluation.by_distance.length) {
    charts.push(make("div", {}, make("h3", {}, "Accuracy near changes of the true label"),
      barChart("Accuracy by distance", "positions from the nearest change", evaluation.by_distance)));
  }
  section("accuracy", "Where it is right", make("div", { class: "columns" }, ...charts));
}

// Sequences

function decode(text, Type) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  if (Type === Uint8Array) return bytes;
  const view = new DataView(bytes.buffer);
  return Int16Array.from({ length: bytes.length / 2 }, (_, i) => view.getInt16(2 * i, true));
}

const stored = data.positions;
const predicted = decode(stored.predicted, Int16Array);
const truth = stored.true ? decode(stored.true, Int16Array) : null;
const second = data.comparison ? decode(data.comparison.predicted, Int16Array) : null;
const shareLabels = decode(stored.labels, Int16Array);
const shares = decode(stored.shares, Uint8Array);
const isWrong = (row) => truth !== null && truth[row] >= 0 && truth[row] !== predicted[row];

const view = { sequence: 0, position: 0, zoom: 1 };
const strips = [["predicted", predicted]];
if (second) strips.push([`predicted by ${data.comparison.class}`, second]);
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
  const { index } = data.sequences[view.sequence];
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
  strips.forEach(([name, codes], i) => {
    const top = AREA + 4 + i * (STRIP + 4);
    let from = start;
    for (let row = start + 1; row <= end; row += 1) {
      if (row < end && codes[row] === codes[from]) continue;
      pen.fillStyle = fill(codes[from]);
      pen.fillRect(x(from), top, Math.max(x(row) - x(from), 0.5), STRIP);
      from = row;
    }
    pen.fillStyle = named("--text");
    pen.font = "11px sans-serif";
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
  for (let row = start; row < end; row += 1) {
    if (isWrong(row)) pen.fillRect(x(row), bottom, Math.max(x(row + 1) - x(row), 1), 6);
  }
  const chosen = bounds()[0] + view.position;
  pen.strokeStyle = named("--text");
  pen.lineWidth = 2;
  pen.strokeRect(x(chosen), 1, Math.max(x(chosen + 1) - x(chosen), 2), height - 10);
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
    const word = make("span", { color: color(predicted[row]), class: kinds, title: labels[predicted[row]],
      onclick: () => choose(view.sequence, row - first) }, part);
    return [word, space];
  }));
  const here = text.querySelector(".here");
  text.scrollTop = here.offsetTop - text.offsetTop - text.clientHeight / 2;
}

function showDetails() {
  const [first, last] = bounds();
  const row = first + view.position;
  const { index, wrong } = data.sequences[view.sequence];
  heading.textContent = `Sequence ${stored.names[index]}: ${whole(last - first)} positions` +
    (truth ? `, ${whole(wrong)} wrong` : "");
  const places = Array.from({ length: stored.n_stored }, (_, j) => row * stored.n_stored + j);
  const rows = places.map((place) => [labels[shareLabels[place]], make("td", {},
    make("span", { class: "share", color: color(shareLabels[place]), style: `width: ${shares[place] / 2.55 / 2}%` }),
    percent(shares[place] / 255))]);
  const facts = [`Position ${whole(view.position)}`, `predicted: ${labels[predicted[row]]}`];
  if (truth) facts.push(`true: ${truth[row] < 0 ? "unknown" : labels[truth[row]]}`);
  if (second) facts.push(`${data.comparison.class}: ${labels[second[row]]}`);
  if (stored.texts) facts.push(`text: ${stored.texts[row]}`);
  details.replaceChildren(make("p", { class: isWrong(row) ? "wrong" : "" }, facts.join(" · ")),
    make("div", { class: "columns" }, make("div", {}, table(["label", "probability"], rows)), explanationOf(row)));
}

function explanationOf(row) {
  const found = data.explanations && data.explanations[row];
  if (!found) {
    return make("div", {}, note(data.explanations
      ? "No contributions are stored for this position. They are for the worst ones: press W."
      : "The scores of this model are not sums over features."));
  }
  const [a, b] = found.labels;
  const items = [["base value", found.base], ...found.items];
  if (Math.abs(found.others) > 1e-4) items.push(["all others", found.others]);
  const largest = Math.max(...items.map(([, value]) => Math.abs(value)), 1e-9);
  const rows = items.map(([name, value]) => {
    const size = (50 * Math.abs(value)) / largest;
    const bar = make("i", { style: `width: ${size}%; ${value < 0 ? "right" : "left"}: 50%; background: ${color(value < 0 ? b : a)}` });
    return [make("td", { class: "name", title: name }, name), make("td", {}, make("div", { class: "bar" }, bar)), signed(value)];
  });
  const caption = `What speaks for ${labels[a]} (right) against ${labels[b]} (left)`;
  return make("div", { class: "bars" }, make("h3", {}, caption), table(["input", "", "contribution"], rows));
}

function choose(sequence, position) {
  const n = data.sequences.length;
  view.sequence = Math.max(0, Math.min(n - 1, sequence));
  const [first, last] = bounds();
  view.position = Math.max(0, Math.min(last - first - 1, position));
  for (const [k, item] of [...list.children].entries()) {
    item.firstChild.setAttribute("aria-current", String(k === view.sequence));
  }
  refresh();
}

let isWaiting = false;

function refresh() {
  if (isWaiting) return;
  isWaiting = true;
  requestAnimationFrame(() => {
    isWaiting = false;
    if (data.sequences.length === 0) return;
    paint();
    showText();
    showDetails();
  });
}

function firstWrong(sequence) {
  const { index } = data.sequences[sequence];
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
  const sequence = data.sequences.findIndex(
    ({ index }) => stored.offsets[index] <= row && row < stored.offsets[index + 1]);
  choose(sequence, row - stored.offsets[data.sequences[sequence].index]);
  list.children[sequence]?.scrollIntoView({ block: "nearest" });
}

function zoom(factor) {
  const [first, last] = bounds();
  view.zoom = Math.max(1, Math.min((last - first) / 5, view.zoom * factor));
  refresh();
}

const STEPS = {
  ArrowLeft: () => choose(view.sequence, view.position - 1),
  ArrowRight: () => choose(view.sequence, view.position + 1),
  ArrowUp: () => choose(view.sequence - 1, 0),
  ArrowDown: () => choose(view.sequence + 1, 0),
  "+": () => zoom(2),
  "=": () => zoom(2),
  "-": () => zoom(0.5),
  n: () => nextWrong(1),
  p: () => nextWrong(-1),
  w: () => nextExplained(),
};

function showSequences() {
  const many = data.sequences.length > MAX_LISTED;
  for (const [k, { index, n, wrong }] of data.sequences.slice(0, MAX_LISTED).entries()) {
    const result = truth ? `${whole(wrong)} of ${whole(n)} wrong` : `${whole(n)} positions`;
    list.append(make("li", {}, make("button", { type: "button", onclick: () => choose(k, firstWrong(k)) },
      `${stored.names[index]} · ${result}`)));
  }
  const tool = (name, key) => make("button", { class: "tool", type: "button", onclick: STEPS[key] }, name);
  const present = labels.map((_, k) => k).filter((k) => data.predicted[k] || (truth && truth.includes(k)));
  const keys = "Keys: ← → position, ↑ ↓ sequence, + − zoom" + (truth ? ", N and P next and previous error" : "") +
    (data.explanations ? ", W next of the worst positions." : ".");
  const main = make("div", {}, heading, legend(present), canvas,
    make("div", { class: "tools" }, tool("◀", "ArrowLeft"), tool("▶", "ArrowRight"), tool("zoom in", "+"), tool("zoom out", "-"),
      truth ? tool("next error", "n") : null, data.explanations ? tool("next of the worst positions", "w") : null),
    note(keys), text, details);
  section("sequences", "Sequences",
    note(truth ? "The sequences with the greatest log loss come first." : "The least certain sequences come first.",
      many ? ` The first ${whole(MAX_LISTED)} are listed; the arrow keys reach all.` : ""),
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

// Inside the model

function shaded(value, largest) {
  return `background: color-mix(in srgb, var(--accent) ${largest ? Math.round((60 * Math.sqrt(value / largest))) : 0}%, transparent)`;
}

function importanceTable({ features, offsets, gains, labels_before: before, has_linear_start: hasStart }) {
  const largest = Math.max(...gains.flat(), 0);
  const rows = features.map((name, i) => [make("td", { class: "name", title: name }, name), ...gains[i].map((gain) =>
    make("td", { class: "cell", style: shaded(gain, largest) }, gain >= 0.0005 ? (100 * gain).toFixed(1) : ""))]);
  const headings = offsets.map((offset) => (offset > 0 ? `+${offset}` : String(offset)));
  return make("div", {}, make("h3", {}, "Importance of features by offset"), table(["feature", ...headings], rows),
    note(`Gain of the trees in percent of that of all features. Previous labels gain ${(100 * before).toFixed(1)} beside it.`,
      hasStart ? " The linear model that the trees start from is left out." : ""));
}

function weightTable(weights) {
  return make("div", {}, make("h3", {}, "Strongest weights"),
    table(["attribute", "label", "weight"], weights.map(([label, name, value]) => [
      make("td", { class: "name", title: name }, name), label, signed(value)])));
}

function transitionTable({ table: cells, backward }) {
  const largest = Math.max(...cells.flat().filter((value) => value !== null).map(Math.abs), 1e-9);
  const rows = cells.map((row, i) => [labels[i], ...row.map((value, j) => {
    if (value === null) return make("td", { class: "cell" }, "never");
    const ink = value < 0 ? "var(--wrong)" : "var(--accent)";
    const share = Math.round((60 * Math.abs(value)) / largest);
    return make("td", { class: "cell", title: `${labels[i]}, ${labels[j]}`,
      style: `background: color-mix(in srgb, ${ink} ${share}%, transparent)` }, value.toFixed(1));
  })]);
  return make("div", {}, make("h3", {}, "Labels after labels"), table([backward ? "next" : "previous", ...labels], rows),
    note("Mean score of the label in the column, given the label in the row."));
}

function effectChart({ name, is_number: isNumber, values, labels: codes, average }) {
  const n = values.length;
  const low = isNumber ? values[0] : 0;
  const range = isNumber ? Math.max(values[n - 1] - low, 1e-12) : 1;
  const x = (i) => (isNumber ? (values[i] - low) / range : (i + 0.5) / n);
  const short = (value) => (isNumber ? String(Number(value.toPrecision(3))) : String(value).slice(0, 8));
  const every = isNumber ? Math.max(1, n - 1) : Math.ceil(n / 12);
  const ticks = values.map((value, i) => [x(i), short(value)]).filter((_, i) => i % every === 0);
  const chart = frame(`Effect of ${name}`, name, ticks);
  codes.forEach((k, column) => {
    if (isNumber) {
      const path = average.map((row, i) => `${i ? "L" : "M"}${across(x(i))} ${up(row[column])}`).join("");
      chart.append(draw("path", { d: path, fill: "none", stroke: color(k), "stroke-width": 2 }, hint(labels[k])));
      return;
    }
    average.forEach((row, i) => chart.append(draw("circle", { cx: across(x(i)), cy: up(row[column]), r: 4, fill: color(k) },
      hint(`${short(values[i])}, ${labels[k]}: ${percent(row[column])}`))));
  });
  return make("div", {}, make("h3", {}, name), chart, legend(codes));
}

function showModel() {
  const { importances, transitions, effects } = data;
  const tables = [];
  if (importances && importances.weights) tables.push(weightTable(importances.weights));
  else if (importances && importances.features.length) tables.push(importanceTable(importances));
  if (transitions) tables.push(transitionTable(transitions));
  if (tables.length) section("model", "Inside the model", make("div", { class: "columns" }, ...tables));
  if (effects.length) {
    section("effects", "Effects of features", note("Mean probabilities if the feature had the same value at all positions."),
      make("div", { class: "columns" }, ...effects.map(effectChart)));
  }
}

function showComparison() {
  const { comparison, model } = data;
  if (!comparison) return;
  const { differences, mcnemar, sequences } = comparison;
  const sign = (name, value) => (AS_SHARE.has(name) ? `${signed(100 * value)} points` : signed(value, 3));
  const rows = differences.map(({ name, value, interval }) => [name, sign(name, value),
    interval ? `${sign(name, interval[0])} to ${sign(name, interval[1])}` : "–"]);
  const [[, onlyFirst], [onlySecond]] = mcnemar.table;
  const places = new Map(data.sequences.map(({ index }, k) => [index, k]));
  const go = (index) => () => {
    choose(places.get(index), 0);
    document.getElementById("sequences").scrollIntoView();
  };
  const changed = sequences.map(([index, gain]) => [make("td", {},
    make("button", { class: "tool", type: "button", onclick: go(index) }, stored.names[index])), `${gain < 0 ? "−" : "+"}${Math.abs(gain)}`]);
  section("comparison", `${comparison.class} against ${model.class}`, make("div", { class: "columns" },
    make("div", {}, table(["score", "difference", "95 %"], rows),
      note(`McNemar's test: only ${model.class} is right at ${whole(onlyFirst)} positions, only ${comparison.class} at ` +
        `${whole(onlySecond)}; p = ${mcnemar.pvalue < 0.001 ? "less than 0.001" : mcnemar.pvalue.toFixed(3)}. ` +
        "The test takes positions for independent; the intervals do not.")),
    make("div", {}, make("h3", {}, "Sequences that differ the most"),
      changed.length ? table(["sequence", "right positions gained"], changed) : note("None."))));
}

function showDrift() {
  const { drift } = data;
  if (!drift || !drift.length) return;
  const rows = drift.map(({ name, distance, missing, medians }) => [make("td", { class: "name", title: name }, name),
    number(distance), medians ? `${Number(medians[0].toPrecision(4))} → ${Number(medians[1].toPrecision(4))}` : "–",
    `${percent(missing[0])} → ${percent(missing[1])}`]);
  section("drift", "Inputs against the training data",
    table(["column", "distance", "median", "missing"], rows),
    note("Distance of the two distributions, from 0 to 1: the largest difference of the distribution functions of numbers, " +
      "or half of the sum of the differences of all frequencies of categories."));
}

showSummary();
showSequences();
showLabels();
showAccuracy();
showComparison();
showDrift();
showModel();
document.body.append(make("footer", {}, note("Made by treecrf. This page loads nothing from the network.")));
