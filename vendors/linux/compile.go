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

// fallback are a port's elements while its intents cannot be carried out.
func fallback(dst []interval, s *vendors.Setup, stale []interval) []interval {
	if s.OnStale != inventory.Conservative {
		return dst[:0]
	}
	return append(dst[:0], stale...)
}
