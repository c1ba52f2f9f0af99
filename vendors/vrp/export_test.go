package vrp

import "github.com/csig-agent/csig/vendors/cli/qos"

// parse reads a configuration as the driver does.
func (p *profile) parse(lines []string) (*qos.View, error) {
	return qos.Parse(p.dialect, lines, section)
}
