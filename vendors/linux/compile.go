package linux

import (
	"errors"
	"fmt"
	"slices"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// compile sets want to the map elements for the intents of a port with this
// action; res keeps the compiler's table from one call to the next. The error
// says why the intents cannot be carried out; want is of no use then.
func compile(c *vlanrules.Compiler, s *vendors.Setup, action vlanrules.Action, res *vlanrules.Result, want *[]interval, intents []vlanrules.Intent) error {
	for i := range intents {
		in := &intents[i]
		switch {
		case in.Action != vlanrules.Update:
		case action != vlanrules.Update:
			return fmt.Errorf("its setup is %s: apply a setup that updates it first", action)
		case !slices.Contains(s.Signals, in.Signal):
			return fmt.Errorf("%s is not a signal of the setup", in.Signal)
		}
	}
	c.Compile(res, res.Table, intents)
	if res.Verdict.Level != vlanrules.Full {
		return errors.New(res.Verdict.Reason)
	}
	var err error
	*want, err = lower(*want, res.Table)
	return err
}

// signal is what a port is to write.
type signal struct {
	intents  []vlanrules.Intent // what want was compiled from
	compiled bool
	refused  *vendors.PermanentError
	result   vlanrules.Result
	want     []interval
}

// compile sets the port's want for the intents. After an error it is the
// fallback.
func (g *signal) compile(c *vlanrules.Compiler, s *vendors.Setup, stale []interval, port string, action vlanrules.Action, intents []vlanrules.Intent) error {
	if g.compiled && slices.Equal(g.intents, intents) {
		if g.refused != nil {
			return g.refused
		}
		return nil
	}
	g.intents = append(g.intents[:0], intents...)
	g.compiled, g.refused = true, nil
	err := compile(c, s, action, &g.result, &g.want, intents)
	if err == nil {
		return nil
	}
	g.want = fallback(g.want, s, stale)
	g.refused = &vendors.PermanentError{Port: port, Err: err}
	return g.refused
}

// fallback are a port's elements while its intents cannot be carried out.
func fallback(dst []interval, s *vendors.Setup, stale []interval) []interval {
	if s.OnStale != inventory.Conservative {
		return dst[:0]
	}
	return append(dst[:0], stale...)
}
