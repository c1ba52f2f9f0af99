// The page of all ports.
import { follow } from "./live.js";
import { Table } from "./table.js";
import { WeatherMap } from "./map.js";
import { el, fromServer, put, stateOf, states } from "./text.js";

const ports = new Map(), devices = new Map();
const table = new Table(ports);
let map = null;

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
  map = t.map ? new WeatherMap(t.map, ports, devices, (words) => table.search(words)) : null;
  document.getElementById("weather").hidden = !map;
  table.peers(map ? map.peers() : new Map());
  if (map) map.draw();
}

follow("", (d) => {
  const began = performance.now();
  if (d.full) {
    ports.clear();
    devices.clear();
    topology();
  }
  for (const v of d.devices) devices.set(v.device, v);
  for (const p of d.ports) ports.set(p.id, p);
  table.draw();
  if (map) map.draw();
  counts();
  drivers();
  performance.clearMeasures("draw"); // the last one is kept, for who looks at the page's speed
  performance.measure("draw", { start: began });
});

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

// drivers is the table of switches.
function drivers() {
  const body = document.getElementById("devices");
  const known = new Map([...body.children].map((tr) => [tr.dataset.device, tr]));
  for (const [name, tr] of known) if (!devices.has(name)) tr.remove();
  for (const v of devices.values()) {
    let tr = known.get(v.device);
    if (!tr) {
      tr = el("tr", { "data-device": v.device }, el("th", { scope: "row" }, v.device), ...Array.from({ length: 6 }, () => el("td")));
      body.append(tr);
    }
    const notes = [v.silent ? "its agent does not answer" : "", v.waiting, v.shadow ? "shadow mode: nothing is programmed" : "", v.reason, v.last_error, ...v.limits].filter((s) => s);
    const cells = [driver(v), v.data_plane || "–", v.platform || "–", String(v.ports), v.profile ? `${v.profile} ${v.profile_hash.slice(0, 12)}` : "–", notes.join("; ")];
    cells.forEach((text, i) => put(tr.children[i + 1], text));
  }
}

function driver(v) {
  if (v.shared) return v.owner || "no controller";
  return v.waiting ? "nothing yet" : "this process";
}
