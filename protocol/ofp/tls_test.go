package ofp

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api/tlstest"
)

// csigOf are csig's files, certified by an authority that certifies switches, too.
func csigOf(a *tlstest.Authority) TLS {
	cert, key := a.Certify("csig")
	return TLS{CA: a.CA, Cert: cert, Key: key}
}

func certify(ours, _ *tlstest.Authority) (cert, key string) { return ours.Certify("switch") }

// TestTLS has certificates of every kind at the other end, both ways.
func TestTLS(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files func(ours, foreign *tlstest.Authority) (cert, key string) // nil: none
		peer  string
		fails string
	}{
		{"good, of the right name", certify, "switch", ""},
		{"good, of another name", certify, "other", "is not that of other but of switch: "},
		{"foreign", func(_, foreign *tlstest.Authority) (string, string) { return foreign.Certify("switch") }, "switch", "unknown authority"},
		{"expired", func(ours, _ *tlstest.Authority) (string, string) { return ours.Expire("switch") }, "switch", "expired"},
		{"none", nil, "switch", "tls: "},
	} {
		run(t, tc.name, func(t *testing.T, n *network) {
			ours := tlstest.New(t)
			conf := &tls.Config{InsecureSkipVerify: true, ClientAuth: tls.RequireAnyClientCert}
			if tc.files != nil {
				pair, err := tls.LoadX509KeyPair(tc.files(ours, tlstest.New(t)))
				if err != nil {
					t.Fatal(err)
				}
				conf.Certificates = []tls.Certificate{pair}
			}
			files := csigOf(ours)
			files.Peer = tc.peer
			ended := make(chan struct{}, 1)
			at := n.listening(t, func(c net.Conn) {
				(&peer{id: 1}).serve(tls.Server(c, conf))
				select {
				case ended <- struct{}{}:
				default:
				}
			})
			connect, listen := n.open(t, Config{Connect: at, TLS: files}), n.open(t, Config{Listen: "127.0.0.1:0", TLS: files, Datapath: 1})
			noted := make(chan string, 1)
			listen.NoteRefusals(func(what string) { noted <- what })
			there := dialed(t, n, listen.Addr().String())
			served := make(chan struct{})
			go func() { defer close(served); (&peer{id: 1}).serve(tls.Client(there, conf)) }()
			defer func() { there.Close(); <-served }()
			if tc.fails == "" {
				await(t, connect)
				await(t, listen)
				return
			}
			if text := missing(t, connect, soon); !strings.Contains(text, tc.fails) && tc.files != nil {
				t.Errorf("csig dials: %s", text)
			}
			select {
			case <-ended:
			case <-time.After(soon):
				t.Error("csig does not close the connection that it refuses")
			}
			<-served
			if what := <-noted; !strings.Contains(what, tc.fails) || !strings.Contains(missing(t, listen, time.Millisecond), tc.fails) {
				t.Errorf("csig does not say why: %s", what)
			}
		})
	}
	run(t, "a switch without TLS", func(t *testing.T, n *network) {
		s := n.open(t, Config{Connect: n.listening(t, func(c net.Conn) { (&peer{id: 1}).serve(c) }), TLS: csigOf(tlstest.New(t))})
		if text := missing(t, s, soon); !strings.Contains(text, "does not speak TLS there") || !strings.Contains(text, "tls: ") {
			t.Error(text)
		}
	})
}

// TestTLSHost: without a name the certificate has to be that of the host, and the authority's
// others, csig's own among them, are none.
func TestTLSHost(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		a := tlstest.New(t)
		for name, refused := range map[string]string{"127.0.0.1": "", "csig": "is not that of 127.0.0.1 but of csig: where that is the switch, set management"} {
			pair, err := tls.LoadX509KeyPair(a.Certify(name))
			if err != nil {
				t.Fatal(err)
			}
			at := n.listening(t, func(c net.Conn) {
				(&peer{id: 1}).serve(tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}))
			})
			s := n.open(t, Config{Connect: at, TLS: csigOf(a)})
			if refused == "" {
				await(t, s)
			} else if text := missing(t, s, soon); !strings.Contains(text, refused) {
				t.Errorf("%s: %s", name, text)
			}
		}
	})
}

// TestTLSRefused has the switch refuse csig's certificate, and want TLS where csig speaks
// none: the errors name that.
func TestTLSRefused(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		a, foreign := tlstest.New(t), tlstest.New(t)
		pair, err := tls.LoadX509KeyPair(a.Certify("127.0.0.1"))
		if err != nil {
			t.Fatal(err)
		}
		authority, err := os.ReadFile(foreign.CA)
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(authority)
		at := n.listening(t, func(c net.Conn) {
			(&peer{id: 1}).serve(tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}))
		})
		secured := n.open(t, Config{Connect: at, TLS: csigOf(a)})
		if text := missing(t, secured, soon); !strings.Contains(text, "refuses csig's certificate") {
			t.Error(text)
		}
		if err := secured.Close(); err != nil {
			t.Fatal(err)
		}
		if text := missing(t, n.open(t, Config{Connect: at, Plain: true}), soon); !strings.Contains(text, "management: {openflow: {tls: …}} in place of plaintext: true") {
			t.Error(text)
		}
	})
}
