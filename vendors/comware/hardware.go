package comware

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/vendors"
)

// A class that the switch accepts may not be in hardware: its tables have no room for it,
// for example. So nothing old is taken out before the switch has reported the new.

// carryOut gives the lines of a change. Its error is of the change's port, where it has one,
// unless the session is of no use any more.
func (d *Driver) carryOut(ctx context.Context, c *change) error {
	if c == nil {
		return nil
	}
	if len(c.policy) > 0 {
		d.unproved[c.port] = true
	}
	if err := d.write(ctx, c.port, c.first); err != nil {
		return err
	}
	if len(c.policy) > 0 {
		if err := d.prove(ctx, c.port, c.policy); err != nil {
			d.view = nil // what it was to take out is still there
			return err
		}
	}
	return d.write(ctx, c.port, c.then)
}

// write gives commands of configuration. Where one fails, how far it came is read back.
func (d *Driver) write(ctx context.Context, port string, lines []string) error {
	switch {
	case len(lines) == 0:
		return nil
	case d.offline != nil:
		*d.offline = append(*d.offline, lines...)
		return nil
	}
	err := d.session.Configure(ctx, lines)
	if err == nil {
		return nil
	}
	d.view = nil
	if port != "" && !d.lost() {
		err = &vendors.PortError{Port: port, Err: err}
	}
	return err
}

// prove reads whether classes of a port's policy are in hardware, by the switch's own
// report. Until they are, the port is unproved.
func (d *Driver) prove(ctx context.Context, port string, classes []string) error {
	if d.offline != nil {
		return nil
	}
	lines, err := d.session.Run(ctx, "display qos policy interface "+port+" outbound")
	if err == nil {
		err = inHardware(lines, classes)
	}
	switch {
	case err == nil:
		delete(d.unproved, port)
		return nil
	case d.lost():
		return err
	}
	d.unproved[port] = true
	return &vendors.PortError{Port: port, Err: err}
}

// inHardware is why classes are not, by a report of the switch; nil where they are.
func inHardware(report, classes []string) error {
	class, reported := "", map[string]bool{}
	for _, line := range report {
		text := strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(text, "Classifier: "); ok {
			class, _, _ = strings.Cut(name, " ")
			reported[class] = true
		}
		if strings.Contains(strings.ToLower(text), "failed") && (class == "" || slices.Contains(classes, class)) {
			return fmt.Errorf("class %s of its policy is %w, and what was there before stays: %s", class, vendors.ErrNotInHardware, text)
		}
	}
	if i := slices.IndexFunc(classes, func(name string) bool { return !reported[name] }); i >= 0 {
		return fmt.Errorf("class %s of its policy is configured, and the switch does not report it at the port; what was there before stays", classes[i])
	}
	return nil
}
