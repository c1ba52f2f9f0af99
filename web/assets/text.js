// Numbers and states as text, and elements made of text. Nothing here or elsewhere parses
// markup: what devices say is text and stays text.

// clock is the time that is looked at, in ms: at, or now where it is null. skew is the server's clock minus the browser's.
export const clock = { skew: 0, at: null, now: () => clock.at ?? Date.now() + clock.skew };

// address changes values in the page's address; null takes one out.
export function address(values) {
  const query = new URLSearchParams(location.search);
  for (const [k, v] of Object.entries(values)) v === null ? query.delete(k) : query.set(k, v);
  const text = query.toString();
  history.replaceState(null, "", text ? "?" + text : location.pathname);
}

// asked is the time that the page's address asks for, in ms: null where it asks for none, and where it is none that can be read.
export function asked() {
  const text = new URLSearchParams(location.search).get("at") ?? "";
  const ms = /^\d{12,14}$/.test(text) ? Number(text) : /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : NaN;
  if (Number.isFinite(ms)) return ms;
  address({ at: null });
  return null;
}

// rate writes bit/s with three significant digits, as csig status does.
export function rate(v) {
  for (const [prefix, unit] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (v >= unit * 0.9995) return digits(v / unit) + " " + prefix + "bit/s";
  }
  return digits(v) + " bit/s";
}

function digits(v) {
  return v >= 100 ? v.toFixed(0) : String(Number(v.toPrecision(3)));
}

// brief is a rate where there is little room: 34.2G.
export const brief = (v) => rate(v).replace("bit/s", "").replace(" ", "");

export const whole = (ppm) => (ppm < 10000 ? (ppm / 1e4).toFixed(1) : String(Math.floor(ppm / 1e4))) + " %";

const two = (n) => String(n).padStart(2, "0");

// time is the time of day where the browser is, with its date unless that is today.
export function time(ms, digits = 0) {
  const t = new Date(ms), clock = `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}` + (digits ? "." + String(t.getMilliseconds()).padStart(3, "0").slice(0, digits) : "");
  return t.toDateString() === new Date().toDateString() ? clock : `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ${clock}`;
}

// Both are rounded down: what is below a limit is not written as the limit.
export const percent = (ppm) => (Math.floor(ppm / 1000) / 10).toFixed(1) + " %";

// age writes how long ago something was.
export function age(ms) {
  if (ms < 0) ms = 0;
  if (ms < 10000) return (ms / 1000).toFixed(1) + " s";
  const s = Math.round(ms / 1000);
  if (s < 120) return s + " s";
  if (s < 7200) return Math.round(s / 60) + " min";
  return Math.round(s / 3600) + " h";
}

// el makes an element. Attributes with the value null are left out; children are elements
// or texts.
export function el(name, attrs = {}, ...children) {
  return fill(document.createElement(name), attrs, children);
}

export function svg(name, attrs = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attrs, children);
}

function fill(e, attrs, children) {
  for (const [k, v] of Object.entries(attrs)) if (v !== null && v !== undefined) e.setAttribute(k, v);
  e.append(...children.filter((c) => c !== null));
  return e;
}

// put changes an element's text where it is another: what is the same is not announced again,
// and costs no layout.
export function put(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

// The states of ports: a mark beside the word, whether the port needs a look, and its place
// among them.
export const states = {
  refused: { mark: "✕", look: true, order: 0 },
  lost: { mark: "!", look: true, order: 1 },
  stale: { mark: "?", look: true, order: 2 },
  unknown: { mark: "?", look: true, order: 3 },
  gone: { mark: "✕", look: true, order: 4 },
  waiting: { mark: "…", look: true, order: 5 },
  down: { mark: "▼", look: true, order: 6 },
  live: { mark: "●", look: false, order: 7 },
  passthrough: { mark: "→", look: false, order: 8 },
  strip: { mark: "–", look: false, order: 9 },
};

export const stateOf = (name) => states[name] || { mark: "?", look: true, order: 3 };

// level is how much of its capacity a port has left, as the map and the bars show it.
export function level(p) {
  if (p.state === "down") return "down";
  if (p.state === "passthrough" || p.state === "strip") return "none";
  if (p.state !== "live") return p.state === "refused" || p.state === "lost" || p.state === "gone" ? "refused" : "stale";
  if (p.abwc_ppm < 50000) return "l0";
  if (p.abwc_ppm < 200000) return "l1";
  if (p.abwc_ppm < 500000) return "l2";
  return "l3";
}

export const levels = {
  l3: "at least 50 % left",
  l2: "20 to 50 % left",
  l1: "5 to 20 % left",
  l0: "less than 5 % left: a bottleneck",
  down: "link down",
  stale: "stale or waiting: no current measurement",
  refused: "refused, or rules lost",
  none: "not driven here, or no measurement",
};

// worst is the level that stands for several ports.
const severity = ["none", "l3", "l2", "l1", "l0", "down", "stale", "refused"];
export const worst = (list) => list.reduce((a, b) => (severity.indexOf(b) > severity.indexOf(a) ? b : a), "none");

export const signals = (p) => p.signals.map((g) => `${g.signal} ${g.s} (${g.stale ? "stale" : g.locator})${g.doubtful ? " ?" : ""}`).join(", ");

export const portPage = (p) => "/port?" + new URLSearchParams({ device: p.device, port: p.port, ...(clock.at === null ? {} : { at: new Date(clock.at).toISOString() }) });

// fromServer fetches a path, for 10 s at most: a network path that dies without a reset is no error.
export const fromServer = (path, method = "GET") => fetch(new URL(path, location.origin), { method, signal: AbortSignal.timeout(10000) });
