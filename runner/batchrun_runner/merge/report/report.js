"use strict";
// The page of one run. All text of rows goes in through textContent: nothing of them is ever parsed as HTML.
const byId = (id) => document.getElementById(id);
const stats = JSON.parse(byId("statistics").textContent);
const [INDEX, OUTCOME, REASON, LENGTH, CALLS, TOOL_CALLS, TOOL_FAILURES, TOKENS, SECONDS, REWARD, ID, TOOLS, PROMPT] = Array(13).keys();
const ROW_PIXELS = 60, SHOWN_CHARS = 20000;
const whole = new Intl.NumberFormat("en"), decimal = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const words = (name) => name.replaceAll("_", " ");

function make(tag, text, attributes = {}) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

async function inflate(base64) {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
}

// Figures of the run

function mark(node, outcome) {
  node.style.setProperty("--mark", `var(--${outcome})`);
  return node;
}

function showFigures() {
  const total = stats.total_prompts, tokens = stats.tokens, reasoning = stats.reasoning_statistics;
  byId("subtitle").textContent = `${stats.model} · ${stats.completed_at.slice(0, 16).replace("T", " ")}`;
  const share = total ? `${decimal.format(100 * stats.outcomes.completed / total)}\u00a0%` : "none";
  byId("lede").textContent = `${whole.format(total)} ${stats.samples_per_prompt > 1 ? "samples" : "prompts"}, ${share} of them completed, with ${compact.format(tokens.total_tokens)} tokens.`;
  for (const [name, count] of Object.entries(stats.outcomes)) {
    const part = mark(make("i"), name);
    part.style.flexGrow = count;
    part.style.background = "var(--mark)";
    if (count) byId("strip").append(part);
    const value = make("dd", whole.format(count), { "data-outcome": name });
    const box = make("div");
    if (total) value.append(" ", make("span", `${decimal.format(100 * count / total)}\u00a0%`, { class: "unit" }));
    box.append(mark(make("dt", words(name)), name), value);
    byId("outcomes").append(box);
  }
  const facts = {
    "reasoning": `${whole.format(reasoning.turns_with_reasoning)} of ${whole.format(reasoning.total_assistant_turns)} assistant turns (${decimal.format(reasoning.reasoning_rate)}\u00a0%)`,
    "tokens": `${whole.format(tokens.prompt_tokens)} in, ${whole.format(tokens.completion_tokens)} out, ${whole.format(tokens.reasoning_tokens)} of them reasoning`,
    "model calls": whole.format(stats.api_calls),
    "active time": `${decimal.format(stats.seconds.active)}\u00a0s; in prompts ${decimal.format(stats.seconds.prompts)}\u00a0s`,
    "of that": `model ${decimal.format(stats.seconds.model)}\u00a0s, tools ${decimal.format(stats.seconds.tools)}\u00a0s, sandbox ${decimal.format(stats.seconds.sandbox)}\u00a0s`,
  };
  if (stats.reward.count) facts.reward = `${decimal.format(stats.reward.mean)} on average, of ${whole.format(stats.reward.count)}`;
  if (stats.orphaned) facts.orphaned = `${whole.format(stats.orphaned)} rows beside the total`;
  for (const [name, text] of Object.entries(facts)) {
    const box = make("div");
    box.append(make("dt", name), make("dd", text));
    byId("facts").append(box);
  }
  const reasons = Object.entries(stats.reasons).sort((a, b) => b[1] - a[1]);
  table("reasons", ["reason", "prompts", "share"], reasons.map(([name, count]) => [name, whole.format(count), `${decimal.format(100 * count / total)}\u00a0%`]), "Every prompt that ran has completed.");
  const tools = Object.entries(stats.tool_statistics).sort((a, b) => b[1].count - a[1].count);
  table("tools", ["tool", "calls", "failures", "success"], tools.map(([name, of]) => [name, whole.format(of.count), whole.format(of.failure), `${decimal.format(of.success_rate)}\u00a0%`]), "No tool was called.");
}

function table(id, heads, rows, empty) {
  if (!rows.length) return byId(id).replaceWith(make("p", empty, { class: "quiet" }));
  const line = make("tr");
  for (const head of heads) line.append(make("th", head, { scope: "col" }));
  byId(id).append(line);
  for (const cells of rows) {
    const row = make("tr");
    for (const cell of cells) row.append(make("td", cell));
    byId(id).append(row);
  }
}

// Distributions over the rows of the result

function chart(title, values, unit) {
  if (!values.length) return;
  values.sort();
  const low = values[0], high = values[values.length - 1];
  if (low === high) {
    const box = make("div", undefined, { class: "chart" });
    box.append(make("h3", title), make("p", `${decimal.format(low)} ${unit}, in each of ${whole.format(values.length)} rows`, { class: "quiet" }));
    return byId("charts").append(box);
  }
  const integers = values.every(Number.isInteger);
  const bins = integers && high - low < 24 ? high - low + 1 : 24;
  const step = (high - low + (integers ? 1 : 0)) / bins || 1;
  const counts = new Array(bins).fill(0);
  for (const value of values) counts[Math.min(bins - 1, Math.floor((value - low) / step))] += 1;
  const most = Math.max(...counts), median = values[Math.floor((values.length - 1) / 2)];
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const draw = (tag, attributes) => {
    const node = document.createElementNS(svg.namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    svg.append(node);
    return node;
  };
  const label = `${title}: ${decimal.format(low)} to ${decimal.format(high)} ${unit}, median ${decimal.format(median)}, of ${whole.format(values.length)} rows`;
  for (const [name, value] of Object.entries({ viewBox: `0 0 ${bins * 10} 100`, preserveAspectRatio: "none", role: "img", "aria-label": label })) svg.setAttribute(name, value);
  counts.forEach((count, number) => {
    const height = count ? Math.max(1.5, 98 * count / most) : 0;
    draw("rect", { x: number * 10 + .6, y: 100 - height, width: 8.8, height }).append(Object.assign(document.createElementNS(svg.namespaceURI, "title"), { textContent: `from ${decimal.format(low + number * step)}: ${whole.format(count)}` }));
  });
  draw("line", { x1: 0, x2: bins * 10, y1: 100, y2: 100 });
  const box = make("div", undefined, { class: "chart" }), axis = make("div", undefined, { class: "axis" });
  for (const text of [compact.format(low), `median ${compact.format(median)} ${unit}`, compact.format(high)]) axis.append(make("span", text));
  box.append(make("h3", title), svg, axis);
  byId("charts").append(box);
}

function showDistributions() {
  const column = (number) => Float64Array.from(rows, (row) => row[number]);
  chart("Model calls", column(CALLS), "calls");
  chart("Tool calls", column(TOOL_CALLS), "calls");
  chart("Tokens", column(TOKENS), "tokens");
  chart("Time", column(SECONDS), "s");
  chart("Reward", Float64Array.from(rows.filter((row) => row[REWARD] !== null), (row) => row[REWARD]), "");
}

// The list: only the rows in sight are in the document

const rows = [], offsets = [], texts = [];
let shown = [], active = -1, opened = -1;
const list = byId("list"), search = byId("search"), outcome = byId("outcome");

function filter() {
  const terms = search.value.toLowerCase().split(/\s+/).filter(Boolean), wanted = outcome.value;
  shown = [];
  for (let at = 0; at < rows.length; at += 1) {
    if ((!wanted || rows[at][OUTCOME] === wanted) && terms.every((term) => texts[at].includes(term))) shown.push(at);
  }
  active = shown.length ? 0 : -1;
  byId("found").textContent = shown.length === rows.length ? `${whole.format(rows.length)} rows` : `${whole.format(shown.length)} of ${whole.format(rows.length)} rows`;
  byId("space").style.height = `${shown.length * ROW_PIXELS}px`;
  list.scrollTop = 0;
  drawList();
}

function drawList() {
  const first = Math.max(0, Math.floor(list.scrollTop / ROW_PIXELS) - 4);
  const last = Math.min(shown.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW_PIXELS) + 4);
  const nodes = [];
  for (let place = first; place < last; place += 1) {
    const row = rows[shown[place]];
    const node = mark(make("div", undefined, { class: "row", role: "option", id: `row-${place}`, "data-place": place, "aria-selected": place === active, "aria-setsize": shown.length, "aria-posinset": place + 1 }), row[OUTCOME]);
    node.style.top = `${place * ROW_PIXELS}px`;
    const figures = [row[INDEX] < 0 ? "orphaned" : `#${row[INDEX]}`, row[ID], row[REASON] || row[OUTCOME], `${row[CALLS]} calls`, row[REWARD] === null ? "" : `reward ${decimal.format(row[REWARD])}`];
    node.append(make("p", row[PROMPT] || row[ID] || "(no prompt)"), make("p", figures.filter(Boolean).join(" · "), { class: "quiet" }));
    nodes.push(node);
  }
  byId("space").replaceChildren(...nodes);
  if (active >= first && active < last) list.setAttribute("aria-activedescendant", `row-${active}`);
  else list.removeAttribute("aria-activedescendant");
}

function move(place) {
  if (!shown.length) return;
  active = Math.max(0, Math.min(shown.length - 1, place));
  const top = active * ROW_PIXELS;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + ROW_PIXELS > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW_PIXELS - list.clientHeight;
  drawList();
}

// One trajectory

let source = null;

async function readRow(at) {
  const start = offsets[at], end = start + rows[at][LENGTH];
  if (source) return source.slice(start, end).text();
  const answer = await fetch("trajectories.jsonl", { headers: { Range: `bytes=${start}-${end - 1}` } });
  if (answer.status !== 206) throw new Error(`status ${answer.status}`);
  return answer.text();
}

async function open(at) {
  const reader = byId("reader");
  opened = at;
  reader.setAttribute("aria-busy", "true");
  let nodes;
  try {
    nodes = trajectory(at, JSON.parse(await readRow(at)));
  } catch {
    nodes = [chooser(at)];
  }
  if (opened !== at) return;
  reader.replaceChildren(...nodes);
  reader.scrollTop = 0;
  reader.removeAttribute("aria-busy");
}

function chooser(at) {
  const box = make("div"), input = make("input", undefined, { type: "file", accept: ".jsonl", "aria-label": "trajectories.jsonl" });
  box.append(make("p", "This result is too large to lie in the page. Choose the trajectories.jsonl beside it (it is read here and sent nowhere), or open the folder with “batchrun report”."), input);
  input.addEventListener("change", () => {
    const expected = offsets.at(-1) + rows.at(-1)[LENGTH];
    if (input.files[0].size !== expected) {
      box.append(make("p", `That file has not the ${whole.format(expected)} bytes of this run's result; choose the one of the same merge.`, { role: "alert" }));
      return;
    }
    source = input.files[0];
    open(at);
  });
  return box;
}

function trajectory(at, row) {
  const facts = [row.outcome, row.reason, `${whole.format(rows[at][TOKENS])} tokens`, `${decimal.format(rows[at][SECONDS])}\u00a0s`, row.reward === null || row.reward === undefined ? "" : `reward ${decimal.format(row.reward)}`];
  const nodes = [make("h2", `${row.prompt_index < 0 ? "Orphaned row" : `Prompt ${row.prompt_index}`}${row.id ? ` · ${row.id}` : ""}`), make("p", facts.filter(Boolean).join(" · "), { class: "quiet" })];
  if (row.message) nodes.push(make("p", row.message));
  const names = { human: "prompt", gpt: "model", tool: "tool", system: "system" };
  for (const turn of row.conversations) {
    const box = make("div", undefined, { class: `turn ${names[turn.from] ? turn.from : ""}` });
    box.append(make("h3", names[turn.from] ?? turn.from));
    if (turn.value) box.append(...longText(turn.value));
    for (const call of turn.tool_calls ?? []) {
      const [text, ...more] = longText(`${call.function.name} ${call.function.arguments}`);
      text.className = "call";
      box.append(text, ...more);
    }
    nodes.push(box);
  }
  return nodes;
}

function longText(value) {
  if (value.length <= SHOWN_CHARS) return [make("pre", value)];
  const text = make("pre", value.slice(0, SHOWN_CHARS)), button = make("button", `Show all ${whole.format(value.length)} characters`, { type: "button" });
  button.addEventListener("click", () => { text.textContent = value; button.remove(); });
  return [text, button];
}

// Keys

const steps = { ArrowDown: () => active + 1, ArrowUp: () => active - 1, PageDown: () => active + 8, PageUp: () => active - 8, Home: () => 0, End: () => shown.length - 1 };

list.addEventListener("keydown", (event) => {
  if (event.key in steps) { move(steps[event.key]()); event.preventDefault(); }
  if (event.key === "Enter" && active >= 0) { open(shown[active]); byId("reader").focus(); }
});
search.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" || event.key === "Enter") { list.focus(); event.preventDefault(); }
});
byId("reader").addEventListener("keydown", (event) => { if (event.key === "Escape") list.focus(); });
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select")) return;
  search.focus();
  search.select();
  event.preventDefault();
});
list.addEventListener("scroll", drawList);
list.addEventListener("click", (event) => {
  const node = event.target.closest(".row");
  if (node) { move(Number(node.dataset.place)); open(shown[active]); }
});
search.addEventListener("input", filter);
outcome.addEventListener("change", filter);
new ResizeObserver(drawList).observe(list);

async function start() {
  showFigures();
  let offset = 0;
  byId("found").textContent = "reading the rows …";
  for (const piece of document.querySelectorAll('[data-piece="index"]')) {
    for (const row of JSON.parse(new TextDecoder().decode(await inflate(piece.textContent)))) {
      offsets.push(offset);
      offset += row[LENGTH];
      rows.push(row);
      texts.push(`${row[PROMPT]} ${row[ID]} ${row[REASON]} ${row[OUTCOME]} ${row[TOOLS]} #${row[INDEX]}`.toLowerCase());
    }
    piece.remove();
  }
  for (const name of new Set(rows.map((row) => row[OUTCOME]))) outcome.append(make("option", words(name), { value: name }));
  const embedded = document.querySelector('[data-piece="rows"]');
  if (embedded) { source = new Blob([await inflate(embedded.textContent)]); embedded.remove(); }
  showDistributions();
  filter();
  document.documentElement.dataset.ready = "true";
}
start();
