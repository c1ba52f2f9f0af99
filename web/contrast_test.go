package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/web/webtest"
)

// contrast is the colours of the page that are none of the reader's own, in high contrast: texts, lines and boxes that
// are shown. What the reader has is asked of the browser.
const contrast = `(() => {
	const probe = document.createElement("span");
	document.body.append(probe);
	const own = new Map();
	for (const name of ["Canvas", "CanvasText", "LinkText", "VisitedText", "ActiveText", "GrayText", "Highlight", "HighlightText", "ButtonFace", "ButtonText", "ButtonBorder", "Field", "FieldText"]) {
		probe.style.color = name;
		const is = getComputedStyle(probe).color;
		if (!own.has(is)) own.set(is, name);
	}
	probe.remove();
	const out = new Set(), about = (e) => e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + (e.getAttribute("class") ? "." + e.getAttribute("class") : "");
	const want = (e, what, v) => v && v !== "none" && !/, 0\)$/.test(v) && !own.has(v) && out.add(about(e) + " " + what + " " + v);
	for (const e of document.querySelectorAll("body, body *")) {
		if (!e.getClientRects().length) continue;
		const s = getComputedStyle(e);
		if (e instanceof SVGElement) {
			if (e instanceof SVGGeometryElement || e.tagName === "text") want(e, "fill", s.fill), want(e, "stroke", s.stroke);
			if (e.tagName === "text" && own.get(s.fill) === own.get(s.stroke)) out.add(about(e) + " is invisible");
			continue;
		}
		want(e, "color", s.color);
		want(e, "background", s.backgroundColor);
		if (s.borderTopStyle !== "none" && s.borderTopWidth !== "0px") want(e, "border", s.borderTopColor);
		if ([...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) && (s.color === s.backgroundColor || s.forcedColorAdjust !== "none" && own.get(s.color) === "Canvas")) out.add(about(e) + " is invisible");
	}
	return [...out];
})()`

// TestLongHighContrast: with the reader's own colours alone all levels and signs are told apart, and what has the
// focus is seen.
func TestLongHighContrast(t *testing.T) {
	t.Parallel()
	m := newMeshed(t, 2, 2)
	loads := map[string]uint64{"leaf2:Ethernet0": 97e9, "leaf2:Ethernet4": 88e9, "leaf2:Ethernet8": 60e9}
	for _, l := range m.loads {
		load, ok := loads[l.device+":"+l.port]
		if !ok {
			load = 10e9
		}
		m.set(l.device, l.port, loaded(100e9, load))
	}
	m.set("leaf1", "Ethernet4", func(p *api.Port) {
		p.State, p.Reason, p.WindowStart, p.WindowEnd, p.Signals = api.StateStale, "the lease ended 3s ago", nil, nil, nil
	})
	m.lie("leaf1:Ethernet4", 10e9)
	m.set("spine1", "Ethernet4", func(p *api.Port) {
		p.State, p.WindowStart, p.WindowEnd, p.Signals = api.StateDown, nil, nil, nil
	})
	m.lie("spine1:Ethernet4", 10e9)
	host := serveMeshed(t, m)
	b := webtest.New(t, webtest.Options{}, host)
	b.Prefer("forced-colors", "active")
	b.Window(1440, 900)
	b.Open("http://" + host + "/?from=gpu-1&to=gpu-5")
	b.Await(`["l0", "l1", "l2", "l3"].every((l) => document.querySelector("#matrix td[data-level=" + l + "]")) && document.getElementById("by-tags").textContent && document.querySelectorAll("#worst li").length === 5`)
	webtest.Eval[bool](b, `document.querySelector("#matrix td[data-level=l0]").click() ?? true`)
	b.Await(`document.querySelectorAll("#pair-rows tr").length === 8`)
	if wrong := webtest.Eval[[]string](b, contrast); len(wrong) > 0 {
		t.Errorf("colours that are not the reader's: %s", strings.Join(wrong, "\n"))
	}
	// apart wants what a list of elements looks like to be different for each.
	apart := func(what, look string, selectors ...string) {
		t.Helper()
		seen := make(map[string]string)
		for _, s := range selectors {
			got := webtest.Eval[string](b, fmt.Sprintf(`((e) => { if (!e) return "none"; const s = getComputedStyle(e); return %s; })(document.querySelector(%q))`, look, s))
			if other := seen[got]; other != "" || got == "none" {
				t.Errorf("%s: %s looks like %s: %s", what, s, other, got)
			}
			seen[got] = s
		}
	}
	apart("links of the legend", `s.strokeWidth + " " + s.strokeDasharray`, `#legend [data-level="l3"]`, `#legend [data-level="l2"]`, `#legend [data-level="l1"]`, `#legend [data-level="l0"]`, `#legend [data-level="down"]`, `#legend [data-level="stale"]`, `#legend [data-level="none"]`)
	apart("cells", `s.backgroundColor + s.borderTopStyle + s.borderTopColor`, `#matrix td[data-level="l3"]`, `#matrix td[data-level="l2"]`, `#matrix td[data-level="l1"]`, `#matrix td[data-level="l0"]`)
	if n := webtest.Eval[int](b, `new Set([...document.querySelectorAll("#matrix td[data-level=l3]")].map((td) => getComputedStyle(td).borderTopColor)).size`); n != 1 {
		t.Errorf("cells of one level have %d looks", n)
	}
	apart("a bar", `s.fill`, "#worst .all", "#worst .used")

	// What has the focus has an outline that is no other colour of the page.
	webtest.Eval[bool](b, `document.querySelector("#limits a").focus() ?? true`)
	for range 20 {
		b.Type(kb.Tab)
		if webtest.Eval[bool](b, `document.activeElement.matches("#matrix td")`) {
			break
		}
	}
	const outline = `((s) => s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 && s.outlineColor !== s.color && s.outlineColor !== s.backgroundColor)(getComputedStyle(document.activeElement))`
	if !webtest.Eval[bool](b, `document.activeElement.matches("#matrix td") && `+outline) {
		t.Errorf("the cell that has the focus is not seen")
	}
	if unnamed := b.Unnamed(); len(unnamed) > 0 {
		t.Errorf("without a name: %q", unnamed)
	}
	picture(t, b, "contrast")
	for _, page := range []string{"/port?device=leaf2&port=Ethernet0", "/plan"} {
		b.Open("http://" + host + page)
		b.Await(`document.querySelector("h2") && document.readyState === "complete" && document.getElementById("live")?.textContent !== "Connecting …" && (location.pathname !== "/port" || document.querySelector("#load .line"))`)
		if wrong := webtest.Eval[[]string](b, contrast); len(wrong) > 0 {
			t.Errorf("%s: colours that are not the reader's: %s", page, strings.Join(wrong, "\n"))
		}
	}
	b.Window(390, 844)
	b.Open("http://" + host + "/")
	b.Await(`document.querySelector("#matrix td[data-level=l0]")`)
	picture(t, b, "contrast-390")
}
