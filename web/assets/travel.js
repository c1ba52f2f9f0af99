// The past of the whole fleet: a slider over what is kept, and the time in the address.
import { address, asked, clock, fromServer, put, time } from "./text.js";

export class Travel {
  // show has the page be as it was then, or as it is now for null.
  constructor(show) {
    Object.assign(this, { show, at: null, want: null, busy: false, step: 10000 });
    this.box = document.getElementById("travel");
    this.slider = document.getElementById("when");
    this.back = document.getElementById("back");
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value) > this.slider.max - this.step ? null : Number(this.slider.value)));
    this.back.addEventListener("click", () => {
      this.go(null);
      this.slider.focus();
    });
    this.first = asked();
  }

  // kept has the slider span what is kept. The first time that it is called the page is there.
  kept(since, now) {
    const from = Date.parse(since) || 0;
    this.box.hidden = !from && this.first === null && this.want === null;
    if (from) {
      this.slider.min = now - Math.floor((now - from) / this.step) * this.step; // so that a step is now
      this.slider.max = now;
      this.slider.step = this.step;
    }
    this.place();
    if (this.first !== null) {
      this.go(this.first);
      this.first = null;
    }
  }

  place() {
    this.slider.value = this.want ?? this.slider.max;
    const text = this.want === null ? "now" : time(this.want);
    put(document.getElementById("then"), text);
    this.slider.setAttribute("aria-valuetext", text);
    this.back.hidden = this.want === null;
  }

  // go looks at another time. One question is open at a time: a slider that moves asks for where it is then.
  async go(ms) {
    this.want = ms;
    this.place();
    if (this.busy) return;
    this.busy = true;
    while (this.want !== this.at) {
      const want = this.want;
      let a = null;
      if (want !== null) {
        try {
          const r = await fromServer("/api/v1/past?at=" + want);
          if (!r.ok) throw new Error(String(r.status));
          a = await r.json();
        } catch {
          a = { error: "The server does not answer: move the slider again.", devices: [], ports: [], worst: [] };
        }
        if (this.want === null) continue; // back to now meanwhile
      }
      this.at = want;
      address({ at: want === null ? null : new Date(want).toISOString() }); // and not of each place that the slider passes
      if (a?.every_ns) this.step = a.every_ns / 1e6;
      clock.at = want === null ? null : Date.parse(a.at) || want;
      document.body.classList.toggle("past", want !== null);
      this.show(a, want);
    }
    this.busy = false;
  }
}
