package comware

import "github.com/csig-agent/csig/vendors/cli/qos"

// view is what a switch has, with what is there of the dead-man.
type view struct {
	*qos.View
	*deadObjects
}

// parse reads a configuration as the driver does.
func parse(lines []string) (*view, error) {
	v, err := qos.Parse(dialect, lines, section)
	if err != nil {
		return nil, err
	}
	return &view{v, deadIn(v)}, nil
}

// outbound is the policy applied at a port, "" for none.
func outbound(p *qos.Port) string {
	if len(p.Applied) == 0 {
		return ""
	}
	return p.Applied[0]
}
