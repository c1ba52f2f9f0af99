// The bottlenecks: the ports with the least ABW/C, as the server ranks them.
import { age, clock, el, level, percent, portPage, put, rate, svg, time } from "./text.js";

const wide = 120, high = 26;

export class Worst {
  constructor(ports) {
    this.ports = ports;
    this.list = document.getElementById("worst");
    this.known = new Map();
    this.ranked = [];
    setInterval(() => this.ages(), 1000);
  }

  // take has the server's ranking. What has the focus or the pointer keeps its place.
  take(ranked) {
    this.ranked = ranked.filter((w) => this.ports.has(w.id));
    this.draw();
  }

  peers(known) {
    this.known = known;
    this.draw();
  }

  draw() {
    const held = this.list.matches(":hover") || this.list.contains(document.activeElement);
    const rows = new Map([...this.list.children].map((li) => [li.dataset.port, li]));
    const ids = new Set(this.ranked.map((w) => w.id));
    for (const [id, li] of rows) if (!ids.has(id)) li.remove();
    this.ranked.forEach((w, i) => {
      let li = rows.get(w.id);
      if (!li) {
        li = row(w, this.ports.get(w.id));
        this.list.append(li);
      }
      if (!held && this.list.children[i] !== li) this.list.insertBefore(li, this.list.children[i] || null);
      this.fill(li, w, i + 1);
    });
    document.getElementById("no-worst").hidden = this.ranked.length > 0;
  }

  fill(li, w, rank) {
    const p = this.ports.get(w.id), [place, name, bar, figure, spark, since] = li.children;
    li.dataset.level = level(p);
    li.bottleneck = w;
    put(place, String(rank));
    const peer = this.known.get(p.id);
    put(name.children[1], peer ? " → " + peer.text : "");
    bar.firstChild.children[1].setAttribute("width", (100 * (1e6 - p.abwc_ppm)) / 1e6);
    put(figure.children[0], percent(p.abwc_ppm) + " left");
    put(figure.children[1], rate(p.abw_bps));
    line(spark.firstChild, w.spark);
    put(since, sinceText(w));
  }

  ages() {
    for (const li of this.list.children) put(li.lastChild, sinceText(li.bottleneck));
  }
}

function row(w, p) {
  return el("li", { "data-port": w.id },
    el("span", { class: "rank", "aria-hidden": "true" }),
    el("span", { class: "who" }, el("a", { href: portPage(p) }, w.id), el("span", { class: "peer" })),
    el("span", { class: "bar" }, svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", { width: 100, height: 10, class: "all" }), svg("rect", { width: 0, height: 10, class: "used" }))),
    el("span", { class: "figure" }, el("strong"), el("span")),
    el("span", { class: "spark" }, svg("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img" }, svg("line", { x1: 0, x2: wide, y1: high - 1, y2: high - 1, class: "grid" }), svg("path", { class: "line k0" }))),
    el("span", { class: "since" }));
}

// line draws ABW/C, from none of the capacity at the bottom to all of it at the top.
function line(root, spark) {
  let d = "", pen = false;
  spark.forEach((ppm, i) => {
    if (ppm < 0) return (pen = false);
    d += `${pen ? "L" : "M"}${((i + 0.5) * wide) / spark.length} ${(1 + (1 - ppm / 1e6) * (high - 2)).toFixed(1)}${pen ? "" : "h0.5"}`;
    pen = true;
  });
  root.lastChild.setAttribute("d", d);
  const known = spark.filter((ppm) => ppm >= 0);
  const about = known.length ? `ABW/C in the last 5 minutes: ${percent(Math.min(...known))} to ${percent(Math.max(...known))}` : "nothing was measured in the last 5 minutes";
  if (root.getAttribute("aria-label") !== about) root.setAttribute("aria-label", about);
}

function sinceText(w) {
  if (!w.below_ppm) return "has at least half";
  const at = Date.parse(w.since);
  if (clock.at !== null) return `below ${w.below_ppm / 1e4} % at all times that are kept since ${w.before ? "before " : ""}${time(at)}`;
  if (w.before) return `below ${w.below_ppm / 1e4} % since before ${time(at)}`;
  const ago = clock.now() - at;
  return `below ${w.below_ppm / 1e4} % since ${time(at)}` + (ago < 10000 ? "" : `, ${age(ago)}`);
}
