package qualify

import (
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// maxLine bounds a text of a report, in bytes.
const maxLine = 4000

// clean makes every text of a value that v points to safe to print.
func clean(v any) { cleanValue(reflect.ValueOf(v).Elem()) }

func cleanValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(untrusted.Text(v.String(), maxLine))
	case reflect.Slice:
		for i := range v.Len() {
			cleanValue(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() { // time.Time has none
				cleanValue(v.Field(i))
			}
		}
	}
}

// check says what of a report no run can have written; "" where nothing is. Results count
// as measured, so that what was edited is not to be resumed.
func (r *Report) check() string {
	for i := range r.Results {
		res := &r.Results[i]
		if why := res.check(); why != "" {
			return fmt.Sprintf("experiment %s %s", untrusted.Text(res.ID, 40), why)
		}
		if slices.ContainsFunc(r.Results[:i], func(o Result) bool { return o.ID == res.ID }) {
			return fmt.Sprintf("experiment %s is there twice", res.ID)
		}
	}
	return ""
}

func (r *Result) check() string {
	held := func(positive bool) bool {
		return slices.ContainsFunc(r.Controls, func(c Control) bool { return c.Positive == positive && c.Times > 0 })
	}
	switch r.Outcome {
	case Pass, Fail:
		if !held(true) || !held(false) {
			return fmt.Sprintf("has the outcome %s without a positive and a negative control", r.Outcome)
		}
		if (r.Outcome == Fail) != (len(r.Faults) > 0) {
			return fmt.Sprintf("has the outcome %s with %d faults", r.Outcome, len(r.Faults))
		}
	case NotTested:
		if len(r.Faults) > 0 {
			return fmt.Sprintf("has the outcome %s with %d faults", r.Outcome, len(r.Faults))
		}
	default:
		return fmt.Sprintf("has the outcome %q, want %s, %s or %s", untrusted.Text(string(r.Outcome), 40), Pass, Fail, NotTested)
	}
	if r.ID == "" || filepath.Base(r.ID) != r.ID {
		return "has no name of an experiment"
	}
	if r.PCAP != "" && r.PCAP != filepath.Join("pcap", r.ID+".pcap") && r.PCAP != filepath.Join("pcap", r.ID+again) {
		return "names a capture file that is not its own"
	}
	numbers := []float64{r.Took.Seconds(), r.Frames.PerSecond, r.Frames.Listened.Seconds(), float64(r.Frames.Sent), float64(r.Frames.Arrived)}
	for _, n := range r.Numbers {
		numbers = append(numbers, math.Abs(n.Value))
	}
	if slices.ContainsFunc(numbers, func(n float64) bool { return n < 0 || n > maxNumber }) {
		return fmt.Sprintf("has a number out of the range up to %g", float64(maxNumber))
	}
	return ""
}

// maxNumber bounds what is measured, whatever its unit.
const maxNumber = 1e15
