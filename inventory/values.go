package inventory

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/ast"
)

const maxPath = 4096 // bytes, as Linux has it

// path reads the path of a file with keys. It is absolute: csig agent runs in
// another folder than the person who tries the file. It is not repeated, since
// a secret in its place would be.
func (r *reader) path(n ast.Node, what string) (string, bool) {
	s, ok := scalar(n)
	if !ok || !path.IsAbs(s) || !printableLine(s, maxPath) {
		r.errorf(n, "e.g. /etc/csig/ca.pem", "%s: want the absolute path of a file here", what)
		return "", false
	}
	return s, true
}

// printableLine reports whether a text is one line that can be shown and written.
func printableLine(s string, most int) bool {
	return len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// paths reads the path of something that devices have each their own of: a range
// stands for several.
func (r *reader) paths(n ast.Node, what string) (string, bool) {
	s, ok := r.path(n, what)
	if ok && strings.ContainsAny(s, "[]") {
		_, ok = r.expand(n, s, what)
	}
	return s, ok
}

// onePath is path for something that belongs to one device alone: there are no
// ranges, and a path with brackets is most likely meant as one.
func (r *reader) onePath(n ast.Node, what string) (string, bool) {
	s, ok := r.path(n, what)
	if strings.ContainsAny(s, "[]") {
		r.errorf(n, "write an entry for each device; ranges work in names, addresses, netns, peers and links", "%s: there are no ranges in this path", what)
		return "", false
	}
	return s, ok
}

var (
	hostLabel   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)
	allDigits   = regexp.MustCompile(`^[0-9]+$`)
	hostPort    = regexp.MustCompile(`^(.*[^:]|\[.*\]):[0-9]+$`)
	zone        = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)
	errAddress  = errors.New("is neither an IP address nor a host's name")
	errNoDevice = errors.New("is the address of no single device")
)

// notAddress says why a text is neither an IP address of a single device nor a host's name.
func notAddress(text string, quote func(string) string) (problem, hint string) {
	err := checkAddress(text)
	switch {
	case err == nil:
		return "", ""
	case errors.Is(err, errNoDevice):
		hint = "e.g. 192.0.2.7, 2001:db8::7 or leaf-1.example.net"
	case hostPort.MatchString(text):
		hint = "leave the port out: a key of its own has it, e.g. snmp: {port: 161} or openflow: {port: 6653}"
	default:
		hint = "e.g. 192.0.2.7, 2001:db8::7 or leaf-1.example.net"
	}
	return fmt.Sprintf("%s %v", quote(text), err), hint
}

func notIP(text string, quote func(string) string) (problem, hint string) {
	if ip, err := netip.ParseAddr(text); err != nil || ip.Zone() != "" || checkAddress(text) != nil {
		return quote(text) + " is not the IP address of a host", "e.g. 192.0.2.7 or 2001:db8::7, or 192.0.2.[1-4] for four hosts"
	}
	return "", ""
}

// addresses reads one address for each device.
func (r *reader) addresses(n ast.Node, what string) (string, bool) {
	if text, ok := scalar(n); !ok || !strings.ContainsAny(text, "[]") || checkAddress(text) == nil {
		return checked(notAddress)(r, n, what)
	}
	return ranged(func(text string, quote func(string) string) (problem, hint string) {
		if err := checkAddress(text); err != nil {
			return fmt.Sprintf("%s %v", quote(text), err), "e.g. 192.0.2.[1-4]"
		}
		return "", ""
	})(r, n, what)
}

func checkAddress(s string) error {
	if ip, err := netip.ParseAddr(s); err == nil {
		if !zone.MatchString(ip.Zone()) {
			return errAddress
		}
		if ip = ip.Unmap().WithZone(""); ip.IsUnspecified() || ip.IsMulticast() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
			return errNoDevice // a listener can have it
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

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,254}$`)

// readFrom reads where a credential is. What stands there instead is never
// repeated: it is most likely the credential.
func (s *Secret) readFrom(r *reader, n ast.Node, what string) bool {
	const hint = "say where it is: {env: NAME}, {file: /PATH} or {command: [PROGRAM, ARGUMENT]}"
	pairs, ok := n.(ast.MapNode)
	if !ok {
		problem := "want a mapping here"
		if _, plain := scalar(n); plain || n.Type() == ast.LiteralType || n.Type() == ast.BoolType {
			problem = "a secret is not written into a fleet file"
		}
		r.errorf(n, hint, "%s: %s", what, problem)
		return false
	}
	var key string
	var value ast.Node
	count := 0
	for iter := pairs.MapRange(); iter.Next(); count++ {
		key, _ = scalar(iter.Key())
		value = iter.Value()
	}
	if count != 1 || key != "env" && key != "file" && key != "command" {
		r.errorf(n, hint, "%s: want one of env, file and command here", what)
		return false
	}
	if value = r.resolve(value); value == nil {
		return false
	}
	what += ": " + key
	switch key {
	case "env":
		name, ok := scalar(value)
		if !ok || !variable.MatchString(name) {
			r.errorf(value, "the secret itself is not written into a fleet file", "%s: this is not the name of an environment variable", what)
			return false
		}
		s.Env = name
	case "file":
		s.File, _ = r.path(value, what)
	case "command":
		s.Command = r.command(value, what)
	}
	return !s.IsZero()
}

func (*Secret) form() *schema {
	out := keysOf[Secret]().schema()
	out.MinProperties, out.MaxProperties = 1, 1
	return out
}

func (s *Secret) writeTo(w *writer) { w.flowKeys(s) }

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

// Limits of a port's MTU, in bytes.
const (
	minMTU = 576
	maxMTU = 65535
)

func parseMTU(text string, quote func(string) string) (int, string, string) {
	v, err := strconv.ParseUint(text, 0, 64)
	if err != nil || !wholeNumber.MatchString(text) || v < minMTU || v > maxMTU {
		return 0, fmt.Sprintf("want %d to %d bytes without leading zeros, found %s", minMTU, maxMTU, quote(text)), ""
	}
	return int(v), "", ""
}

// notInterface says why a text cannot be the name of a network card.
func notInterface(text string, _ func(string) string) (problem, hint string) {
	if why := portNameProblem(text, "linux"); why != "" {
		return fmt.Sprintf("%q cannot be one: %s", text, why), "as ip link shows it, e.g. eth0"
	}
	return "", ""
}

// notPort says why a text can be the name of no platform's port.
func notPort(text string, _ func(string) string) (problem, hint string) {
	if problem = portNameProblem(text, ""); problem != "" {
		problem = fmt.Sprintf("%q: %s", text, problem)
	}
	return problem, ""
}

// notPeer says why a text cannot be the other end of a cable.
func notPeer(text string, _ func(string) string) (problem, hint string) {
	if _, ok := parsePeer(text); !ok {
		return fmt.Sprintf("%q is not the far end of a link", text), `write "s2:swp1" in quotes, or h1 for a host`
	}
	return "", ""
}

const profileRegexp = `^[0-9a-f]{12,64}$`

var isProfile = regexp.MustCompile(profileRegexp)

// notProfileHash says why a text is no hash of a profile.
func notProfileHash(text string, _ func(string) string) (problem, hint string) {
	if !isProfile.MatchString(text) {
		return fmt.Sprintf("want the hash of a profile, 12 to 64 hexadecimal digits, found %q", text), "csig inventory show --json has this file's as profile_hash"
	}
	return "", ""
}

// Check wants a profile of native devices alone.
func (l *Level) Check(m Mapping) {
	if l.Profile != "" && l.Support != "" && l.Support != LevelNative {
		m.WrongValue("profile", "leave it out", "profile: only a native device has one that csig does not give it")
		l.Profile = ""
	}
	if l.Support == Support(LevelAuto.String()) {
		l.Support = LevelAuto
	}
}
