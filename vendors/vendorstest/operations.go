package vendorstest

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

var rewrite = flag.Bool("operations", false, "rewrite what drivers send in the walks of vendorstest.Operations")

// Walk is a device, real or as strict as one, that Operations takes through a fixed walk of buckets.
type Walk struct {
	Name  string                // of the golden in testdata
	Open  func() vendors.Driver // another process each time
	Setup vendors.Setup

	// Sent takes what was sent to the device since it was last called, in the device's own words.
	Sent func() []string

	// Later has the driver's clock go on; nil: time.Sleep.
	Later func(time.Duration)

	// Faults are what goes wrong, one after the other in the walk.
	Faults []Fault
}

// Fault is what goes wrong at one update.
type Fault struct {
	Name  string
	Begin func() // before the update
	End   func() // behind it; nil: nothing
}

// Changed is the Sent of a device that shows what it has, and not what was sent to it: the lines that are gone, and those that came.
func Changed(has func() []string) func() []string {
	var was []string
	return func() (out []string) {
		is := has()
		count := map[string]int{}
		for _, line := range was {
			count[line]--
		}
		for _, line := range is {
			count[line]++
		}
		for line, n := range count {
			for ; n < 0; n++ {
				out = append(out, "- "+line)
			}
			for ; n > 0; n-- {
				out = append(out, "+ "+line)
			}
		}
		was = is
		slices.Sort(out)
		return out
	}
}

const (
	stepsApart = 5 // updates between two faults
	pauseStep  = 2 // behind which csig's timers end, and the device is read again
	pause      = 3 * time.Minute
)

// Operations records what a driver sends to its device, call by call, and what it says of that, and compares it with the golden: an
// update that begins to send more, in another order or after another fault shows there. Tests in bubbles of testing/synctest take no time. To rewrite
// it: go test ./vendors/NAME -run Operations -operations.
func Operations(t *testing.T, w *Walk) {
	t.Helper()
	var out strings.Builder
	later := w.Later
	if later == nil {
		later = time.Sleep
	}
	d := w.Open()
	w.Sent()
	tokens := map[string]string{}
	note := func(call, result string, err error) {
		fmt.Fprintf(&out, "%s%s%s\n", call, result, failure(err))
		for _, line := range w.Sent() {
			line = token.ReplaceAllStringFunc(line, func(is string) string {
				if tokens[is] == "" {
					tokens[is] = fmt.Sprintf("csig-#%d", len(tokens)+1)
				}
				return tokens[is]
			})
			fmt.Fprintf(&out, "    %s\n", line)
		}
	}
	note("apply", "", d.Apply(t.Context(), w.Setup))
	rng, values := rand.New(rand.NewPCG(37, 0)), map[string]uint8{}
	step := func(what string) {
		t.Helper()
		n, text := 0, ""
		updates := Updates(&w.Setup, func(int, quantize.Signal) vlanrules.Intent { return vlanrules.Intent{Action: vlanrules.Update, LM: 5} })
		for i := range updates {
			for k := range updates[i].Intents {
				in := &updates[i].Intents[k]
				in.Signal = w.Setup.Signals[k]
				key := fmt.Sprint(i, k)
				switch rng.IntN(4) {
				case 0: // anywhere
					values[key] = uint8(rng.IntN(quantize.NumBuckets))
				case 1: // to the next one
					values[key] = min(values[key]+1, quantize.NumBuckets-1)
				}
				in.S = values[key]
				text += fmt.Sprintf(" %d", in.S)
				n++
			}
		}
		res, err := d.Update(t.Context(), updates, time.Minute)
		result := fmt.Sprintf(": ports %d, operations %d, entries %d", res.Ports, res.Ops, res.Entries)
		if res.Leased {
			result += ", leased"
		}
		for _, r := range res.Repaired {
			result += ", repaired: " + strings.TrimSpace(r.Port+" "+r.Object)
		}
		note("update to"+text+what, result, err)
		later(time.Second)
	}
	for i := range w.Faults {
		f := &w.Faults[i]
		for n := range stepsApart {
			step("")
			if n == pauseStep {
				later(pause)
			}
		}
		f.Begin()
		step(", " + f.Name)
		if f.End != nil {
			f.End()
		}
	}
	step("")
	note("release", "", d.Release(t.Context()))
	step(", after release")
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	d = w.Open()
	step(", by another process")
	note("apply", "", d.Apply(t.Context(), w.Setup))
	step("")
	note("remove", "", d.Remove(t.Context()))
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	compare(t, filepath.Join("testdata", w.Name+".txt"), out.String())
}

// token is a name that is another one each time, as those of configuration sessions are.
var token = regexp.MustCompile(`\bcsig-[0-9a-f]{16}\b`)

// failure is what an error is of; its words may change.
func failure(err error) (text string) {
	if err == nil {
		return ""
	}
	vendors.EachPort(err, func(port string, _ error) { text += ", fails at " + port })
	switch {
	case vendors.IsPermanent(err):
		return text + ", fails for good"
	case text == "":
		return ", fails"
	}
	return text
}

// compare names the first line that is another one than in the golden.
func compare(t *testing.T, file, got string) {
	t.Helper()
	if *rewrite {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(got), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) == got {
		return
	}
	was, is := strings.Split(string(text), "\n"), strings.Split(got, "\n")
	call := ""
	for i := range is {
		if i >= len(was) || was[i] != is[i] {
			t.Fatalf("%s:%d: in %q csig sends or says %q, and not as it was there", file, i+1, call, is[i])
		}
		if !strings.HasPrefix(is[i], " ") {
			call = is[i]
		}
	}
	t.Fatalf("%s:%d: csig sends less than there", file, len(is))
}
