// The page of one port.
import { follow } from "./live.js";
import { chart, nice } from "./chart.js";
import { age, asked, clock, el, fromServer, percent, portPage, put, rate, stateOf, time } from "./text.js";

const names = ["abw", "abwc", "pd", "nqd"]; // signals by T
const query = new URLSearchParams(location.search);
const device = query.get("device") || "", port = query.get("port") || "";
const ask = "?" + new URLSearchParams({ device, port });
const span = document.getElementById("span");
let current = null, samples = [], events = [], ranges = {}, shownEvents = "", shownWhy = "";

document.title = `csig: ${device}:${port}`;
put(document.getElementById("name"), `${device}:${port}`);
const head = document.getElementById("sample-head");
for (const text of ["Time", "Load", "Capacity", ...names.map((n) => "S of " + n)]) head.append(el("th", { scope: "col" }, text));
const zone = -new Date().getTimezoneOffset();
put(document.getElementById("zone"), `Times are those of this browser: UTC${zone < 0 ? "−" : "+"}${String(Math.floor(Math.abs(zone) / 60)).padStart(2, "0")}:${String(Math.abs(zone) % 60).padStart(2, "0")}.`);

// at is the time that is looked at, in ms; null: now.
let at = asked();
const slider = document.getElementById("when");

// travel looks at another time, or at what is now, and has that in the address.
function travel(ms) {
  at = ms;
  const own = new URLSearchParams({ device, port });
  if (at !== null) own.set("at", new Date(at).toISOString());
  history.replaceState(null, "", "?" + own);
  facts();
  draw();
}
slider.addEventListener("input", () => travel(Number(slider.value) + 1000 > newest() ? null : Number(slider.value)));
document.getElementById("now").addEventListener("click", () => {
  travel(null);
  slider.focus();
});

const newest = () => (samples.length ? samples[samples.length - 1][0] : 0);

// slide has the slider span the samples that are kept.
function slide() {
  document.getElementById("travel").hidden = samples.length < 2;
  if (samples.length < 2) return;
  slider.min = samples[0][0];
  slider.max = newest();
  const ms = at === null ? newest() : Math.min(Math.max(at, samples[0][0]), newest());
  slider.value = ms;
  put(document.getElementById("then"), at === null ? "now" : time(at));
  slider.setAttribute("aria-valuetext", at === null ? "now" : time(at));
  document.getElementById("now").hidden = at === null;
}

// past is the sample that held at the time that is looked at.
function past() {
  return samples.findLast((s) => s[0] <= at);
}

let busy = false, again = false;

// load fetches what is new. One question is open at a time, as each says what is there already.
async function load() {
  again = busy;
  if (busy) return;
  busy = true;
  try {
    do {
      again = false;
      await fetchNew();
    } while (again);
  } finally {
    busy = false;
  }
}

async function fetchNew() {
  const last = newest();
  const r = await fromServer(`/api/v1/port${ask}&after=${last}`);
  if (!r.ok) {
    put(document.getElementById("state"), r.status === 404 ? "There is no such port here: it may not have been reported yet." : `The server refuses: ${r.status}`);
    return;
  }
  const a = await r.json();
  if (last === newest()) samples = samples.concat(a.samples).slice(-a.most - a.older);
  events = a.events;
  ranges = a.ranges;
  neighbour(a.peer);
  put(document.getElementById("since"), samples.length ? `Kept in memory by this process: ${samples.length} samples since ${time(samples[0][0])}.` : "");
  if (JSON.stringify(events) !== shownEvents) {
    shownEvents = JSON.stringify(events);
    document.getElementById("events").replaceChildren(...events.map((e) => el("tr", {}, el("th", { scope: "row" }, time(Date.parse(e.time), 1)), ...[e.port || "the switch", e.what, e.from || "–", e.to || "–", e.reason].map((text) => el("td", {}, text)))));
  }
  if (at !== null && at > newest() + 60000) travel(null); // the future
  else draw();
}

// neighbour is the link to the port at the other end.
function neighbour(p) {
  const box = document.getElementById("neighbour"), text = p.name + (p.port ? ":" + p.port : "");
  box.hidden = !p.name;
  if (box.shown === text + p.driven) return;
  box.shown = text + p.driven;
  box.replaceChildren("Neighbour: ", p.driven ? el("a", { href: portPage({ device: p.name, port: p.port }) }, text) : text, p.driven ? ", which sends the other way" : "");
}

// begins is where what is shown begins.
function begins() {
  const begin = samples.length ? samples[0][0] : 0;
  const end = at === null || span.value === "all" ? newest() : Math.min(newest(), at + 500 * Number(span.value)); // in the middle
  return [span.value === "all" ? Math.min(begin, end - 10000) : Math.max(end - 1000 * Number(span.value), Math.min(begin, end - 10000)), end];
}

function draw() {
  slide();
  held();
  const [begin, end] = begins();
  const shown = samples.filter((s) => s[0] >= begin && s[1] !== null);
  const marks = events.map((e) => ({ at: Date.parse(e.time), text: `${e.port || "the switch"}: ${e.what} ${e.to}` }));
  const loads = Math.max(0, ...shown.map((s) => s[1])), capacity = shown.length ? shown[shown.length - 1][2] : 0;
  const most = nice(capacity <= 2 * loads ? Math.max(loads, capacity) : loads);
  const capacities = shown.map((s) => s[2]);
  const above = Math.min(...capacities) > most ? ` ${rate(capacity)}, above what is shown` : Math.max(...capacities) > most ? ", in part above what is shown" : "";
  chart(document.getElementById("load"), {
    title: "Load and capacity", samples, begin, end, unit: rate, ticks: [0, 1, 2, 3, 4].map((i) => (i * most) / 4), marks, now: at,
    lines: [{ name: "load", of: (s) => s[1], kind: 0 }, { name: "capacity", label: "capacity" + above, of: (s) => s[2], kind: 1 }],
  });
  buckets(begin, end, marks);
  if (document.getElementById("last").open) {
    const rows = samples.slice(-100).reverse();
    document.getElementById("samples").replaceChildren(...rows.map((s) => el("tr", {}, el("th", { scope: "row" }, time(s[0], 1)), ...s.slice(1).map((v, i) => el("td", { class: "number" }, v === null ? "–" : i < 2 ? rate(v) : bucket(i - 2, v))))));
  }
}

// buckets draws S of each signal, beside the values that it stands for.
function buckets(begin, end, marks) {
  const box = document.getElementById("s");
  const used = names.map((name, t) => t).filter((t) => samples.some((s) => s[0] >= begin && s[3 + t] !== null));
  if (box.children.length !== used.length || used.some((t, i) => box.children[i].dataset.t !== String(t))) {
    box.replaceChildren(...used.map((t) => el("div", { "data-t": t })));
  }
  document.getElementById("no-s").hidden = used.length > 0;
  used.forEach((t, i) => {
    const values = samples.filter((s) => s[0] >= begin && s[3 + t] !== null).map((s) => s[3 + t]);
    chart(box.children[i], { title: "S of " + names[t], samples, begin, end, unit: (v) => bucket(t, v), ticks: written(values), marks, now: at, lines: [{ name: names[t], of: (s) => s[3 + t], kind: t, steps: true }] });
  });
}

// written are the values of S on the axis: those that were written, as far as their texts have room.
function written(values) {
  const all = [...new Set(values)].sort((a, b) => a - b);
  if (all.length === 1) return [Math.max(0, all[0] - 1), all[0], all[0] + 1].filter((v, i, l) => v < 32 && l.indexOf(v) === i);
  const low = all[0], high = all[all.length - 1], room = (high - low) / 11;
  const out = [low];
  for (const v of all) if (v - out[out.length - 1] >= room && high - v >= room) out.push(v);
  return [...out, high];
}

// bucket is S with the values that it stands for, where a port has written it.
function bucket(t, s) {
  const g = ranges[t], of = g?.of[s];
  return of ? `${s}: ${range({ s, low: of[0], high: of[1], unit: g.unit })}` : String(s);
}

document.getElementById("last").addEventListener("toggle", draw);
span.addEventListener("change", draw);
addEventListener("resize", draw);

// facts are the port's figures now.
function facts() {
  document.body.classList.toggle("past", at !== null);
  if (at !== null) return then();
  const p = current;
  if (!p) {
    document.getElementById("facts").replaceChildren();
    return;
  }
  put(document.getElementById("state"), `${stateOf(p.state).mark} ${p.state}${p.reason ? ": " + p.reason : ""}`);
  const list = [["Action", p.action || "–"]];
  if (p.measured) list.push(["ABW", rate(p.abw_bps)], ["ABW/C", percent(p.abwc_ppm)], ["Load", rate(p.load_bps)], ["Capacity", rate(p.capacity_bps)]);
  else list.push(["ABW", "no current measurement"]);
  for (const g of p.signals) list.push([`S of ${g.signal}`, `${g.s}, ${range(g)}, locator ${g.locator}${g.stale ? ", the fallback" : ""}${g.doubtful ? ", doubtful: the window is too uncertain for one bucket" : ""}`]);
  if (p.ended) list.push(["Age", age(clock.now() - Date.parse(p.ended))]);
  listFacts(list);
}

// then has the port's figures at the time that is looked at.
function then() {
  const s = past();
  put(document.getElementById("state"), s ? `As it was at ${time(at)}` : `Nothing is kept of ${time(at)}: the history begins at ${samples.length ? time(samples[0][0]) : "now"}`);
  const list = [];
  if (s && s[1] !== null) list.push(["ABW", rate(Math.max(0, s[2] - s[1]))], ["ABW/C", percent((1e6 * Math.max(0, s[2] - s[1])) / s[2])], ["Load", rate(s[1])], ["Capacity", rate(s[2])]);
  else if (s) list.push(["ABW", "no current measurement"]);
  if (s) names.forEach((name, t) => s[3 + t] !== null && list.push([`S of ${name}`, bucket(t, s[3 + t])]));
  if (s) list.push(["Window ended", time(s[0], 1)]);
  listFacts(list);
}

function listFacts(list) {
  const dl = document.getElementById("facts");
  while (dl.children.length > list.length) dl.lastChild.remove();
  list.forEach(([term, text], i) => {
    if (!dl.children[i]) dl.append(el("div", {}, el("dt"), el("dd")));
    put(dl.children[i].children[0], term);
    put(dl.children[i].children[1], text);
  });
}

function valueOf(unit) {
  return unit === "bit/s" || unit === "bps" ? rate : unit === "ppm" ? percent : (v) => `${v} ${unit}`;
}

// range is what a bucket stands for: its two ends share their unit where they can.
function range(g) {
  const of = valueOf(g.unit), low = of(g.low), high = of(g.high);
  if (g.s === 31) return `from ${low} on`;
  const [a, unit] = low.split(" "), [b, other] = high.split(" ");
  return unit === other ? `${a} to ${b} ${unit}` : `${low} to ${high}`;
}

// why has the events of csig why: how S came about.
async function why() {
  let text;
  try {
    const r = await fromServer("/api/v1/why" + ask);
    if (!r.ok) return; // load says why
    text = await r.text();
  } catch {
    whyAt = 0; // so that the next event asks again
    return;
  }
  if (text === shownWhy) return;
  shownWhy = text;
  const a = JSON.parse(text);
  put(document.getElementById("why-error"), a.error || (a.shadow ? "Shadow mode: nothing is programmed." : "") || (a.more ? `The newest ${a.records.length} records; csig why has ${a.more} more.` : ""));
  document.getElementById("why").replaceChildren(...a.records.map((r) => Object.assign(el("tr", {}, el("th", { scope: "row" }, time(Date.parse(r.from), 3)), ...[
    time(Date.parse(r.to), 3), String(r.cycles), r.state + (r.held ? ", held" : ""), r.signals.map((g) => `${g.signal} ${g.s}${g.stale ? " (the fallback)" : `: ${range(g)} (${g.locator})`}`).join("; ") || "–",
    r.max_abw_bps ? `${rate(r.min_abw_bps)} to ${rate(r.max_abw_bps)}` : "–", how(r), r.notes.join("; "),
  ].map((text) => el("td", {}, text))), { from: Date.parse(r.from) })));
  document.getElementById("why-table").hidden = a.records.length === 0;
  held();
}

// held marks the record that held at the time that is looked at, as csig why --at chooses it.
function held() {
  let found = at === null;
  for (const tr of document.getElementById("why").children) {
    const own = !found && tr.from <= at;
    if (own) found = true;
    if (own === tr.hasAttribute("aria-current")) continue;
    if (own) {
      tr.setAttribute("aria-current", "true");
      document.getElementById("why-table").scrollTop = tr.offsetTop - 2 * tr.offsetHeight; // below the head, which stays
    } else tr.removeAttribute("aria-current");
  }
}

// how is what the first cycle of a record had.
function how(r) {
  const out = [];
  if (r.window_ns > 0) out.push(`${r.bits} bits in ${(r.window_ns / 1e9).toPrecision(4)} s`);
  r.signals.forEach((g, i) => {
    if (!g.stale && i < r.computed.length && r.computed[i] !== g.s) out.push(`${g.signal} is in bucket ${r.computed[i]}, damping keeps ${g.s}`);
  });
  out.push(r.written ? `${r.operations} operations, acknowledged after ${(r.program_ns / 1e6).toPrecision(3)} ms` : "nothing was written");
  return out.join("; ");
}

let whyAt = 0;
const whyEvery = 5000; // ms; S changes between

if (!device || !port) put(document.getElementById("state"), "The address names no port: it has device=… and port=….");
else follow(ask, (d) => {
  if (d.full) {
    current = null; // it may not be there any more
    samples = []; // the server may be another
  }
  for (const p of d.ports) current = p;
  facts();
  if (d.full || d.ports.length) load();
  if (current && (d.full || d.ports.length && Date.now() - whyAt > whyEvery)) {
    whyAt = Date.now();
    why();
  }
});
setInterval(facts, 1000);
