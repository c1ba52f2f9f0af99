package inventory

import "github.com/goccy/go-yaml/ast"

// Management is how csig gets at a device; the zero value is only from the
// device itself.
type Management struct {
	NetNS  string  `key:"netns" is:"paths" doc:"Path of the network namespace that is the device, on this machine: a lab's switch."`
	SSH    *SSH    `key:"ssh" doc:"A login at the device's address, for the socket of its daemon; and for csig off where no daemon answers."` // and to reach a Daemon's socket
	Daemon *Daemon `key:"daemon" doc:"Through csig agent on the device."`

	// Own is what platforms' own keys say, by the keys: OwnKeys finds a device's.
	// It is not to be changed: devices share it.
	Own map[string]PlatformKeys `key:"*"`
}

// Check wants that it says something.
func (*Management) Check(m Mapping) {
	if len(m.values) == 0 {
		m.Wrong("", "add netns, ssh, daemon or ovs, or leave it out", "it says nothing")
	}
}

// DefaultSSHPort is where SSH is unless the file says otherwise.
const DefaultSSHPort = 22

// SSH is how to log in at a device's address. Host keys are always checked.
type SSH struct {
	User       string `key:"user,need" is:"line 64" hint:"the account on the device" doc:"The account."`
	Port       uint16 `key:"port" is:"port" default:"22" doc:"TCP; 22 unless given."`
	Key        string `key:"key" is:"path" doc:"Path of the private key."`
	Passphrase Secret `key:"passphrase" doc:"Of the private key."`
	Agent      bool   `key:"agent" doc:"Ask the SSH agent of SSH_AUTH_SOCK."`
	Password   Secret `key:"password" doc:"Of the account."`
	KnownHosts string `key:"known_hosts" is:"path" doc:"Path of the file with the devices' own keys; the user's own unless given."`
	Sudo       *Sudo  `key:"sudo" hash:"late" doc:"The account becomes root by sudo: true where sudo asks for the login's password or for none."` // nil: commands run as the account
}

// Check wants something to log in with.
func (s *SSH) Check(m Mapping) {
	if m.Has("passphrase") {
		m.needToo("passphrase", "the path of the private key", "key")
	}
	if !m.Has("key") && !m.Has("password") && !m.Has("agent") {
		m.Wrong("", "add key: /PATH, agent: true or password: {file: /PATH}", "there is nothing to log in with")
	}
}

// Sudo is how an account that is not root's runs commands as root.
type Sudo struct {
	// Password is what sudo asks for; none: the login's, if sudo asks at all.
	Password Secret `key:"password,need" hint:"say where it is: {file: /PATH}; or sudo: true, where it is the login's, or sudo asks for none" doc:"That sudo asks for."`
}

// readFrom reads true or where the password is. What stands there instead is
// not repeated: it is most likely the password.
func (s *Sudo) readFrom(r *reader, n ast.Node, what string) bool {
	switch v := n.(type) {
	case *ast.BoolNode:
		return v.Value
	case ast.MapNode:
		_, ok := r.readKeys(n, what, s)
		return ok
	}
	r.errorf(n, "sudo: true, or sudo: {password: {file: /PATH}}", "%s: want true, or where the password is", what)
	return false
}

func (*Sudo) form() *schema {
	keys := keysOf[Sudo]().schema()
	keys.Description = "How the account becomes root."
	return &schema{AnyOf: []*schema{boolForm(), keys}}
}

func (s *Sudo) writeTo(w *writer) {
	if s.Password.IsZero() {
		w.out = append(w.out, "true"...)
		return
	}
	w.flowKeys(s)
}

// Daemon is where the csig agent of a device listens: one of Socket and Port is
// given.
type Daemon struct {
	At     string `key:"at" is:"address" hash:"late" doc:"Where it runs, unless on the device: here, for this machine, or with a port another machine's address. It then reaches the device itself, over ssh or by the platform's own protocol."`
	Socket string `key:"socket" is:"single-path" doc:"Path of its unix socket: on the device, through SSH, or here."`
	Port   uint16 `key:"port" is:"port" doc:"TCP, with certificates of both ends."`
	TLS    TLS    `key:"tls" without:"insecure_skip_verify" doc:"The certificates."` // which would let any client in
}

// Here is the Daemon.At of an agent on the machine that csig runs on.
const Here = "here"

// Check wants one of a socket and a port, and certificates with the port.
func (d *Daemon) Check(m Mapping) {
	switch {
	case d.At != "" && (d.At == Here) != m.Has("socket"):
		m.Wrong("at", "at: here and a socket, or at: ADDRESS, port and tls", "an agent on this machine has a socket, one on another machine a port")
	case m.Has("socket") && m.Has("port"):
		m.Wrong("port", "leave one of them out", "want a socket or a port, found both")
	case m.Has("socket"):
		m.refuse("has no meaning for a unix socket", "tls")
	case !m.Has("port"):
		m.Wrong("", "add socket: /run/csig/agent.sock, or port: 7443 with tls", "it does not say where the daemon listens")
	default:
		m.needToo("port", "both ends show a certificate: tls: {ca: /PATH, cert: /PATH, key: /PATH}", "tls")
		if m.Has("tls") && (d.TLS.CA == "" || d.TLS.Cert == "" || d.TLS.Key == "") && m.r.mistakes() == m.before {
			m.WrongValue("tls", "the daemon takes orders: who gives them has to be known", "tls: want ca, cert and key")
		}
	}
}
