package web

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/hosts/mesh"
	"github.com/csig-agent/csig/web/webtest"
)

var update = flag.Bool("update", false, "take the pictures of docs/page again, and write down the elements of the pages")

// elementsFile has what is on the pages of TestLongPictures.
const elementsFile = "testdata/elements.txt"

// elements is what a page shows, in its order: sections with the columns of twelve that they take, and on a wide screen
// whether they begin on the first one; headings, controls, tables with their columns, lists and graphics with what one of their items is
// made of. Figures and names of ports are not part of it, as they change with the load.
const elements = `(() => {
	const out = [], width = document.documentElement.clientWidth;
	const words = (s) => s.replace(/\s+/g, " ").trim();
	const shown = (e) => e.checkVisibility() && e.getBoundingClientRect().width > 1;
	const label = (e) => words(e.getAttribute("aria-label") ?? (e.tagName === "SELECT" ? e.labels[0].firstChild.textContent : [...e.labels ?? []].map((l) => l.textContent).join(" ")));
	const made = (e) => [...new Set([...e.querySelectorAll("*")].map((c) => c.tagName.toLowerCase() + (c.classList[0] ? "." + c.classList[0] : "")))].join(" ");
	const place = (e) => {
		const r = e.getBoundingClientRect();
		return " [" + Math.round(12 * r.left / width) + "–" + Math.round(12 * r.right / width) + "]" + (width > 600 && r.top < innerHeight ? " on the first screen" : "");
	};
	const walk = (e, indent) => {
		if (!shown(e)) return;
		const tag = e.tagName.toLowerCase(), id = e.id ? "#" + e.id : "";
		const say = (text) => out.push("  ".repeat(indent) + text);
		switch (tag) {
		case "header": case "main": case "nav": case "section": case "form": case "div": case "details":
			if (e.id === "map") {
				say("map: " + ["switch", "host", "badge"].map((c) => e.querySelectorAll("." + c).length + " " + c).join(", ") + (e.querySelector("text.figure") ? ", figures" : "") + place(e));
				return;
			}
			if (tag === "div" && !e.id && !e.querySelector("*")) return;
			if (tag !== "div") say(tag + id + (tag === "section" ? place(e) : "")), indent++;
			if (tag === "details" && !e.open) { say("folded: " + words(e.querySelector("summary").textContent).replace(/[0-9]+/g, "N")); return; }
			break;
		case "h1": case "h2": case "h3": say(tag + id + (e.querySelector("*") || e.id === "name" ? "" : " " + words(e.textContent))); return;
		case "table": {
			const head = [...e.querySelectorAll("thead th")].filter(shown).map((th) => words(th.textContent).replace(/[▲▼↑↓]/g, "").trim());
			say("table" + (e.closest("#mesh") && e.id === "matrix" ? " of " + (head.length || e.rows.length) : " " + head.join(" | ")) + (e.tBodies[0]?.rows.length ? "" : ", empty"));
			return;
		}
		case "ol": case "ul": case "dl":
			say(tag + id + (label(e) ? " " + label(e) : "") + ": " + (e.children.length ? (e.id === "worst" ? e.children.length + " of " : "items of ") + made(e.children[0]) : "empty"));
			return;
		case "svg": say("svg" + id + (e.getAttribute("role") ? " " + e.getAttribute("role") : "")); return;
		case "p": if (!e.querySelector("input, select, button, a, output")) { if (words(e.textContent) && !e.matches(".hint")) say("p" + id); return; } say("p" + id); indent++; break;
		case "a": say("link" + (e.closest("main") ? "" : " " + words(e.textContent))); return;
		case "input": case "select": say(tag + (tag === "input" ? " " + e.type : "") + id + " " + label(e)); return;
		case "button": say("button " + words(e.textContent)); return;
		}
		for (const c of e.children) walk(c, indent);
	};
	for (const c of document.body.children) walk(c, 0);
	return out.join("\n") + "\n";
})()`

// TestLongPictures: the pages of live fleets of 4 to 100 switches whose load moves are legible on wide and narrow screens,
// light and dark, and have the elements that they had when the pictures of docs/page were taken and looked at. With -update
// it takes them again, after a minute of load; with -pictures DIR it keeps whole pages.
func TestLongPictures(t *testing.T) {
	seen := readElements(t)
	for _, c := range []struct{ leaves, spines int }{{2, 2}, {36, 4}, {92, 8}} {
		n := c.leaves + c.spines
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			m := newMeshed(t, c.leaves, c.spines)
			m.loads[2].mean, m.loads[2].swing = 0.955, 0.03 // one port that limits the others
			m.run(t)
			meshed := len(m.hosts) <= mesh.MostMatrix
			var host string
			if meshed {
				host = serveMeshed(t, m)
			} else {
				host = serve(t, m.fleet, m.names, m.agents)
			}
			b := webtest.New(t, webtest.Options{}, host)
			if *update || *pictures != "" {
				time.Sleep(time.Minute) // of load, for the lines of the last minutes
			}
			whole := fmt.Sprintf(`document.querySelectorAll("#map .switch").length === %d && document.querySelectorAll("#worst li").length === 5`, n)
			if meshed {
				whole += ` && document.querySelector("#matrix td[aria-label]") && document.querySelector("#limits tr")`
			}
			pages := []struct{ name, path, there string }{
				{"fleet", "/", whole + ` && !document.getElementById("travel").hidden`}, // there is a past
				{"past", "/?at=", fmt.Sprintf(`document.querySelectorAll("#map .switch").length === %d && document.querySelectorAll("#worst li").length === 5 && document.body.classList.contains("past")`, n)},
				{"port", "/port?device=leaf1&port=Ethernet208", `document.querySelector("#load svg") && document.querySelector("#s svg") && !document.getElementById("travel").hidden`},
			}
			if meshed {
				pages = append(pages, struct{ name, path, there string }{"pair", "/", `document.querySelector("#matrix td[aria-label]") && (document.getElementById("pair").hidden && document.querySelector("#matrix td[aria-label]").click(), document.querySelectorAll("#pair-rows tr").length === 8)`})
			}
			for _, page := range pages {
				for _, size := range []struct{ width, height int64 }{{1440, 900}, {390, 844}} {
					b.Window(size.width, size.height)
					path := page.path
					if page.name == "past" {
						path += time.Now().UTC().Format(time.RFC3339Nano)
					}
					b.Open("http://" + host + path)
					b.Await(page.there)
					if wide := webtest.Eval[int64](b, `document.documentElement.scrollWidth`); wide > size.width {
						t.Errorf("%s is %d px wide on a screen of %d", page.path, wide, size.width)
					}
					if page.name != "port" {
						legible(t, b)
					} else if cut := webtest.Eval[[]string](b, `[...document.querySelectorAll(".chart text")].filter((e) => e.getBoundingClientRect().right > e.ownerSVGElement.getBoundingClientRect().right).map((e) => e.textContent)`); len(cut) > 0 {
						t.Errorf("%d px wide: the charts cut %q", size.width, cut)
					}
					name := fmt.Sprintf("%s-%d-%d", page.name, n, size.width)
					for _, scheme := range []string{"light", "dark"} {
						b.Prefer("prefers-color-scheme", scheme)
						shown := webtest.Eval[string](b, elements)
						switch want, ok := seen[name]; {
						case *update && scheme == "light":
							seen[name] = shown
						case !ok:
							t.Errorf("%s: nobody has looked at it (make pictures)", name)
						case shown != want:
							t.Errorf("%s, %s: the page has other elements than when its picture was looked at (make pictures): %s", name, scheme, firstOther(want, shown))
						}
						suffix := map[string]string{"light": "", "dark": "-dark"}[scheme]
						picture(t, b, name+suffix)
						if page.name == "fleet" || page.name == "port" {
							firstScreen(t, b, name+suffix)
						}
					}
					b.Prefer("prefers-color-scheme", "light")
				}
			}
		})
	}
	if *update && !t.Failed() {
		writeElements(t, seen)
	}
}

// firstScreen is a picture of docs/page: taken with -update, and else it is there.
func firstScreen(t *testing.T, b *webtest.Browser, name string) {
	t.Helper()
	path := filepath.Join("../docs/page", name+".webp")
	if *update {
		if err := os.WriteFile(path, b.FirstScreen(), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if _, err := os.Stat(path); err != nil {
		t.Errorf("%v (make pictures)", err)
	}
}

// firstOther is the first line that differs.
func firstOther(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("%q, not %q", strings.TrimSpace(g[i]), strings.TrimSpace(w[i]))
		}
	}
	return fmt.Sprintf("%d lines, not %d", len(g), len(w))
}

// readElements are the pages of the file by their names.
func readElements(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(elementsFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for page := range strings.SplitSeq(string(text), "== ") {
		if name, shown, ok := strings.Cut(page, "\n"); ok {
			out[name] = strings.TrimSuffix(shown, "\n")
		}
	}
	return out
}

// writeElements writes them, in the order of their names.
func writeElements(t *testing.T, pages map[string]string) {
	t.Helper()
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		fmt.Fprintf(&out, "== %s\n%s\n", name, pages[name])
	}
	if err := os.WriteFile(elementsFile, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
