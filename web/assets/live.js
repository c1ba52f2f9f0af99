// What the server sends, while the page is looked at.
import { clock, fromServer, put, time } from "./text.js";

const mostSilent = 40000; // ms: the server sends something every 15 s

// follow calls take with each event of the server, and keeps the line that says whether the
// page is live.
export function follow(query, take) {
  const line = document.getElementById("live");
  let source = null, last = 0;
  let heard = 0; // when the source was opened, or last sent something
  let refused = ""; // why, where the server has said so
  const say = () => {
    if (source && Date.now() - heard > mostSilent) { // a path that dies without a reset is no error
      source.close();
      source = null;
      open();
    }
    const live = source !== null && source.readyState === EventSource.OPEN;
    document.body.classList.toggle("late", !live);
    if (live) put(line, "Live");
    else put(line, refused || (last ? `Not live: the last news came at ${time(last)}; connecting again` : "Connecting …"));
  };
  // why asks what an event source does not tell.
  const why = async () => {
    try {
      const r = await fromServer("/api/v1/live" + query, "HEAD");
      refused = r.status === 503 ? "Not live: as many browsers follow this page as it takes: close one" : r.ok ? "" : `Not live: the server refuses: ${r.status}`;
    } catch {
      refused = "";
    }
    say();
  };
  const open = () => {
    if (source || document.hidden) return;
    heard = Date.now();
    source = new EventSource(new URL("/api/v1/live" + query, location.origin)); // without a name and a password of the address bar
    source.onopen = say;
    source.onerror = () => {
      // A server that refuses ends the source; one that is gone is tried again by the browser.
      if (source && source.readyState === EventSource.CLOSED) {
        source = null;
        setTimeout(open, 5000);
        why();
      }
      say();
    };
    source.onmessage = (e) => {
      const d = JSON.parse(e.data);
      last = heard = Date.now();
      refused = "";
      clock.skew = Date.parse(d.now) - last;
      take(d);
      say();
    };
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && source) {
      source.close();
      source = null;
    }
    open();
    say();
  });
  setInterval(say, 5000);
  open();
}
