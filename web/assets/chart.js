// Lines over time.
import { svg, time } from "./text.js";

const high = 220, right = 14, top = 24, bottom = 26;
const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600]; // s between times on the axis

// chart draws samples from begin to end, in ms, into a box. Lines are told apart by dashes and by names beside
// colours; a value that is null is a gap. ticks are the values on the axis, the lowest first; marks are instants
// with a text; now is the instant that is looked at, 0 for the last.
export function chart(box, { title, samples, begin, end, unit, lines, ticks, marks = [], now = 0 }) {
  const shown = samples.filter((s) => s[0] >= begin && s[0] <= end);
  if (!shown.some((s) => lines.some((l) => l.of(s) !== null))) {
    box.replaceChildren(samples.length ? "Nothing was measured in this time." : "Nothing has been measured yet.");
    return;
  }
  const labels = ticks.map(unit), left = 14 + 6.3 * Math.max(...labels.map((l) => l.length));
  const width = Math.max(300, Math.min(1100, box.clientWidth || 900));
  const low = ticks[0], most = ticks[ticks.length - 1];
  const x = (t) => left + ((t - begin) / (end - begin)) * (width - left - right);
  const y = (v) => top + (1 - (v - low) / (most - low || 1)) * (high - top - bottom);
  const newest = lines.map((l) => `${l.name} ${last(shown, l, unit)}`).join(", ");
  const root = svg("svg", { viewBox: `0 0 ${width} ${high}`, width, height: high, role: "img", "aria-label": `${title}, ${time(begin)} to ${time(end)}. ${now ? "At the end" : "Now"}: ${newest}. The table below has the samples.` });
  ticks.forEach((v, i) => {
    root.append(svg("line", { x1: left, x2: width - right, y1: y(v), y2: y(v), class: "grid" }));
    root.append(svg("text", { x: left - 6, y: y(v) + 4, class: "axis end" }, labels[i]));
  });
  const step = 1000 * (steps.find((s) => ((end - begin) / 1000 / s) * 80 < width - left) || 7200);
  for (let t = Math.ceil(begin / step) * step; t <= end; t += step) {
    root.append(svg("line", { x1: x(t), x2: x(t), y1: top, y2: high - bottom + 4, class: "grid" }));
    if (x(t) < width - 28) root.append(svg("text", { x: x(t), y: high - 8, class: "axis" }, time(t).slice(-8)));
  }
  for (const m of marks) {
    if (m.at < begin || m.at > end) continue;
    root.append(svg("g", { class: "event" }, svg("title", {}, `${time(m.at)} ${m.text}`), svg("line", { x1: x(m.at), x2: x(m.at), y1: top, y2: high - bottom }), svg("text", { x: x(m.at), y: top }, "▼")));
  }
  if (now) root.append(svg("g", { class: "then" }, svg("line", { x1: x(now), x2: x(now), y1: top - 4, y2: high - bottom })));
  const wide = (l) => 60 + 6.5 * (l.label || l.name).length;
  let at = left + lines.reduce((sum, l) => sum + wide(l), 0) > width ? 2 : left;
  lines.forEach((l) => {
    root.append(svg("path", { d: path(shown, l, x, y, most), class: `line k${l.kind}` }));
    root.append(svg("line", { x1: at, x2: at + 30, y1: 10, y2: 10, class: `line k${l.kind}` }), svg("text", { x: at + 36, y: 14, class: "axis start" }, l.label || l.name));
    at += wide(l);
  });
  box.replaceChildren(root);
}

function path(samples, l, x, y, most) {
  let d = "", pen = false;
  for (const s of samples) {
    const v = l.of(s);
    if (v === null || v > most) {
      pen = false;
      continue;
    }
    const at = `${x(s[0]).toFixed(1)} ${y(v).toFixed(1)}`;
    if (!pen) d += `M${at}h0.5`;
    else d += l.steps ? `H${x(s[0]).toFixed(1)}V${y(v).toFixed(1)}` : `L${at}`;
    pen = true;
  }
  return d;
}

function last(samples, l, unit) {
  const v = l.of(samples[samples.length - 1]);
  return v === null ? "none" : unit(v);
}

// nice is a round number at or above v.
export function nice(v) {
  if (v <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(v));
  return [1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10].map((k) => k * unit).find((k) => k >= v);
}
