// From A to B: the least that the ports on the way have left, by the switches' own numbers.
import { el, fromServer, portPage, put, rate, stateOf } from "./text.js";

export class Path {
  constructor(ports, changed) {
    Object.assign(this, { ports, changed, hops: [], peers: new Map(), shown: "" });
    [this.from, this.to] = [document.getElementById("from"), document.getElementById("to")];
    const query = new URLSearchParams(location.search);
    this.from.value = query.get("from") || "";
    this.to.value = query.get("to") || "";
    const form = document.getElementById("path-form");
    form.addEventListener("submit", (e) => {
      e.preventDefault();
      this.ask();
    });
    form.addEventListener("change", () => this.ask());
    document.getElementById("swap").addEventListener("click", () => {
      [this.from.value, this.to.value] = [this.to.value, this.from.value];
      this.ask();
    });
  }

  // show asks for the path between two ends that another part of the page names.
  show(from, to) {
    [this.from.value, this.to.value] = [from, to];
    this.ask();
  }

  // fleet takes the links of the fleet that is there now.
  fleet(plan, peers) {
    this.peers = peers;
    document.getElementById("path-form").hidden = !plan;
    const names = plan ? [...plan.nodes.map((n) => n.name), ...[...peers.keys()].filter((id) => !id.endsWith(":"))] : [];
    document.getElementById("ends").replaceChildren(...names.map((name) => el("option", { value: name })));
    this.ask();
  }

  async ask() {
    const from = this.from.value.trim(), to = this.to.value.trim(), own = (this.asked = Symbol());
    history.replaceState(null, "", from && to ? "?" + new URLSearchParams({ from, to }) : location.pathname);
    let a = { error: "", hops: [] };
    if (from && to) {
      try {
        a = await (await fromServer("/api/v1/path?" + new URLSearchParams({ from, to }))).json();
      } catch {
        a.error = "The server does not answer: try again.";
      }
    }
    if (own !== this.asked) return; // there is a newer question
    this.hops = a.hops;
    this.error = a.error;
    this.draw();
    this.changed();
  }

  draw() {
    const text = this.error || (this.hops.length ? this.least() : "");
    put(document.getElementById("path"), text);
    const rows = this.hops.map((hop) => hop.map((id) => this.ports.get(id) || { id }).sort((a, b) => abw(b) - abw(a)));
    const shown = JSON.stringify(rows.map((hop) => hop.map((p) => [p.id, what(p)])));
    if (shown === this.shown) return;
    this.shown = shown;
    document.getElementById("hops").replaceChildren(...rows.map((hop) => el("li", {}, ...hop.flatMap((p, i) => [i ? " or " : "", p.device ? el("a", { href: portPage(p) }, p.id) : p.id, " " + what(p)]))));
  }

  // least is what the best of the shortest paths has left, and the worst of them.
  least() {
    const all = this.hops.flat().map((id) => this.ports.get(id) || { id });
    const unknown = all.filter((p) => !p.measured);
    const worst = all.filter((p) => p.measured).reduce((a, b) => (a && a.abw_bps <= b.abw_bps ? a : b), null);
    const rest = unknown.length ? ` Nothing current is known of ${unknown.map((p) => p.id).join(", ")}.` : "";
    if (!worst) return "No port of the path has a current measurement." + rest;
    const best = this.widest();
    if (best && best.abw_bps !== worst.abw_bps) return `On the best path ${rate(best.abw_bps)}, at ${best.id}; on the worst ${rate(worst.abw_bps)}, at ${worst.id}.` + rest;
    return `${unknown.length ? "Of what is known" : "On every path"} ${rate(worst.abw_bps)}, at ${worst.id}.` + rest;
  }

  // widest is the port that limits the path that is limited least; null where none is measured throughout.
  widest() {
    let behind = null; // by device: the limit from there on
    for (const hop of [...this.hops].reverse()) {
      const here = new Map();
      for (const id of hop) {
        const p = this.ports.get(id), next = behind === null ? p : behind.get(this.peers.get(id)?.device);
        if (!p?.measured || !next) continue;
        const limit = next.abw_bps < p.abw_bps ? next : p;
        if (!here.has(p.device) || here.get(p.device).abw_bps < limit.abw_bps) here.set(p.device, limit);
      }
      behind = here;
    }
    return [...(behind || new Map()).values()].reduce((a, b) => (a && a.abw_bps >= b.abw_bps ? a : b), null);
  }
}

const abw = (p) => (p.measured ? p.abw_bps : -1);

function what(p) {
  if (p.measured) return rate(p.abw_bps) + (p.state === "live" ? "" : ` (${p.state})`);
  return p.state ? `${stateOf(p.state).mark} ${p.state}` : "not driven here";
}
