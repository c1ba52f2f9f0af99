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
			d.Counters.SNMP = &c
		}
		if g := d.Counters.GNMI; g != nil {
			c := *g
			d.Counters.GNMI = &c
		}
		if s := d.Management.SSH; s != nil {
			c := *s
			if s.Sudo != nil {
				sudo := *s.Sudo
				c.Sudo = &sudo
			}
			d.Management.SSH = &c
		}
		if r := d.Management.Redis; r != nil {
			c := *r
			d.Management.Redis = &c
		}
		for _, s := range d.secrets() {
			*s = s.bare()
		}
	}
	return &out
}

// Secrets are the places of all secrets that the fleet names.
func (f *Fleet) Secrets() []Secret {
	var out []Secret
	for i := range f.Devices {
		for _, s := range f.Devices[i].secrets() {
			if !s.IsZero() {
				out = append(out, *s)
			}
		}
	}
	return out
}

// secrets are all those that a device may have.
func (d *Device) secrets() []*Secret {
	var out []*Secret
	if s := d.Counters.SNMP; s != nil {
		out = append(out, &s.Community, &s.Auth.Key, &s.Priv.Key)
	}
	if g := d.Counters.GNMI; g != nil {
		out = append(out, &g.Password)
	}
	if s := d.Management.SSH; s != nil {
		out = append(out, &s.Passphrase, &s.Password)
		if s.Sudo != nil {
			out = append(out, &s.Sudo.Password)
		}
	}
	if r := d.Management.Redis; r != nil {
		out = append(out, &r.Password)
	}
	return out
}

func (s Secret) bare() Secret {
	if len(s.Command) > 1 {
		s.Command = []string{s.Command[0], hiddenArguments}
	}
	return s
}
