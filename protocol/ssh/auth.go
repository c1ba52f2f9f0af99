package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/csig-agent/csig/inventory"
)

// authenticator finds credentials when they are asked for, and not before.
type authenticator struct {
	ctx    context.Context
	login  inventory.SSH
	failed error     // why a credential could not be had
	asked  bool      // for the password, by a question
	agent  io.Closer // the connection to the agent
}

func (a *authenticator) close() {
	if a.agent != nil {
		a.agent.Close()
	}
}

// methods lists what the login allows: the key and the agent's keys in one
// method, since the library tries each method once, then the password.
func (a *authenticator) methods() ([]ssh.AuthMethod, error) {
	var out []ssh.AuthMethod
	if a.login.Key != "" || a.login.Agent {
		out = append(out, ssh.PublicKeysCallback(func() ([]ssh.Signer, error) {
			signers, err := a.signers()
			if err != nil {
				a.failed = err
			}
			return signers, err
		}))
	}
	if !a.login.Password.IsZero() {
		out = append(out, ssh.PasswordCallback(a.password), ssh.KeyboardInteractive(a.answer))
	}
	if len(out) == 0 {
		return nil, errors.New("there is nothing to log in with: add a key, an agent or a password to the fleet file (management: ssh)")
	}
	return out, nil
}

// tried is what to look at where the switch takes none of it.
func (a *authenticator) tried() string {
	switch keys := a.login.Key != "" || a.login.Agent; {
	case keys && !a.login.Password.IsZero():
		return "the switch's authorized_keys, and the password"
	case keys:
		return "the switch's authorized_keys"
	}
	return "the user and the password"
}

func (a *authenticator) password() (string, error) {
	p, err := a.login.Password.Resolve(a.ctx)
	if err != nil {
		a.failed = err
	}
	return p, err
}

// answer gives the password to a question that hides what is typed, if it is
// the only one; csig has no code from elsewhere, and no new password.
func (a *authenticator) answer(_, _ string, questions []string, echos []bool) ([]string, error) {
	switch {
	case len(questions) == 0:
		return nil, nil
	case len(questions) > 1 || echos[0] || a.asked:
		a.failed = fmt.Errorf("the switch asks for more than a password: log in with a key instead")
		return nil, a.failed
	}
	a.asked = true
	p, err := a.password()
	return []string{p}, err
}

func (a *authenticator) signers() ([]ssh.Signer, error) {
	var out []ssh.Signer
	if a.login.Key != "" {
		s, err := a.readKey()
		if err != nil {
			return nil, fmt.Errorf("private key %s: %w", a.login.Key, err)
		}
		out = append(out, s)
	}
	if a.login.Agent {
		more, err := a.agentKeys()
		if err != nil {
			return nil, fmt.Errorf("SSH agent: %w", err)
		}
		out = append(out, more...)
	}
	return out, nil
}

func (a *authenticator) readKey() (ssh.Signer, error) {
	info, err := os.Stat(a.login.Key)
	if err != nil {
		return nil, inventory.WithoutPath(err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("others can get at it (mode %04o); run: chmod 600 %s", mode, a.login.Key)
	}
	text, err := os.ReadFile(a.login.Key)
	if err != nil {
		return nil, inventory.WithoutPath(err)
	}
	s, err := ssh.ParsePrivateKey(text)
	var locked *ssh.PassphraseMissingError
	if !errors.As(err, &locked) {
		return s, err
	}
	if a.login.Passphrase.IsZero() {
		return nil, errors.New("it has a passphrase: name the passphrase's source in the fleet file (management: ssh: passphrase), or use an SSH agent")
	}
	phrase, err := a.login.Passphrase.Resolve(a.ctx)
	if err != nil {
		return nil, fmt.Errorf("its passphrase: %w", err)
	}
	if s, err = ssh.ParsePrivateKeyWithPassphrase(text, []byte(phrase)); err != nil {
		return nil, fmt.Errorf("with the passphrase from %s: %w", a.login.Passphrase, err)
	}
	return s, nil
}

func (a *authenticator) agentKeys() ([]ssh.Signer, error) {
	path := os.Getenv("SSH_AUTH_SOCK")
	if path == "" {
		return nil, errors.New("SSH_AUTH_SOCK is not set: start ssh-agent, or use a key's path")
	}
	conn, err := (&net.Dialer{}).DialContext(a.ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	a.agent = conn // the signers need it until the login is done
	signers, err := agent.NewClient(conn).Signers()
	if err == nil && len(signers) == 0 {
		return nil, errors.New("it has no keys: add one with ssh-add")
	}
	return signers, err
}
