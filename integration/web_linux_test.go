package integration

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/web/webtest"
)

// TestLongPageOfAKernelSwitch has a Chromium follow the page of a real agent while the load of its
// port changes: the page shows what the agent writes into frames.
func TestLongPageOfAKernelSwitch(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	b.setLoad(t, roomy)
	a := b.start(t, "--web", "127.0.0.1:8080")
	a.await("a live port", live)
	page := webtest.New(t, webtest.Options{Wrap: []string{"nsenter", fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), b.s1.FD())}}, "127.0.0.1:8080")
	page.Open("http://127.0.0.1:8080/")
	page.Await(`document.querySelector("#rows th")?.textContent === "s1:swp3"`)
	page.Await(`document.querySelectorAll("#map .switch, #map .host").length === 2`)
	shows := func(load uint64) {
		t.Helper()
		page.Await(fmt.Sprintf(`document.querySelector("#rows tr").children[6].textContent.startsWith("abw %d (5), abwc %d (9)")`, b.want(quantize.MinABW, load), b.want(quantize.MinABWC, load)))
	}
	shows(roomy)
	busy := midLoads(t, b, 3)[0]
	b.setLoad(t, busy)
	shows(busy)
	b.setLoad(t, roomy)
	shows(roomy)

	// The port's page has the agent's own records of it.
	page.Open("http://127.0.0.1:8080/port?device=s1&port=swp3")
	page.Await(fmt.Sprintf(`[...document.querySelectorAll("#why tr")].some((tr) => tr.children[4].textContent.includes("abw %d: ") && tr.children[6].textContent.includes("acknowledged after"))`, b.want(quantize.MinABW, busy)))
	page.Await(`document.querySelector("#load svg") && document.querySelectorAll("#s svg").length === 2`)
	page.Open("http://127.0.0.1:8080/")
	page.Await(`document.querySelector("#rows th")`)
	shows(roomy)

	// The agent is gone: the page says that it is not live, and does not show its last values as new.
	if err := a.signal(syscall.SIGKILL); err == nil {
		t.Error("the agent ended well")
	}
	page.Await(`document.body.classList.contains("late") && document.getElementById("live").textContent.startsWith("Not live")`)
	page.Problems() // of the connection that is gone
}
