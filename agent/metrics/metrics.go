// Package metrics shows what agents know as Prometheus metrics, and whether they are healthy
// and ready. It reads the agents' Status when it is asked, and keeps nothing in between.
package metrics

import (
	"net/http"

	dto "github.com/prometheus/client_model/go"

	"github.com/csig-agent/csig/agent/api"
)

// Paths of the endpoint.
const (
	Path       = "/metrics" // GET: text of Prometheus or of OpenMetrics, as the client asks
	HealthPath = "/healthz" // GET: 200 while Alive, else 503 with the reasons
	ReadyPath  = "/readyz"  // GET: 200 while Ready, else 503 with the reasons
)

// Device is one device of a process as it is now.
type Device struct {
	Name   string      // as the fleet file has it; "" of an agent that waits for its configuration
	Status *api.Status // nil: its agent does not run

	Shared bool   // several controllers share it
	Own    bool   // of those, this one drives it
	Owner  string // or this one; "" where none is known
}

// runs reports whether the device has an agent that runs a configuration.
func (d *Device) runs() bool { return d.Status != nil && d.Status.Waiting == "" }

// Process is what the metrics of a program are of.
type Process struct {
	Version string
	Devices func() []Device
	More    func() []*dto.MetricFamily // of other parts of the program; nil: none
	Reload  func() *api.Reload         // the last of its fleet file, nil where there was none; no function: that of its only device
}

// Own is a program with the agent of one device.
func Own(version string, status func() *api.Status) Process {
	return Process{Version: version, Devices: func() []Device {
		s := status()
		return []Device{{Name: s.Device, Status: s}}
	}}
}

// maxScrapes is how many scrapes are answered at a time: each holds a status of every device.
const maxScrapes = 2

// Handler answers at the paths of the endpoint.
func Handler(p Process) http.Handler {
	h := &handler{Process: p, scrapes: make(chan struct{}, maxScrapes)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, h.metrics)
	mux.HandleFunc("GET "+HealthPath, h.condition(Alive))
	mux.HandleFunc("GET "+ReadyPath, h.condition(Ready))
	return mux
}

type handler struct {
	Process
	scrapes chan struct{} // a place for each that is answered
}
