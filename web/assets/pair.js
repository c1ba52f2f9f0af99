// A pair of hosts: what the tags of its probes read, by which ports, and since when.
import { age, el, fromServer, portPage, put, time } from "./text.js";

export class Pair {
  constructor(ports, opened, closed) {
    Object.assign(this, { ports, opened, hosts: null });
    this.box = document.getElementById("pair");
    const close = () => {
      this.hosts = null;
      this.box.hidden = true;
      closed();
    };
    document.getElementById("pair-close").addEventListener("click", close);
    this.box.addEventListener("keydown", (e) => e.key === "Escape" && close());
  }

  // open shows a pair, and has its heading take the focus.
  open(from, to) {
    this.hosts = [from, to];
    this.asked = Symbol(); // an answer about another pair is of no use
    put(document.getElementById("pair-title"), `${from} → ${to}`);
    for (const id of ["pair-state", "pair-least", "pair-hops", "pair-rows", "pair-changes"]) document.getElementById(id).replaceChildren();
    this.box.shown = this.box.key = null;
    this.box.hidden = false;
    const title = document.getElementById("pair-title");
    title.focus({ preventScroll: true });
    title.scrollIntoView({ block: "nearest" });
    this.opened(from, to);
    this.refresh();
  }

  async refresh() {
    if (!this.hosts) return;
    const own = (this.asked = Symbol()), [from, to] = this.hosts;
    let a;
    try {
      a = await (await fromServer("/api/v1/mesh/why?" + new URLSearchParams({ from, to }))).json();
    } catch {
      return;
    }
    if (own !== this.asked || !this.hosts) return;
    if (a.error) return put(document.getElementById("pair-state"), a.error);
    this.draw(a.why, a.more);
  }

  draw(w, more) {
    const p = w.pair;
    put(document.getElementById("pair-state"), p.state + (p.rtt_ns > 0 && p.state !== "unreachable" ? `; round trip ${small(p.rtt_ns)}` : "") + (p.state === "unknown" ? "" : `; ${Math.round(100 * p.loss)} % of untagged probes lost`));
    // Links keep the focus while what they lead to is the same.
    const key = JSON.stringify([p.signals.map((r) => [r.signal, r.range, r.ports, r.note]), w.hops, w.paths.map((q) => [q.port, q.signal, q.state, q.reading?.ports])]);
    if (this.box.key !== key) {
      this.box.key = key;
      document.getElementById("pair-least").replaceChildren(...p.signals.map((r) => el("li", {}, `${r.signal}: `, ...read(this.ports, r), el("span", { class: "hint" }))));
      document.getElementById("pair-hops").replaceChildren(...(w.hops.length ? w.hops.map((hop) => el("li", {}, ...places(this.ports, hop))) : [el("li", {}, "The fleet file has no path between them: does it have all cables?")]));
      document.getElementById("pair-rows").replaceChildren(...w.paths.map((q) => el("tr", {}, el("th", { scope: "row" }, String(q.port + 1)), el("td", {}, q.state), el("td", {}, `${q.signal} `, ...(q.reading ? read(this.ports, q.reading) : ["–"])), el("td", { class: "number" }), el("td", { class: "number" }))));
    }
    p.signals.forEach((r, i) => put(document.getElementById("pair-least").children[i].lastChild, ` read ${age(r.age_ns / 1e6)} ago`));
    w.paths.forEach((q, i) => {
      const tr = document.getElementById("pair-rows").children[i];
      put(tr.children[3], q.reading ? age(q.reading.age_ns / 1e6) : "–");
      put(tr.children[4], (q.extra_ns < 0 ? "−" : "+") + small(Math.abs(q.extra_ns)));
    });
    const changes = JSON.stringify([w.changes, more]);
    if (this.box.shown === changes) return;
    this.box.shown = changes;
    put(document.getElementById("pair-since"), `What changed, the newest first: ${w.changes.length}${more ? ` of ${w.changes.length + more}` : ""} since ${time(Date.parse(w.since))}`);
    document.getElementById("pair-changes").replaceChildren(...w.changes.toReversed().map((c) => el("li", {}, `${time(Date.parse(c.time), 3)} source port ${c.port + 1}: `, ...(c.read ? [`${c.signal} `, ...read(this.ports, c)] : [c.state]))));
  }
}

// read is what a tag says: a range, and the ports that may have written it.
function read(ports, r) {
  if (r.note === "stale") return ["stale: a switch has no current signal"];
  if (r.note === "none") return [`as sent: no switch has ${r.signal.startsWith("abw") ? "less" : "more"}, or none updates`];
  if (!r.ports.length) return [`${r.range} at locator ${r.lm}, of no port on the way`];
  return [`${r.range} at `, ...places(ports, r.ports)];
}

// places are ports by name, each with the way to its page where it has one.
export function places(ports, names) {
  return names.flatMap((id, i) => {
    const p = ports.get(id), [device, ...port] = id.split(":");
    return [...(i ? [" or "] : []), p ? el("a", { href: portPage(p) }, device + ":", el("wbr"), port.join(":")) : id];
  });
}

const small = (ns) => (ns < 1e6 ? Math.round(ns / 1e3) + " µs" : (ns / 1e6).toFixed(1) + " ms");
