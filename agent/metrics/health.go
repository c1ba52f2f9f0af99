package metrics

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// maxReasons bounds an answer of HealthPath and ReadyPath.
const maxReasons = 20

// condition answers 200 where it holds for all devices, else 503 with why not, a line each.
func (h *handler) condition(unmet func(d *Device) []string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
		var lines []string
		for _, d := range h.Devices() {
			for _, why := range unmet(&d) {
				if d.Name != "" {
					why = "device " + untrusted.Text(d.Name, maxLabel) + ": " + why
				}
				lines = append(lines, why)
			}
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if len(lines) == 0 {
			_, _ = io.WriteString(w, "ok\n")
			return
		}
		if more := len(lines) - maxReasons; more > 0 {
			lines = append(lines[:maxReasons], fmt.Sprintf("and %d more", more))
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, strings.Join(lines, "\n")+"\n")
	}
}

// Alive is why the agent of a device does not work; nothing where it does. One that waits for a
// configuration works, and so does one whose cycles fail: a restart would repair neither.
func Alive(d *Device) []string {
	if d.Status == nil {
		return []string{"its agent does not run"}
	}
	if d.Status.Cycle.Hangs {
		return []string{"no cycle has ended for longer than three leases"}
	}
	return nil
}

// Ready is why a device is not ready; nothing where it is set up, its counters were read, and every
// port writes or removes what its configuration says. A port whose link is down is ready. A device
// that another controller drives is that one's.
func Ready(d *Device) (why []string) {
	s := d.Status
	switch {
	case s == nil:
		return Alive(d)
	case d.Shared && !d.Own && d.Owner != "":
		return nil
	case s.Waiting != "":
		return []string{"no configuration runs"}
	case s.Cycle.Count == 0:
		why = append(why, "no cycle has completed yet")
	case s.SetupIncomplete:
		why = append(why, "its setup is not complete")
	}
	for i := range s.Ports {
		p := &s.Ports[i]
		switch p.State {
		case api.StateLive, api.StateDown, api.StateStrip, api.StatePassthrough:
		default:
			text := "port " + untrusted.Text(p.Port, maxLabel) + " is " + p.State
			if p.Code != "" {
				text += " (" + string(p.Code) + ")"
			}
			why = append(why, text)
		}
	}
	return why
}
