// The page of one port.
import { clock, follow } from "./live.js";
import { chart } from "./chart.js";
import { age, el, fromServer, percent, put, rate, stateOf } from "./text.js";

const names = ["abw", "abwc", "pd", "nqd"]; // signals by T
const query = new URLSearchParams(location.search);
const device = query.get("device") || "", port = query.get("port") || "";
const ask = "?" + new URLSearchParams({ device, port });
let current = null, samples = [], events = "";

document.title = `csig: ${device}:${port}`;
put(document.getElementById("name"), `${device}:${port}`);
const head = document.getElementById("sample-head");
for (const text of ["Time", "Load", "Capacity", ...names.map((n) => "S of " + n)]) head.append(el("th", { scope: "col" }, text));

async function load() {
  const r = await fromServer("/api/v1/port" + ask);
  if (!r.ok) {
    put(document.getElementById("state"), r.status === 404 ? "There is no such port here: it may not have been reported yet." : `The server refuses: ${r.status}`);
    return;
  }
  const a = await r.json();
  samples = a.samples;
  put(document.getElementById("since"), samples.length ? `Kept in memory by this process: ${samples.length} samples of at most ${a.most}, since ${when(samples[0][0])}.` : "");
  if (JSON.stringify(a.events) !== events) {
    events = JSON.stringify(a.events);
    document.getElementById("events").replaceChildren(...a.events.map((e) => el("tr", {}, el("th", { scope: "row" }, when(Date.parse(e.time))), ...[e.port || "the switch", e.what, e.from || "–", e.to || "–", e.reason].map((text) => el("td", {}, text)))));
  }
  draw();
}

const when = (ms) => new Date(ms).toISOString().replace("T", " ").slice(0, 21) + "Z";

function draw() {
  chart(document.getElementById("load"), {
    title: "Load and capacity", samples, unit: rate, zero: true,
    lines: [{ name: "load", of: (s) => s[1], kind: 0 }, { name: "capacity", of: (s) => s[2], kind: 1 }],
  });
  const lines = names.map((name, t) => ({ name, of: (s) => s[3 + t], kind: t, steps: true })).filter((l) => samples.some((s) => l.of(s) !== null));
  chart(document.getElementById("s"), { title: "S", samples, unit: (v) => String(v), ticks: [0, 8, 16, 24, 31], lines });
  if (document.querySelector("details").open) {
    const rows = samples.slice(-100).reverse();
    document.getElementById("samples").replaceChildren(...rows.map((s) => el("tr", {}, el("th", { scope: "row" }, when(s[0])), ...s.slice(1).map((v, i) => el("td", { class: "number" }, v === null ? "–" : i < 2 ? rate(v) : String(v))))));
  }
}
document.querySelector("details").addEventListener("toggle", draw);

// facts are the port's figures now.
function facts() {
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
  const dl = document.getElementById("facts");
  while (dl.children.length > list.length) dl.lastChild.remove();
  list.forEach(([term, text], i) => {
    if (!dl.children[i]) dl.append(el("div", {}, el("dt"), el("dd")));
    put(dl.children[i].children[0], term);
    put(dl.children[i].children[1], text);
  });
}

function range(g) {
  const of = g.unit === "bit/s" || g.unit === "bps" ? rate : g.unit === "ppm" ? percent : (v) => `${v} ${g.unit}`;
  return g.s === 31 ? `from ${of(g.low)} on` : `${of(g.low)} to ${of(g.high)}`;
}

follow(ask, (d) => {
  if (d.full) current = null; // it may not be there any more
  for (const p of d.ports) current = p;
  facts();
  if (d.full || d.ports.length) load();
});
setInterval(facts, 1000);
