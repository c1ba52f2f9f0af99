package integration

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/agent/api/tlstest"
	"github.com/csig-agent/csig/controller/owner"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
)

// onlooker is a client of the cluster that looks at what others did.
const onlooker = "onlooker"

// metricsHost is an address of their machine that is not loopback's, where metrics need a certificate.
const metricsHost = "192.0.2.9"

// Where the controllers listen on their loopback: a port for nodes and one for clients each.
func nodesAt(i int) string   { return fmt.Sprintf("localhost:%d", 6221+i) }
func clientsAt(i int) string { return fmt.Sprintf("localhost:%d", 4221+i) }
func metricsOf(i int) string { return fmt.Sprintf("%s:%d", metricsHost, 9341+i) }

// controllersDoor is three controllers of a switch. The ways to them are in who_ways_linux_test.go.
type controllersDoor struct {
	host                   *fabric.Node
	dir                    string
	text                   string // the fleet file
	cs                     []*agent
	spied                  *datagrams
	routes                 []*url.URL // of nodes, for a server in this process
	looks                  *nats.Conn
	onlooker, node, reader *visitor
	puts                   int
}

func newControllersDoor(t *testing.T, ca *tlstest.Authority, list []visitor) *controllersDoor {
	t.Helper()
	if _, err := fabric.Loopback(); err != nil { // for the relays: servers of NATS dial where this process is
		t.Fatal(err)
	}
	sw := oftest.StartSwitch(t, 3)
	sw.Flow("add-flow", "table=0,priority=10,dl_dst=02:00:00:00:00:02,actions=write_metadata:2/0xfff,goto_table:10")
	d := &controllersDoor{host: newHost(t, "controllers"), dir: t.TempDir()}
	_, port := proxyIn(t, d.host, oftest.Options{Bridge: sw.Path(), Port: 6653})
	d.spied = listenDatagrams(t, d.host)
	exits(t, 0, d.host.Command("ip", "address", "add", metricsHost+"/32", "dev", "lo"))
	for i := range 3 {
		o := newOperator(t, d.host, strings.ReplaceAll(controllersText, "PORT", port))
		name := fmt.Sprintf("c%d", i+1)
		cert, key := ca.Certify(name, "localhost")
		args := []string{"-i", o.fleet, "--state", filepath.Join(o.dir, "state"), "--name", name, "--term", "2s", "--cluster", nodesAt(i), "--tls-cert", cert, "--tls-key", key, "--tls-ca", ca.CA,
			"--clients-at", clientsAt(i), "--clients", daemonName + "," + onlooker, "--metrics", metricsOf(i), "--metrics-ca", ca.CA, "--tls-read", metricsReader}
		for _, j := range others(i) {
			args = append(args, "--peer", fmt.Sprintf("c%d=%s", j+1, nodesAt(j)))
		}
		if i == 0 {
			text := readFile(t, o.fleet)
			d.text = string(text)
		}
		d.cs = append(d.cs, launchIn(t, d.host.Command(csigController, args...), filepath.Join(o.dir, "hw1.sock")))
		d.routes = append(d.routes, &url.URL{Scheme: "nats-route", Host: d.relay(t, nodesAt(i))})
	}
	d.restore(t)
	cert, err := tls.LoadX509KeyPair(ca.Certify(onlooker))
	if err != nil {
		t.Fatal(err)
	}
	d.onlooker, d.node, d.reader = &visitor{name: onlooker, cert: &cert}, named(list, listedNode), named(list, metricsReader)
	if d.looks, err = d.connect(t, d.onlooker, sources[len(sources)-1]); err != nil {
		t.Fatal(err)
	}
	return d
}

// reads is whether the record of who drives the switch is answered with.
func reads(nc *nats.Conn, key string) bool {
	m, err := nc.Request("$JS.API.STREAM.MSG.GET.KV_csig_owners", fmt.Appendf(nil, `{"last_by_subj":"$KV.csig_owners.%s"}`, key), time.Second)
	return err == nil && strings.Contains(string(m.Data), `"subject":"$KV.csig_owners.`+key)
}

// hash is that of the configuration which the owner runs.
func (d *controllersDoor) hash(t *testing.T) (hash string) {
	t.Helper()
	if !within(patience, func() bool {
		s, err := d.cs[0].client.Observe(t.Context())
		hash = s.Config
		return err == nil
	}) {
		t.Fatal("no controller drives the switch")
	}
	return hash
}

func (d *controllersDoor) restore(t *testing.T) {
	t.Helper()
	if !within(patience, func() bool { return d.cs[0].client.Configure(t.Context(), []byte(d.text)) == nil }) {
		t.Fatal(d.cs[0].client.Configure(t.Context(), []byte(d.text)))
	}
}

// spying is the configuration with a community that its agent sends to the test.
func (d *controllersDoor) spying(community string) string {
	return strings.Replace(d.text, "    ports:", fmt.Sprintf("    counters: {source: snmp, snmp: {version: 2c, port: %d, timeout: 100ms, retries: 0, community: %s}}\n    ports:", d.spied.port, community), 1)
}

// tryAll tries everything as everyone.
func (d *controllersDoor) tryAll(t *testing.T, list []visitor) outcomes {
	t.Helper()
	seen := outcomes{}
	var late []func() // what may still come of it
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	for i := range list {
		v := &list[i]
		left, secret, key := filepath.Join(d.dir, fmt.Sprintf("command-%d", i)), fmt.Sprintf("secret-%d-", i), fmt.Sprintf("tried-%d", i)
		file := filepath.Join(d.dir, secret)
		writeFile(t, file, []byte(secret+"\n"))
		ran := func() bool { _, err := os.Stat(left); return err == nil }
		arrived := func() bool { return d.spied.got(secret) }
		late = append(late, func() {
			seen.set(doWrite, v.who, reads(d.looks, key))
			seen.set(doCommand, v.who, ran())
			seen.set(doSecret, v.who, arrived())
		})

		var ways []*nats.Conn
		if nc := d.join(t, v); nc != nil {
			ways = append(ways, nc)
		}
		seen.set(doJoin, v.who, len(ways) > 0)
		if v.plain {
			if d.speaksPlainly(t, clientsAt(0)) {
				t.Errorf("%s: clients are answered", v.who)
			}
		} else if nc, err := d.connect(t, v, sources[0]); err == nil {
			ways = append(ways, nc)
		}
		was, may := d.hash(t), false
		for _, nc := range ways {
			// A server that has just joined does not know yet where the streams are.
			may = within(patience/4, func() bool { return reads(nc, "hw1") }) || may
			within(patience/4, func() bool {
				_, _ = nc.Request("$KV.csig_owners."+key, []byte("{}"), time.Second)
				return reads(d.looks, key)
			})
			store, err := owner.Open(nc, owner.Config{Name: v.name, Term: 2 * time.Second, Log: logrus.NewEntry(quiet)})
			if err != nil {
				t.Fatal(err)
			}
			c := api.NewDialClient("hw1", func(ctx context.Context) (net.Conn, error) { return store.Dial(ctx, "hw1") })
			// The switch may have no owner for a moment: the previous visitor took it from the last one.
			seen.set(doOpen, v.who, within(patience/4, func() bool { return opens(t, c) }))
			d.puts++
			put := []byte(strings.Replace(d.text, "speed: 50M", fmt.Sprintf("speed: %dM", 50+d.puts), 1))
			seen.set(doPut, v.who, within(patience/4, func() bool {
				_ = c.Configure(t.Context(), put)
				return d.hash(t) != was
			}))
			for _, trap := range []struct {
				text string
				done func() bool
			}{{d.spying(fmt.Sprintf("{command: [touch, %s]}", left)), ran}, {d.spying(fmt.Sprintf("{file: %s}", file)), arrived}} {
				c.Device = api.Described{File: trap.text}
				opens(t, c)
				c.Device = api.Described{}
				if c.Configure(t.Context(), []byte(trap.text)) == nil {
					within(patience, trap.done)
				}
			}
			c.Close()
			d.poison(t, nc, d.spying(fmt.Sprintf("{command: [touch, %s]}", left)))
			d.restore(t)
		}
		seen.set(doRead, v.who, may)
		seen.set(doOpen, v.who, false)
		seen.set(doPut, v.who, d.hash(t) != was && len(ways) == 0)
		for _, nc := range ways { // they are connections, too
			nc.Close()
		}
		seen.set(doUseUp, v.who, d.usedUp(t, v))
	}
	for _, look := range late {
		look()
	}
	return seen
}

// kept is the last value of a key of the configurations.
func kept(nc *nats.Conn, key string) string {
	var got struct {
		Message struct{ Data []byte }
	}
	m, err := nc.Request("$JS.API.STREAM.MSG.GET.KV_csig_configs", fmt.Appendf(nil, `{"last_by_subj":"$KV.csig_configs.%s"}`, key), time.Second)
	if err != nil || json.Unmarshal(m.Data, &got) != nil {
		return ""
	}
	return string(got.Message.Data)
}

// poison puts a configuration into the store, past the owner of the switch, and takes the switch
// from that one: the next owner finds it. It returns when that one has.
func (d *controllersDoor) poison(t *testing.T, nc *nats.Conn, text string) {
	t.Helper()
	var ack struct{ Seq uint64 }
	m, err := nc.Request("$KV.csig_configs.hw1", []byte(text), patience)
	if err == nil {
		err = json.Unmarshal(m.Data, &ack)
	}
	if err != nil || ack.Seq == 0 {
		t.Errorf("the store does not take a configuration: %v", err)
		return
	}
	by, _, _ := strings.Cut(kept(nc, "current.hw1"), "\n")
	for _, put := range [][2]string{{"csig_configs.current.hw1", fmt.Sprintf("%s\n%d", by, ack.Seq)}, {"csig_owners.hw1", "{}"}} {
		if _, err := nc.Request("$KV."+put[0], []byte(put[1]), patience); err != nil {
			t.Errorf("the store does not take %s: %v", put[0], err)
		}
	}
	if !within(patience, func() bool {
		now, which, _ := strings.Cut(kept(nc, "current.hw1"), "\n")
		return now != by && which == fmt.Sprint(ack.Seq)
	}) {
		t.Errorf("no owner comes to what was put into the store: %q", kept(nc, "current.hw1"))
	}
}

// opens is whether any request that opens the device is answered.
func opens(t *testing.T, c *api.Client) bool {
	t.Helper()
	_, facts := c.Probe(t.Context())
	_, setup := c.Observe(t.Context())
	_, mtus := c.MTUs(t.Context())
	return errors.Join(facts, setup, mtus) == nil || facts == nil || setup == nil || mtus == nil
}

// usedUp is whether, at another address, a client, a node or a reader of metrics is not let in at a
// controller while a visitor has all the connections to it that they can.
func (d *controllersDoor) usedUp(t *testing.T, v *visitor) (is bool) {
	t.Helper()
	from := sources[len(sources)-1]
	for _, door := range []struct {
		name, at, text string
		greeting       bool
		open           func() bool
	}{
		{"nodes", nodesAt(0), "", false, func() bool { return d.greets(t, d.node, from) }},
		{"clients", clientsAt(0), "CONNECT {\"verbose\":false,\"protocol\":1}\r\n", true, func() bool {
			nc, err := d.connect(t, d.onlooker, from)
			if err == nil {
				nc.Close()
			}
			return err == nil
		}},
		{"metrics", metricsOf(0), "GET /metrics HTTP/1.1\r\nHost: agent\r\nContent-Length: 10\r\n\r\n", false, func() bool { return d.measures(t, from) }},
	} {
		for _, silent := range []bool{true, false} {
			as := *v
			as.plain = v.plain || silent
			text := door.text
			if silent {
				text = ""
			}
			end := hold(t, d.host, &as, door.at, 40, door.greeting, text)
			if !within(patience, door.open) {
				t.Logf("%s: used up at the port of %s, silent: %v", v.who, door.name, silent)
				is = true
			}
			end()
			if !within(patience, door.open) {
				t.Fatalf("%s: nobody is let in any more at the port of %s", v.who, door.name)
			}
		}
	}
	return is
}
