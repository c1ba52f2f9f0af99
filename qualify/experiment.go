package qualify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/inventory"
)

// Experiment is one question to a switch.
type Experiment struct {
	ID    string // as --only takes it: small letters and hyphens
	Title string // the question
	Needs Needs

	// Run asks. What it finds it gives to the trial: no fault is a pass. An error is
	// why it could not be tried: the result is NotTested.
	Run func(ctx context.Context, t *Trial) error

	// Facts fills in what a result that is Pass or Fail means for a device; nil: nothing.
	// Key is the facts' key that a failure is the reason of.
	Facts func(r *Result, f *inventory.Facts)
	Key   string
}

// Needs is what an experiment requires; without it the result is NotTested.
type Needs struct {
	Ports       int    // cabled ports; 0: two
	LAG         bool   // all of them but the first are one LAG; else none are
	Driver      bool   // a driver that can be used from here
	Update      bool   // and that does compare-and-replace on this device
	Switch      bool   // it has no meaning at a cable
	Destructive bool   // it disturbs more than the ports named, and has to be allowed
	Also        string // what else has to be there, for people; it finds out itself
}

// Outcome is how an experiment ended.
type Outcome string

// The outcomes.
const (
	Pass      Outcome = "pass"
	Fail      Outcome = "fail"
	NotTested Outcome = "not tested"
)

// Result is what an experiment found.
type Result struct {
	ID       string        `json:"id"`
	Title    string        `json:"title"`
	Outcome  Outcome       `json:"outcome"`
	Found    string        `json:"found"`  // in a sentence; of NotTested: why, and what is needed
	Faults   []Fault       `json:"faults"` // of Fail
	Notes    []string      `json:"notes"`
	Numbers  []Number      `json:"numbers"`
	Lists    []List        `json:"lists"`
	Controls []Control     `json:"controls"`
	Frames   Frames        `json:"frames"`
	PCAP     string        `json:"pcap"` // file in the folder; "" for none
	Began    time.Time     `json:"began"`
	Took     time.Duration `json:"took_ns"`
}

// Fault is something that the switch does wrong.
type Fault struct {
	Code string `json:"code"` // stable, of small letters and hyphens
	Text string `json:"text"`
}

// Number is a measured value.
type Number struct {
	Name  string  `json:"name"` // with the unit as its suffix: "latency_added_ns"
	Value float64 `json:"value"`
}

// List is a list of values that were found, e.g. "dropped_vids".
type List struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// Number is a measured value by its name.
func (r *Result) Number(name string) (float64, bool) {
	for _, n := range r.Numbers {
		if n.Name == name {
			return n.Value, true
		}
	}
	return 0, false
}

// List are listed values by their name; nil: none were listed.
func (r *Result) List(name string) []string {
	for _, l := range r.Lists {
		if l.Name == name {
			return l.Values
		}
	}
	return nil
}

// Has reports whether there is a fault whose code begins so.
func (r *Result) Has(code string) bool {
	return slices.ContainsFunc(r.Faults, func(f Fault) bool { return strings.HasPrefix(f.Code, code) })
}

// Control is a check of the bench itself.
type Control struct {
	Positive bool   `json:"positive"` // that the bench sees; else: that it notices
	What     string `json:"what"`
	Times    int    `json:"times"` // how often it held
	Failed   string `json:"failed"`
}

// Frames is how finely losses could be seen: what was sent, at which rate, and for how
// long the bench listened after the last frame.
type Frames struct {
	Sent      int           `json:"sent"`
	Arrived   int           `json:"arrived"`
	PerSecond float64       `json:"rate_pps"`
	Listened  time.Duration `json:"listened_ns"`
}

// Trial is one run of an experiment.
type Trial struct {
	*Bench
	Result

	runner  *runner
	sending time.Duration
	pace    time.Duration  // between the frames of an exchange
	chances map[string]int // what became of frames and did not happen again, by its kind

	returned int // frames that were lost and arrived when they were sent again
}

// notTested is why an experiment has no result.
type notTested struct{ why string }

func (e *notTested) Error() string { return e.why }

// Cannot is the error of a question that cannot be asked here, with what would be
// needed.
func Cannot(format string, args ...any) error { return &notTested{fmt.Sprintf(format, args...)} }

// Fault notes something that the switch does wrong.
func (t *Trial) Fault(code, format string, args ...any) {
	t.Faults = append(t.Faults, Fault{code, fmt.Sprintf(format, args...)})
}

// Note notes what a reader should know.
func (t *Trial) Note(format string, args ...any) {
	t.Notes = append(t.Notes, fmt.Sprintf(format, args...))
}

// waits says what the experiment waits for.
func (t *Trial) waits(format string, args ...any) {
	if t.runner != nil {
		t.runner.tell(Result{ID: t.ID, Title: t.Title, Found: fmt.Sprintf(format, args...)})
	}
}

// Measured notes a number; its name ends with its unit.
func (t *Trial) Measured(name string, value float64) {
	t.Numbers = append(t.Numbers, Number{name, value})
}

// Listed notes a list of values.
func (t *Trial) Listed(name string, values []string) {
	t.Lists = append(t.Lists, List{name, append([]string{}, values...)})
}

// Positive notes a control that shows that the bench sees what arrives. The error is
// that it does not hold: return it.
func (t *Trial) Positive(what string, held bool, found string, args ...any) error {
	return t.control(true, what, held, found, args...)
}

// Negative notes a control that shows that the bench notices what is lost, altered or
// must not be. The error is that it does not hold: return it.
func (t *Trial) Negative(what string, held bool, found string, args ...any) error {
	return t.control(false, what, held, found, args...)
}

func (t *Trial) control(positive bool, what string, held bool, found string, args ...any) error {
	i := slices.IndexFunc(t.Controls, func(c Control) bool { return c.Positive == positive && c.What == what })
	if i < 0 {
		t.Controls = append(t.Controls, Control{Positive: positive, What: what})
		i = len(t.Controls) - 1
	}
	if held {
		t.Controls[i].Times++
		return nil
	}
	t.Controls[i].Failed = fmt.Sprintf(found, args...)
	return Cannot("a control does not hold: %s: %s", what, t.Controls[i].Failed)
}

// end makes the outcome of what Run returned.
func (t *Trial) end(err error) {
	none := ""
	for _, positive := range []bool{true, false} {
		if !slices.ContainsFunc(t.Controls, func(c Control) bool { return c.Positive == positive && c.Times > 0 }) {
			none = map[bool]string{true: "positive", false: "negative"}[positive]
		}
	}
	why := (*notTested)(nil)
	switch {
	case errors.As(err, &why):
		t.Outcome, t.Result.Found = NotTested, why.why
	case err != nil:
		t.Outcome, t.Result.Found = NotTested, "the bench failed: "+err.Error()
	case none != "":
		t.Outcome, t.Result.Found = NotTested, "the experiment had no "+none+" control: this is a mistake in csig"
	case len(t.Faults) > 0:
		t.Outcome, t.Result.Found = Fail, t.Faults[0].Text
	default:
		t.Outcome = Pass
	}
	if t.Outcome == NotTested {
		t.Faults = nil // seen with controls that did not hold
	}
	clean(&t.Result)
}

// Found says in a sentence what a pass has found; a failure's is its first fault.
func (t *Trial) Found(format string, args ...any) { t.Result.Found = fmt.Sprintf(format, args...) }
