package inventory

import (
	"time"

	"github.com/goccy/go-yaml"

	"github.com/csig-agent/csig/quantize"
)

type countersYAML struct {
	Source   string    `yaml:"source,omitempty"`
	Overhead *uint8    `yaml:"overhead,omitempty"`
	Refresh  string    `yaml:"refresh,omitempty"`
	SNMP     *snmpYAML `yaml:"snmp,omitempty"`
	GNMI     *gnmiYAML `yaml:"gnmi,omitempty"`
}

type snmpYAML struct {
	Version   string       `yaml:"version"`
	Port      uint16       `yaml:"port"`
	Community *flowSecret  `yaml:"community,omitempty"`
	User      safeText     `yaml:"user,omitempty"`
	Auth      *snmpKeyYAML `yaml:"auth,omitempty"`
	Priv      *snmpKeyYAML `yaml:"priv,omitempty"`
	Context   safeText     `yaml:"context,omitempty"`
	Timeout   string       `yaml:"timeout"`
	Retries   int          `yaml:"retries"`
	Recheck   string       `yaml:"recheck"`
	Discards  string       `yaml:"discards"`
}

type snmpKeyYAML struct {
	Protocol string      `yaml:"protocol"`
	Key      *flowSecret `yaml:"key,omitempty"`
}

type gnmiYAML struct {
	Port                   uint16      `yaml:"port"`
	TLS                    *tlsYAML    `yaml:"tls,omitempty"`
	Plaintext              bool        `yaml:"plaintext,omitempty"`
	Username               safeText    `yaml:"username,omitempty"`
	Password               *flowSecret `yaml:"password,omitempty"`
	AllowPlaintextPassword bool        `yaml:"allow_plaintext_password,omitempty"`
	Target                 safeText    `yaml:"target,omitempty"`
	Mode                   string      `yaml:"mode"`
	Timeout                string      `yaml:"timeout"`
}

type tlsYAML struct {
	CA                 safeText `yaml:"ca,omitempty"`
	Cert               safeText `yaml:"cert,omitempty"`
	Key                safeText `yaml:"key,omitempty"`
	ServerName         safeText `yaml:"server_name,omitempty"`
	InsecureSkipVerify bool     `yaml:"insecure_skip_verify,omitempty"`
}

type secretYAML struct {
	Env     safeText   `yaml:"env,omitempty"`
	File    safeText   `yaml:"file,omitempty"`
	Command []safeText `yaml:"command,omitempty"`
}

// flowSecret takes one line.
type flowSecret secretYAML

// MarshalYAML writes the reference in braces.
func (s flowSecret) MarshalYAML() ([]byte, error) {
	return yaml.MarshalWithOptions(secretYAML(s), yaml.Flow(true))
}

type estimatorYAML struct {
	Method       string `yaml:"method"`
	TimeConstant string `yaml:"time_constant,omitempty"`
}

type dampingYAML struct {
	Hold   int    `yaml:"hold,omitempty"`
	Margin string `yaml:"margin,omitempty"`
}

func countersOf(c *Counters) *countersYAML {
	if *c == (Counters{}) {
		return nil
	}
	out := &countersYAML{Source: string(c.Source), Overhead: c.Overhead, Refresh: nonZero(c.Refresh)}
	if s := c.SNMP; s != nil {
		out.SNMP = &snmpYAML{
			Version: s.Version, Port: s.Port, Community: secretOf(s.Community),
			User: safeText(s.User), Auth: snmpKeyOf(s.Auth), Priv: snmpKeyOf(s.Priv),
			Context: safeText(s.Context), Timeout: s.Timeout.String(), Retries: s.Retries, Recheck: s.Recheck.String(), Discards: s.Discards,
		}
	}
	if g := c.GNMI; g != nil {
		out.GNMI = &gnmiYAML{
			Port: g.Port, Plaintext: g.Plaintext, Username: safeText(g.Username), Password: secretOf(g.Password),
			AllowPlaintextPassword: g.AllowPlaintextPassword, Target: safeText(g.Target), Mode: g.Mode, Timeout: g.Timeout.String(),
		}
		if t := g.TLS; t != (TLS{}) {
			out.GNMI.TLS = &tlsYAML{
				CA: safeText(t.CA), Cert: safeText(t.Cert), Key: safeText(t.Key),
				ServerName: safeText(t.ServerName), InsecureSkipVerify: t.InsecureSkipVerify,
			}
		}
	}
	return out
}

func snmpKeyOf(k SNMPKey) *snmpKeyYAML {
	if k.Protocol == "" && k.Key.IsZero() {
		return nil
	}
	return &snmpKeyYAML{Protocol: k.Protocol, Key: secretOf(k.Key)}
}

func secretOf(s Secret) *flowSecret {
	if s.IsZero() {
		return nil
	}
	out := &flowSecret{Env: safeText(s.Env), File: safeText(s.File)}
	for _, arg := range s.Command {
		out.Command = append(out.Command, safeText(arg))
	}
	return out
}

// estimatorOf is nil for what the file need not say.
func estimatorOf(e, otherwise Estimator) *estimatorYAML {
	if e.orRaw() == otherwise.orRaw() {
		return nil
	}
	return &estimatorYAML{Method: string(e.orRaw().Method), TimeConstant: nonZero(e.TimeConstant)}
}

// orRaw gives the zero value its method.
func (e Estimator) orRaw() Estimator {
	if e.Method == "" {
		e.Method = Raw
	}
	return e
}

func dampingOf(d Damping) *dampingYAML {
	if d == (Damping{}) {
		return nil
	}
	out := &dampingYAML{Hold: d.Hold}
	if d.Margin != 0 {
		out.Margin = valueText(quantize.MinABWC, d.Margin)
	}
	return out
}

func nonZero(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
