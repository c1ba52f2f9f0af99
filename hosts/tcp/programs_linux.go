package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/quantize"
)

const (
	fresh       = 200 * time.Millisecond // after a reflection tags leave
	probeEvery  = time.Second
	expires     = 500 * time.Millisecond // a tag is reflected
	exID        = 0xc516
	unsetPrefix = 96 // bits in front of an IPv4 prefix that is mapped into IPv6
)

// programs are those of one host, in the kernel.
type programs struct {
	tcpObjects
	links []link.Link // in the order in which they end
	pins  string      // the directory where links and maps have names, and stay; "": they end with the process
	list  *link.Iter

	control  *control // nil: connections stay with the system's control
	unloaded error    // why there is none, though the fleet file wants it
}

// order is which program is at each of the links, in the order in which they end.
func (p *programs) order() []*ebpf.Program {
	return []*ebpf.Program{p.CsigReflect, p.CsigInsert, p.CsigStrip}
}

// kept are the maps that the next programs take over: what is known of connections, and counts.
func (p *programs) kept() map[string]*ebpf.Map {
	if p == nil {
		return nil
	}
	out := make(map[string]*ebpf.Map)
	for name, m := range p.keeps() {
		out[name] = *m
	}
	return out
}

// keeps is where those maps are.
func (p *programs) keeps() map[string]**ebpf.Map {
	return map[string]**ebpf.Map{
		tcpMapFlows: &p.Flows, tcpMapHandshakes: &p.Handshakes, tcpMapDatagrams: &p.Datagrams, tcpMapCounters: &p.Counters,
		tcpMapControls: &p.Controls, tcpMapControlCounters: &p.ControlCounters,
	}
}

// loadSpec is the object as this build has it, with the constants of a configuration. former is the one before, or nil.
func (cfg *Config) loadSpec(former *Config) (*ebpf.CollectionSpec, error) {
	spec, err := loadTcp()
	if err != nil {
		return nil, err
	}
	cookie, err := netnsCookie()
	if err != nil {
		return nil, err
	}
	var start, first [len(quantize.Signals)]uint16
	var carried uint32
	profile, tcp := &cfg.Fleet.Profile, cfg.Host.TCP
	signals := profile.Carried()
	for i, sig := range signals {
		tci, err := profile.Layout.Pack(quantize.Tag{T: sig, S: uint32(profile.Initial(sig)), LM: profile.Layout.LMNone()})
		if err != nil {
			return nil, err
		}
		start[i], first[sig] = uint16(tci), uint16(tci)
		carried |= 1 << sig
	}
	meshPort := uint16(0)
	if cfg.Fleet.Mesh != nil {
		meshPort = cfg.Fleet.Mesh.Port
	}
	forget := uint32(1) // of a csig host run before this one it is not known what its readings mean
	if former != nil && former.Fleet.Profile.Hash() == profile.Hash() {
		forget = 0
	}
	var least [2][32]uint64
	for sig := range least {
		if has, ok := profile.Signals[quantize.Signal(sig)]; ok {
			for i := range least[sig] {
				least[sig][i], _ = has.Buckets.Range(uint8(i))
			}
		}
	}
	exid := uint16(0)
	if tcp.Option == 253 || tcp.Option == 254 {
		exid = swap16(exID)
	}
	for name, v := range map[string]any{
		tcpVarNetnsCookie: cookie, tcpVarFresh: uint64(fresh), tcpVarProbeEvery: uint64(probeEvery), tcpVarExpires: uint64(expires),
		tcpVarEvery: tcp.Every(), tcpVarSignals: uint32(len(signals)), tcpVarStart: start, tcpVarFirst: first, tcpVarMeshPort: meshPort, tcpVarCarried: carried,
		tcpVarForget: forget, tcpVarOptionKind: tcp.Option, tcpVarOptionExid: exid,
		tcpVarWeight: tcp.Weight(), tcpVarLeast: least, tcpVarLmShift: uint16(7 - profile.Layout.LMBits()), tcpVarLmStale: profile.Layout.LMStale(),
	} {
		if err := spec.Variables[name].Set(v); err != nil {
			return nil, fmt.Errorf("constant %s: %w", name, err)
		}
	}
	return spec, nil
}

func swap16(v uint16) uint16 { return v<<8 | v>>8 }

// netnsCookie is that of the calling thread's network namespace.
func netnsCookie() (uint64, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open a socket: %w", err)
	}
	defer unix.Close(fd)
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("read the network namespace's cookie (Linux 5.14 or newer): %w", err)
	}
	return cookie, nil
}

// load loads the programs, which nothing runs yet, with the maps of those before, and with their congestion control where that
// is as this configuration wants it. former is the configuration of the latter; both are nil where there were none.
func (cfg *Config) load(former *Config, before *programs) (*programs, error) {
	spec, err := cfg.loadSpec(former)
	if err != nil {
		return nil, err
	}
	p := &programs{}
	opts := ebpf.CollectionOptions{MapReplacements: before.kept()}
	if cfg.wantsControl() {
		if p.control, p.unloaded = cfg.controlAfter(before); p.unloaded == nil {
			if err = p.control.share(cfg, spec, &opts); err != nil {
				return nil, errors.Join(err, p.closeBut(before))
			}
		}
	}
	if err := spec.LoadAndAssign(&p.tcpObjects, &opts); err != nil {
		return nil, errors.Join(fmt.Errorf("load the BPF programs: %w", err), p.closeBut(before))
	}
	// Programs of this machine are handed these for reading; a file for reading becomes one for writing by a name in a BPF
	// file system of theirs.
	for _, m := range []*ebpf.Map{p.Flows, p.Datagrams} {
		info, err := m.Info()
		if err == nil && !info.Frozen() { // those before may have left it
			err = m.Freeze()
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("have no program of this machine write the map %s: %w", m, err), p.closeBut(before))
		}
	}
	if err := cfg.fill(p); err != nil {
		return nil, errors.Join(err, p.closeBut(before))
	}
	if p.list, err = link.AttachIter(link.IterOptions{Program: p.CsigList, Map: p.Flows}); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the list of connections: %w", err), p.closeBut(before))
	}
	return p, nil
}

// What a host is expected to take, as the programs have it.
const (
	expectsTags = 1 << iota
	expectsMesh
)

// fill writes which connections are csig's, and which datagrams.
func (cfg *Config) fill(p *programs) error {
	expects := make(map[netip.Prefix]uint32)
	var to []netip.Prefix
	for _, text := range cfg.Host.TCP.To {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return err
		}
		to = append(to, prefix)
		expects[prefix] = expectsTags
	}
	if cfg.Fleet.Mesh != nil {
		for i := range cfg.Fleet.Hosts {
			h := &cfg.Fleet.Hosts[i]
			addr, err := netip.ParseAddr(h.Address)
			if err != nil || !h.CSIG {
				continue // it has none
			}
			addr = addr.Unmap()
			all := uint32(expectsMesh)
			if slices.ContainsFunc(to, func(p netip.Prefix) bool { return p.Contains(addr) }) {
				all |= expectsTags // of the longest prefix alone the programs read what it expects
			}
			expects[netip.PrefixFrom(addr, addr.BitLen())] |= all
		}
	}
	if len(expects) > int(p.Prefixes.MaxEntries()) {
		return fmt.Errorf("host %s: %d prefixes and hosts of the mesh are more than the %d that the programs take: list shorter prefixes (tcp: to)", cfg.Host.Name, len(expects), p.Prefixes.MaxEntries())
	}
	for prefix, what := range expects {
		key := tcpPrefix{Bits: uint32(prefix.Bits()), Address: words(prefix.Addr())}
		if prefix.Addr().Is4() {
			key.Bits += unsetPrefix
		}
		if err := p.Prefixes.Put(key, what); err != nil {
			return fmt.Errorf("prefix %s: %w", prefix, err)
		}
	}
	ranges := cfg.Host.TCP.PortRanges()
	if len(ranges) == 0 {
		ranges = [][2]uint16{{0, 1<<16 - 1}}
	}
	return errors.Join(fillPorts(p.Ports, ranges), fillPorts(p.DatagramPorts, cfg.Host.TCP.UDPRanges()))
}

func fillPorts(to *ebpf.Map, ranges [][2]uint16) error {
	var bits [1 << 10]uint64
	for _, r := range ranges {
		for port := int(r[0]); port <= int(r[1]); port++ {
			bits[port>>6] |= 1 << (port & 63)
		}
	}
	for i, v := range bits {
		if v == 0 {
			continue
		}
		if err := to.Put(uint32(i), v); err != nil {
			return fmt.Errorf("ports: %w", err)
		}
	}
	return nil
}

// words are an address as the programs have it: in network order, IPv4 mapped.
func words(a netip.Addr) (out [4]uint32) {
	b := a.As16()
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return out
}

func addressOf(w [4]uint32) netip.Addr {
	var b [16]byte
	for i, v := range w {
		binary.LittleEndian.PutUint32(b[4*i:], v)
	}
	return netip.AddrFrom16(b).Unmap()
}

// attach has the programs run. What is attached first ends last, as the kernel closes the files of a process that is killed
// from the highest number down: no tag leaves, and no peer is told to send any, when nothing removes those that come.
func (p *programs) attach(iface int, cgroup string) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, p.detach())
		}
	}()
	// In front of others, which may take a frame out of the chain: with its tag no program behind it knows the frame.
	strip, err := link.AttachTCX(link.TCXOptions{Interface: iface, Program: p.CsigStrip, Attach: ebpf.AttachTCXIngress, Anchor: link.Head()})
	if err != nil {
		return fmt.Errorf("attach to tcx ingress: %w", err)
	}
	p.links = []link.Link{strip}
	reflect, err := link.AttachCgroup(link.CgroupOptions{Path: cgroup, Attach: ebpf.AttachCGroupSockOps, Program: p.CsigReflect})
	if err != nil {
		return fmt.Errorf("attach to the control group %s: %w", cgroup, err)
	}
	p.links = []link.Link{reflect, strip}
	insert, err := link.AttachTCX(link.TCXOptions{Interface: iface, Program: p.CsigInsert, Attach: ebpf.AttachTCXEgress})
	if err != nil {
		return fmt.Errorf("attach to tcx egress: %w", err)
	}
	p.links = []link.Link{reflect, insert, strip}
	return nil
}

// listeners has servers that run already answer the option, of all control groups: which one a server is in no program
// of an iterator is told.
func (p *programs) listeners() error {
	if err := iterate(link.IterOptions{Program: p.CsigListeners}); err != nil {
		return fmt.Errorf("go through the servers that run: %w", err)
	}
	return nil
}

// revise has the connections that are open be those of a changed fleet file.
func (p *programs) revise() error {
	if err := iterate(link.IterOptions{Program: p.CsigRevise, Map: p.Flows}); err != nil {
		return fmt.Errorf("go through the connections: %w", err)
	}
	return nil
}

func iterate(o link.IterOptions) error {
	it, err := link.AttachIter(o)
	if err != nil {
		return err
	}
	defer it.Close()
	r, err := it.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	return err
}

// closeBut closes all but the congestion control that is that of others, too.
func (p *programs) closeBut(others *programs) error {
	if others != nil && p.control == others.control {
		p.control = nil
	}
	return p.close()
}

// replace has the next programs run where these do. No frame goes by in between: each link changes at once, the one first that
// removes tags.
func (p *programs) replace(next *programs) error {
	now, then := p.order(), next.order()
	for i := len(p.links) - 1; i >= 0; i-- {
		if err := p.links[i].Update(then[i]); err != nil {
			for i++; i < len(p.links); i++ {
				if now[i] != nil { // those of another process are not known
					err = errors.Join(err, p.links[i].Update(now[i]))
				}
			}
			return fmt.Errorf("replace the programs: %w", err)
		}
	}
	next.links, next.pins, p.links = p.links, p.pins, nil
	return nil
}

// detach ends what attach began: tags leave no more at once, and those of the peers are removed until their
// connections have noticed that nobody reflects.
func (p *programs) detach() (err error) {
	for i, l := range p.links {
		if i == len(p.links)-1 && i > 0 {
			time.Sleep(2 * fresh)
		}
		err = errors.Join(err, l.Unpin(), l.Close())
	}
	p.links = nil
	return err
}

// close ends what runs, or leaves it in the kernel where it has names.
func (p *programs) close() (err error) {
	if p.pins == "" {
		err = p.detach()
	}
	for _, l := range p.links {
		err = errors.Join(err, l.Close())
	}
	p.links = nil
	if p.list != nil {
		err = errors.Join(err, p.list.Close())
	}
	return errors.Join(err, p.tcpObjects.Close(), p.control.close())
}

// counts are the sums of all processors.
func (p *programs) counts() (sum tcpCounts, err error) {
	var each []tcpCounts
	if err := p.Counters.Lookup(uint32(0), &each); err != nil {
		return sum, fmt.Errorf("read the counters: %w", err)
	}
	for i := range each {
		c := &each[i]
		sum.Tagged += c.Tagged
		sum.Probes += c.Probes
		sum.Stripped += c.Stripped
		sum.Options += c.Options
		sum.Reflections += c.Reflections
		sum.Malformed += c.Malformed
		sum.NoRoom += c.NoRoom
		sum.Failed += c.Failed
		sum.Connections += c.Connections
		sum.DatagramsSent += c.DatagramsSent
		sum.DatagramsReceived += c.DatagramsReceived
	}
	return sum, nil
}

// mostFlows bounds a list of connections.
const mostFlows = 10_000

// connections lists those whose ends agreed, of which there are more than mostFlows where more is true.
func (p *programs) connections() (out []tcpEntry, more bool, err error) {
	r, err := p.list.Open()
	if err != nil {
		return nil, false, fmt.Errorf("list the connections: %w", err)
	}
	defer r.Close()
	var e tcpEntry
	for {
		switch err := binary.Read(r, binary.LittleEndian, &e); {
		case errors.Is(err, io.EOF):
			return out, false, nil
		case errors.Is(err, os.ErrNotExist): // the map is gone
			return out, false, nil
		case err != nil:
			return nil, false, fmt.Errorf("list the connections: %w", err)
		case len(out) == mostFlows:
			return out, true, nil
		}
		out = append(out, e)
	}
}
