package inventory

import "slices"

// hiddenArguments stands for the arguments of a command in what is shown.
const hiddenArguments = "(arguments left out)"

// WithoutArguments returns the fleet as it may be shown: of commands that fetch
// secrets the programs alone, since people do put tokens into arguments. What
// holds no secret is shared with f.
func (f *Fleet) WithoutArguments() *Fleet {
	out := *f
	out.Devices = slices.Clone(f.Devices)
	for i := range out.Devices {
		d := &out.Devices[i]
		if s := d.Counters.SNMP; s != nil {
			c := *s
			c.Community, c.Auth.Key, c.Priv.Key = s.Community.bare(), s.Auth.Key.bare(), s.Priv.Key.bare()
			d.Counters.SNMP = &c
		}
		if g := d.Counters.GNMI; g != nil {
			c := *g
			c.Password = g.Password.bare()
			d.Counters.GNMI = &c
		}
		if s := d.Management.SSH; s != nil {
			c := *s
			c.Passphrase, c.Password = s.Passphrase.bare(), s.Password.bare()
			if s.Sudo != nil {
				c.Sudo = &Sudo{Password: s.Sudo.Password.bare()}
			}
			d.Management.SSH = &c
		}
		if r := d.Management.Redis; r != nil {
			c := *r
			c.Password = r.Password.bare()
			d.Management.Redis = &c
		}
	}
	return &out
}

func (s Secret) bare() Secret {
	if len(s.Command) > 1 {
		s.Command = []string{s.Command[0], hiddenArguments}
	}
	return s
}
