package mesh

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/vendors"
)

// Where a collector answers.
const (
	RowsPath   = "/v1/mesh/rows" // POST: a Report
	StatusPath = "/v1/mesh"      // GET: a Status
	WhyPath    = "/v1/mesh/why"  // GET, with from and to: a Why

	maxReport = 256 << 10 // bytes
)

// HasBody reports whether a request to Handler has a body.
func HasBody(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Path == RowsPath }

// Handler answers for a collector. names are those of the host that sends a request, nil where everyone may read
// and nobody may send.
func Handler(c *Collector, names func(*http.Request) []string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+StatusPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(c.Status())
	})
	mux.HandleFunc("GET "+WhyPath, func(w http.ResponseWriter, r *http.Request) {
		why, err := c.Why(r.URL.Query().Get("from"), r.URL.Query().Get("to"))
		if err != nil {
			api.WriteError(w, &vendors.PermanentError{Err: err})
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(why)
	})
	mux.HandleFunc("POST "+RowsPath, func(w http.ResponseWriter, r *http.Request) {
		body, err := api.ReadBody(w, r, maxReport)
		var report Report
		if err == nil {
			err = json.Unmarshal(body, &report)
		}
		switch {
		case err != nil:
		case report.Format != RowsFormat:
			err = fmt.Errorf("format %q, want %q", report.Format, RowsFormat)
		case names == nil || !slices.Contains(names(r), report.Host):
			err = errors.New("rows of a host come with a certificate that has its name")
		default:
			err = c.Add(report.Host, &report)
		}
		if err != nil {
			api.WriteError(w, &vendors.PermanentError{Err: err})
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}
