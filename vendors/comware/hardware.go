package comware

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
)

// A class that the switch accepts may not be in hardware: its tables have no room for it,
// for example. So nothing old is taken out before the switch has reported the new.

// hardware notes of ports whether all classes of their policies are in hardware.
func (d *Driver) hardware(ctx context.Context, v *qos.View, ports []string) error {
	for _, port := range ports {
		err := d.prove(ctx, port, associated(v, port))
		if err != nil && d.Lost() {
			return err
		}
		v.Hardware[port] = err
	}
	return nil
}

// prove reads whether classes of a port's policy are in hardware, by the switch's own report.
func (d *Driver) prove(ctx context.Context, port string, classes []string) error {
	lines, err := d.Session.Run(ctx, "display qos policy interface "+port+" outbound")
	if err == nil {
		err = inHardware(lines, classes)
	}
	return err
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
