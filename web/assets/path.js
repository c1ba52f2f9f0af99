// From A to B: the least that the ports on the way have left, by the switches' own numbers.
import { places } from "./pair.js";
import { address, age, clock, el, fromServer, percent, portPage, put, rate, stateOf } from "./text.js";

const every = 2000; // ms between two looks at what tags have read

export class Path {
  constructor(ports, changed) {
    Object.assign(this, { ports, changed, hops: [], tags: null, peers: new Map(), shown: "" });
    setInterval(() => this.tags && clock.at === null && !document.hidden && this.ask(), every);
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
    if (from !== this.ends?.[0] || to !== this.ends[1]) this.came = 0;
    this.ends = [from, to];
    address(from && to ? { from, to } : { from: null, to: null });
    let a = { error: "", hops: [], tags: null };
    if (from && to) {
      try {
        a = await (await fromServer("/api/v1/path?" + new URLSearchParams({ from, to }))).json();
      } catch {
        if (this.came) return; // what is shown has its age
        a.error = "The server does not answer: try again.";
      }
    }
    if (own !== this.asked) return; // there is a newer question
    [this.hops, this.tags, this.came] = [a.hops, a.tags, Date.now()];
    this.error = a.error;
    this.draw();
    this.changed();
  }

  draw() {
    const text = this.error || (this.hops.length ? this.least() : "");
    put(document.getElementById("path"), this.tags && clock.at === null && text && !this.error ? "By the switches: " + text[0].toLowerCase() + text.slice(1) : text);
    this.drawTags();
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

  // drawTags has what tags have read beside what the switches say, and says where these are not the same.
  drawTags() {
    const t = clock.at === null ? this.tags : null, all = this.hops.flat().map((id) => this.ports.get(id));
    const box = document.getElementById("by-tags"), what = t ? tagText(t) : "";
    const at = t?.read && !t.note ? t.ports : [];
    if (box.shown !== what + at) {
      box.shown = what + at;
      box.replaceChildren(what, ...(at.length ? [", at ", ...places(this.ports, at), "."] : []));
    }
    let differ = "", ages = "";
    if (t?.read && all.length) {
      const key = t.signal === "abwc" ? "abwc_ppm" : "abw_bps", show = t.signal === "abwc" ? percent : rate;
      const known = all.filter((p) => p?.measured), worst = known.reduce((a, b) => (a && a[key] <= b[key] ? a : b), null), best = this.widest(key);
      // Probes may have gone by any of the paths: what they read is between the worst and the best of them.
      if (t.note !== "stale" && best && all.every((p) => p?.measured && p.state === "live") && (t.high < worst[key] || t.low > best[key])) {
        differ = `These differ by more than a bucket: ${t.high < worst[key] ? `no switch on the way has less than ${show(worst[key])}` : `${best.id} has ${show(best[key])}`}. Where that lasts, a rule is not as csig wrote it, or frames go another way.`;
      }
      if (worst?.ended) ages = `The switches' figure is ${age(clock.now() - Date.parse(worst.ended))} old, that of the tags ${age(t.age_ns / 1e6 + Date.now() - this.came)}.`;
    }
    put(document.getElementById("differ"), differ);
    put(document.getElementById("ages"), ages);
  }

  // widest is the port that limits the path that is limited least; null where none is measured throughout.
  widest(key = "abw_bps") {
    let behind = null; // by device: the limit from there on
    for (const hop of [...this.hops].reverse()) {
      const here = new Map();
      for (const id of hop) {
        const p = this.ports.get(id), next = behind === null ? p : behind.get(this.peers.get(id)?.device);
        if (!p?.measured || !next) continue;
        const limit = next[key] < p[key] ? next : p;
        if (!here.has(p.device) || here.get(p.device)[key] < limit[key]) here.set(p.device, limit);
      }
      behind = here;
    }
    return [...(behind || new Map()).values()].reduce((a, b) => (a && a[key] >= b[key] ? a : b), null);
  }
}

// tagText is what tags have read, without the ports.
function tagText(t) {
  if (t.note === "stale") return "By tags: stale, a switch on the way has no current signal.";
  if (t.note === "none") return "By tags: as sent, no switch on the way has less.";
  return t.read ? `By tags: ${t.range}` : `By tags: nothing is read (${t.state}).`;
}

const abw = (p) => (p.measured ? p.abw_bps : -1);

function what(p) {
  if (p.measured) return rate(p.abw_bps) + (p.state === "live" ? "" : ` (${p.state})`);
  return p.state ? `${stateOf(p.state).mark} ${p.state}` : "not driven here";
}
