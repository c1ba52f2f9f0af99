package inventory

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strconv"
	"sync"

	"github.com/csig-agent/csig/quantize"
)

// Hash returns a hash of all that the fleet says, in hexadecimal: equal fleets
// have equal ones, in whatever files, layers and forms they are written. Where
// values come from is no part of it, nor are credentials, of which a fleet has
// only the places.
func (f *Fleet) Hash() string {
	h := sha256.New()
	buf := hashBuffers.Get().(*[]byte) // a fleet has a hash for each of its devices, too
	w := hashWriter{to: h, buf: (*buf)[:0]}
	defer func() {
		*buf = w.buf
		hashBuffers.Put(buf)
	}()
	w.text("csig.fleet.hash/1")
	w.text(f.Profile.Hash())
	w.text(string(f.Policy.OnStale), f.Policy.Schedule)
	w.estimator(f.Policy.Estimator)
	w.number(uint64(f.Policy.Damping.Hold), f.Policy.Damping.Margin, uint64(len(f.VLANTPIDs)))
	for _, v := range f.VLANTPIDs {
		w.number(uint64(v))
	}
	w.number(uint64(len(f.Devices)))
	for i := range f.Devices {
		w.device(&f.Devices[i])
	}
	w.number(uint64(len(f.Hosts)))
	for _, host := range f.Hosts {
		w.text(host.Name)
		w.number(uint64(host.MTU))
		w.yes(host.CSIG)
		if host.Interface != "" || host.NetNS != "" || host.Local { // fleets without probes keep their hash
			w.text("interface", host.Interface, host.NetNS)
			w.yes(host.Local)
		}
	}
	if len(f.Policy.Retired) > 0 { // so that fleets without any keep the hash they had
		w.text("retired")
		w.number(uint64(len(f.Policy.Retired)))
		for _, r := range f.Policy.Retired {
			w.number(uint64(r.TPID))
			w.yes(r.Wide)
		}
		for i := range f.Devices {
			for j := range f.Devices[i].Ports {
				w.yes(f.Devices[i].Ports[j].StripRetired)
			}
		}
	}
	w.flush()
	return hex.EncodeToString(h.Sum(nil))
}

var hashBuffers = sync.Pool{New: func() any { return new([]byte) }}

// hashWriter writes values with their lengths, so that two fleets never give
// the same bytes.
type hashWriter struct {
	to  io.Writer // a hash, which takes everything
	buf []byte
}

func (w *hashWriter) flush() {
	_, _ = w.to.Write(w.buf)
	w.buf = w.buf[:0]
}

func (w *hashWriter) text(list ...string) {
	for _, s := range list {
		w.buf = strconv.AppendInt(w.buf, int64(len(s)), 10)
		w.buf = append(append(w.buf, ':'), s...)
	}
	if len(w.buf) > 1<<15 {
		w.flush()
	}
}

func (w *hashWriter) number(list ...uint64) {
	for _, n := range list {
		w.buf = append(strconv.AppendUint(w.buf, n, 10), ',')
	}
}

func (w *hashWriter) yes(list ...bool) {
	for _, v := range list {
		w.buf = append(strconv.AppendBool(w.buf, v), ',')
	}
}

func (w *hashWriter) secret(s Secret) {
	w.text(s.Env, s.File)
	w.number(uint64(len(s.Command)))
	w.text(s.Command...)
}

func (w *hashWriter) estimator(e Estimator) {
	w.text(string(e.orRaw().Method))
	w.number(uint64(e.TimeConstant))
}

func (w *hashWriter) tls(t TLS) {
	w.text(t.CA, t.Cert, t.Key, t.ServerName)
	w.yes(t.InsecureSkipVerify)
}

func (w *hashWriter) device(d *Device) {
	w.text(d.Name, d.Platform, d.Address, string(d.Level.Support), d.Level.Reason, d.Schedule)
	if d.Level.Profile != "" { // so that fleets without any keep the hash they had
		w.text("profile", d.Level.Profile)
	}
	w.yes(d.Local)
	w.number(uint64(d.Interval), uint64(len(d.Tags)))
	w.text(d.Tags...)
	w.estimator(d.Estimator)
	w.text(d.Management.NetNS)
	w.yes(d.Management.SSH != nil, d.Management.Daemon != nil)
	if s := d.Management.SSH; s != nil {
		w.text(s.User, s.Key, s.KnownHosts)
		w.number(uint64(s.Port))
		w.yes(s.Agent)
		w.secret(s.Passphrase)
		w.secret(s.Password)
		if s.Sudo != nil { // fleets without it keep their hash
			w.text("sudo")
			w.secret(s.Sudo.Password)
		}
	}
	if s := d.Management.Daemon; s != nil {
		w.text(s.Socket)
		w.number(uint64(s.Port))
		w.tls(s.TLS)
	}
	if o := d.Management.OVS; o != nil { // fleets without it keep their hash
		w.text("ovs", o.Bridge, o.RunDir)
		w.number(uint64(o.Table))
	}
	if r := d.Management.Redis; r != nil {
		w.text("redis", r.Socket, r.Databases)
		w.number(uint64(r.Port))
		w.secret(r.Password)
	}
	w.counters(&d.Counters)
	w.number(uint64(len(d.Ports)))
	for i := range d.Ports {
		p := &d.Ports[i]
		w.text(p.Name, p.Peer.Device, p.Peer.Port)
		w.number(p.Speed, uint64(p.MTU), uint64(p.Action), uint64(len(p.LM)))
		for _, sig := range quantize.Signals {
			if lm, ok := p.LM[sig]; ok {
				w.number(uint64(sig), uint64(lm))
			}
		}
	}
}

func (w *hashWriter) counters(c *Counters) {
	w.text(string(c.Source))
	w.yes(c.Overhead != nil, c.SNMP != nil, c.GNMI != nil)
	w.number(uint64(c.Refresh))
	if c.Overhead != nil {
		w.number(uint64(*c.Overhead))
	}
	if s := c.SNMP; s != nil {
		w.text(s.Version, s.User, s.Auth.Protocol, s.Priv.Protocol, s.Context, s.Discards)
		w.number(uint64(s.Port), uint64(s.Timeout), uint64(s.Retries), uint64(s.Recheck))
		w.secret(s.Community)
		w.secret(s.Auth.Key)
		w.secret(s.Priv.Key)
	}
	if g := c.GNMI; g != nil {
		w.text(g.Username, g.Target, g.Mode)
		w.number(uint64(g.Port), uint64(g.Timeout))
		w.yes(g.Plaintext, g.AllowPlaintextPassword)
		w.secret(g.Password)
		w.tls(g.TLS)
	}
}
