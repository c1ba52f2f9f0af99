package qualify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/inventory/outfile"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vlanrules"
)

// Format is that of report.json.
const Format = "csig.qualification/v1"

// files of a report's folder.
const (
	reportJSON     = "report.json"
	reportText     = "report.txt"
	reportMarkdown = "report.md"
)

// About is what a qualification is bound to: results hold for such a device alone. "" is
// not known.
type About struct {
	Device      string `json:"device"` // its name in the fleet file
	Platform    string `json:"platform"`
	Model       string `json:"model"`
	LineCard    string `json:"line_card"`
	ASIC        string `json:"asic"`
	Version     string `json:"version"`
	TCAMProfile string `json:"tcam_profile"`
	ConfigHash  string `json:"config_hash"`
}

// Report is what a run found, complete or not; a run is resumed from it.
type Report struct {
	Format     string       `json:"format"`
	Switch     About        `json:"switch"`
	Cable      bool         `json:"cable"` // a calibration: no switch
	TPID       uint16       `json:"tpid"`
	WideTPID   uint16       `json:"wide_tpid"`
	Layout     string       `json:"layout"`
	Signals    []string     `json:"signals"` // that rules are tried with
	Ports      []ReportPort `json:"ports"`
	Calibrated string       `json:"calibrated"` // when the cards were calibrated; "": they were not
	CSIG       string       `json:"csig"`       // version
	Began      time.Time    `json:"began"`
	Ended      time.Time    `json:"ended"`
	Complete   bool         `json:"complete"`
	Touched    bool         `json:"touched"`        // the device may have a setup of the run
	LinkDown   string       `json:"link_down"`      // the card whose link the run has taken down; "": none
	Foreign    int          `json:"foreign_frames"` // that arrived at the cards
	Example    string       `json:"foreign_example"`
	NoFacts    string       `json:"no_facts"` // why there is no facts.yaml
	Only       []string     `json:"only"`     // the experiments of the run; empty: all
	Results    []Result     `json:"results"`
}

// ReportPort is a port with the card that was cabled to it.
type ReportPort struct {
	Port string `json:"port"`
	Card string `json:"card"`
	MAC  string `json:"mac"` // the card's own
	MTU  int    `json:"mtu"` // the card's, in bytes
}

func (p ReportPort) String() string {
	return untrusted.Text(fmt.Sprintf("%s=%s (%s, MTU %d)", p.Port, p.Card, p.MAC, p.MTU), 120)
}

// String is what is known of the switch.
func (a *About) String() string {
	var known []string
	for _, one := range [][2]string{
		{"", a.Device}, {"platform ", a.Platform}, {"model ", a.Model}, {"line card ", a.LineCard}, {"ASIC ", a.ASIC},
		{"version ", a.Version}, {"TCAM profile ", a.TCAMProfile}, {"config hash ", a.ConfigHash},
	} {
		if one[1] != "" {
			known = append(known, one[0]+untrusted.Text(one[1], 120))
		}
	}
	return strings.Join(known, ", ")
}

func newReport(b *Bench, o *Options) *Report {
	r := &Report{
		Format: Format, Switch: o.About, Cable: o.IsCable, TPID: b.Profile.TPID, WideTPID: b.Profile.WideTPID, Layout: b.Profile.Layout.String(), CSIG: o.Version,
		Began: time.Now().UTC().Truncate(time.Second), Ports: []ReportPort{}, Results: []Result{},
	}
	setup := b.Setup(vlanrules.Update)
	r.Signals = append([]string{}, setup.SignalNames()...)
	if o.Calibration != nil {
		r.Calibrated = o.Calibration.Ended.Format(time.RFC3339)
	}
	for _, p := range b.Ports {
		r.Ports = append(r.Ports, ReportPort{Port: p.Name, Card: p.Card, MAC: p.Own.String(), MTU: p.MTU})
	}
	clean(r)
	return r
}

func newResult(e *Experiment) Result {
	return Result{ID: e.ID, Title: e.Title, Faults: []Fault{}, Notes: []string{}, Numbers: []Number{}, Lists: []List{}, Controls: []Control{}}
}

// differs says why a run that now begins cannot continue this one; "" where it can.
func (r *Report) differs(now *Report) string {
	switch {
	case r.Switch != now.Switch:
		return fmt.Sprintf("it is about %v, and this switch is %v", &r.Switch, &now.Switch)
	case !slices.Equal(r.Ports, now.Ports):
		return fmt.Sprintf("its cables are %v, and now they are %v", r.Ports, now.Ports)
	case r.TPID != now.TPID || r.WideTPID != now.WideTPID || r.Cable != now.Cable:
		return "it is about other TPIDs"
	case r.Layout != now.Layout || !slices.Equal(r.Signals, now.Signals):
		return fmt.Sprintf("it is about tags of layout %s with the signals %s", untrusted.Text(r.Layout, 40), untrusted.Text(strings.Join(r.Signals, ", "), 80))
	case r.Calibrated != now.Calibrated:
		return "it was judged by another calibration"
	case r.CSIG != now.CSIG:
		return "it was begun by csig " + r.CSIG
	}
	return ""
}

// Result is that of one experiment; nil: it has none.
func (r *Report) Result(id string) *Result {
	for i := range r.Results {
		if r.Results[i].ID == id {
			return &r.Results[i]
		}
	}
	return nil
}

// Count is how many results have an outcome.
func (r *Report) Count(o Outcome) (n int) {
	for i := range r.Results {
		if r.Results[i].Outcome == o {
			n++
		}
	}
	return n
}

// maxReport is how long a report.json can be that is read, in bytes.
const maxReport = 16 << 20

// Load reads a report.json.
func Load(path string) (*Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is no regular file", path))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxReport+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxReport:
		return nil, notOurs(path, fmt.Sprintf("it has more than %d MiB", maxReport>>20))
	}
	var r Report
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return nil, notOurs(path, damaged(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, notOurs(path, "something stands behind its end")
	}
	if r.Format != Format {
		return nil, notOurs(path, fmt.Sprintf("its format is %q, want %s", untrusted.Text(r.Format, 40), Format))
	}
	if why := r.check(); why != "" {
		return nil, notOurs(path, why)
	}
	clean(&r)
	return &r, nil
}

// notOurs is the error of a report that is not used.
func notOurs(path, why string) error {
	return fmt.Errorf("%s is not as csig qualify wrote it: %s: begin in another folder, or put an undamaged copy in its place", path, why)
}

// damaged says what is wrong with a text that is no report.
func damaged(err error) string {
	var syntax *json.SyntaxError
	var value *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF):
		return "it is empty"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it ends too early"
	case errors.As(err, &syntax):
		return fmt.Sprintf("it is no JSON from byte %d on", syntax.Offset)
	case errors.As(err, &value) && value.Field == "":
		return "it is no report, but a JSON " + untrusted.Text(value.Value, 40)
	case errors.As(err, &value):
		return fmt.Sprintf("%s is a JSON %s", untrusted.Text(value.Field, 100), untrusted.Text(value.Value, 40))
	}
	return untrusted.Text(err.Error(), 200)
}

// LoadCalibration reads the report of a calibration, which has to be of these cards.
func LoadCalibration(path string, ports []*Port) (*Report, error) {
	r, err := Load(path)
	switch {
	case err != nil:
		return nil, err
	case !r.Cable || !r.Complete:
		return nil, fmt.Errorf("%s is no complete calibration: csig qualify calibrate makes one", path)
	}
	for _, p := range ports[:min(2, len(ports))] {
		if !slices.ContainsFunc(r.Ports, func(c ReportPort) bool { return c.Card == p.Card && c.MAC == p.Own.String() && c.MTU == p.MTU }) {
			return nil, fmt.Errorf("%s is of other cards than %s (%v, MTU %d): calibrate these", path, p.Card, p.Own, p.MTU)
		}
	}
	return r, nil
}

// isReport is the outfile.Format of a report.json, however it is indented.
func isReport(head []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(head))
	for _, want := range []json.Token{json.Delim('{'), "format", Format} {
		if got, err := dec.Token(); err != nil || got != want {
			return false
		}
	}
	return true
}

// save writes the files of the report, and the facts that are the same results.
func (r *runner) save() error {
	if err := r.saveFacts(); err != nil {
		return err
	}
	r.mu.Lock()
	if r.foreign.frames > r.report.Foreign {
		r.report.Foreign, r.report.Example = r.foreign.frames, r.foreign.example
	}
	r.mu.Unlock()
	text, err := json.MarshalIndent(r.report, "", "  ")
	if err != nil {
		return err
	}
	files := []struct {
		name  string
		ours  outfile.Format
		write func(io.Writer) error
	}{
		{reportJSON, isReport, func(w io.Writer) error { _, err := w.Write(append(text, '\n')); return err }},
		{reportText, outfile.Prefix(textHead), r.report.WriteText},
		{reportMarkdown, outfile.Prefix(markdownHead), r.report.WriteMarkdown},
	}
	for _, f := range files {
		if err := outfile.Write(filepath.Join(r.o.Folder, f.name), 0o644, f.ours, f.write); err != nil {
			return err
		}
	}
	return outfile.SyncDir(r.o.Folder)
}
