package integration

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/agent/api/tlstest"
	"github.com/csig-agent/csig/quantize"
)

// agentDoor is csig agent that listens with TLS, and what its visitors look for.
type agentDoor struct {
	*bed
	a          *agent
	at         string // where it listens
	file       string // a configuration that it takes
	configured bool
	spied      *datagrams
	puts       int
}

func newAgentDoor(t *testing.T, ca *tlstest.Authority, configured bool) *agentDoor {
	t.Helper()
	d := &agentDoor{bed: newBed(t, quantize.Draft00), at: "127.0.0.1:7443", configured: configured}
	text := readFile(t, d.write(t))
	d.file = string(text)
	d.spied = listenDatagrams(t, d.s1)
	name := "agent"
	if configured {
		name = "agent-with-file" // the other one has it made at the same time
	}
	cert, key := ca.Certify(name)
	d.a = d.launch(t, filepath.Join(d.dir, "own.yaml"), filepath.Join(d.dir, "agent.sock"), "--wait", "--no-self-test",
		"--listen", d.at, "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca.CA, "--tls-change", mayChange, "--tls-read", mayRead)
	d.a.client.Device = api.Described{Platform: "linux"}
	d.a.await("that it answers", func(*api.Status) bool { return true })
	return d
}

// restore has it run the first configuration, or none.
func (d *agentDoor) restore(t *testing.T) {
	t.Helper()
	var err error
	if d.configured {
		err = d.a.client.Configure(t.Context(), []byte(d.file))
	} else if d.a.hash() != "" {
		err = d.a.client.Remove(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// client sends requests as a visitor.
func (d *agentDoor) client(t *testing.T, v *visitor, from string) *http.Client {
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialFrom(ctx, d.s1, from, d.at)
	}}
	if !v.plain {
		tr.TLSClientConfig = v.conf()
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

// send is the code and the text of an answer, 0 where none comes.
func (d *agentDoor) send(t *testing.T, v *visitor, from, method, path string, args url.Values, body string) (int, string) {
	t.Helper()
	scheme := "https"
	if v.plain {
		scheme = "http"
	}
	req, err := http.NewRequestWithContext(t.Context(), method, scheme+"://agent"+path+"?"+args.Encode(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := d.client(t, v, from).Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// spying is the configuration with a community that the agent sends to the test.
func (d *agentDoor) spying(community string) string {
	return strings.Replace(d.file, "local: true", fmt.Sprintf("local: true\n    address: 127.0.0.1\n    counters: {source: snmp, snmp: {version: 2c, port: %d, timeout: 100ms, retries: 0, community: %s}}", d.spied.port, community), 1)
}

// tryAll tries everything as everyone.
func (d *agentDoor) tryAll(t *testing.T, list []visitor) outcomes {
	t.Helper()
	d.restore(t)
	seen := outcomes{}
	late := map[[2]string]func() bool{} // what may still come of it
	reads := []string{api.FactsPath, api.SetupPath, api.HealthPath, api.MTUPath}
	for i := range list {
		v := &list[i]
		// describe asks for a device that this text describes, in both places that take one, and has
		// it configured, until that has done something, which takes as long as a poll. What is refused
		// is looked at once more in the end.
		describe := func(text string, done func() bool) {
			for _, path := range reads {
				for _, args := range []url.Values{{"device": {text}}, {"platform": {text}}} {
					d.send(t, v, sources[0], http.MethodGet, path, args, "")
				}
			}
			code, answer := d.send(t, v, sources[0], http.MethodPut, api.ConfigPath, nil, text)
			if code != 0 && code != http.StatusUnprocessableEntity {
				within(patience, done)
			} else if v.name == mayChange { // where it has done nothing, this is why
				t.Logf("%s is answered with %d %s", v.who, code, answer)
			}
			d.restore(t)
		}
		for _, path := range reads {
			for _, args := range []url.Values{nil, {"platform": {"linux"}}, {"device": {d.file}}} {
				code, text := d.send(t, v, sources[0], http.MethodGet, path, args, "")
				seen.set(doOpen, v.who, code == http.StatusOK && strings.Contains(text, `"csig.`))
			}
		}

		was := d.a.hash()
		d.puts++
		d.send(t, v, sources[0], http.MethodPut, api.ConfigPath, nil, strings.Replace(d.file, "speed: 50M", fmt.Sprintf("speed: %dM", 50+d.puts), 1))
		seen.set(doPut, v.who, d.a.hash() != was)
		d.restore(t)

		left := filepath.Join(d.dir, fmt.Sprintf("command-%d", i))
		ran := func() bool { _, err := os.Stat(left); return err == nil }
		describe(d.spying(fmt.Sprintf("{command: [touch, %s]}", left)), ran)
		late[[2]string{doCommand, v.who}] = ran

		secret := fmt.Sprintf("secret-%d-", i)
		file := filepath.Join(d.dir, secret)
		writeFile(t, file, []byte(secret+"\n"))
		arrived := func() bool { return d.spied.got(secret) }
		describe(d.spying(fmt.Sprintf("{file: %s}", file)), arrived)
		late[[2]string{doSecret, v.who}] = arrived

		seen.set(doUseUp, v.who, d.usedUp(t, v, list))
	}
	for what, done := range late {
		seen.set(what[0], what[1], done())
	}
	return seen
}

// held are what a visitor leaves off with: a change whose body does not come, a stream that nobody
// reads, a body that no request has, and nothing at all.
var held = []string{
	"PUT /v1/config HTTP/1.1\r\nHost: agent\r\nContent-Length: 1000\r\n\r\n",
	"GET /v1/watch HTTP/1.1\r\nHost: agent\r\n\r\n",
	"GET /v1/status HTTP/1.1\r\nHost: agent\r\nContent-Length: 1000\r\n\r\n",
	"",
}

// usedUp is whether another operator gets no status from another address while a visitor has all
// the connections that they can.
func (d *agentDoor) usedUp(t *testing.T, v *visitor, list []visitor) (is bool) {
	t.Helper()
	other := named(list, mayRead)
	if v.name == mayRead {
		other = named(list, mayChange)
	}
	for _, text := range held {
		end := hold(t, d.s1, v, d.at, 16, false, text)
		if !within(patience, func() bool {
			code, _ := d.send(t, other, sources[len(sources)-1], http.MethodGet, api.StatusPath, nil, "")
			return code == http.StatusOK
		}) {
			t.Logf("%s: used up with %q", v.who, text)
			is = true
		}
		end()
	}
	return is
}
