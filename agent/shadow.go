package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// shadow is a driver that programs nothing: it asks the real one what the
// device is and has, compiles the same rules and logs the operations. It has no
// Unwrap: what the driver can do beside that would change the device.
type shadow struct {
	vendors.Driver
	layout quantize.Layout
	log    *logrus.Entry
	comp   *vlanrules.Compiler
	tables map[string]*vlanrules.Result
	told   string // the changes that were logged last
}

// NewShadow wraps d for --dry-run. Probe and Observe reach the device; Apply,
// Update, Release and Remove only log what they would do.
func NewShadow(d vendors.Driver, layout quantize.Layout, log *logrus.Entry) vendors.Driver {
	return &shadow{Driver: d, layout: layout, log: log.WithField("shadow", true), tables: map[string]*vlanrules.Result{}}
}

func (s *shadow) Probe(ctx context.Context) (vendors.Facts, error) {
	f, err := s.Driver.Probe(ctx)
	if err == nil {
		s.comp = vlanrules.NewCompiler(f.Rules, s.layout)
	}
	return f, err
}

func (s *shadow) Apply(ctx context.Context, want vendors.Setup) error {
	have, err := s.Observe(ctx)
	if err != nil {
		return err
	}
	changes, err := s.Diff(have, want)
	if err != nil {
		return err
	}
	lacks, err := s.lacks(ctx, want)
	if err != nil {
		return err
	}
	if told := fmt.Sprint(changes); told == s.told { // tried again
		changes = nil
	} else {
		s.told = told
	}
	for _, c := range changes {
		if lacks[c.Port] != nil {
			continue
		}
		s.log.WithFields(logrus.Fields{"port": c.Port, "what": c.What, "change": changeWord(c.Kind)}).Info("would set up: " + c.Detail)
	}
	return errors.Join(slices.Collect(maps.Values(lacks))...)
}

// lacks is the errors of ports that a real run would not find on the device; none
// where its driver cannot tell which it has.
func (s *shadow) lacks(ctx context.Context, want vendors.Setup) (map[string]error, error) {
	has, err := vendors.MTUs(ctx, s.Driver)
	if err != nil || len(has) == 0 {
		return nil, err
	}
	out := map[string]error{}
	for i := range want.Ports {
		name := want.Ports[i].Port
		if _, ok := has[name]; !ok {
			out[name] = &vendors.PortError{Port: name, Err: errors.New("the device has no such port")}
		}
	}
	return out, nil
}

func changeWord(k vendors.ChangeKind) string {
	switch k {
	case vendors.Create:
		return "create"
	case vendors.Remove:
		return "remove"
	}
	return "change"
}

// Update compiles and logs. A port whose rules cannot be compiled is an error
// of that port, as it would be of the real driver. Leased only says that the
// others have been worked out: there is no lease.
func (s *shadow) Update(_ context.Context, updates []vendors.PortUpdate, _ time.Duration) (vendors.UpdateResult, error) {
	out := vendors.UpdateResult{Leased: true, ReadBack: vendors.ReadBackAfter}
	var errs []error
	for _, u := range updates {
		r := s.tables[u.Port]
		if r == nil {
			r = new(vlanrules.Result)
			s.tables[u.Port] = r
		}
		s.comp.Compile(r, r.Table, u.Intents)
		if r.Verdict.Level == vlanrules.Refused {
			errs = append(errs, &vendors.PermanentError{Port: u.Port, Err: errors.New(r.Verdict.Reason)})
			continue
		}
		if len(r.Ops) == 0 {
			continue
		}
		out.Ports++
		out.Ops += len(r.Ops)
		for _, op := range r.Ops {
			s.log.WithFields(logrus.Fields{"port": u.Port, "op": op.Kind.String(), "entry": entryText(&op.Entry)}).Info("would program")
		}
	}
	return out, errors.Join(errs...)
}

func (s *shadow) Release(context.Context) error { return nil }

func (s *shadow) Remove(context.Context) error { return nil }

// entryText writes an entry the way switch engineers say it.
func entryText(e *vlanrules.Entry) string {
	field := func(f vlanrules.Field) string {
		switch f.Kind {
		case vlanrules.Range:
			return fmt.Sprintf("%d-%d", f.First, f.Last)
		case vlanrules.Ternary:
			return fmt.Sprintf("%#x/%#x", f.Value, f.Mask)
		}
		return "any"
	}
	action := "leave"
	if e.Type == vlanrules.RewriteVID {
		action = fmt.Sprintf("set vid %d", e.VID)
	}
	return fmt.Sprintf("pcp %s dei %s vid %s: %s", field(e.Match.PCP), field(e.Match.DEI), field(e.Match.VID), action)
}
