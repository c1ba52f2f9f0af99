// What the hosts of a mesh read in tags: the ports that limit the most pairs, and a matrix of the hosts.
import { Pair, places } from "./pair.js";
import { age, clock, el, fromServer, put, time } from "./text.js";

const every = 2000; // ms between two looks
const roomy = 16; // hosts whose cells are large

// signs stand in cells that have no figure.
const signs = {
  unknown: ["…", "nothing is known yet"],
  untagged: ["–", "one of the two takes no tags"],
  "not capable": ["o", "tags are taken off on the way"],
  "drops tags": ["✕", "probes with a tag are lost"],
  unreachable: ["!", "probes without a tag are lost, too"],
};
const levels = ["l0", "l1", "l2", "l3", "stale"];

export class Mesh {
  constructor(ports, opened) {
    Object.assign(this, { ports, here: false, answer: null, cells: [], asked: 0 });
    this.box = document.getElementById("mesh");
    this.pair = new Pair(ports, opened, () => this.stop?.focus());
    this.table = document.getElementById("matrix");
    this.table.addEventListener("click", (e) => this.open(e.target));
    this.table.addEventListener("keydown", (e) => this.move(e));
    this.table.addEventListener("pointerover", (e) => e.target.i !== undefined && (e.target.title = e.target.getAttribute("aria-label") || ""));
    this.table.addEventListener("focusin", (e) => e.target.matches("td[tabindex]") && this.stopAt(e.target));
    document.getElementById("limits").addEventListener("click", (e) => {
      const pair = e.target.closest("button")?.pair;
      if (pair) this.pair.open(...pair);
    });
    setInterval(() => this.here && clock.at === null && !document.hidden && this.ask(), every);
  }

  // ask fetches what is known now. A server that collects no mesh is asked once.
  async ask() {
    const own = ++this.asked;
    let a;
    try {
      const r = await fromServer("/api/v1/mesh");
      if (!r.ok) return;
      a = await r.json();
    } catch {
      return; // the line above says that the page is not live
    }
    if (own !== this.asked) return;
    this.here = a.here;
    this.box.hidden = !a.here;
    document.getElementById("mesh-line").hidden = !a.here;
    if (!a.here) return;
    this.answer = a;
    this.draw();
    this.pair.refresh();
  }

  draw() {
    const a = this.answer;
    const pairs = a.kinds.filter((k) => a.states[k]).map((k) => `${a.states[k]} ${k}`);
    put(document.getElementById("mesh-state"), `${a.profile}: ${a.live} of ${a.all} hosts live. Pairs: ${pairs.join(", ") || "none"}. A reading is up to ${age(a.oldest_ns / 1e6)} old.`);
    const first = a.bottlenecks[0];
    const cut = a.states.unreachable || 0;
    put(document.querySelector("#mesh-line a"), cut ? `Mesh: ${count(cut, "pair")} of hosts unreachable` : first ? `Mesh: ${first.ports.join(" or ")} limits ${count(first.pairs, "pair")} of hosts` : "Mesh: no port limits a pair of hosts");
    this.found(a);
    this.ranking(a);
    this.matrix(a);
  }

  // found is what is wrong between hosts.
  found(a) {
    const rows = a.findings.map((f) => el("li", {}, el("strong", {}, `${f.severity}: `), (f.device ? [f.device, ...f.ports].join(":") : f.either.join(" or ")) + (f.device || f.either.length ? ": " : ""), `${f.message} (${f.code}, since ${time(Date.parse(f.since))})`));
    if (a.more_findings) rows.push(el("li", {}, `and ${a.more_findings} more: csig mesh status shows them`));
    fill(document.getElementById("mesh-found"), rows);
  }

  // ranking is the table of ports, in the collector's order. It stays as it is while it has the focus.
  ranking(a) {
    document.getElementById("limits-box").hidden = a.bottlenecks.length === 0;
    document.getElementById("no-limits").hidden = a.bottlenecks.length > 0;
    put(document.getElementById("more-limits"), a.more_limits ? `The first ${a.bottlenecks.length} are shown; csig mesh status has ${a.more_limits} more.` : "");
    const body = document.getElementById("limits");
    const key = a.bottlenecks.map((b) => [b.ports, b.signal, b.example].join()).join(";");
    if (body.key !== key && !body.contains(document.activeElement)) {
      body.key = key;
      body.replaceChildren(...a.bottlenecks.map((b) => {
        const pair = Object.assign(el("button", { type: "button", "aria-label": `Show ${b.example.join(" to ")}` }, b.example.join(" → ")), { pair: b.example });
        return el("tr", {}, el("th", { scope: "row" }, ...places(this.ports, b.ports)), el("td", { class: "number" }), ...["of-signal", "", "of-place", "of-since", "number of-age"].map((c) => el("td", { class: c || null })), el("td", { class: "of-example" }, pair));
      }));
    }
    if (body.key !== key) return;
    a.bottlenecks.forEach((b, i) => {
      const since = Date.parse(b.since);
      [count(b.pairs, "pair"), b.signal, b.range, b.place || "–", `${time(since)}, ${age(clock.now() - since)}`, age(b.age_ns / 1e6)].forEach((text, k) => put(body.children[i].children[1 + k], text));
    });
    put(document.getElementById("last-hop"), a.bottlenecks.some((b) => b.place === "last hop") ? "At a last hop another path does not help: fewer senders, or another place of the work does." : "");
  }

  // matrix has a cell for each pair: a figure or a sign, beside its colour.
  matrix(a) {
    document.getElementById("matrix-box").hidden = a.hosts.length === 0;
    put(document.getElementById("no-matrix"), a.hosts.length ? "" : `The matrix is of up to 64 hosts; csig mesh why FROM TO shows a pair of these ${a.all}.`);
    const key = a.hosts.join("\n");
    if (this.key !== key) {
      this.key = key;
      this.build(a.hosts);
    }
    let k = 0;
    const used = new Set();
    for (let i = 0; i < a.hosts.length; i++) {
      for (let j = 0; j < a.hosts.length; j++) {
        if (i === j) continue;
        const [state, level, left, s, port] = a.cells[k++] || [0, -1, -1, -1, -1];
        const td = this.cells[i][j], key = [state, level, left, s, port, a.ports[port]].join();
        const kind = a.kinds[state];
        used.add(kind === "capable" ? "" : kind);
        if (td.key === key) continue; // of thousands few change
        td.key = key;
        const [sign, what] = kind === "capable" ? reading(level, left, s, a.signal) : signs[kind];
        put(td, sign);
        td.dataset.level = kind === "capable" ? levels[level] || "none" : kind === "unreachable" || kind === "drops tags" ? "refused" : "none";
        td.setAttribute("aria-label", `${a.hosts[i]} to ${a.hosts[j]}: ${what}${port >= 0 ? ` at ${a.ports[port]}` : ""}`);
      }
    }
    const figures = a.signal.startsWith("abw") ? "Figures: per cent of the capacity that the worst path has left at most; S and a number where the capacity is not known." : "Figures: S of " + a.signal + ".";
    const rows = [figures, "· as sent: no port has less", "? stale", ...Object.keys(signs).filter((k) => used.has(k)).map((k) => `${signs[k][0]} ${k}: ${signs[k][1]}`)];
    fill(document.getElementById("matrix-legend"), rows.map((text) => el("li", {}, text)));
  }

  build(hosts) {
    this.cells = hosts.map((from, i) => hosts.map((to, j) => (i === j ? el("td", { class: "own" }, el("span", { class: "visually-hidden" }, "itself")) : el("td", { tabindex: -1 }))));
    this.table.classList.toggle("dense", hosts.length > roomy);
    this.table.replaceChildren(
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "from \\ to"), ...hosts.map((h) => el("th", { scope: "col" }, el("span", {}, h))))),
      el("tbody", {}, ...hosts.map((h, i) => el("tr", {}, el("th", { scope: "row" }, h), ...this.cells[i]))));
    this.cells.forEach((row, i) => row.forEach((td, j) => Object.assign(td, { i, j })));
    this.stop = null;
    if (hosts.length > 1) this.stopAt(this.cells[0][1]);
  }

  // stopAt has Tab go to a cell: the matrix is one stop, and arrows move in it.
  stopAt(td) {
    this.stop?.setAttribute("tabindex", -1);
    this.stop = td;
    td.setAttribute("tabindex", 0);
  }

  move(e) {
    const { i, j } = e.target, n = this.cells.length;
    if (i === undefined) return;
    if (e.key === "Enter" || e.key === " ") {
      e.preventDefault();
      return this.open(e.target);
    }
    const way = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -n], End: [0, n] }[e.key];
    if (!way) return;
    e.preventDefault();
    const far = Math.abs(way[1]) === n;
    let a = i + way[0], b = far ? (way[1] < 0 ? 0 : n - 1) : j + way[1];
    if (a === b) [a, b] = far ? [a, b + (b ? -1 : 1)] : [a + way[0], b + way[1]]; // no pair is on the diagonal
    this.cells[a]?.[b]?.focus();
  }

  open(td) {
    if (td.i === undefined || td.i === td.j) return;
    this.stopAt(td);
    this.pair.open(this.answer.hosts[td.i], this.answer.hosts[td.j]);
  }
}

// reading is the sign of a cell, and what it says.
function reading(level, left, s, signal) {
  if (level === 4) return ["?", "stale: a switch has no current signal"];
  if (level < 0) return ["…", "nothing is read yet"];
  if (left >= 0) return [String(left), `at most ${left} % left`];
  if (level === 3 && s === 31) return ["·", "as sent: no port has less"];
  return ["S" + s, `S ${s} of ${signal}`];
}

const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

// fill changes what a box has where it is another: a reader is not told the same twice.
function fill(box, rows) {
  const text = rows.map((r) => r.textContent).join("\n");
  if (box.shown === text) return;
  box.shown = text;
  box.replaceChildren(...rows);
}
