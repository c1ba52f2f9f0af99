// The page of a plan that was handed over.
import { el, fromServer, put } from "./text.js";

const kinds = { "+": "+ add", "~": "~ change", "-": "- remove" };
let shown = "";

async function load() {
  const about = document.getElementById("about");
  let a;
  try {
    const r = await fromServer("/api/v1/plan");
    if (!r.ok) throw new Error(`the server refuses: ${r.status}`);
    a = await r.json();
  } catch (e) {
    put(about, `Not live: ${e.message}`);
    shown = ""; // so that the next answer is drawn, also where it is the same
    return;
  }
  if (JSON.stringify(a) === shown) return;
  shown = JSON.stringify(a);
  if (!a.file) put(about, "No plan was handed over: with --web-plan FILE this page shows what csig plan -o FILE wrote.");
  else if (a.error) put(about, a.error);
  else put(about, `${a.file}: ${a.goal}, made ${a.created} by csig ${a.version}${a.offline ? "; offline: no switch was asked" : ""}`);
  const t = a.totals;
  put(document.getElementById("totals"), a.file && !a.error ? `${t.add} to add, ${t.change} to change, ${t.remove} to remove. ${a.devices.filter((d) => d.state === "pending").length} of ${a.devices.length + a.more} switches with changes are pending.` : "");
  document.getElementById("changes").replaceChildren(...a.devices.flatMap((d) => d.changes.map((c, i) => el("tr", {},
    el("th", { scope: "row" }, d.device), el("td", {}, i ? "" : d.state), el("td", {}, kinds[c.kind] || c.kind), el("td", {}, c.ports || "the switch"),
    el("td", {}, [c.what, c.detail].filter((s) => s).join(": ") + (c.disruptive ? ` (disruptive: ${c.disruptive})` : ""))))));
  put(document.getElementById("rest"), [a.more ? `Left off: ${a.more} more switches, which csig plan shows.` : "", a.same ? `Without a difference: ${a.same}.` : ""].filter((s) => s).join(" "));
  document.getElementById("notes").replaceChildren(...(a.notes.length ? a.notes : ["none"]).map((n) => el("li", {}, n)));
}

load();
setInterval(() => document.hidden || load(), 2000);
