package inventory

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml/ast"

	"github.com/csig-agent/csig/quantize"
)

// counters reads a device's counters block; device is the device's own mapping.
func (p *profileReader) counters(device object) Counters {
	var c Counters
	n := device.get("counters")
	if n == nil {
		return c
	}
	what := device.what + ": counters"
	defer p.quietly()() // a credential may be in the wrong place
	o, ok := p.object(n, what, "source", "overhead", "refresh", "snmp", "gnmi")
	if !ok {
		return c
	}
	if n := o.get("overhead"); n != nil {
		if v, ok := p.number(n, what+": overhead", 64); ok {
			bytes := uint8(v)
			c.Overhead = &bytes
		}
	}
	c.Refresh = p.duration(o.get("refresh"), what+": refresh", 0, time.Millisecond, time.Hour)
	sourceOK := true
	if n := o.get("source"); n != nil {
		var word string
		word, sourceOK = p.word(n, what+": source", string(LinuxSource), string(SNMPSource), string(GNMISource), string(SONiCSource), string(OVSSource))
		c.Source = Source(word)
	}
	// All that is given is read, for its own mistakes.
	if n := o.get("snmp"); n != nil {
		c.SNMP = p.snmp(n, what+": snmp")
	}
	if n := o.get("gnmi"); n != nil {
		c.GNMI = p.gnmi(n, what+": gnmi")
	}
	if !sourceOK {
		return c
	}
	for _, source := range []Source{SNMPSource, GNMISource} {
		block, given := o.values[string(source)]
		switch {
		case given && c.Source == PlatformSource:
			p.errorf(block.key, fmt.Sprintf("add source: %s", source), "%s: %s is given, but the source is the platform's own", what, source)
		case given && c.Source != source:
			p.errorf(block.key, fmt.Sprintf("remove it, or make the source %s", source), "%s: %s is given, but the source is %s", what, source, c.Source)
		case !given && c.Source == source:
			p.errorf(n, map[Source]string{
				SNMPSource: "e.g. snmp: {version: 2c, community: {env: SNMP_COMMUNITY}}",
				GNMISource: "e.g. gnmi: {tls: {ca: /etc/csig/ca.pem}}, or gnmi: {} for the defaults",
			}[source], "%s: %q is missing: it says how to ask the device", what, source)
		}
	}
	return c
}

func (r *reader) snmp(n ast.Node, what string) *SNMP {
	out := &SNMP{Port: DefaultSNMPPort, Timeout: DefaultSNMPTimeout, Retries: DefaultSNMPRetries, Discards: "learn"}
	o, ok := r.object(n, what, "version", "port", "community", "user", "auth", "priv", "context", "timeout", "retries", "recheck", "discards")
	if !ok {
		return out
	}
	version := o.need("version", "2c, or 3")
	out.Version, _ = r.word(version, what+": version", "2c", "3")
	out.Port = r.port16(o.get("port"), what+": port", out.Port)
	out.Community = r.secret(o.get("community"), what+": community")
	out.User, _ = r.printableText(o.get("user"), what+": user", 32)
	out.Auth = r.snmpKey(o.get("auth"), what+": auth", "md5", "sha", "sha224", "sha256", "sha384", "sha512")
	out.Priv = r.snmpKey(o.get("priv"), what+": priv", "des", "aes", "aes192", "aes256", "aes192c", "aes256c")
	out.Context, _ = r.printableText(o.get("context"), what+": context", 32)
	out.Timeout = r.duration(o.get("timeout"), what+": timeout", out.Timeout, time.Millisecond, time.Minute)
	if n := o.get("retries"); n != nil {
		v, _ := r.number(n, what+": retries", 10)
		out.Retries = int(v)
	}
	out.Recheck = r.duration(o.get("recheck"), what+": recheck", 0, 0, 24*time.Hour)
	if n := o.get("discards"); n != nil {
		out.Discards, _ = r.word(n, what+": discards", "learn", "included", "excluded")
	}
	switch out.Version {
	case "2c":
		o.needToo("version 2c", "e.g. community: {env: SNMP_COMMUNITY}", "community")
		o.refuse("belongs to version 3", "user", "auth", "priv", "context")
	case "3":
		o.needToo("version 3", "the name that the device knows csig by", "user")
		o.refuse("belongs to version 2c", "community")
		if _, priv := o.values["priv"]; priv {
			o.needToo("priv", "SNMPv3 has no privacy without authentication", "auth")
		}
	}
	return out
}

func (r *reader) snmpKey(n ast.Node, what string, protocols ...string) SNMPKey {
	var out SNMPKey
	if n == nil {
		return out
	}
	o, ok := r.object(n, what, "protocol", "key")
	if !ok {
		return out
	}
	if n := o.need("protocol", "want "+oneOf(protocols)); n != nil {
		out.Protocol, _ = r.word(n, what+": protocol", protocols...)
	}
	out.Key = r.secret(o.need("key", "e.g. key: {file: /etc/csig/snmp-key}"), what+": key")
	return out
}

func (r *reader) gnmi(n ast.Node, what string) *GNMI {
	out := &GNMI{Port: DefaultGNMIPort, Mode: "auto", Timeout: DefaultGNMITimeout}
	o, ok := r.object(n, what, "port", "tls", "plaintext", "username", "password", "allow_plaintext_password", "target", "mode", "timeout")
	if !ok {
		return out
	}
	out.Port = r.port16(o.get("port"), what+": port", out.Port)
	out.TLS = r.tls(o.get("tls"), what+": tls", "insecure_skip_verify")
	out.Plaintext = r.bool(o.get("plaintext"), what+": plaintext")
	out.Username, _ = r.printableText(o.get("username"), what+": username", 255)
	out.Password = r.secret(o.get("password"), what+": password")
	out.AllowPlaintextPassword = r.bool(o.get("allow_plaintext_password"), what+": allow_plaintext_password")
	out.Target, _ = r.printableText(o.get("target"), what+": target", 255)
	if n := o.get("mode"); n != nil {
		out.Mode, _ = r.word(n, what+": mode", "auto", "sample", "target-defined", "get")
	}
	out.Timeout = r.duration(o.get("timeout"), what+": timeout", out.Timeout, time.Millisecond, time.Minute)

	o.together("username", "password")
	if password, given := o.values["password"]; given && out.Plaintext && !out.AllowPlaintextPassword {
		r.errorf(password.key, "use tls; or, where nobody can listen in, add allow_plaintext_password: true", "%s: plaintext would show the password to the network", what)
	}
	if out.Plaintext {
		o.refuse("has no meaning under plaintext", "tls")
	}
	return out
}

// tls reads certificates; more are keys besides those that all connections have.
func (r *reader) tls(n ast.Node, what string, more ...string) TLS {
	var out TLS
	if n == nil {
		return out
	}
	o, ok := r.object(n, what, append([]string{"ca", "cert", "key", "server_name"}, more...)...)
	if !ok {
		return out
	}
	out.CA = r.path(o.get("ca"), what+": ca")
	out.Cert = r.path(o.get("cert"), what+": cert")
	out.Key = r.path(o.get("key"), what+": key")
	if n := o.get("server_name"); n != nil {
		out.ServerName = r.address(n, what+": server_name")
	}
	out.InsecureSkipVerify = r.bool(o.get("insecure_skip_verify"), what+": insecure_skip_verify")
	o.together("cert", "key")
	if out.InsecureSkipVerify {
		o.refuse("would not be looked at under insecure_skip_verify", "ca")
	}
	return out
}

// secret reads where a credential is. What stands there instead is never
// repeated: it is most likely the credential.
func (r *reader) secret(n ast.Node, what string) Secret {
	const hint = "say where it is: {env: NAME}, {file: /PATH} or {command: [PROGRAM, ARGUMENT]}"
	var out Secret
	if n == nil {
		return out
	}
	mapping, ok := n.(ast.MapNode)
	if !ok {
		problem := "want a mapping here"
		if _, plain := scalar(n); plain || n.Type() == ast.LiteralType || n.Type() == ast.BoolType {
			problem = "a secret is not written into a fleet file"
		}
		r.errorf(n, hint, "%s: %s", what, problem)
		return out
	}
	var key string
	var value ast.Node
	count := 0
	for iter := mapping.MapRange(); iter.Next(); count++ {
		key, _ = scalar(iter.Key())
		value = iter.Value()
	}
	if count != 1 || key != "env" && key != "file" && key != "command" {
		r.errorf(n, hint, "%s: want one of env, file and command here", what)
		return out
	}
	if value = r.resolve(value); value == nil {
		return out
	}
	what += ": " + key
	switch key {
	case "env":
		name, ok := scalar(value)
		if !ok || !variable.MatchString(name) {
			r.errorf(value, "the secret itself is not written into a fleet file", "%s: this is not the name of an environment variable", what)
			return out
		}
		out.Env = name
	case "file":
		out.File = r.path(value, what)
	case "command":
		out.Command = r.command(value, what)
	}
	return out
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,254}$`)

// maxArguments is how many words a command may have.
const maxArguments = 64

func (r *reader) command(n ast.Node, what string) []string {
	const hint = "there is no shell: each word is an entry, e.g. [pass, show, snmp/community]"
	if n.Type() != ast.SequenceType {
		r.errorf(n, hint, "%s: want a list of the program and its arguments here", what)
		return nil
	}
	list, _ := r.list(n, what)
	var out []string
	for _, item := range list {
		arg, ok := scalar(item)
		if !ok || !printableLine(arg, maxPath) {
			r.errorf(item, hint, "%s: this entry is not a line of text", what)
			return nil
		}
		out = append(out, arg)
	}
	if len(out) == 0 || out[0] == "" || len(out) > maxArguments {
		r.errorf(n, hint, "%s: want a program and up to %d arguments", what, maxArguments-1)
		return nil
	}
	return out
}

const maxPath = 4096 // bytes, as Linux has it

// path reads the path of a file with keys. It is absolute: csig agent runs in
// another folder than the person who tries the file. It is not repeated, since
// a secret in its place would be.
func (r *reader) path(n ast.Node, what string) string {
	if n == nil {
		return ""
	}
	s, ok := scalar(n)
	if !ok || !path.IsAbs(s) || !printableLine(s, maxPath) {
		r.errorf(n, "e.g. /etc/csig/ca.pem", "%s: want the absolute path of a file here", what)
		return ""
	}
	return s
}

// printableLine says whether a text is one line that can be shown and written.
func printableLine(s string, most int) bool {
	return len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// printableText reads a text of at most that many bytes, "" when there is none.
func (r *reader) printableText(n ast.Node, what string, most int) (string, bool) {
	s, ok := r.text(n, what)
	if ok && (s == "" || !printableLine(s, most)) {
		r.errorf(n, "", "%s: want 1 to %d bytes of text, found %s", what, most, r.quote(s))
		return "", false
	}
	return s, ok
}

var (
	hostLabel  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)
	allDigits  = regexp.MustCompile(`^[0-9]+$`)
	hostPort   = regexp.MustCompile(`^(.*[^:]|\[.*\]):[0-9]+$`)
	zone       = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)
	errAddress = errors.New("is neither an IP address nor a host's name")
)

// address reads an IP address or a host's name.
func (r *reader) address(n ast.Node, what string) string {
	s, ok := r.text(n, what)
	if !ok {
		return ""
	}
	if err := checkAddress(s); err != nil {
		hint := "e.g. 192.0.2.7, 2001:db8::7 or leaf-1.example.net"
		if hostPort.MatchString(s) {
			hint = "leave the port out: it belongs to counters, e.g. snmp: {port: 161}"
		}
		r.errorf(n, hint, "%s: %s %v", what, r.quote(s), err)
		return ""
	}
	return s
}

func checkAddress(s string) error {
	if ip, err := netip.ParseAddr(s); err == nil {
		if !zone.MatchString(ip.Zone()) {
			return errAddress
		}
		return nil
	}
	labels := strings.Split(strings.TrimSuffix(s, "."), ".")
	if len(s) > 253 || allDigits.MatchString(labels[len(labels)-1]) { // 10.0.0.256
		return errAddress
	}
	for _, l := range labels {
		if !hostLabel.MatchString(l) {
			return errAddress
		}
	}
	return nil
}

func (r *reader) port16(n ast.Node, what string, otherwise uint16) uint16 {
	if n == nil {
		return otherwise
	}
	v, ok := r.number(n, what, 1<<16-1)
	if ok && v == 0 {
		r.errorf(n, "", "%s: port 0 cannot be asked", what)
	}
	return uint16(v)
}

// duration reads a duration from least to most.
func (r *reader) duration(n ast.Node, what string, otherwise, least, most time.Duration) time.Duration {
	if n == nil {
		return otherwise
	}
	s, ok := r.text(n, what)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		r.errorf(n, "write it with its unit: 500ms, 2s", "%s: %s is not a duration", what, r.quote(s))
		return 0
	case d < least || d > most:
		r.errorf(n, "", "%s: want %s to %s, found %s", what, least, most, s)
		return 0
	}
	return d
}

// estimator reads how samples become a rate.
func (p *profileReader) estimator(n ast.Node, what string, otherwise Estimator) Estimator {
	if n == nil {
		return otherwise
	}
	what += ": estimator"
	o, ok := p.object(n, what, "method", "time_constant")
	if !ok {
		return otherwise
	}
	word, _ := p.word(o.need("method", "raw, ewma or dre"), what+": method", string(Raw), string(EWMA), string(DRE))
	out := Estimator{Method: Method(word)}
	out.TimeConstant = p.duration(o.get("time_constant"), what+": time_constant", 0, MinPeriod, time.Hour)
	switch out.Method {
	case Raw:
		o.refuse("has no meaning for raw, which averages over the interval", "time_constant")
	case EWMA, DRE:
		o.needToo(word, "e.g. time_constant: 500ms", "time_constant")
	}
	return out
}

// Bounds of Damping.
const (
	maxHold    = 1000
	wholeWidth = 1_000_000 // ppm
	marginStep = 1_000     // ppm
)

func (p *profileReader) damping(n ast.Node) Damping {
	var out Damping
	if n == nil {
		return out
	}
	o, ok := p.object(n, "policy: damping", "hold", "margin")
	if !ok {
		return out
	}
	if n := o.get("hold"); n != nil {
		v, _ := p.number(n, "policy: damping: hold", maxHold)
		out.Hold = int(v)
	}
	if n := o.get("margin"); n != nil {
		v, ok := p.value(n, "policy: damping: margin", quantize.MinABWC)
		if ok && (v > wholeWidth || v%marginStep != 0) {
			p.errorf(n, "it is a part of the better bucket's width, e.g. 10%", "policy: damping: margin: want 0%% to 100%% in steps of 0.1%%")
			v = 0
		}
		out.Margin = v
	}
	return out
}
