package inventory

import "github.com/goccy/go-yaml"

type hostYAML struct {
	Name safeText `yaml:"name"`
	MTU  int      `yaml:"mtu,omitempty"`
	CSIG bool     `yaml:"csig,omitempty"`

	Interface  safeText            `yaml:"interface,omitempty"`
	Local      bool                `yaml:"local,omitempty"`
	Management *hostManagementYAML `yaml:"management,omitempty"`
}

type hostManagementYAML struct {
	NetNS safeText `yaml:"netns"`
}

type levelYAML struct {
	Is     string   `yaml:"is"`
	Reason safeText `yaml:"reason,omitempty"`

	Profile safeText `yaml:"profile,omitempty"`
}

type managementYAML struct {
	NetNS  safeText    `yaml:"netns,omitempty"`
	SSH    *sshYAML    `yaml:"ssh,omitempty"`
	Daemon *daemonYAML `yaml:"daemon,omitempty"`
	OVS    *ovsYAML    `yaml:"ovs,omitempty"`
	Redis  *redisYAML  `yaml:"redis,omitempty"`
}

type ovsYAML struct {
	Bridge safeText `yaml:"bridge"`
	RunDir safeText `yaml:"run_dir,omitempty"`
	Table  uint8    `yaml:"table"`
}

type redisYAML struct {
	Socket    safeText    `yaml:"socket,omitempty"`
	Port      uint16      `yaml:"port,omitempty"`
	Databases safeText    `yaml:"databases,omitempty"`
	Password  *flowSecret `yaml:"password,omitempty"`
}

type sshYAML struct {
	User       safeText    `yaml:"user"`
	Port       uint16      `yaml:"port"`
	Key        safeText    `yaml:"key,omitempty"`
	Passphrase *flowSecret `yaml:"passphrase,omitempty"`
	Agent      bool        `yaml:"agent,omitempty"`
	Password   *flowSecret `yaml:"password,omitempty"`
	KnownHosts safeText    `yaml:"known_hosts,omitempty"`
	Sudo       *flowSudo   `yaml:"sudo,omitempty"`
}

type daemonYAML struct {
	Socket safeText `yaml:"socket,omitempty"`
	Port   uint16   `yaml:"port,omitempty"`
	TLS    *tlsYAML `yaml:"tls,omitempty"`
}

// flowHost and flowLevel take one line each.
type (
	flowHost  hostYAML
	flowLevel levelYAML
)

// MarshalYAML writes the host in braces.
func (h flowHost) MarshalYAML() ([]byte, error) {
	return yaml.MarshalWithOptions(hostYAML(h), yaml.Flow(true))
}

// MarshalYAML writes the level in braces.
func (l flowLevel) MarshalYAML() ([]byte, error) {
	return yaml.MarshalWithOptions(levelYAML(l), yaml.Flow(true))
}

// flowSudo is true, or a mapping in braces where it has a password of its own.
type flowSudo struct {
	Password *flowSecret `yaml:"password"`
}

// MarshalYAML writes one line.
func (s flowSudo) MarshalYAML() ([]byte, error) {
	if s.Password == nil {
		return []byte("true"), nil
	}
	type plain flowSudo
	return yaml.MarshalWithOptions(plain(s), yaml.Flow(true))
}

func sudoOf(s *Sudo) *flowSudo {
	if s == nil {
		return nil
	}
	return &flowSudo{secretOf(s.Password)}
}

// levelOf is nil for what the file need not say.
func levelOf(l Level) *flowLevel {
	if l == (Level{}) {
		return nil
	}
	return &flowLevel{Is: l.Support.String(), Reason: safeText(l.Reason), Profile: safeText(l.Profile)}
}

func managementOf(m Management) *managementYAML {
	if m == (Management{}) {
		return nil
	}
	out := &managementYAML{NetNS: safeText(m.NetNS)}
	if s := m.SSH; s != nil {
		out.SSH = &sshYAML{
			User: safeText(s.User), Port: s.Port, Key: safeText(s.Key), Passphrase: secretOf(s.Passphrase),
			Agent: s.Agent, Password: secretOf(s.Password), KnownHosts: safeText(s.KnownHosts), Sudo: sudoOf(s.Sudo),
		}
	}
	if d := m.Daemon; d != nil {
		out.Daemon = &daemonYAML{Socket: safeText(d.Socket), Port: d.Port, TLS: tlsOf(d.TLS)}
	}
	if o := m.OVS; o != nil {
		out.OVS = &ovsYAML{Bridge: safeText(o.Bridge), RunDir: safeText(o.RunDir), Table: o.Table}
	}
	if r := m.Redis; r != nil {
		out.Redis = &redisYAML{Socket: safeText(r.Socket), Port: r.Port, Databases: safeText(r.Databases), Password: secretOf(r.Password)}
	}
	return out
}

// tlsOf is nil for the defaults.
func tlsOf(t TLS) *tlsYAML {
	if t == (TLS{}) {
		return nil
	}
	return &tlsYAML{
		CA: safeText(t.CA), Cert: safeText(t.Cert), Key: safeText(t.Key),
		ServerName: safeText(t.ServerName), InsecureSkipVerify: t.InsecureSkipVerify,
	}
}
