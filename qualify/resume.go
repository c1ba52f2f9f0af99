package qualify

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// repeated begins the note on a repetition that could not be tried.
const repeated = "repeated on "

// again is how the capture file of a repetition ends, until its result is taken.
const again = ".again.pcap"

// open begins a report, or continues the folder's, and chooses what runs now.
func open(b *Bench, o *Options) (*runner, error) {
	r := &runner{Bench: b, o: o, report: newReport(b, o)}
	name := filepath.Join(o.Folder, reportJSON)
	before, err := Load(name)
	switch {
	case errors.Is(err, os.ErrNotExist) && !o.Resume,
		err == nil && !o.Resume && len(before.Results) == 0 && !before.Touched: // it did not come to an experiment
		r.report.Only = r.inOrder(o.Only)
		r.todo = r.lacking()
		return r, nil
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("%s has no run to resume: start one without --resume", o.Folder)
	case err != nil:
		return nil, err
	case !o.Resume:
		return nil, fmt.Errorf("%s has a report already: --resume continues it; or name another folder", o.Folder)
	}
	if what := cmp.Or(before.differs(r.report), r.unknown(before)); what != "" {
		return nil, fmt.Errorf("%s cannot be resumed: %s; name another folder", o.Folder, what)
	}
	r.report = before
	r.report.Complete, r.report.LinkDown = false, "" // the cards are open: they are up
	if len(o.Only) == 0 {
		r.todo = r.lacking()
		return r, nil
	}
	if len(r.report.Only) > 0 {
		r.report.Only = r.inOrder(slices.Concat(r.report.Only, o.Only))
	}
	for i := range o.Experiments {
		if e := &o.Experiments[i]; slices.Contains(o.Only, e.ID) {
			r.todo = append(r.todo, e)
		}
	}
	return r, nil
}

// unknown says that a report has an experiment that there is not; "" where it has none.
func (r *runner) unknown(report *Report) string {
	for i := range report.Results {
		if id := report.Results[i].ID; !slices.ContainsFunc(r.o.Experiments, func(e Experiment) bool { return e.ID == id }) {
			return "it has an experiment " + id + ", which csig qualify does not have"
		}
	}
	return ""
}

// inOrder are these experiments in the order in which they run, each once.
func (r *runner) inOrder(ids []string) []string {
	out := []string{}
	for i := range r.o.Experiments {
		if id := r.o.Experiments[i].ID; slices.Contains(ids, id) {
			out = append(out, id)
		}
	}
	return out
}

// lacking are the experiments of the run that have no result. At a cable those that need
// a switch run where they are named alone, to say that.
func (r *runner) lacking() (out []*Experiment) {
	for i := range r.o.Experiments {
		e := &r.o.Experiments[i]
		named := slices.Contains(r.report.Only, e.ID) || len(r.report.Only) == 0 && !(r.o.IsCable && e.Needs.Switch)
		if named && r.report.Result(e.ID) == nil {
			out = append(out, e)
		}
	}
	return out
}

// take adds a result to the report, or puts it in the place of an earlier one. What was
// measured stays where the repetition could not be tried.
func (r *runner) take(res *Result) error {
	before := r.report.Result(res.ID)
	switch {
	case before == nil:
		r.report.Results = append(r.report.Results, *res)
		at := func(id string) int {
			return slices.IndexFunc(r.o.Experiments, func(e Experiment) bool { return e.ID == id })
		}
		slices.SortStableFunc(r.report.Results, func(a, b Result) int { return at(a.ID) - at(b.ID) })
	case res.Outcome == NotTested && before.Outcome != NotTested:
		before.Notes = slices.DeleteFunc(before.Notes, func(n string) bool { return strings.HasPrefix(n, repeated) })
		before.Notes = append(before.Notes, fmt.Sprintf("%s%s, and not tested then: %s", repeated, res.Began.Format(time.RFC3339), res.Found))
		res.Found += "; the earlier result stays: " + string(before.Outcome)
	default:
		if res.PCAP != "" {
			whole := filepath.Join("pcap", res.ID+".pcap")
			if err := os.Rename(filepath.Join(r.o.Folder, res.PCAP), filepath.Join(r.o.Folder, whole)); err != nil {
				return err
			}
			res.PCAP = whole
		}
		*before = *res
	}
	r.report.Ended = time.Now().UTC().Truncate(time.Second)
	return r.save()
}
