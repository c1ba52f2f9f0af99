package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/gnmi"
	"github.com/csig-agent/csig/counters/snmp"
	"github.com/csig-agent/csig/inventory"
	client "github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/secret"
)

// What SNMPv3 can do, as snmpwalk's users write it.
var (
	authNames = []string{"MD5", "SHA", "SHA224", "SHA256", "SHA384", "SHA512"}
	privNames = []string{"DES", "AES", "AES192", "AES256", "AES192C", "AES256C"}
)

// targetFlags reach a device that is in no fleet file. SNMP's are those of snmpwalk, gNMI's
// those of gnmic.
type targetFlags struct {
	gnmi    bool
	user    string
	timeout time.Duration // of one try; 0: the protocol's own
	within  time.Duration // all of it

	version, community       string
	level, auth, priv        string
	authPass, privPass       string
	context                  string
	retries                  int
	password                 string
	encoding, origin, target string
	insecure, skipVerify     bool
	ca, cert, key, name      string
}

func (t *targetFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&t.version, "snmp-version", "v", "2c", "SNMP version: 2c or 3")
	f.StringVarP(&t.community, "community", "c", "", "SNMPv2c community, or where it is: env:NAME, file:PATH")
	f.StringVarP(&t.user, "username", "u", "", "user of SNMPv3, or of gNMI")
	f.StringVarP(&t.level, "level", "l", "", "SNMPv3 security level: noAuthNoPriv, authNoPriv or authPriv (default: what -a and -x say)")
	f.StringVarP(&t.auth, "auth", "a", "", "SNMPv3 authentication protocol: "+strings.Join(authNames, ", "))
	f.StringVarP(&t.authPass, "auth-pass", "A", "", "its passphrase, or where it is: env:NAME, file:PATH")
	f.StringVarP(&t.priv, "priv", "x", "", "SNMPv3 privacy protocol: "+strings.Join(privNames, ", "))
	f.StringVarP(&t.privPass, "priv-pass", "X", "", "its passphrase, or where it is: env:NAME, file:PATH")
	f.StringVarP(&t.context, "context", "n", "", "SNMPv3 context name")
	f.VarP((*seconds)(&t.timeout), "timeout", "t", "seconds, or a duration, that one try may take (default: 2 s, of gNMI 5 s)")
	f.IntVarP(&t.retries, "retries", "r", 2, "SNMP tries after the first one")
	f.DurationVar(&t.within, "within", time.Minute, "how long a target may take as a whole")
	f.BoolVar(&t.gnmi, "gnmi", false, "ask by gNMI instead of SNMP")
	f.StringVarP(&t.password, "password", "p", "", "gNMI password, or where it is: env:NAME, file:PATH")
	f.StringVarP(&t.encoding, "encoding", "e", "", "gNMI encoding: proto, json_ietf or json (default: the first that the target has)")
	f.StringVar(&t.origin, "origin", "", "origin of gNMI paths (default: none, then openconfig)")
	f.StringVar(&t.target, "target", "", "gNMI target name in the prefix of requests, for a gateway")
	f.BoolVar(&t.insecure, "insecure", false, "gNMI without TLS: everything travels in the clear, the password too")
	f.BoolVar(&t.skipVerify, "skip-verify", false, "gNMI: accept any certificate: an attacker on the path can read the password")
	f.StringVar(&t.ca, "tls-ca", "", "PEM file of who may sign the target's certificate (default: the system's)")
	f.StringVar(&t.cert, "tls-cert", "", "PEM file of a client certificate")
	f.StringVar(&t.key, "tls-key", "", "PEM file of its key")
	f.StringVar(&t.name, "tls-server-name", "", "name in the target's certificate (default: the target's)")
	atLeast(f, "within", &t.within, time.Millisecond, false)
	atLeast(f, "retries", &t.retries, 0, false)
	cmd.MarkFlagsMutuallyExclusive("insecure", "skip-verify")
	cmd.MarkFlagsMutuallyExclusive("insecure", "tls-ca")
	cmd.MarkFlagsMutuallyExclusive("skip-verify", "tls-ca")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	cmd.MarkFlagsRequiredTogether("auth", "auth-pass")
	cmd.MarkFlagsRequiredTogether("priv", "priv-pass")
}

// onlySNMP and onlyGNMI are the flags that mean nothing with the other protocol.
var (
	onlySNMP = []string{"snmp-version", "community", "level", "auth", "auth-pass", "priv", "priv-pass", "context", "retries"}
	onlyGNMI = []string{"password", "encoding", "origin", "target", "insecure", "skip-verify", "tls-ca", "tls-cert", "tls-key", "tls-server-name"}
)

// check refuses flags that do not fit each other, before any device is asked.
func (t *targetFlags) check(cmd *cobra.Command) error {
	none, why := onlyGNMI, "goes with --gnmi"
	if t.gnmi {
		none, why = onlySNMP, "is SNMP's: leave it out, or --gnmi"
	}
	for _, name := range none {
		if cmd.Flags().Changed(name) {
			return usageError(cmd, "--%s %s", name, why)
		}
	}
	if t.gnmi {
		switch {
		case t.encoding != "" && !slices.Contains(choices["encoding"], strings.ToLower(t.encoding)):
			return usageError(cmd, "--encoding %q: want %s", t.encoding, strings.Join(choices["encoding"], ", "))
		case (t.user == "") != (t.password == ""):
			return usageError(cmd, "-u and -p go together")
		}
		t.encoding = strings.ToLower(t.encoding)
		return nil
	}
	t.auth, t.priv = plainProtocol(t.auth), plainProtocol(t.priv)
	switch {
	case t.version == "1":
		return usageError(cmd, "-v 1: SNMPv1 has no 64-bit counters: use 2c or 3")
	case t.version != "2c" && t.version != "3":
		return usageError(cmd, "-v %q: want 2c or 3", t.version)
	case t.version == "2c" && t.community == "":
		return usageError(cmd, "-c is missing: the community, or env:NAME or file:PATH")
	case t.version == "2c" && (t.user != "" || t.auth != "" || t.priv != "" || t.level != ""):
		return usageError(cmd, "-u, -l, -a and -x belong to SNMPv3: add -v 3")
	case t.version == "3" && t.community != "":
		return usageError(cmd, "-c belongs to SNMPv2c: SNMPv3 has -u, -a and -x")
	case t.version == "3" && t.user == "":
		return usageError(cmd, "-u is missing: the SNMPv3 user")
	case t.auth != "" && !slices.Contains(authNames, t.auth):
		return usageError(cmd, "-a %q: want %s", t.auth, strings.Join(authNames, ", "))
	case t.priv != "" && !slices.Contains(privNames, t.priv):
		return usageError(cmd, "-x %q: want %s", t.priv, strings.Join(privNames, ", "))
	case t.priv != "" && t.auth == "":
		return usageError(cmd, "-x without -a: SNMPv3 has no privacy without authentication")
	}
	have := "noAuthNoPriv"
	switch {
	case t.priv != "":
		have = "authPriv"
	case t.auth != "":
		have = "authNoPriv"
	}
	if t.level != "" && !strings.EqualFold(t.level, have) {
		return usageError(cmd, "-l %s, but -a and -x make it %s", t.level, have)
	}
	return nil
}

// plainProtocol is a protocol of SNMPv3 as csig spells it, from net-snmp's ways.
func plainProtocol(name string) string {
	name = strings.ReplaceAll(strings.ToUpper(name), "-", "")
	switch name {
	case "SHA1":
		return "SHA"
	case "AES128":
		return "AES"
	}
	return name
}

// seconds is a duration that may be a number of seconds, as snmpwalk has it.
type seconds time.Duration

func (s *seconds) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}
func (s *seconds) Type() string { return "duration" }

func (s *seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, bad := strconv.ParseFloat(text, 64); bad == nil && n < 1e6 {
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err == nil && (d < time.Millisecond || d > time.Hour) {
		return &boundError{"want from 1ms to 1h"}
	}
	*s = seconds(d)
	return err
}

// secretOf is the secret that a flag has or names: env:NAME, file:PATH, or the secret itself.
func secretOf(ctx context.Context, flag, text string) (secret.Text, error) {
	var from inventory.Secret
	if name, ok := strings.CutPrefix(text, "env:"); ok {
		from.Env = name
	} else if path, ok := strings.CutPrefix(text, "file:"); ok {
		from.File = path
	}
	if from.IsZero() {
		return secret.Text(text), nil
	}
	v, err := from.Resolve(ctx)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	return secret.Text(v), nil
}

// warn says which secrets other users of this machine can read: the process list shows the
// arguments of all commands.
func (t *targetFlags) warn(w io.Writer) {
	var shown []string
	for _, one := range [...]struct{ flag, value string }{{"-c", t.community}, {"-A", t.authPass}, {"-X", t.privPass}, {"-p", t.password}} {
		if one.value != "" && one.value != "public" && !strings.HasPrefix(one.value, "env:") && !strings.HasPrefix(one.value, "file:") {
			shown = append(shown, one.flag)
		}
	}
	if len(shown) > 0 {
		fmt.Fprintf(w, "warning: others on this machine see %s in the process list: write env:NAME or file:PATH there\n", strings.Join(shown, ", "))
	}
}

// hostPort divides a target as snmpwalk and gnmic have it: HOST, HOST:PORT, [ADDRESS]:PORT,
// udp:HOST:PORT.
func hostPort(target string, port uint16) (string, uint16, error) {
	for _, transport := range []string{"udp:", "udp6:", "tcp:"} {
		if rest, ok := strings.CutPrefix(target, transport); ok {
			target = rest
			break
		}
	}
	host := target
	if inner, ok := strings.CutPrefix(target, "["); ok && strings.HasSuffix(inner, "]") {
		host = strings.TrimSuffix(inner, "]")
	}
	if net.ParseIP(host) != nil || host != "" && !strings.Contains(target, ":") {
		return host, port, nil
	}
	host, text, err := net.SplitHostPort(target)
	if err != nil || host == "" {
		return "", 0, fmt.Errorf("target %q: want HOST, HOST:PORT or [ADDRESS]:PORT", target)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("target %q: port %q: want a number from 1 to 65535", target, text)
	}
	return host, uint16(n), nil
}

// Ports where targets listen unless they say another.
const (
	snmpPort = 161
	gnmiPort = 9339
)

// scan asks one target. Where it stops answering half way there is a listing beside the error.
func (t *targetFlags) scan(ctx context.Context, target string) (*counters.Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, t.within)
	defer cancel()
	if t.gnmi {
		host, port, err := hostPort(target, gnmiPort)
		if err != nil {
			return nil, err
		}
		cfg := gnmi.ScanConfig{Encoding: t.encoding, Origin: t.origin, Config: client.Config{
			Device: target, Address: net.JoinHostPort(host, strconv.Itoa(int(port))), Plaintext: t.insecure, Username: t.user, Target: t.target, Timeout: t.timeout,
			TLS: client.TLS{CAFile: t.ca, CertFile: t.cert, KeyFile: t.key, ServerName: t.name, SkipVerify: t.skipVerify},
		}}
		if cfg.Password, err = secretOf(ctx, "-p", t.password); err != nil {
			return nil, err
		}
		return gnmi.Scan(ctx, cfg)
	}
	host, port, err := hostPort(target, snmpPort)
	if err != nil {
		return nil, err
	}
	cfg := snmp.Config{
		Device: target, Address: host, Port: port, Version: snmp.Version(t.version), User: t.user, Auth: t.auth, Priv: t.priv,
		Context: t.context, Timeout: t.timeout, Retries: cmp.Or(t.retries, -1),
	}
	for _, s := range []struct {
		flag, text string
		to         *secret.Text
	}{{"-c", t.community, &cfg.Community}, {"-A", t.authPass, &cfg.AuthPassphrase}, {"-X", t.privPass, &cfg.PrivPassphrase}} {
		if *s.to, err = secretOf(ctx, s.flag, s.text); err != nil {
			return nil, err
		}
	}
	return snmp.Scan(ctx, cfg)
}
