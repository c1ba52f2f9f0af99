// The page of all ports.
import { follow } from "./live.js";
import { Table } from "./table.js";
import { WeatherMap } from "./map.js";
import { Mesh } from "./mesh.js";
import { Path } from "./path.js";
import { Travel } from "./travel.js";
import { Worst } from "./worst.js";
import { age, clock, el, fromServer, portPage, put, stateOf, states, time } from "./text.js";

const ports = new Map(), devices = new Map(); // as they are shown
const live = { ports: new Map(), devices: new Map(), worst: [] }; // as they are now
const table = new Table(ports), worst = new Worst(ports);
let map = null, nothing = ""; // why nothing is shown of the time that is looked at
const path = new Path(ports, () => ranked());
const mesh = new Mesh(ports, (from, to) => path.show(from, to));
const travel = new Travel(then);

document.getElementById("about-map").open = innerWidth > 600;

let asked = 0; // how often for the topology: an answer to an earlier question is of no use

// topology draws the map of the fleet as it is now. Where it does not come it is asked for again.
async function topology() {
  const own = ++asked;
  let t;
  try {
    const r = await fromServer("/api/v1/fleet");
    if (!r.ok) throw new Error(String(r.status));
    t = await r.json();
  } catch {
    setTimeout(() => own === asked && topology(), 5000);
    return;
  }
  if (own !== asked) return;
  if (t.title) document.querySelector("h1").textContent = "csig: " + t.title;
  if (map) map.end();
  document.getElementById("weather").hidden = !t.map;
  document.getElementById("both").classList.toggle("beside", Boolean(t.map));
  map = t.map ? new WeatherMap(t.map, ports, devices, (words) => table.search(words)) : null;
  const peers = map ? map.peers() : new Map();
  table.peers(peers);
  worst.peers(peers);
  path.fleet(t.map, peers);
  ranked();
}

// ranked has the bottlenecks on the map.
function ranked() {
  if (!map) return;
  map.mark(worst.ranked.map((w) => w.id), new Set(path.hops.flat()));
  map.draw();
}

follow("", (d) => {
  const began = performance.now();
  if (d.full) {
    live.ports.clear();
    live.devices.clear();
    topology();
    mesh.ask();
  }
  for (const v of d.devices) live.devices.set(v.device, v);
  for (const p of d.ports) live.ports.set(p.id, p);
  if (d.worst || d.full) live.worst = d.worst || [];
  travel.kept(d.kept, Date.parse(d.now));
  if (travel.at === null) {
    if (d.full) {
      ports.clear();
      devices.clear();
    }
    for (const v of d.devices) devices.set(v.device, v);
    for (const p of d.ports) ports.set(p.id, p);
    if (d.worst || d.full) worst.take(live.worst);
    draw();
  }
  performance.clearMeasures("draw"); // the last one is kept, for who looks at the page's speed
  performance.measure("draw", { start: began });
});

// draw brings all parts up to date but the bottlenecks.
function draw(asked = false) {
  table.draw(asked);
  path.draw();
  ranked();
  summary();
  counts();
  ill();
  drivers();
  caveats();
}

// then shows the fleet as it was, or as it is now where there is no answer about another time.
function then(a, ms) {
  ports.clear();
  devices.clear();
  if (a) {
    for (const v of a.devices) devices.set(v.device, v);
    for (const p of a.ports) ports.set(p.id, p);
    worst.take(a.worst);
  } else {
    for (const [name, v] of live.devices) devices.set(name, v);
    for (const [id, p] of live.ports) ports.set(id, p);
    worst.take(live.worst);
  }
  nothing = a && !a.at ? a.error || `Nothing is kept of ${time(ms)}` + (a.from ? `: what is kept begins at ${time(Date.parse(a.from))}.` : ".") : "";
  put(document.getElementById("worst-when"), a ? "Bottlenecks then" : "Bottlenecks now");
  draw(true);
  for (const link of document.querySelectorAll('main a[href^="/port?"]')) { // those of rows that stay
    const query = new URLSearchParams(link.search);
    if (a) query.set("at", new Date(clock.at).toISOString());
    else query.delete("at");
    link.setAttribute("href", "/port?" + query);
  }
}

// conditions are those of switches, the worst first; each switch is in the first that holds.
const conditions = {
  refused: (v, list) => list.some((p) => ["refused", "lost", "gone"].includes(p.state)),
  stale: (v, list) => v.silent || list.some((p) => ["stale", "unknown"].includes(p.state)),
  waiting: (v, list) => v.waiting || list.length === 0 || list.some((p) => p.state === "waiting"),
  live: () => true,
};

// summary is the state in one line.
function summary() {
  const of = new Map([...devices.keys()].map((name) => [name, []]));
  let oldest = null;
  for (const p of ports.values()) {
    of.get(p.device)?.push(p);
    if (p.state === "live" && p.ended && (!oldest || Date.parse(p.ended) < Date.parse(oldest.ended))) oldest = p;
  }
  const n = { live: 0, stale: 0, refused: 0, waiting: 0 };
  for (const [name, list] of of) n[Object.keys(conditions).find((c) => conditions[c](devices.get(name), list))]++;
  const parts = Object.entries(n).filter(([c, k]) => k || c === "live").map(([c, k]) => `${k} ${c}`);
  if (nothing) return put(document.getElementById("now"), nothing);
  put(document.getElementById("now"), (clock.at === null ? "" : `As it was at ${time(clock.at)}: `) + `${devices.size} ${devices.size === 1 ? "switch" : "switches"}: ${parts.join(", ")}. ` + (oldest ? `Oldest signal: ${age(clock.now() - Date.parse(oldest.ended))}, ${oldest.id}.` : "No signal is live."));
}
setInterval(() => (live.devices.size || travel.at !== null) && summary(), 1000);

const mostIll = 3; // ports that are named because they are not live

// ill names ports that need a look, with their reasons.
function ill() {
  const list = [...ports.values()].filter((p) => stateOf(p.state).look).sort((a, b) => stateOf(a.state).order - stateOf(b.state).order || a.id.localeCompare(b.id, "en", { numeric: true }));
  const rows = list.slice(0, mostIll).map((p) => el("li", {}, el("a", { href: portPage(p) }, p.id), ` ${stateOf(p.state).mark} ${p.state}${p.reason ? ": " + p.reason : ""}`));
  if (list.length > mostIll) rows.push(el("li", {}, `and ${list.length - mostIll} more that are not live: the buttons above show them`));
  const box = document.getElementById("ill"), text = rows.map((r) => r.textContent).join("\n");
  if (box.shown === text) return; // a link that has the focus keeps it
  box.shown = text;
  box.replaceChildren(...rows);
}

const mostNamed = 8; // switches that a caveat names

// caveats are what switches do less than fully, each once with the switches that it is of.
function caveats() {
  const of = new Map();
  for (const v of devices.values()) for (const text of v.limits) of.set(text, [...(of.get(text) || []), v.device]);
  const who = (names) => (names.length === devices.size && names.length > 1 ? `all ${names.length} switches` : names.slice(0, mostNamed).join(", ") + (names.length > mostNamed ? ` and ${names.length - mostNamed} more` : ""));
  const rows = [...of].map(([text, names]) => [text, who(names)]);
  const box = document.getElementById("caveats"), shown = JSON.stringify(rows);
  if (box.shown === shown) return;
  box.shown = shown;
  box.hidden = rows.length === 0;
  put(box.querySelector("summary"), `${rows.length} ${rows.length === 1 ? "caveat" : "caveats"}: what switches do less than fully`);
  box.querySelector("ul").replaceChildren(...rows.map(([text, names]) => el("li", {}, text, " ", el("span", { class: "of" }, `(${names})`))));
}

// counts says how many ports are in each state; each is a button that shows them alone.
function counts() {
  const by = new Map();
  for (const p of ports.values()) by.set(p.state, (by.get(p.state) || 0) + 1);
  const list = document.getElementById("counts");
  for (const name of Object.keys(states)) {
    let item = list.querySelector(`[data-state="${name}"]`);
    const n = by.get(name) || 0;
    if (!item && n === 0) continue;
    if (!item) {
      item = el("li", { "data-state": name, class: stateOf(name).look ? "look" : null }, el("button", { type: "button" }));
      item.firstChild.addEventListener("click", () => table.only(name));
      const after = [...list.children].find((c) => stateOf(c.dataset.state).order > stateOf(name).order);
      list.insertBefore(item, after || null);
    }
    item.hidden = n === 0;
    put(item.firstChild, `${stateOf(name).mark} ${n} ${name}`);
  }
}

const of = ["driver", "plane", "platform", "ports", "profile", "notes"]; // columns

// drivers is the table of switches.
function drivers() {
  const body = document.getElementById("devices");
  const known = new Map([...body.children].map((tr) => [tr.dataset.device, tr]));
  for (const [name, tr] of known) if (!devices.has(name)) tr.remove();
  for (const v of devices.values()) {
    let tr = known.get(v.device);
    if (!tr) {
      tr = el("tr", { "data-device": v.device }, el("th", { scope: "row" }, v.device), ...of.map((name) => el("td", { class: "of-" + name })));
      body.append(tr);
    }
    const notes = [v.silent ? "its agent does not answer" : "", v.waiting, v.shadow ? "shadow mode: nothing is programmed" : "", v.reason, v.last_error, v.reload ? "the fleet file as it is now is not in force: " + v.reload : ""].filter((s) => s);
    const cells = [driver(v), v.data_plane || "–", v.platform || "–", String(v.ports), v.profile ? `${v.profile} ${v.profile_hash.slice(0, 12)}` : "–", notes.join("; ")];
    cells.forEach((text, i) => put(tr.children[i + 1], text));
  }
}

function driver(v) {
  if (v.shared) return v.owner || "no controller";
  return v.waiting ? "nothing yet" : "this process";
}
