package qualify

import (
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/inventory/outfile"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// factsFile is the facts file in the report's folder: a part of a fleet file.
const factsFile = "facts.yaml"

// Facts is the entry of a fleet file that the results amount to, with all experiments
// that there are: those that the results are of, whenever they ran. The error is what is
// not known of the switch: facts without a model and a version hold for no device.
func (r *Report) Facts(experiments []Experiment) (*inventory.Facts, error) {
	s := &r.Switch
	var lacking, flags []string
	for _, need := range [][2]string{{s.Model, "model"}, {s.Version, "version"}} {
		if need[0] == "" {
			lacking, flags = append(lacking, "the "+need[1]), append(flags, "--"+need[1])
		}
	}
	if len(lacking) > 0 {
		return nil, fmt.Errorf("no facts file: %s of %s not known: give %s", strings.Join(lacking, " and "), s.Device+map[int]string{1: " is", 2: " are"}[len(lacking)], strings.Join(flags, " and "))
	}
	f := &inventory.Facts{
		Name: name(s.Platform, s.Model, s.Version), Platform: s.Platform, Model: line(s.Model), LineCard: line(s.LineCard), ASIC: line(s.ASIC),
		Version: line(s.Version), TCAMProfile: line(s.TCAMProfile), ConfigHash: line(s.ConfigHash), CSIG: line(r.CSIG),
		Date: r.Began.Format(time.DateOnly), TPIDs: []uint16{r.TPID}, Reasons: inventory.FactReasons{},
	}
	if r.WideTPID != 0 {
		f.TPIDs = append(f.TPIDs, r.WideTPID)
	}
	for i := range r.Results {
		res := &r.Results[i]
		at := slices.IndexFunc(experiments, func(e Experiment) bool { return e.ID == res.ID })
		if at < 0 || res.Outcome == NotTested || experiments[at].Facts == nil {
			continue
		}
		e := &experiments[at]
		lasting := res.lasting()
		if res.Outcome == Fail && len(lasting.Faults) == 0 {
			continue // what happens at random says nothing of the tag
		}
		e.Facts(lasting, f)
		if res.Outcome == Fail && e.Key != "" && measured(f, e.Key) {
			f.Reasons[e.Key] = line(res.Found)
		}
	}
	if f.UpdateExact != nil {
		f.Layout, f.Signals = r.Layout, &r.Signals
	}
	if len(f.Reasons) == 0 {
		f.Reasons = nil
	}
	return f, nil
}

// measured reports whether a key of a facts entry has a value.
func measured(f *inventory.Facts, key string) bool {
	v := reflect.ValueOf(f).Elem()
	for i := range v.NumField() {
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("key"), ","); name == key {
			return !v.Field(i).IsZero()
		}
	}
	return false
}

// line is a text as the file can hold it.
func line(text string) string {
	const most = 120
	text = untrusted.Text(text, most)
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return strings.TrimSpace(text)
}

// name makes a name of a fleet file.
func name(parts ...string) string {
	text := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, strings.Join(parts, "-"))
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '-' }), "-")
	return strings.Trim(text[:min(len(text), 60)], "-")
}

// saveFacts writes the facts file, once there is a result.
func (r *runner) saveFacts() error {
	if r.report.Cable || len(r.report.Results) == 0 {
		return nil
	}
	f, err := r.report.Facts(r.o.Experiments)
	if err != nil {
		r.report.NoFacts = err.Error()
		return nil
	}
	text, err := inventory.MarshalFacts(f)
	if err != nil {
		return err
	}
	r.report.NoFacts = ""
	return outfile.Write(filepath.Join(r.o.Folder, factsFile), 0o644, outfile.Prefix("format: "+inventory.Format+"\nfacts:"), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}
