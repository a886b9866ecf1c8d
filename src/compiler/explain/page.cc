// SPDX-License-Identifier: Apache-2.0
// The page itself. It loads nothing, and all text of the program goes in by textContent.
#include "src/compiler/explain/page.h"

namespace tessera::compiler::explain {

const char* const kPage = R"PAGE(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>@@TITLE@@: what is communicated, and why</title>
<style>
:root { --ink: #1c2430; --soft: #5b6675; --line: #d9dee5; --page: #f6f7f9; --warn: #b3261e;
  --accent: #1d5fbf; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 14px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
header { padding: 18px 24px 10px; }
h1 { font-size: 20px; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 15px; margin: 0; overflow-wrap: anywhere; }
.soft { color: var(--soft); }
.facts { display: flex; flex-wrap: wrap; gap: 6px 22px; }
.facts b { font-variant-numeric: tabular-nums; }
main { padding: 0 24px 24px; display: grid; gap: 16px; }
section { background: #fff; border: 1px solid var(--line); border-radius: 8px; min-width: 0; }
.bar { display: flex; flex-wrap: wrap; gap: 8px 12px; align-items: center; padding: 10px 14px;
  border-bottom: 1px solid var(--line); }
.bar .grow { flex: 1; }
input[type=search] { font: inherit; padding: 6px 10px; width: min(380px, 100%);
  border: 1px solid #b9c1cc; border-radius: 6px; }
button, select { font: inherit; padding: 4px 10px; border: 1px solid #b9c1cc; border-radius: 6px;
  background: #fff; color: inherit; max-width: 260px; }
button:hover { background: #eef3fb; cursor: pointer; }
.scroll { overflow: auto; max-height: 46vh; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: 6px 10px; border-bottom: 1px solid #edf0f3;
  vertical-align: top; }
td { overflow-wrap: anywhere; min-width: 90px; }
th { position: sticky; top: 0; background: #fff; box-shadow: 0 1px 0 var(--line);
  white-space: nowrap; cursor: pointer; z-index: 1; }
th:hover { color: var(--accent); }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tbody tr { cursor: pointer; }
tbody tr:hover { background: #f3f6fb; }
tbody tr.on { background: #e3edfb; }
code, .code { font: 12.5px/1.4 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
.tag { display: inline-block; padding: 0 6px; border-radius: 9px; font-size: 12px;
  background: #fbe4e2; color: var(--warn); }
.meter { height: 4px; background: #e8ecf1; border-radius: 2px; margin-top: 3px; min-width: 70px; }
.meter i { display: block; height: 4px; background: var(--accent); border-radius: 2px; }
.split { display: grid; grid-template-columns: minmax(0, 1fr) 380px; }
@media (max-width: 1000px) { .split { grid-template-columns: minmax(0, 1fr); } }
#canvas { display: block; width: 100%; height: 62vh; min-height: 360px; cursor: grab;
  touch-action: none; border-right: 1px solid var(--line); }
#canvas.drag { cursor: grabbing; }
#detail { padding: 12px 14px; overflow: auto; max-height: 62vh; }
#detail h3 { font-size: 13px; margin: 12px 0 3px; }
#detail p { margin: 3px 0; overflow-wrap: anywhere; }
#detail ul { margin: 3px 0; padding-left: 18px; }
#detail li { overflow-wrap: anywhere; }
#detail a { color: var(--accent); cursor: pointer; text-decoration: underline; }
.good { background: #e9f5ec; border-radius: 6px; padding: 6px 8px; }
#legend { display: flex; flex-wrap: wrap; gap: 4px 10px; padding: 8px 14px; max-height: 120px;
  overflow: auto; border-top: 1px solid var(--line); }
#legend span { cursor: pointer; padding: 1px 6px; border-radius: 5px; border: 2px solid transparent; }
#legend span.on { border-color: var(--ink); }
#legend i { display: inline-block; width: 12px; height: 12px; border-radius: 3px;
  border: 1px solid #8a94a3; margin-right: 5px; vertical-align: -1px; }
.none { padding: 14px; }
</style>
</head>
<body>
<header><h1 id="title"></h1><div class="facts" id="facts"></div></header>
<main>
<section>
 <div class="bar"><h2>Movements between devices</h2><span class="grow"></span>
  <input type="search" id="search" aria-label="Search"
   placeholder="Search: op, file:line, tensor, spec, ..."><span class="soft" id="hits"></span></div>
 <div class="scroll"><table><thead><tr id="head"></tr></thead><tbody id="rows"></tbody></table></div>
</section>
<section>
 <div class="bar"><h2>The program, coloured by sharding</h2>
  <select id="which" aria-label="Computation"></select>
  <span class="grow"></span><span class="soft" id="limit"></span>
  <button id="in" title="Nearer">+</button><button id="out" title="Farther">&minus;</button>
  <button id="fit">Fit</button></div>
 <div class="split"><canvas id="canvas" tabindex="0" aria-label="Graph of the program"></canvas>
  <div id="detail"></div></div>
 <div id="legend"></div>
</section>
</main>
<noscript><p class="none">The table and the graph need JavaScript.</p></noscript>
<script type="application/json" id="data">@@DATA@@</script>
<script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const values = data.values, entries = data.entries;
function el(tag, text, cls) {
  const e = document.createElement(tag);
  if (text !== undefined && text !== null) e.textContent = text;
  if (cls) e.className = cls;
  return e;
}
function size(b) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let k = 0;
  while (b >= 1024 && k < units.length - 1) { b /= 1024; ++k; }
  return (k === 0 || b >= 100 ? Math.round(b) : b.toFixed(1)) + " " + units[k];
}
const exact = b => Math.round(b).toLocaleString("en") + " bytes";
const base = l => l.replace(/^.*\//, "");

// ----- what is known in short
$("title").textContent = data.module;
function fact(name, value) {
  const d = el("div", name + " ", "soft");
  d.append(el("b", value));
  $("facts").append(d);
}
fact("devices", data.devices.toLocaleString("en") + (data.mesh ? " (" + data.mesh + ")" : ""));
fact("layouts", data.layouts);
fact("received by a device", size(data.total_bytes));
fact("movements", entries.length);
fact("collectives", entries.reduce((n, e) => n + e.collectives.length, 0));
fact("full gathers", entries.filter(e => e.full_gather).length);
fact("operations", values.length.toLocaleString("en"));

// ----- the table
const columns = [
  ["Bytes", e => e.bytes, "n"],
  ["Operation", e => e.op + " " + e.op_name],
  ["Where", e => e.location],
  ["Array", e => e.tensor + " " + e.type],
  ["From", e => e.from], ["To", e => e.to],
  ["Collectives", e => e.collectives.map(c => c.kind).join(" ")],
  ["Could save", e => e.suggestion ? e.suggestion.saved_bytes : 0, "n"],
];
let sorted = 0, downwards = true, chosen = -1, node = -1;
const most = Math.max(1, ...entries.map(e => e.bytes));
columns.forEach((c, k) => {
  const th = el("th", c[0], c[2]);
  th.tabIndex = 0;
  th.onclick = () => {
    downwards = sorted === k ? !downwards : c[2] === "n";
    sorted = k;
    fill();
  };
  th.onkeydown = ev => { if (ev.key === "Enter") th.onclick(); };
  $("head").append(th);
});
function words(e) {
  return [e.op, e.op_name, e.location, e.tensor, e.type, e.from, e.to, e.reason,
    e.full_gather ? "full gather" : "", ...e.collectives.map(c => c.kind + " " + c.instruction),
    ...e.from_because.concat(e.to_because).map(c => c.text), ...e.conflicts].join(" ").toLowerCase();
}
const haystack = entries.map(words);
const wordsOf = v => [v.name, v.op, v.op_name, v.location, v.type, v.spec].join(" ").toLowerCase();
const needle = () => $("search").value.trim().toLowerCase();
function kinds(e) {
  const n = new Map();
  for (const c of e.collectives) n.set(c.kind, (n.get(c.kind) || 0) + 1);
  return [...n].map(([k, m]) => m > 1 ? m + " × " + k : k).join(", ");
}
function fill() {
  const q = needle(), key = columns[sorted][1];
  const list = entries.map((e, k) => k).filter(k => haystack[k].includes(q));
  list.sort((a, b) => {
    const x = key(entries[a]), y = key(entries[b]);
    const order = typeof x === "number" ? x - y : x.localeCompare(y);
    return (downwards ? -order : order) || a - b;
  });
  [...$("head").children].forEach((th, k) => {
    th.textContent = columns[k][0] + (k === sorted ? (downwards ? " ▾" : " ▴") : "");
  });
  $("rows").replaceChildren(...list.slice(0, 2000).map(k => {
    const e = entries[k], tr = el("tr");
    tr.tabIndex = 0;
    if (k === chosen) tr.className = "on";
    const bytes = el("td", size(e.bytes), "n"), meter = el("div", null, "meter"), part = el("i");
    bytes.title = exact(e.bytes);
    part.style.width = 100 * e.bytes / most + "%";
    meter.append(part);
    bytes.append(meter);
    const op = el("td", e.op + " ");
    if (e.full_gather) op.append(el("span", "full gather", "tag"));
    if (e.op_name) { const p = el("div", e.op_name, "soft code"); op.append(p); }
    const where = el("td", base(e.location), "code");
    where.title = e.location;
    const array = el("td", e.tensor);
    array.append(el("div", e.type, "soft code"));
    tr.append(bytes, op, where, array, el("td", e.from, "code"), el("td", e.to, "code"),
      el("td", kinds(e)), el("td", e.suggestion ? size(e.suggestion.saved_bytes) : "", "n"));
    tr.onclick = () => choose(k, true);
    tr.onkeydown = ev => { if (ev.key === "Enter") choose(k, true); };
    return tr;
  }));
  const found = values.reduce((n, v, k) => n + (q && hay(k).includes(q) ? 1 : 0), 0);
  $("hits").textContent = q ? list.length + " movements, " + found + " operations" : "";
  if (!entries.length) $("hits").textContent = "nothing is communicated";
}
const hayOfValues = [];
function hay(k) { return hayOfValues[k] || (hayOfValues[k] = wordsOf(values[k])); }

// ----- the details of a movement or an operation
function chainList(title, chains, to) {
  if (!chains.length) return;
  to.append(el("h3", title));
  const ul = el("ul");
  for (const c of chains) ul.append(el("li", c.text, "code"));
  to.append(ul);
}
function tellEntry(k, to) {
  const e = entries[k];
  to.append(el("h2", e.op + (e.location ? " at " + e.location : "")));
  if (e.op_name) to.append(el("p", e.op_name, "soft code"));
  if (e.tensor) to.append(el("p", e.tensor + "  " + e.type));
  if (e.from || e.to) {
    to.append(el("p", e.from === e.to ? "in " + e.from : e.from + " → " + e.to, "code"));
  }
  if (e.full_gather) to.append(el("p", "full gather", "tag"));
  to.append(el("p", "for: " + e.reason), el("p", exact(e.bytes) + " received by a device"));
  const ul = el("ul");
  for (const c of e.collectives) {
    ul.append(el("li", c.kind + ", " + exact(c.bytes) + (c.times !== 1 ? " × " + c.times : "") +
      (c.trips_known ? "" : ", trips unknown") +
      (c.counted ? "" : ", in a branch that isn't the most expensive one") + " (" + c.instruction + ")"));
  }
  to.append(ul);
  chainList("It is sharded so because", e.from_because, to);
  chainList("It must be resharded because", e.to_because, to);
  if (e.conflicts.length) {
    to.append(el("h3", "What prevents leaving it as it is"));
    const list = el("ul");
    for (const c of e.conflicts) list.append(el("li", c));
    to.append(list);
  }
  to.append(el("h3", "To avoid it"));
  if (e.suggestion) {
    to.append(el("p", e.suggestion.text, "good"));
  } else {
    to.append(el("p", e.tried ? "None of the " + e.tried + " annotations tried lowers the bytes without repeating work."
      : "No annotation was tried.", "soft"));
  }
}
const seconds = s => s === 0 ? "0 s" : s < 1e-3 ? (s * 1e6).toPrecision(3) + " µs"
  : s < 1 ? (s * 1e3).toPrecision(3) + " ms" : s.toPrecision(3) + " s";
const chosenWith = new Map();  // value: the one that has its choice
values.forEach((v, k) => { if (v.choice) v.choice.with.forEach(w => chosenWith.set(w, k)); });
function link(k, text) {
  const a = el("a", text);
  a.onclick = () => go(k);
  return a;
}
function tellChoice(k, to) {
  const of = values[k].choice ? k : chosenWith.get(k);
  if (of === undefined) return;
  const c = values[of].choice;
  to.append(el("h3", "Chosen by cost, with estimated times of one run"));
  if (of !== k) {
    const p = el("p", "together with ");
    p.append(link(of, values[of].name));
    to.append(p);
  }
  to.append(el("p", c.spec + ": " + seconds(c.seconds) + (c.next_spec
    ? "; next best " + c.next_spec + ": " + seconds(c.next_seconds) : "; there is no other"), "code"));
  const list = el("ul");
  for (const e of c.edges) {
    const li = el("li", e.operand < 0 ? "from " : "to operand " + e.operand + " of ");
    li.append(link(e.op, values[e.op].name), el("span", ", " + e.spec + ": " + seconds(e.seconds) +
      (c.next_spec ? ", else " + seconds(e.next_seconds) : "")));
    list.append(li);
  }
  to.append(list);
}
function tellValue(k, to) {
  const v = values[k];
  to.append(el("h2", v.op + (v.location ? " at " + v.location : "")));
  if (v.op_name) to.append(el("p", v.op_name, "soft code"));
  to.append(el("p", v.name + "  " + v.type, "code"), el("p", v.spec, "code"));
  if (v.causes.length) to.append(el("h3", "Why it is sharded so"));
  const ul = el("ul");
  for (const c of v.causes) {
    const li = el("li", c.axes + " on dim " + c.dim + ": " + c.op +
      (c.location ? " at " + c.location : "") + ", " + c.how + " ");
    if (c.from >= 0) {
      const a = el("a", values[c.from].name);
      a.onclick = () => go(c.from);
      li.append(a);
    }
    ul.append(li);
  }
  to.append(ul);
  tellChoice(k, to);
  if (v.entries.length) to.append(el("h3", "Movements for it"));
  const list = el("ul");
  for (const e of v.entries) {
    const li = el("li"), a = el("a", size(entries[e].bytes) + ": " + entries[e].reason);
    a.onclick = () => choose(e, false);
    li.append(a);
    list.append(li);
  }
  to.append(list);
}
function tell() {
  const to = $("detail");
  to.replaceChildren();
  if (chosen >= 0) tellEntry(chosen, to);
  else if (node >= 0) tellValue(node, to);
  else to.append(el("p", "Choose a movement in the table or an operation in the graph.", "soft"));
  to.scrollTop = 0;
}
const valueOfEntry = new Map();
values.forEach((v, k) => v.entries.forEach(e => valueOfEntry.set(e, k)));
function choose(k, centre) {
  chosen = k;
  const v = valueOfEntry.get(k);
  if (v !== undefined) { node = v; if (centre) show(v); }
  fill(); tell(); paint();
}
function go(v) { chosen = -1; node = v; show(v); fill(); tell(); paint(); }

// ----- colours: one for each sharding
const specs = new Map();
const specOf = v => v.spec || "replicated";
const plain = s => /^(replicated|unknown|\(?(replicated(, )?)*\)?|P\((None(, )?)*\))$/.test(s);
for (const d of data.drawings) for (const n of d.nodes) {
  const s = specOf(values[n[0]]);
  specs.set(s, (specs.get(s) || 0) + 1);
}
const colours = new Map();
[...specs.keys()].filter(s => !plain(s)).sort().forEach((s, k) => {
  // Neighbours in the alphabet get hues far apart.
  const hue = (210 + k * 137.5) % 360;
  colours.set(s, "hsl(" + hue.toFixed(0) + " 75% " + (k % 2 ? 80 : 86) + "%)");
});
const colour = s => colours.get(s) || "#eceff3";
let only = null;
[...specs].sort((a, b) => b[1] - a[1]).slice(0, 60).forEach(([s, n]) => {
  const span = el("span"), i = el("i");
  i.style.background = colour(s);
  span.append(i, el("code", s.length > 64 ? s.slice(0, 62) + "…" : s), el("span", " " + n, "soft"));
  span.title = s;
  span.onclick = () => {
    only = only === s ? null : s;
    [...$("legend").children].forEach(c => c.classList.remove("on"));
    if (only) span.classList.add("on");
    paint();
  };
  $("legend").append(span);
});

// ----- the graph
const W = data.node_width, H = data.node_height, canvas = $("canvas");
const pen = canvas.getContext("2d");
let drawing = 0, zoom = 1, left = 0, top_ = 0;
const place = new Map();  // value: [drawing, node]
data.drawings.forEach((d, k) => d.nodes.forEach((n, j) => place.set(n[0], [k, j])));
data.drawings.forEach((d, k) => {
  const o = el("option", d.computation + " (" + d.nodes.length.toLocaleString("en") + ")");
  o.value = k;
  $("which").append(o);
});
$("which").onchange = () => { drawing = +$("which").value; limits(); fit(); };
function limits() {
  const d = data.drawings[drawing];
  $("limit").textContent = d && d.nodes.length < d.all ? d.nodes.length.toLocaleString("en") +
    " of " + d.all.toLocaleString("en") + " operations: those near movements and annotations" : "";
}
function bounds() {
  const b = [Infinity, Infinity, -Infinity, -Infinity];
  for (const [, x, y] of data.drawings[drawing].nodes) {
    b[0] = Math.min(b[0], x - W / 2); b[1] = Math.min(b[1], y - H / 2);
    b[2] = Math.max(b[2], x + W / 2); b[3] = Math.max(b[3], y + H / 2);
  }
  return b;
}
function fit() {
  if (!data.drawings.length) return;
  const b = bounds(), w = canvas.clientWidth, h = canvas.clientHeight;
  zoom = Math.min(1.2, 0.94 * w / (b[2] - b[0]), 0.94 * h / (b[3] - b[1]));
  // A long program is better read from its top than seen as a thread.
  if (zoom < 0.3) zoom = Math.max(zoom, Math.min(0.55, 0.94 * w / Math.min(b[2] - b[0], 2600)));
  left = (b[0] + b[2]) / 2 - w / 2 / zoom;
  top_ = (b[3] - b[1]) * zoom < h ? (b[1] + b[3]) / 2 - h / 2 / zoom : b[1] - 16 / zoom;
  paint();
}
function show(v) {
  const at = place.get(v);
  if (!at) return;
  if (at[0] !== drawing) { drawing = at[0]; $("which").value = drawing; limits(); }
  const n = data.drawings[drawing].nodes[at[1]];
  zoom = Math.max(zoom, 0.7);
  left = n[1] - canvas.clientWidth / 2 / zoom;
  top_ = n[2] - canvas.clientHeight / 2 / zoom;
}
function cut(text, width) {
  if (pen.measureText(text).width <= width) return text;
  let n = text.length;
  while (n > 1 && pen.measureText(text.slice(0, n) + "…").width > width) n = Math.floor(n * 0.9);
  return text.slice(0, n) + "…";
}
function paint() {
  if (!data.drawings.length) return;
  const ratio = window.devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
  if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
  }
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.fillStyle = "#fcfdfe";
  pen.fillRect(0, 0, w, h);
  pen.setTransform(ratio * zoom, 0, 0, ratio * zoom, -left * zoom * ratio, -top_ * zoom * ratio);
  const d = data.drawings[drawing], q = needle();
  const x1 = left + w / zoom, y1 = top_ + h / zoom;
  const lit = n => (!q || hay(n[0]).includes(q)) && (!only || specOf(values[n[0]]) === only);
  pen.lineWidth = Math.max(1, 0.7 / zoom);
  for (const [a, b] of d.edges) {
    const s = d.nodes[a], t = d.nodes[b];
    const ay = s[2] + H / 2, by = t[2] - H / 2;
    if (Math.max(s[1], t[1]) < left || Math.min(s[1], t[1]) > x1 || by < top_ || ay > y1) continue;
    const near = node >= 0 && (s[0] === node || t[0] === node);
    // Those that pass many layers by would hide what they pass.
    pen.globalAlpha = near ? 1 : (q || only ? 0.3 : 1) * (by - ay > 900 ? 0.35 : 1);
    pen.strokeStyle = near ? "#1d5fbf" : values[t[0]].bytes > 0 ? "#e0a59f" : "#c3cad4";
    pen.beginPath();
    pen.moveTo(s[1], ay);
    const bend = Math.min(60, (by - ay) / 2 + 8);
    pen.bezierCurveTo(s[1], ay + bend, t[1], by - bend, t[1], by);
    pen.stroke();
  }
  for (const n of d.nodes) {
    const x = n[1] - W / 2, y = n[2] - H / 2, v = values[n[0]];
    if (x > x1 || x + W < left || y > y1 || y + H < top_) continue;
    pen.globalAlpha = lit(n) ? 1 : 0.16;
    pen.fillStyle = colour(specOf(v));
    pen.beginPath();
    if (pen.roundRect) pen.roundRect(x, y, W, H, 6); else pen.rect(x, y, W, H);
    pen.fill();
    const moves = v.entries.length > 0;
    pen.strokeStyle = n[0] === node ? "#1d5fbf" : moves ? "#b3261e" : "#8a94a3";
    pen.lineWidth = n[0] === node ? 3 : moves ? 2 : 0.8;
    pen.stroke();
    if (zoom > 0.32) {
      const f = "ui-monospace, 'DejaVu Sans Mono', Menlo, monospace";
      pen.fillStyle = "#1c2430";
      pen.font = "600 11.5px system-ui, 'DejaVu Sans', sans-serif";
      const bytes = moves ? size(v.bytes) : "";
      const taken = bytes ? pen.measureText(bytes).width + 8 : 0;
      pen.fillText(cut(v.op, W - 14 - taken), x + 7, y + 16);
      if (bytes) {
        pen.fillStyle = "#b3261e";
        pen.fillText(bytes, x + W - 1 - taken, y + 16);
      }
      pen.fillStyle = "#3c4654";
      pen.font = "10.5px " + f;
      pen.fillText(cut(specOf(v), W - 14), x + 7, y + 33);
    }
  }
  pen.globalAlpha = 1;
}
function zoomAt(px, py, by) {
  const to = Math.min(4, Math.max(0.01, zoom * by));
  left += px / zoom - px / to;
  top_ += py / zoom - py / to;
  zoom = to;
  paint();
}
const mid = by => zoomAt(canvas.clientWidth / 2, canvas.clientHeight / 2, by);
$("in").onclick = () => mid(1.3);
$("out").onclick = () => mid(1 / 1.3);
$("fit").onclick = fit;
canvas.addEventListener("wheel", ev => {
  ev.preventDefault();
  zoomAt(ev.offsetX, ev.offsetY, Math.exp(-ev.deltaY * 0.0015));
}, { passive: false });
canvas.addEventListener("keydown", ev => {
  const step = { ArrowLeft: [-60, 0], ArrowRight: [60, 0], ArrowUp: [0, -60], ArrowDown: [0, 60] }[ev.key];
  if (step) { left += step[0] / zoom; top_ += step[1] / zoom; ev.preventDefault(); paint(); }
  if (ev.key === "+") mid(1.3);
  if (ev.key === "-") mid(1 / 1.3);
});
let grip = null;
canvas.addEventListener("pointerdown", ev => {
  grip = { x: ev.clientX, y: ev.clientY, left, top: top_, far: false };
  canvas.setPointerCapture(ev.pointerId);
});
canvas.addEventListener("pointermove", ev => {
  if (!grip) return;
  const dx = ev.clientX - grip.x, dy = ev.clientY - grip.y;
  grip.far = grip.far || Math.abs(dx) + Math.abs(dy) > 4;
  if (grip.far) canvas.classList.add("drag");
  left = grip.left - dx / zoom;
  top_ = grip.top - dy / zoom;
  paint();
});
canvas.addEventListener("pointerup", ev => {
  const click = grip && !grip.far;
  grip = null;
  canvas.classList.remove("drag");
  if (!click || !data.drawings.length) return;
  const x = left + ev.offsetX / zoom, y = top_ + ev.offsetY / zoom;
  const hit = data.drawings[drawing].nodes.find(
    n => Math.abs(n[1] - x) <= W / 2 && Math.abs(n[2] - y) <= H / 2);
  chosen = -1;
  node = hit ? hit[0] : -1;
  if (hit && values[node].entries.length === 1) chosen = values[node].entries[0];
  fill(); tell(); paint();
});
$("search").oninput = () => { fill(); paint(); };
$("search").onkeydown = ev => {
  if (ev.key !== "Enter") return;
  const q = needle(), hits = data.drawings.flatMap(d => d.nodes).filter(n => hay(n[0]).includes(q));
  const next = hits.findIndex(n => n[0] === node) + 1;
  if (q && hits.length) go(hits[next % hits.length][0]);
};
window.addEventListener("resize", paint);
if (!data.drawings.length) $("canvas").style.display = "none";
limits(); fill(); tell(); fit();
</script>
</body>
</html>
)PAGE";

}  // namespace tessera::compiler::explain
