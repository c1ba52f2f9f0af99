package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/term"

	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/inventory/outfile"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// signatureNamespace keeps a signature of anything else from being one of a plan
// (ssh-keygen -n).
const signatureNamespace = "csig-plan"

// Bounds of what is read, in bytes.
const (
	maxSignature = 64 << 10
	maxSigners   = 1 << 20
)

// signaturePath is where the signature of a plan is, as ssh-keygen names it.
func signaturePath(plan string) string { return plan + ".sig" }

var isSignature = outfile.Prefix("-----BEGIN SSH SIGNATURE-----")

// openSigner returns what signs with the key of a file. A public key, and a
// private one that is encrypted, is taken from the SSH agent where that has it;
// else the terminal is asked for the passphrase. Close it.
func openSigner(file string) (ssh.Signer, io.Closer, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	text, err := untrusted.ReadAll(f, maxSignature)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	nothing := io.NopCloser(nil)
	signer, err := ssh.ParsePrivateKey(text)
	if err == nil {
		return signer, nothing, nil
	}
	encrypted := (*ssh.PassphraseMissingError)(nil)
	var public ssh.PublicKey
	if errors.As(err, &encrypted) {
		public = encrypted.PublicKey
	} else if public, _, _, _, err = ssh.ParseAuthorizedKey(text); err != nil {
		return nil, nil, fmt.Errorf("%s: it is no private key of SSH, and no public one that an SSH agent may have", file)
	}
	if public != nil {
		if signer, conn := agentSigner(public); signer != nil {
			return signer, conn, nil
		}
	}
	if encrypted == nil {
		return nil, nil, fmt.Errorf("%s: it is a public key, and no SSH agent (SSH_AUTH_SOCK) has the private one", file)
	}
	tty := int(os.Stdin.Fd())
	if !term.IsTerminal(tty) {
		return nil, nil, fmt.Errorf("%s: it is encrypted, no SSH agent has it, and there is no terminal to ask for its passphrase", file)
	}
	fmt.Fprintf(os.Stderr, "Passphrase of %s: ", file)
	passphrase, err := term.ReadPassword(tty)
	fmt.Fprintln(os.Stderr)
	if err == nil {
		signer, err = ssh.ParsePrivateKeyWithPassphrase(text, passphrase)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return signer, nothing, nil
}

// agentSigner is the key of that public key in the SSH agent; nil without one.
func agentSigner(public ssh.PublicKey) (ssh.Signer, io.Closer) {
	conn, err := net.Dial("unix", os.Getenv("SSH_AUTH_SOCK"))
	if err != nil {
		return nil, nil
	}
	signers, _ := agent.NewClient(conn).Signers() // none where it fails
	for _, s := range signers {
		if bytes.Equal(s.PublicKey().Marshal(), public.Marshal()) {
			return s, conn
		}
	}
	conn.Close()
	return nil, nil
}

// signature is the armored signature of a text, as ssh-keygen -Y sign makes it.
func signature(signer ssh.Signer, text []byte) ([]byte, error) {
	s, err := sshsig.Sign(bytes.NewReader(text), signer, sshsig.HashSHA512, signatureNamespace)
	if err != nil {
		return nil, fmt.Errorf("signing the plan: %w", err)
	}
	return sshsig.Armor(s), nil
}

// verifySignature returns who signed a text, by a file of allowed signers
// (ssh-keygen(1), ALLOWED SIGNERS), with the key.
func verifySignature(allowed string, text, armored []byte, now time.Time) (string, error) {
	if err := device.CheckOwner(allowed); err != nil {
		return "", err
	}
	f, err := os.Open(allowed)
	if err != nil {
		return "", err
	}
	defer f.Close()
	list, err := untrusted.ReadAll(f, maxSigners)
	if err != nil {
		return "", fmt.Errorf("%s: %w", allowed, err)
	}
	signers, err := parseSigners(list)
	if err != nil {
		return "", fmt.Errorf("%s: %w", allowed, err)
	}
	s, err := sshsig.Unarmor(armored)
	if err != nil {
		return "", fmt.Errorf("not a signature of SSH: %s", untrusted.Text(err.Error(), 200))
	}
	if s.Namespace != signatureNamespace {
		return "", fmt.Errorf("the signature is of namespace %q, want %s: it was made for something else", untrusted.Text(s.Namespace, 60), signatureNamespace)
	}
	if err := sshsig.Verify(bytes.NewReader(text), s, s.PublicKey, s.HashAlgorithm, signatureNamespace); err != nil {
		return "", fmt.Errorf("the signature is not of this plan: %w", err)
	}
	key := s.PublicKey.Type() + " " + ssh.FingerprintSHA256(s.PublicKey)
	why := errors.New("no line of it has this key")
	for _, a := range signers {
		if !bytes.Equal(a.key.Marshal(), s.PublicKey.Marshal()) {
			continue
		}
		if why = a.mayNot(now); why == nil {
			return untrusted.Text(a.principals, 200) + " (" + key + ")", nil
		}
	}
	return "", fmt.Errorf("%s does not allow %s to sign plans: %w", allowed, key, why)
}

// signer is one line of a file of allowed signers.
type signer struct {
	principals    string
	key           ssh.PublicKey
	authority     bool
	namespaces    []string // nil: all
	after, before time.Time
}

// mayNot is why a signer may not sign a plan now.
func (s *signer) mayNot(now time.Time) error {
	switch {
	case s.authority:
		return errors.New("it is a certificate authority there, and csig takes no certificates")
	case s.namespaces != nil && !matches(s.namespaces, signatureNamespace):
		return fmt.Errorf("it is allowed for namespaces %s alone", strings.Join(s.namespaces, ","))
	case !s.after.IsZero() && now.Before(s.after):
		return fmt.Errorf("it is valid after %s", s.after.Format(time.RFC3339))
	case !s.before.IsZero() && now.After(s.before):
		return fmt.Errorf("it was valid before %s", s.before.Format(time.RFC3339))
	}
	return nil
}

// matches reports whether a pattern list has a name. A pattern with "!" excludes.
func matches(patterns []string, name string) bool {
	found := false
	for _, p := range patterns {
		p, not := strings.CutPrefix(p, "!")
		if ok, err := path.Match(strings.NewReplacer("[", `\[`, `\`, `\\`).Replace(p), name); err == nil && ok {
			if not {
				return false
			}
			found = true
		}
	}
	return found
}

// parseSigners reads a file of allowed signers. What it does not know is an
// error: half of what a line demands is not enough.
func parseSigners(text []byte) ([]signer, error) {
	var out []signer
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxSigners+1)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		s, err := parseSigner(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		out = append(out, s)
	}
	return out, lines.Err()
}

func parseSigner(line string) (signer, error) {
	var s signer
	var rest string
	if quoted, ok := strings.CutPrefix(line, `"`); ok {
		s.principals, rest, _ = strings.Cut(quoted, `"`)
	} else if i := strings.IndexAny(line, " \t"); i > 0 {
		s.principals, rest = line[:i], line[i:]
	}
	key, _, options, more, err := ssh.ParseAuthorizedKey([]byte(strings.TrimSpace(rest)))
	if err != nil || len(more) > 0 {
		return s, errors.New("want PRINCIPALS [OPTIONS] KEYTYPE KEY, as ssh-keygen(1) has it under ALLOWED SIGNERS")
	}
	s.key = key
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		value = strings.Trim(value, `"`)
		switch strings.ToLower(name) {
		case "cert-authority":
			s.authority = true
		case "namespaces":
			s.namespaces = strings.Split(value, ",")
		case "valid-after":
			s.after, err = signersTime(value)
		case "valid-before":
			s.before, err = signersTime(value)
		default:
			err = fmt.Errorf("unknown option %q", untrusted.Text(name, 40))
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// signersTime reads YYYYMMDD[HHMM[SS]][Z]; without Z in local time.
func signersTime(text string) (time.Time, error) {
	digits, utc := strings.CutSuffix(text, "Z")
	where := time.Local
	if utc {
		where = time.UTC
	}
	layouts := []string{"20060102", "200601021504", "20060102150405"}
	if i := slices.IndexFunc(layouts, func(l string) bool { return len(l) == len(digits) }); i >= 0 {
		if at, err := time.ParseInLocation(layouts[i], digits, where); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("time %q: want YYYYMMDD[HHMM[SS]][Z]", untrusted.Text(text, 40))
}
