package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// knownHosts checks hosts' keys against a file.
type knownHosts struct {
	file    string
	known   ssh.HostKeyCallback
	refused error // check's error
}

func readKnownHosts(file string) (*knownHosts, error) {
	if file == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("no known_hosts file: %w: name one in the fleet file (management: ssh: known_hosts)", err)
		}
		file = filepath.Join(home, ".ssh", "known_hosts")
	}
	known, err := knownhosts.New(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no known_hosts file %s: make it from what ssh-keyscan prints, after comparing that with the switches' consoles: %w", file, os.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("known_hosts file %s: %w", file, err)
	}
	return &knownHosts{file: file, known: known}, nil
}

func (k *knownHosts) check(host string, remote net.Addr, key ssh.PublicKey) error {
	err := k.known(host, remote, key)
	var wrong *knownhosts.KeyError
	var revoked *knownhosts.RevokedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &revoked):
		err = fmt.Errorf("its host key %s is revoked in %s: %w", ssh.FingerprintSHA256(key), k.file, err)
	case errors.As(err, &wrong):
		err = k.unknown(host, ssh.FingerprintSHA256(key), len(wrong.Want) > 0)
	default:
		err = fmt.Errorf("its host key %s: %w", ssh.FingerprintSHA256(key), err)
	}
	k.refused = err
	return err
}

// unknown is the error of a host that is not, or cannot be shown to be, the one that
// is meant: the file has another key, or none.
func (k *knownHosts) unknown(host, fingerprint string, other bool) error {
	scan := "ssh-keyscan " + host
	if name, port, err := net.SplitHostPort(host); err == nil {
		scan = "ssh-keyscan -p " + port + " " + name
	}
	if !other {
		return fmt.Errorf("its host key %s is not in %s: compare what %s prints with the switch's console, and add the line to that file", fingerprint, k.file, scan)
	}
	return fmt.Errorf("its host key %s is not the one that %s has: another machine may be answering. If the switch was reinstalled, compare the key with what its console shows, remove the old key from the file (ssh-keygen -R %s -f %s), and add the line that %s prints",
		fingerprint, k.file, knownhosts.Normalize(host), k.file, scan)
}

// algorithms are those to ask the host for: of the kinds of key that the file
// has for it. Else a host with keys of several kinds shows whichever it likes
// best, and is taken for another one. Nil, for a host that the file does not
// have by a key of its own, is the library's choice.
func (k *knownHosts) algorithms(host string, remote net.Addr) []string {
	var wrong *knownhosts.KeyError
	if err := k.known(host, remote, unknownKey{}); !errors.As(err, &wrong) {
		return nil
	}
	var out []string
	add := func(names ...string) {
		for _, n := range names {
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	for _, w := range wrong.Want {
		switch t := w.Key.Type(); t {
		case ssh.KeyAlgoRSA:
			add(ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		default:
			add(t)
		}
	}
	return out
}

// unknownKey is a key that no file has, to ask which ones it has.
type unknownKey struct{}

func (unknownKey) Type() string                        { return "unknown" }
func (unknownKey) Marshal() []byte                     { return bytes.Clone([]byte("unknown")) }
func (unknownKey) Verify([]byte, *ssh.Signature) error { return errors.New("unknown key") }
