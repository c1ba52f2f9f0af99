package owner

import (
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// Peer is another controller: a name of its certificate, and where its server listens.
type Peer struct {
	Name string
	Addr string // HOST:PORT
}

// Roles are the names of the certificates that may connect to the server as clients.
type Roles struct {
	Clients   []string // controllers and others that use the store
	Observers []string // programs that read statuses
}

// Names are those that a certificate has in its subject alternative names. Its common name is
// none, as an authority may not have looked at it.
func Names(c *x509.Certificate) []string {
	names := slices.Concat(c.DNSNames, c.EmailAddresses)
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	return names
}

// errUnlisted ends a handshake. Its line is in the log when it does: what NATS writes of the same
// connection is left out.
var errUnlisted = errors.New("csig: this certificate is not listed")

// listed is the configuration of both ends of connections of listed certificates; all others are
// refused in the handshake, with a line in the log. flags say where they would be listed. by is the
// front by which they come, nil for none.
func (s *Server) listed(conf *tls.Config, by *front, flags string, names ...string) *tls.Config {
	accept := func(remote string) func(tls.ConnectionState) error {
		return func(c tls.ConnectionState) error {
			got := Names(c.PeerCertificates[0]) // which is verified
			if slices.ContainsFunc(got, func(n string) bool { return slices.Contains(names, n) }) {
				return nil
			}
			why := "give it no access, or list one of its names with " + flags
			if slices.Contains(got, s.options.ServerName) {
				why = "it has this controller's own name: give each controller a --name and a certificate of its own"
			}
			s.audit.line(auditLevel, "refused at the handshake: the certificate of %s has the names [%s], and none is listed: %s", []any{remote, untrusted.Text(strings.Join(got, " "), 200), why})
			return errUnlisted
		}
	}
	conf = conf.Clone()
	conf.ClientAuth, conf.ClientCAs = tls.RequireAndVerifyClientCert, conf.RootCAs
	conf.SessionTicketsDisabled = true // a session would outlive its listing
	in := conf.Clone()
	conf.VerifyConnection = func(c tls.ConnectionState) error { return accept(c.ServerName)(c) } // where this end dials
	conf.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		one, remote := in.Clone(), h.Conn.RemoteAddr().String()
		if by == nil {
			one.VerifyConnection = accept(remote)
			return one, nil
		}
		one.VerifyConnection = func(c tls.ConnectionState) error { // which has not shown yet that the key is its own
			err := accept(by.from(remote))(c)
			if err != nil {
				by.refused(remote)
			}
			return err
		}
		return one, nil
	}
	return conf
}

// Bounds of clients. Each has two subscriptions for each device, and those of tunnels.
const (
	maxClients       = 128
	maxSubscriptions = 1 << 16
)

// takeClients has the server take the connections of listed clients at an address.
func (s *Server) takeClients(at string, conf *tls.Config, r Roles) error {
	ln, err := net.Listen("tcp", at)
	if err != nil {
		return fmt.Errorf("--clients-at %s: %w", at, err)
	}
	s.front = &front{ln: ln, server: func() net.Addr { return s.now().Addr() }, log: newNATSLog(s.log)}
	o := s.options
	s.admission.by = s.front
	o.TLSConfig = s.listed(conf, s.front, "--clients or --observers", slices.Concat(r.Clients, r.Observers)...)
	o.TLS, o.TLSVerify, o.TLSTimeout = true, true, 10
	return nil
}

// admission decides what a connection may do: that of this process has a secret, others have
// the name of their certificate.
type admission struct {
	token string
	node  *server.Permissions
	roles Roles
	by    *front // by which those with a certificate come; nil where there are none
}

// Check implements server.Authentication.
func (a *admission) Check(c server.ClientAuthentication) bool {
	state := c.GetTLSConnectionState()
	if state == nil {
		if subtle.ConstantTimeCompare([]byte(c.GetOpts().Token), []byte(a.token)) != 1 {
			return false
		}
		c.RegisterUser(&server.User{Permissions: a.node})
		return true
	}
	if len(state.PeerCertificates) == 0 {
		return false
	}
	names := Names(state.PeerCertificates[0]) // whose key it has shown by now
	if !a.by.meet(c.RemoteAddress().String(), strings.Join(names, " ")) {
		return false
	}
	for _, name := range names {
		switch {
		case slices.Contains(a.roles.Clients, name):
			c.RegisterUser(&server.User{Username: name, Permissions: clientMay(name)})
			return true
		case slices.Contains(a.roles.Observers, name):
			c.RegisterUser(&server.User{Username: name, Permissions: observerMay()})
			return true
		}
	}
	return false
}

// stores are the streams that csig keeps.
var stores = []string{stream, "KV_" + configs, journals, statuses, events}

// inbox is the prefix of the subjects at which a name gets its answers: nobody else may listen.
func inbox(name string) string { return "_INBOX." + key(name) }

// nodeMay is everything, but for what no controller ever does: to take the store away.
func nodeMay() *server.Permissions {
	deny := []string{}
	for _, s := range stores {
		deny = append(deny, "$JS.API.STREAM.DELETE."+s, "$JS.API.STREAM.PURGE."+s, "$JS.API.STREAM.MSG.DELETE."+s, "$JS.API.STREAM.RESTORE."+s)
	}
	return &server.Permissions{Publish: &server.SubjectPermission{Deny: deny}}
}

// clientMay is to use the streams as they are, and to ask owners of devices in its own name.
func clientMay(name string) *server.Permissions {
	send := []string{
		"$KV." + bucket + ".>", "$KV." + configs + ".>", journals + ".*", statuses + ".*", events + ".*",
		tunnels + ".*." + key(name), "_INBOX.>", "$JS.API.INFO",
	}
	for _, s := range stores {
		send = append(send, "$JS.API.STREAM.INFO."+s, "$JS.API.STREAM.MSG.GET."+s, "$JS.API.DIRECT.GET."+s, "$JS.API.DIRECT.GET."+s+".>",
			"$JS.API.CONSUMER.CREATE."+s, "$JS.API.CONSUMER.CREATE."+s+".>", "$JS.API.CONSUMER.INFO."+s+".>", "$JS.API.CONSUMER.DELETE."+s+".>",
			"$JS.API.CONSUMER.MSG.NEXT."+s+".>", "$JS.ACK."+s+".>", "$JS.FC."+s+".>")
	}
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: send},
		Subscribe: &server.SubjectPermission{Allow: []string{inbox(name) + ".>", tunnels + ".*.*", statuses + ".>", events + ".>"}},
	}
}

// observerMay is to hear statuses, which come again and again. It may ask for nothing: an answer goes
// to any subject that a request names, and so into any store.
func observerMay() *server.Permissions {
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Deny: []string{">"}},
		Subscribe: &server.SubjectPermission{Allow: []string{statuses + ".>"}},
	}
}
