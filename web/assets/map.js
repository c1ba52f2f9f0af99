// The map: switches and links, coloured by what their ports have left.
import { el, level, levels, percent, put, stateOf, svg, worst } from "./text.js";

export class WeatherMap {
  constructor(plan, ports, devices, search) {
    this.plan = plan;
    this.ports = ports;
    this.devices = devices;
    const { width, height } = plan;
    this.root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Map of switches and links" });
    // What needs a look is drawn over what does not.
    [this.calm, this.ill, this.signs] = [svg("g"), svg("g"), svg("g")];
    this.root.append(this.calm, this.ill);
    this.edges = plan.edges.map((e) => this.edge(e));
    this.nodes = plan.nodes.map((n, i) => this.node(n, i, search));
    this.root.append(this.signs); // over the boxes, too: a link can run behind one
    const box = document.getElementById("map");
    box.replaceChildren(this.root);
    const legend = document.getElementById("legend");
    legend.replaceChildren();
    for (const [name, what] of Object.entries(levels)) {
      const g = svg("svg", { viewBox: "0 0 44 14", width: 44, height: 14, "aria-hidden": "true" }, svg("line", { x1: 2, y1: 7, x2: 42, y2: 7, class: "link", "data-level": name }), svg("text", { x: 22, y: 11, class: "sign" }, signs[name] || ""));
      legend.append(el("li", {}, g, what));
    }
    this.root.addEventListener("keydown", (e) => this.move(e));
  }

  // peers are the other ends of ports.
  peers() {
    const out = new Map();
    for (const e of this.plan.edges) {
      const a = this.plan.nodes[e.a], b = this.plan.nodes[e.b];
      for (const l of e.links) {
        if (!a.host) out.set(`${a.name}:${l.port_a}`, b.name + (l.port_b ? ":" + l.port_b : ""));
        if (!b.host) out.set(`${b.name}:${l.port_b}`, a.name + (l.port_a ? ":" + l.port_a : ""));
      }
    }
    return out;
  }

  edge(e) {
    const [x1, y1, x2, y2] = e.line, mx = (x1 + x2) / 2, my = (y1 + y2) / 2;
    const half = (x, y) => svg("line", { x1: x, y1: y, x2: mx, y2: my, class: "link" });
    const sign = (x, y) => svg("text", { x: x + (mx - x) * 0.4, y: y + (my - y) * 0.4 + 4, class: "sign" });
    const title = svg("title");
    const halves = [half(x1, y1), half(x2, y2)], signs = [sign(x1, y1), sign(x2, y2)];
    const g = svg("g", {}, title, ...halves);
    this.signs.append(...signs);
    if (e.links.length > 1) this.signs.append(svg("text", { x: mx, y: my + 4, class: "times" }, "×" + e.links.length));
    this.calm.append(g);
    return { e, g, title, halves, signs, about: "" };
  }

  node(n, i, search) {
    const first = this.plan.nodes.findIndex((k) => !k.host);
    const g = svg("g", { class: n.host ? "host" : "switch", tabindex: n.host ? null : i === first ? 0 : -1, role: n.host ? null : "button" });
    const h = this.plan.box;
    if (!n.host) g.append(svg("rect", { x: n.x - n.width / 2, y: n.y - h / 2, width: n.width, height: h, rx: 4 }));
    const letters = [...n.label];
    const size = Math.min(13, Math.max(9, (n.width - 4) / 0.6 / Math.max(1, letters.length)));
    const fits = Math.max(1, Math.floor(n.width / (size * 0.6)));
    const name = n.host || letters.length <= fits ? letters.join("") : "…" + letters.slice(1 - fits).join("");
    g.append(svg("text", { x: n.x, y: n.y + (n.host ? 4 : 0), "font-size": size }, name));
    const note = svg("text", { x: n.x, y: n.y + 11, class: "note" });
    if (!n.host) {
      g.append(note);
      g.addEventListener("click", () => search(n.name + ":"));
      g.addEventListener("keydown", (e) => {
        if (e.key === "Enter" || e.key === " ") {
          e.preventDefault();
          search(n.name + ":");
        }
      });
    } else {
      g.append(svg("title", {}, "host " + n.name));
    }
    this.root.append(g);
    return { n, g, note };
  }

  // move gives the focus to the nearest switch in the arrow's direction.
  move(e) {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
    const from = this.nodes.find((k) => k.g === e.target);
    if (!way || !from) return;
    e.preventDefault();
    let best = null, cost = Infinity;
    for (const to of this.nodes) {
      if (to.n.host || to === from) continue;
      const dx = to.n.x - from.n.x, dy = to.n.y - from.n.y, along = dx * way[0] + dy * way[1], aside = Math.abs(dx * way[1]) + Math.abs(dy * way[0]);
      if (along > 1 && along + 3 * aside < cost) [best, cost] = [to, along + 3 * aside];
    }
    if (!best) return;
    from.g.setAttribute("tabindex", -1);
    best.g.setAttribute("tabindex", 0);
    best.g.focus();
  }

  draw() {
    const of = new Map(); // the ports of each switch
    for (const p of this.ports.values()) {
      if (!of.has(p.device)) of.set(p.device, []);
      of.get(p.device).push(p);
    }
    for (const k of this.edges) {
      const ends = [[], []], lines = [];
      const a = this.plan.nodes[k.e.a], b = this.plan.nodes[k.e.b];
      for (const l of k.e.links) {
        for (const [i, n, port] of [[0, a, l.port_a], [1, b, l.port_b]]) {
          const p = n.host ? null : this.ports.get(`${n.name}:${port}`);
          if (!p) continue;
          ends[i].push(level(p));
          lines.push(`${p.id} ${p.state}${p.measured ? ", " + percent(p.abwc_ppm) + " left" : ""}`);
        }
      }
      ends.forEach((list, i) => {
        const w = worst(list);
        if (k.halves[i].dataset.level === w) return;
        k.halves[i].dataset.level = w;
        put(k.signs[i], signs[w] || "");
        k.signs[i].dataset.level = w;
      });
      const layer = ends.flat().some((w) => !["none", "l3", "l2"].includes(w)) ? this.ill : this.calm;
      if (k.g.parentNode !== layer) layer.append(k.g);
      const about = `${a.name} – ${b.name}: ${lines.join("; ") || "no port of it is driven here"}`;
      if (about !== k.about) put(k.title, (k.about = about));
    }
    for (const k of this.nodes) {
      if (k.n.host) continue;
      const list = of.get(k.n.name) || [];
      const ill = list.filter((p) => stateOf(p.state).look).length;
      const v = this.devices.get(k.n.name);
      const w = worst(list.map(level));
      k.g.dataset.level = w;
      const note = !v ? "not here" : v.silent ? "no answer" : v.waiting && !list.length ? "waits" : ill ? `${ill} of ${list.length} !` : k.n.hosts ? k.n.hosts + " hosts" : "";
      put(k.note, note);
      const about = !v ? "is not driven here" : `${list.length} ports, ${ill} not live, the worst: ${levels[w]}` + (v.owner ? `, driven by ${v.owner}` : "");
      if (k.g.getAttribute("aria-label") !== `${k.n.name}: ${about}`) k.g.setAttribute("aria-label", `${k.n.name}: ${about}`);
    }
  }
}

// Signs stand on the links beside their colours.
const signs = { l0: "▲", down: "▼", stale: "?", refused: "✕" };
