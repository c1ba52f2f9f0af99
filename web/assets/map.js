// The map: switches in their tiers and links, with what their ports have left.
import { brief, el, level, levels, percent, put, stateOf, svg, whole, worst } from "./text.js";

const tall = 520; // px that a wide map takes where it has lines enough
const boxHeight = 40, gap = 10, margin = 6, tick = 6;
const fewLinks = 24; // between switches: so many have room for figures on each of them
const hostRoom = 76; // px that a host with its name and its figures takes
const narrow = 600; // px; a map that is narrower has figures without ABW

export class WeatherMap {
  constructor(plan, ports, devices, search) {
    Object.assign(this, { plan, ports, devices, search });
    this.box = document.getElementById("map");
    this.width = 0;
    this.pinned = this.pointed = null; // the switch that has or had the focus, and that under the pointer
    this.ranks = new Map(); // of the bottlenecks, by port
    this.way = new Set(); // ports of the path that is asked for
    this.switches = plan.nodes.filter((n) => !n.host);
    this.stop = this.switches[0]; // the one that Tab goes to
    this.hosts = plan.nodes.length - this.switches.length;
    this.between = plan.edges.filter((e) => !plan.nodes[e.b].host);
    this.few = this.between.length <= fewLinks;
    const size = new ResizeObserver(() => this.box.isConnected && this.fit());
    size.observe(this.box);
    this.end = () => size.disconnect();
    const legend = document.getElementById("legend");
    legend.replaceChildren();
    for (const [name, what] of Object.entries(levels)) {
      const g = svg("svg", { viewBox: "0 0 44 14", width: 44, height: 14, "aria-hidden": "true" }, svg("line", { x1: 2, y1: 7, x2: 42, y2: 7, class: "link", "data-level": name }), svg("text", { x: 22, y: 11, class: "sign" }, signs[name] || ""));
      legend.append(el("li", {}, g, what));
    }
    this.fit();
  }

  // peers are the other ends of ports.
  peers() {
    const out = new Map();
    for (const e of this.plan.edges) {
      const a = this.plan.nodes[e.a], b = this.plan.nodes[e.b];
      for (const l of e.links) {
        out.set(`${a.name}:${l.port_a}`, { device: b.host ? "" : b.name, port: l.port_b, text: b.name + (l.port_b ? ":" + l.port_b : "") });
        if (!b.host) out.set(`${b.name}:${l.port_b}`, { device: a.name, port: l.port_a, text: a.name + (l.port_a ? ":" + l.port_a : "") });
      }
    }
    return out;
  }

  // fit places everything where the room for the map is another than before.
  fit() {
    const width = Math.floor(this.box.clientWidth);
    if (width < 100 || width === this.width) return;
    this.width = width;
    const focused = this.box.contains(document.activeElement);
    this.place();
    const height = this.height;
    this.root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "Map of switches and links", class: this.few ? "few" : "many" });
    // What needs a look is drawn over what does not.
    [this.calm, this.ill, this.signs, this.badges] = [svg("g"), svg("g"), svg("g"), svg("g")];
    this.root.append(this.calm, this.ill);
    this.taken = []; // by figures
    this.edges = this.plan.edges.map((e) => this.edge(e));
    this.nodes = this.plan.nodes.map((n) => this.node(n)).filter((k) => k);
    this.root.append(this.signs, this.badges); // over the boxes, too: a link can run behind one
    this.box.replaceChildren(this.root);
    this.root.addEventListener("keydown", (e) => this.move(e));
    if (focused) this.nodes.find((k) => k.n === this.stop).g.focus();
    this.draw();
  }

  // place gives the nodes their places: the tiers in lines of boxes, hosts below or as ticks at their switches.
  place() {
    const { nodes, edges } = this.plan;
    this.roomy = this.hosts > 0 && this.few && this.hosts * hostRoom <= this.width;
    this.own = new Map(this.switches.map((n) => [n, []])); // the edges to hosts of a switch
    for (const e of edges) if (nodes[e.b].host) this.own.get(nodes[e.a]).push(e);
    this.spot = new Map();
    let y = this.rows(0);
    // A wide map that leaves room below has its lines farther apart.
    const gaps = new Set([...this.spot.values()].map((s) => s.y)).size - 1;
    if (gaps > 0 && this.width >= narrow) y = this.rows(Math.min(40, Math.max(0, (tall - y) / gaps)));
    if (this.roomy) {
      const list = nodes.filter((n) => n.host), at = (h) => this.spot.get(nodes[edges.find((e) => nodes[e.b] === h).a]).x;
      y += 96;
      const order = list.map((h, i) => ({ h, i, x: at(h) })).sort((a, b) => a.x - b.x || a.i - b.i);
      order.forEach(({ h }, i) => this.spot.set(h, { x: margin + ((this.width - 2 * margin) * (i + 0.5)) / order.length, y, wide: 40 }));
      y += 12;
    }
    this.height = y + (this.roomy ? margin : 12);
    this.fan();
  }

  // rows places the switches, their lines so much farther apart than they have to be, and returns where they end.
  rows(more) {
    let y = margin;
    for (const tier of new Set(this.switches.map((n) => n.tier))) {
      const row = this.switches.filter((n) => n.tier === tier);
      const wide = Math.min(Math.max(62, ...row.map((n) => 14 + 7.6 * [...n.label].length)), this.width - 2 * margin);
      const most = Math.max(1, Math.floor((this.width - 2 * margin + gap) / (wide + gap)));
      const lines = Math.ceil(row.length / most), side = Math.ceil(row.length / lines);
      const ticks = this.roomy ? 0 : Math.max(0, ...row.map((n) => this.own.get(n).length));
      const below = Math.ceil(ticks / Math.floor(wide / tick)) * (tick + 1);
      if (y > margin) y += (this.few ? 100 : 56) + more;
      row.forEach((n, i) => {
        const cell = (this.width - 2 * margin) / side;
        this.spot.set(n, { x: margin + cell * ((i % side) + 0.5), y: y + boxHeight / 2 + Math.floor(i / side) * (boxHeight + below + 16 + more), wide });
      });
      y += lines * (boxHeight + below) + (lines - 1) * (16 + more);
    }
    return y;
  }

  // fan has the ends of links side by side along the boxes, in the order of the other ends.
  fan() {
    const { nodes } = this.plan, ends = new Map();
    this.line = new Map();
    for (const e of this.plan.edges) {
      const a = this.spot.get(nodes[e.a]), b = this.spot.get(nodes[e.b]);
      if (!a || !b) continue; // a host that is a tick
      const way = Math.sign(b.y - a.y);
      const line = [a.x, a.y + (way * boxHeight) / 2, b.x, b.y - way * (nodes[e.b].host ? 10 : boxHeight / 2)];
      this.line.set(e, line);
      if (way === 0) continue;
      for (const [at, n, other] of [[0, nodes[e.a], b], [2, nodes[e.b], a]]) {
        const key = `${nodes.indexOf(n)} ${at ? -way : way}`;
        if (!ends.has(key)) ends.set(key, []);
        ends.get(key).push({ line, at, x: other.x, room: n.host ? 0 : this.spot.get(n).wide * 0.8 });
      }
    }
    for (const list of ends.values()) {
      list.sort((a, b) => a.x - b.x);
      const room = Math.min(list[0].room, 18 * list.length);
      list.forEach((e, i) => (e.line[e.at] += room * ((i + 0.5) / list.length - 0.5)));
    }
  }

  edge(e) {
    const line = this.line.get(e), title = svg("title");
    const a = this.plan.nodes[e.a], b = this.plan.nodes[e.b];
    if (!line) return this.tick(e, a, title);
    const [x1, y1, x2, y2] = line, mx = (x1 + x2) / 2, my = (y1 + y2) / 2;
    const half = (x, y) => svg("line", { x1: x, y1: y, x2: mx, y2: my, class: "link" });
    const halves = [half(x1, y1), half(x2, y2)];
    const sign = (x, y) => svg("text", { x: x + (mx - x) * 0.4, y: y + (my - y) * 0.4 + 4, class: "sign" });
    const marks = [sign(x1, y1), sign(x2, y2)];
    const figures = [a, b].map((n, i) => (this.few && !n.host ? this.figure(i ? [x2, y2] : [x1, y1], b.host ? [x2, y2] : [mx, my]) : null));
    const g = svg("g", {}, title, ...halves);
    this.signs.append(...marks, ...figures.filter((f) => f));
    if (e.links.length > 1) this.signs.append(svg("text", { x: mx, y: my + 4, class: "times" }, "×" + e.links.length));
    this.calm.append(g);
    const part = Math.min(0.25, 18 / Math.hypot(mx - x1, my - y1)); // beside the box, where a badge covers no other one
    const spots = [[x1 + (mx - x1) * part, y1 + (my - y1) * part], [x2 + (mx - x2) * part, y2 + (my - y2) * part]];
    return this.about({ e, g, title, halves, marks, figures, spots });
  }

  // figure is the text of one half, where it lies on no other.
  figure([x1, y1], [x2, y2]) {
    let at = null;
    const wide = this.width < narrow ? 19 : 34; // half of it
    for (const part of [0.55, 0.42, 0.68, 0.8, 0.3]) {
      const x = x1 + (x2 - x1) * part, y = y1 + (y2 - y1) * part;
      const r = [x - wide, y - 7, x + wide, y + 7];
      at = at || { x, y, r };
      if (this.taken.some((t) => r[0] < t[2] && t[0] < r[2] && r[1] < t[3] && t[1] < r[3])) continue;
      at = { x, y, r };
      break;
    }
    this.taken.push(at.r);
    return svg("text", { x: Math.min(Math.max(at.x, wide + 2), this.width - wide - 2), y: at.y + 4, class: "figure" });
  }

  // tick is a link to a host where there is no room for more of it.
  tick(e, n, title) {
    const s = this.spot.get(n), i = this.own.get(n).indexOf(e), side = Math.floor(s.wide / tick);
    const line = Math.min(side, this.own.get(n).length);
    const x = s.x - (line * tick) / 2 + (i % side) * tick, y = s.y + boxHeight / 2 + 3 + Math.floor(i / side) * (tick + 1);
    const r = svg("rect", { x: x + 0.5, y, width: tick - 1, height: tick, class: "tick" }, title);
    this.calm.append(r);
    return this.about({ e, g: r, title, halves: [r, null], marks: [null, null], figures: [null, null], spots: [[x + tick / 2, y + tick], null] });
  }

  // about has a link say what it is when it is pointed at: there are thousands.
  about(k) {
    k.g.addEventListener("pointerenter", () => {
      const lines = this.ends(k.e).flat().map((p) => `${p.id} ${p.state}${p.measured ? `, ${brief(p.abw_bps)}, ${percent(p.abwc_ppm)} left` : ""}`);
      put(k.title, `${this.plan.nodes[k.e.a].name} – ${this.plan.nodes[k.e.b].name}: ${lines.join("; ") || "no port of it is driven here"}`);
    });
    return Object.assign(k, { worst: [null, null], way: [false, false], on: false });
  }

  // ends are the ports at the two ends of an edge.
  ends(e) {
    const ends = [[], []];
    [this.plan.nodes[e.a], this.plan.nodes[e.b]].forEach((n, i) => {
      if (n.host) return;
      for (const l of e.links) {
        const p = this.ports.get(`${n.name}:${i ? l.port_b : l.port_a}`);
        if (p) ends[i].push(p);
      }
    });
    return ends;
  }

  node(n) {
    const s = this.spot.get(n);
    if (!s) return null;
    if (n.host) {
      this.root.append(svg("g", { class: "host" }, svg("text", { x: s.x, y: s.y + 4 }, n.label), svg("title", {}, "host " + n.name)));
      return null;
    }
    const g = svg("g", { class: "switch", tabindex: n === this.stop ? 0 : -1, role: "button" });
    g.append(svg("rect", { x: s.x - s.wide / 2, y: s.y - boxHeight / 2, width: s.wide, height: boxHeight, rx: 4 }));
    const letters = [...n.label], fits = Math.max(1, Math.floor((s.wide - 4) / 7.2));
    g.append(svg("text", { x: s.x, y: s.y - 6, class: "name" }, letters.length <= fits ? n.label : "…" + letters.slice(1 - fits).join("")));
    const notes = [svg("text", { x: s.x, y: s.y + 6, class: "note" }), svg("text", { x: s.x, y: s.y + 16, class: "note" })];
    g.append(...notes);
    const open = () => this.search(n.name + ":");
    g.addEventListener("click", () => {
      this.choose(n, true);
      open();
    });
    g.addEventListener("focus", () => g.matches(":focus-visible") && this.choose(n, true));
    g.addEventListener("pointerenter", () => this.choose(n));
    g.addEventListener("pointerleave", () => this.choose(null));
    g.addEventListener("keydown", (e) => {
      if (e.key === "Enter" || e.key === " ") {
        e.preventDefault();
        open();
      }
    });
    this.root.append(g);
    return { n, g, notes };
  }

  // choose has the figures of one switch's links shown.
  choose(n, pin = false) {
    if (pin) this.pinned = n;
    else this.pointed = n;
    this.draw();
  }

  // move gives the focus to the nearest switch in the arrow's direction.
  move(e) {
    if (e.key === "Escape") return this.choose(null, true);
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
    const from = this.nodes.find((k) => k.g === e.target);
    if (!way || !from) return;
    e.preventDefault();
    const at = this.spot.get(from.n);
    let best = null, cost = Infinity;
    for (const to of this.nodes) {
      if (to === from) continue;
      const s = this.spot.get(to.n), dx = s.x - at.x, dy = s.y - at.y, along = dx * way[0] + dy * way[1], aside = Math.abs(dx * way[1]) + Math.abs(dy * way[0]);
      if (along > 1 && along + 3 * aside < cost) [best, cost] = [to, along + 3 * aside];
    }
    if (!best) return;
    this.stop = best.n;
    from.g.setAttribute("tabindex", -1);
    best.g.setAttribute("tabindex", 0);
    best.g.focus();
  }

  // mark shows the bottlenecks by their ranks, and the ports of the path that is asked for.
  mark(ranked, way) {
    this.way = way;
    this.ranks = new Map(ranked.map((id, i) => [id, i + 1]));
  }

  draw() {
    if (!this.root) return;
    const chosen = this.pointed || this.pinned;
    this.root.classList.toggle("choosing", chosen !== null);
    const of = new Map(); // the ports of each switch
    for (const p of this.ports.values()) {
      if (!of.has(p.device)) of.set(p.device, []);
      of.get(p.device).push(p);
    }
    const peers = new Map(); // of the chosen switch: what its links to them have left, there and back
    const badges = [];
    for (const k of this.edges) {
      const a = this.plan.nodes[k.e.a], b = this.plan.nodes[k.e.b], ends = this.ends(k.e);
      ends.forEach((list, i) => {
        if (!k.halves[i]) return;
        const w = worst(list.map(level)), way = this.way.size > 0 && list.some((p) => this.way.has(p.id));
        if (k.figures[i]) put(k.figures[i], left(list, this.width < narrow ? "" : null));
        for (const p of list) if (this.ranks.has(p.id)) badges.push([this.ranks.get(p.id), ...k.spots[i]]);
        if (k.worst[i] === w && k.way[i] === way) return; // of many links few change
        [k.worst[i], k.way[i]] = [w, way];
        k.halves[i].dataset.level = w;
        k.halves[i].classList.toggle("way", way);
        if (k.figures[i]) k.figures[i].dataset.level = w;
        if (k.marks[i]) {
          put(k.marks[i], signs[w] || "");
          k.marks[i].dataset.level = w;
        }
        const layer = k.way.includes(true) || k.worst.some((w) => w !== null && !["none", "l3", "l2"].includes(w)) ? this.ill : this.calm;
        if (k.g.parentNode !== layer) layer.append(k.g);
      });
      const on = chosen !== null && (a === chosen || b === chosen);
      if (on !== k.on) k.g.classList.toggle("on", (k.on = on));
      if (on && !b.host) peers.set(a === chosen ? b : a, a === chosen ? ends : [ends[1], ends[0]]);
    }
    badges.sort((a, b) => b[0] - a[0]);
    this.badges.replaceChildren(...badges.map(([rank, x, y]) => svg("g", { class: "badge", "data-rank": rank }, svg("circle", { cx: x, cy: y, r: 8 }), svg("text", { x, y: y + 4 }, String(rank)))));
    for (const k of this.nodes) {
      const list = of.get(k.n.name) || [];
      const ill = list.filter((p) => stateOf(p.state).look).length;
      const v = this.devices.get(k.n.name);
      k.g.dataset.level = worst(list.map(level));
      const trouble = !v ? "not here" : v.silent ? "no answer" : v.waiting && !list.length ? "waits" : ill ? `${ill} of ${list.length} !` : "";
      const notes = [trouble || left(list, " left"), k.n.hosts ? k.n.hosts + " hosts" : ""];
      if (peers.has(k.n) && !this.few) peers.get(k.n).forEach((list, i) => (notes[i] = "→←"[i] + " " + left(list)));
      notes.forEach((text, i) => put(k.notes[i], text));
      k.g.classList.toggle("on", k.n === chosen || peers.has(k.n));
      const about = !v ? "is not driven here" : `${list.length} ports, ${ill} not live, the worst: ${levels[k.g.dataset.level]}` + (v.owner ? `, driven by ${v.owner}` : "");
      if (k.g.getAttribute("aria-label") !== `${k.n.name}: ${about}`) k.g.setAttribute("aria-label", `${k.n.name}: ${about}`);
    }
  }
}

// left is what the worst of these ports has left, or the part of its capacity that it is alone.
function left(list, part = null) {
  const p = list.filter((p) => p.measured).reduce((a, b) => (a && a.abwc_ppm <= b.abwc_ppm ? a : b), null);
  if (!p) return "";
  return part !== null ? whole(p.abwc_ppm) + part : `${brief(p.abw_bps)} ${whole(p.abwc_ppm)}`;
}

// Signs stand on the links beside their colours.
const signs = { l0: "▲", down: "▼", stale: "?", refused: "✕" };
