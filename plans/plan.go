package plans

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// Format is the version of a plan's file.
const Format = "csig.plan/v1"

// Plan is what a person reviews and apply carries out: stages one after the
// other, waves one after the other within a stage, the steps of a wave side by
// side. It holds no secrets and no signal.
type Plan struct {
	Format        string    `json:"format"`
	Created       time.Time `json:"created"`
	Version       string    `json:"version"` // of the csig that made it
	Fleet         string    `json:"fleet"`   // the file it was made from; an absolute path where there is one
	Goal          Goal      `json:"goal"`
	ProfileHash   string    `json:"profile_hash"`
	InventoryHash string    `json:"inventory_hash"`
	Offline       bool      `json:"offline"` // nothing was observed: for reading, not for apply

	// Target is the selectors of the devices that it may change, which Devices has one by
	// one; none: all of the fleet. RelyOn are others as its safety takes them to stay.
	Target []string `json:"target,omitempty"`
	RelyOn []Relied `json:"rely_on,omitempty"`

	Only     []string           `json:"only,omitempty"` // narrowed to these devices: for reading, not for apply
	Devices  []Device           `json:"devices"`
	Stages   []Stage            `json:"stages"`
	Findings []findings.Finding `json:"findings"`
	Totals   Totals             `json:"totals"`

	// Integrity is the checksum (SHA-256) of the plan without it: apply refuses a
	// plan that was altered by accident. Who made it only a signature shows.
	Integrity string `json:"integrity"`

	// Signature is an SSH signature of the plan's text, which is kept beside it;
	// "" for none. Nothing here verifies it.
	Signature string `json:"-"`
}

// Goal is what a plan is for.
type Goal string

// The goals.
const (
	RollOut Goal = "roll-out" // the setup the fleet file asks for
	TakeOff Goal = "take-off" // nothing of ours anywhere
)

// Device is one device the plan looked at.
type Device struct {
	Device   string `json:"device"`
	Platform string `json:"platform"`
	Via      string `json:"via"`   // how it is reached: "local", "ssh …", "daemon …"
	Level    string `json:"level"` // of support, as found
	Reason   string `json:"reason"`

	// LeftAlone is why the plan has nothing to say of the device but what the
	// fleet file or its platform's facts say; "" where csig saw to it, or means to.
	LeftAlone Alone `json:"left_alone,omitempty"`

	// Observed is the setup the plan was made against; the hash is what makes
	// a plan stale.
	Observed     vendors.Setup `json:"observed"`
	ObservedHash string        `json:"observed_hash"`
	Changes      []Change      `json:"changes"` // from observed to wanted, all stages together

	// Gone are ports of the observed setup that the device does not have any
	// more. No step and no rollback sets them up again.
	Gone []string `json:"gone_ports,omitempty"`

	// Config is the hash of the configuration that the device's daemon is to run
	// in the end; "" where it is not driven through one. Its text, which may have
	// arguments of commands that fetch secrets, is made again by apply.
	Config string `json:"config,omitempty"`
}

// Relied is a device outside of a plan's target, with the hash of the setup that it has to
// keep while the plan is carried out.
type Relied struct {
	Device       string `json:"device"`
	ObservedHash string `json:"observed_hash"`
}

// Alone is why csig leaves a device as it is.
type Alone string

// The reasons.
const (
	AloneNoDriver  Alone = "no driver"
	AloneUnknown   Alone = "unknown platform"
	AloneUnreached Alone = "not reached" // and the fleet file has its level
	AloneTPID      Alone = "another TPID"
	AloneNative    Alone = "native"   // its own software sets it up
	AloneDiscards  Alone = "discards" // it can only be set up to pass tags through, and is not known to do so
)

// Change is one or more changes of a kind, for as many ports as it concerns.
type Change struct {
	Kind       string `json:"kind"` // "+", "~" or "-"
	Ports      string `json:"ports"`
	Count      int    `json:"count"` // ports; 0: the device as a whole
	What       string `json:"what"`
	Detail     string `json:"detail"`
	Disruptive string `json:"disruptive"` // why ordinary traffic notices; "" when it does not
}

// Stage is a part of the plan that ends before the next begins.
type Stage struct {
	Name  string `json:"name"`
	Why   string `json:"why"`
	Waves []Wave `json:"waves"`
}

// Wave is steps that may run side by side. The health gate follows it.
type Wave struct {
	Name  string `json:"name"`
	Steps []Step `json:"steps"`
}

// Step brings one device to a setup, or its ports to an MTU.
type Step struct {
	ID     int           `json:"id"` // from 1, in the order of the plan
	Device string        `json:"device"`
	Want   vendors.Setup `json:"want"`
	MTU    []PortMTU     `json:"mtu,omitempty"` // not empty: all that this step does
}

// PortMTU is the MTU of one port, in bytes as the device counts them.
type PortMTU struct {
	Port string `json:"port"`
	From int    `json:"from"`
	To   int    `json:"to"`
}

// Totals counts the changes.
type Totals struct {
	Add        int `json:"add"`
	Change     int `json:"change"`
	Remove     int `json:"remove"`
	Disruptive int `json:"disruptive"`
	Devices    int `json:"devices"` // with at least one change
}

// Empty reports whether there is nothing to do.
func (p *Plan) Empty() bool { return len(p.Stages) == 0 }

// Errors are the findings that stop the plan.
func (p *Plan) Errors() []findings.Finding {
	var out []findings.Finding
	for _, f := range p.Findings {
		if f.Level == findings.Error {
			out = append(out, f)
		}
	}
	return out
}

// unsealed is the plan as JSON, with an empty integrity at its end.
func (p *Plan) unsealed() ([]byte, error) {
	bare := *p
	bare.Integrity = ""
	return json.Marshal(&bare)
}

// The end of a plan's text, without its integrity and with it.
const (
	openEnd   = `"integrity":""}`
	sealedEnd = `"integrity":"%s"}`
)

// Seal sets the plan's integrity.
func (p *Plan) Seal() error {
	text, err := p.unsealed()
	p.Integrity = sumOf(text)
	return err
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Write seals the plan and writes it as one line of JSON.
func (p *Plan) Write(w io.Writer) error {
	text, err := p.unsealed()
	if err != nil {
		return err
	}
	p.Integrity = sumOf(text)
	text = fmt.Appendf(bytes.TrimSuffix(text, []byte(openEnd)), sealedEnd+"\n", p.Integrity)
	_, err = w.Write(text)
	return err
}

// JournalHead is how every journal of an apply begins.
const JournalHead = `{"seq":1,"at":"`

// IsPlan reports whether a file that begins like this is a plan of any version.
func IsPlan(head []byte) bool { return bytes.HasPrefix(head, []byte(`{"format":"csig.plan/`)) }

// Read reads a plan that Write wrote. An altered, cut or foreign file, and one of
// another version, is an error that says which.
func Read(r io.Reader) (*Plan, error) {
	text, err := untrusted.ReadAll(r, MaxText)
	if err != nil {
		return nil, err
	}
	var head struct {
		Format    string `json:"format"`
		Version   string `json:"version"`
		Integrity string `json:"integrity"`
	}
	switch err := json.Unmarshal(text, &head); {
	case bytes.HasPrefix(text, []byte(JournalHead)):
		return nil, errors.New("not a plan, but the journal of an apply: csig apply --resume continues it, csig rollback undoes it")
	case err != nil:
		return nil, fmt.Errorf("not a plan: %w", err)
	case head.Format != Format:
		return nil, OtherFormat("plan", Format, head.Format, head.Version)
	}
	bare, sealed := bytes.CutSuffix(bytes.TrimSuffix(text, []byte("\n")), fmt.Appendf(nil, sealedEnd, head.Integrity))
	if !sealed || sumOf(append(bare[:len(bare):len(bare)], openEnd...)) != head.Integrity {
		return nil, errors.New("the plan was altered after it was made: its checksum does not match; make a new one with csig plan")
	}
	if err := CheckSize(text, 0); err != nil {
		return nil, fmt.Errorf("not a plan: %w", err)
	}
	p := &Plan{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(p); err != nil {
		return nil, fmt.Errorf("not a plan that this csig reads (csig %s wrote it): %w", VersionName(head.Version), err)
	}
	return p, p.Check()
}

// Check refuses what no planner writes, so that apply need not.
func (p *Plan) Check() error {
	if len(p.Only) > 0 {
		return errors.New("the plan is narrowed to some of its devices: it is for reading; save the whole one with csig plan -o")
	}
	known := map[string]bool{}
	for _, d := range p.Devices {
		known[d.Device] = true
	}
	id := 0
	for s := range p.Steps() {
		id++
		if s.ID != id || !known[s.Device] {
			return fmt.Errorf("not a plan: step %d of device %q has no place in it", s.ID, s.Device)
		}
	}
	return p.sameNames()
}

// EachWave yields every wave in order, with its name: STAGE/WAVE.
func (p *Plan) EachWave() iter.Seq2[string, *Wave] {
	return func(yield func(string, *Wave) bool) {
		for i := range p.Stages {
			s := &p.Stages[i]
			for j := range s.Waves {
				if !yield(s.Name+"/"+s.Waves[j].Name, &s.Waves[j]) {
					return
				}
			}
		}
	}
}

// Steps yields every step in order.
func (p *Plan) Steps() iter.Seq[*Step] { return p.StepsAfter("") }

// StepsAfter yields the steps of the waves after the one of that name, in order; "" is
// before all.
func (p *Plan) StepsAfter(wave string) iter.Seq[*Step] {
	return func(yield func(*Step) bool) {
		passed := wave == ""
		for name, w := range p.EachWave() {
			for k := range w.Steps {
				if passed && !yield(&w.Steps[k]) {
					return
				}
			}
			passed = passed || name == wave
		}
	}
}

// Touches is the devices that the plan changes.
func (p *Plan) Touches() map[string]bool {
	out := map[string]bool{}
	for s := range p.Steps() {
		out[s.Device] = true
	}
	return out
}

// Device returns the device of that name.
func (p *Plan) Device(name string) *Device {
	for i := range p.Devices {
		if p.Devices[i].Device == name {
			return &p.Devices[i]
		}
	}
	return nil
}
