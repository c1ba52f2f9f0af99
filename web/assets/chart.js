// Lines over time.
import { svg } from "./text.js";

const width = 900, height = 220, left = 92, right = 12, top = 22, bottom = 26;

// chart draws samples into a box. Lines are told apart by dashes and by names beside colours; a
// value that is null is a gap.
export function chart(box, { title, samples, unit, lines, ticks, zero }) {
  const values = samples.flatMap((s) => lines.map((l) => l.of(s))).filter((v) => v !== null);
  if (values.length === 0) {
    box.replaceChildren("Nothing has been measured yet.");
    return;
  }
  const end = samples[samples.length - 1][0], begin = Math.min(samples[0][0], end - 10000);
  const high = ticks ? ticks[4] : nice(Math.max(...values)), low = ticks || zero ? 0 : Math.min(...values);
  const x = (t) => left + ((t - begin) / (end - begin)) * (width - left - right);
  const y = (v) => top + (1 - (v - low) / (high - low || 1)) * (height - top - bottom);
  const newest = lines.map((l) => `${l.name} ${last(samples, l, unit)}`).join(", ");
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title} over the last ${Math.round((end - begin) / 1000)} seconds. Now: ${newest}. The table below has the samples.` });
  for (let i = 0; i <= 4; i++) {
    const v = ticks ? ticks[i] : low + ((high - low) * i) / 4;
    root.append(svg("line", { x1: left, x2: width - right, y1: y(v), y2: y(v), class: "grid" }));
    root.append(svg("text", { x: left - 6, y: y(v) + 4, class: "axis end" }, unit(v)));
    const t = begin + ((end - begin) * i) / 4;
    root.append(svg("text", { x: x(t), y: height - 8, class: i === 4 ? "axis end" : i === 0 ? "axis start" : "axis" }, i === 4 ? "the last" : `-${((end - t) / 1000).toFixed(end - begin < 60000 ? 1 : 0)} s`));
  }
  lines.forEach((l, i) => {
    root.append(svg("path", { d: path(samples, l, x, y), class: `line k${l.kind}` }));
    const at = left + 150 * i;
    root.append(svg("line", { x1: at, x2: at + 30, y1: 10, y2: 10, class: `line k${l.kind}` }), svg("text", { x: at + 36, y: 14, class: "axis start" }, l.name));
  });
  box.replaceChildren(root);
}

function path(samples, l, x, y) {
  let d = "", pen = false;
  for (const s of samples) {
    const v = l.of(s);
    if (v === null) {
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
function nice(v) {
  if (v <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 4, 5, 10].map((k) => k * unit).find((k) => k >= v);
}
