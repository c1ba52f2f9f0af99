// The table of ports: sorted, searched and kept up to date in place.
import { age, clock, el, level, percent, portPage, put, rate, signals, stateOf, states } from "./text.js";

const most = 500; // rows in the document
const calm = 3000; // ms between two orders of the rows

const text = (key) => (a, b) => a[key].localeCompare(b[key], "en", { numeric: true });
const byName = (a, b) => text("device")(a, b) || text("port")(a, b);
// A port without a current measurement may be the worst of all: it comes first.
const unknown = (p) => (p.measured || !stateOf(p.state).look ? 1 : 0);
const figure = (key) => (a, b) => unknown(a) - unknown(b) || idle(a) - idle(b) || a[key] - b[key] || stateOf(a.state).order - stateOf(b.state).order;
const idle = (p) => (p.measured ? 0 : 1);

const columns = [
  { key: "name", head: "Port", less: byName },
  { key: "state", head: "State", less: (a, b) => stateOf(a.state).order - stateOf(b.state).order },
  { key: "abw", head: "ABW", number: true, less: figure("abw_bps"), show: (p) => (p.measured ? rate(p.abw_bps) : "–") },
  { key: "abwc", head: "ABW/C", number: true, less: figure("abwc_ppm"), show: (p) => (p.measured ? percent(p.abwc_ppm) : "–") },
  { key: "load", head: "Load", number: true, less: figure("load_bps"), show: (p) => (p.measured ? rate(p.load_bps) : "–") },
  { key: "capacity", head: "Capacity", number: true, less: figure("capacity_bps"), show: (p) => (p.measured ? rate(p.capacity_bps) : "–") },
  { key: "signals", head: "S (locator)", less: (a, b) => signals(a).localeCompare(signals(b)), show: (p) => signals(p) || "–" },
  { key: "age", head: "Age", number: true, less: (a, b) => Date.parse(a.ended || 0) - Date.parse(b.ended || 0), show: (p) => (p.ended ? age(clock.now() - Date.parse(p.ended)) : "–") },
  { key: "peer", head: "To", less: (a, b) => (a.peer || "").localeCompare(b.peer || "", "en", { numeric: true }), show: (p) => p.peer || "–" },
  { key: "reason", head: "Reason", less: text("reason"), show: (p) => p.reason },
];

// look is a column's classes: on narrow screens the style leaves some columns to the port's page.
const look = (c) => (c.number ? "number of-" : "of-") + c.key;

export class Table {
  constructor(ports) {
    this.ports = ports;
    this.rows = new Map(); // by port id
    this.sort = { column: columns[2], down: false };
    this.ordered = 0;
    this.body = document.getElementById("rows");
    this.input = document.getElementById("search");
    this.state = document.getElementById("state");
    this.hold = document.getElementById("hold");
    this.known = new Map();
    for (const name of Object.keys(states)) this.state.append(el("option", { value: name }, name));
    for (const c of columns) {
      const button = el("button", { type: "button" }, c.head, el("span", { class: "arrow", "aria-hidden": "true" }));
      const th = el("th", { scope: "col", class: look(c) }, button);
      button.addEventListener("click", () => this.by(c));
      document.getElementById("head").append(th);
    }
    this.mark();
    const now = () => this.draw(true);
    this.input.addEventListener("input", now);
    this.state.addEventListener("change", now);
    this.hold.addEventListener("change", now);
    document.getElementById("filter").addEventListener("submit", (e) => e.preventDefault());
    setInterval(() => this.ages(), 1000);
  }

  // by sorts by a column, and the other way round the second time.
  by(c) {
    this.sort = { column: c, down: this.sort.column === c && !this.sort.down };
    this.mark();
    this.draw(true);
  }

  mark() {
    [...document.getElementById("head").children].forEach((th, i) => {
      const own = this.sort.column === columns[i];
      if (own) th.setAttribute("aria-sort", this.sort.down ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
      th.querySelector(".arrow").textContent = own ? (this.sort.down ? " ▼" : " ▲") : "";
    });
  }

  search(words) {
    this.input.value = words;
    this.state.value = "";
    this.draw(true);
    this.input.focus();
  }

  only(state) {
    this.state.value = this.state.value === state ? "" : state;
    this.draw(true);
  }

  peers(known) {
    this.known = known;
    this.draw(true);
  }

  matches(p, words) {
    const all = `${p.device}:${p.port} ${p.peer || ""} ${p.state} ${p.reason}`.toLowerCase();
    // "leaf1:" is the switch itself, and none that is linked with it.
    return words.every((w) => (w.endsWith(":") ? all.startsWith(w) : all.includes(w))) && (this.state.value === "" || p.state === this.state.value);
  }

  // draw brings the table up to date. Rows keep their order while one of them has the focus or
  // the pointer, or where the reader asks for it: what one points at does not jump away.
  draw(asked = false) {
    const words = this.input.value.toLowerCase().split(/\s+/).filter((w) => w);
    const list = [];
    for (const p of this.ports.values()) {
      p.peer = this.known.get(p.id)?.text;
      if (this.matches(p, words)) list.push(p);
    }
    const held = this.hold.checked || this.body.matches(":hover") || this.body.contains(document.activeElement);
    const order = asked || !held && Date.now() - this.ordered > calm;
    const { column, down } = this.sort;
    list.sort((a, b) => (down ? -1 : 1) * column.less(a, b) || byName(a, b));
    const shown = order ? list.slice(0, most) : list.filter((p) => this.rows.has(p.id) || list.length <= most);
    const ids = new Set(shown.map((p) => p.id));
    for (const [id, tr] of this.rows) {
      if (ids.has(id)) continue;
      tr.remove();
      this.rows.delete(id);
    }
    for (const p of shown) this.show(p);
    if (order) {
      this.ordered = Date.now();
      shown.forEach((p, i) => {
        const tr = this.rows.get(p.id);
        if (this.body.children[i] !== tr) this.body.insertBefore(tr, this.body.children[i] || null);
      });
    }
    put(document.getElementById("shown"), list.length === this.ports.size ? `${list.length} ports` : `${list.length} of ${this.ports.size} ports`);
    put(document.getElementById("more"), list.length > most ? `The first ${most} of ${list.length} are shown: search to see others.` : "");
  }

  show(p) {
    let tr = this.rows.get(p.id);
    if (!tr) {
      tr = el("tr", {}, el("th", { scope: "row" }, el("a", { href: portPage(p) }, p.device + ":", el("wbr"), p.port)), el("td", { class: look(columns[1]) }, el("span", { class: "mark", "aria-hidden": "true" }), el("span", { class: "word" })));
      for (const c of columns.slice(2)) tr.append(el("td", { class: look(c) }));
      this.rows.set(p.id, tr);
      this.body.append(tr);
    }
    this.fill(tr, p);
  }

  fill(tr, p) {
    if (tr.port === p && tr.peer === p.peer) return;
    tr.port = p;
    tr.peer = p.peer;
    tr.dataset.level = level(p);
    put(tr.children[1].children[0], stateOf(p.state).mark);
    put(tr.children[1].children[1], p.state);
    columns.forEach((c, i) => c.show && put(tr.children[i], c.show(p)));
    tr.lastChild.title = p.reason; // which its cell shows one line of
  }

  // ages grow also where nothing comes.
  ages() {
    const i = columns.findIndex((c) => c.key === "age");
    for (const tr of this.rows.values()) put(tr.children[i], columns[i].show(tr.port));
  }
}
