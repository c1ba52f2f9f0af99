package tcp

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/mdlayher/genetlink"
	netlinkmsg "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// probes ask this machine; none changes anything.
type probes struct {
	release  func() string
	rights   func() error
	tcx      func() error
	sockops  func() error
	load     func(*Config) error             // all programs, which nothing runs then
	control  func(*Config) error             // the congestion control, which nothing is under then
	symbol   func(name string) (bool, error) // of the kernel
	cgroup   func(*Config) (string, error)
	link     func(name string) (netlink.Link, error)
	features func(index int) (map[string]bool, error) // that are on
	room     func(netip.Prefix, netlink.Link) error
	bpffs    func() (string, error)
}

// Look is whether this machine can give TCP connections tags; cfg is nil where there is no fleet file.
func Look(cfg *Config) *Check { return thisMachine.check(cfg) }

const newer = "use Linux 6.6 or newer, with CONFIG_BPF_SYSCALL, CONFIG_CGROUP_BPF and CONFIG_DEBUG_INFO_BTF: Debian 13 has 6.12, and Debian 12 has such a one among its backports"

// check looks at one part after the other. Nothing that is behind a missing one is looked at where it would only
// report that again.
func (p *probes) check(cfg *Config) *Check {
	c := &Check{Format: CheckFormat, OK: true, Parts: []Part{}}
	add := func(name string, needed bool, ok, next string, err error) bool {
		one := Part{Name: name, OK: err == nil, Needed: needed, Reason: ok}
		if err != nil {
			one.Reason, one.Next = err.Error(), next
			if room := (*noRoomError)(nil); errors.As(err, &room) {
				one.Reason, one.Next = room.reason, room.next
			}
			c.OK = c.OK && !needed
		}
		c.Parts = append(c.Parts, one)
		return err == nil
	}
	host := anyConfig()
	if cfg != nil {
		host = cfg
		c.Host = cfg.Host.Name
	}
	release := p.release()
	rights := add("rights", true, "this process may load BPF programs", "run csig as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON outside any user namespace", p.rights())
	if rights {
		tcx := p.tcx()
		if tcx != nil {
			tcx = fmt.Errorf("Linux %s has no tcx, which came with 6.6: tags could not be inserted beside other programs, nor end with csig (%w)", release, tcx) //nolint:staticcheck // it is a name
		}
		sockops := p.sockops()
		if sockops != nil {
			sockops = fmt.Errorf("programs of Linux %s cannot write TCP options: %w", release, sockops)
		}
		first := add("tcx", true, "Linux "+release+" runs programs at tcx, where tags are inserted and removed", newer, tcx)
		if add("sockops", true, "programs may write and read TCP options", newer, sockops) && first {
			add("programs", true, "the kernel takes all programs of csig host run, iterators over connections among them", newer, p.load(host))
		}
		control := p.control(host)
		if control != nil {
			control = fmt.Errorf("connections stay with the system's congestion control: %w", control)
		}
		add("control", false, "the kernel takes csig's congestion control", "needs a kernel with CONFIG_BPF_JIT, cubic built in, and the fleet file's buckets: without it tags work as with control: native", control)
	}
	at, err := p.cgroup(host)
	add("cgroup", true, "connections of the processes in "+at+" and below", "", err)
	at, err = p.bpffs()
	add("maps", false, "programs without privilege may read the signals of their connections (BPF file system at "+at+")", "mount -t bpf bpf /sys/fs/bpf, as systemd does", err)
	gro, err := p.symbol("vlan_gro_receive")
	if err == nil && !gro {
		err = errors.New("this kernel has no CONFIG_VLAN_8021Q: received frames whose tag the network card has not taken out are not merged, and cost 2.6 times the processor time")
	}
	add("gro", false, "the kernel's 802.1Q merges received frames whose 0x88a8 tag is in the packet", "use a kernel with CONFIG_VLAN_8021Q, or a network card with rx-vlan-stag-hw-parse", err)
	if cfg == nil {
		return c
	}
	if wide := cfg.Fleet.Profile.WideTPID; wide != 0 {
		add("wide tags", false, "", "nothing is to be done: connections have compact tags, and csig mesh, too",
			fmt.Errorf("connections have no tags of 8 bytes (TPID 0x%04x): the kernel inserts and removes the 4 bytes of a VLAN tag, and cuts and merges no super-frames behind others", wide))
	}
	l, err := p.link(cfg.Host.Interface)
	if err == nil {
		err = hasFrames(l)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", cfg.Host.Interface, err)
	}
	if !add("interface", true, cfg.Host.Interface+" is there", "ip link shows the interfaces of this machine: name one as the host's interface", err) {
		return c
	}
	on, err := p.features(l.Attrs().Index)
	for _, f := range []struct{ name, does, without string }{
		{"tx-vlan-stag-hw-insert", "inserts tags", "the kernel copies a tag into each packet"},
		{"rx-vlan-stag-hw-parse", "takes tags out", "the kernel takes tags out, later"},
	} {
		missing := err
		if err == nil && !on[f.name] {
			missing = fmt.Errorf("off at %s: %s", cfg.Host.Interface, f.without)
		}
		add(f.name, false, cfg.Host.Interface+" "+f.does, "ethtool -K "+cfg.Host.Interface+" "+f.name+" on, where the card can", missing)
	}
	for _, text := range cfg.Host.TCP.To {
		err := p.room(netip.MustParsePrefix(text), l)
		add("room to "+text, !errors.Is(err, errNoRoute), fmt.Sprintf("packets leave %d bytes of the MTU %d of %s to a tag", tagSize, l.Attrs().MTU, cfg.Host.Interface), "", err)
	}
	return c
}

// anyConfig is one for which programs can be loaded, where there is no fleet file.
func anyConfig() *Config {
	return &Config{
		Fleet: &inventory.Fleet{Profile: quantize.Profile{Signals: map[quantize.Signal]quantize.SignalProfile{quantize.MinABW: {}}}},
		Host:  &inventory.Host{TCP: &inventory.TCP{Tag: "all", Option: 253}},
	}
}

var thisMachine = probes{
	release: func() string {
		var u unix.Utsname
		if unix.Uname(&u) != nil {
			return "of this machine"
		}
		return unix.ByteSliceToString(u.Release[:])
	},
	rights: func() error {
		// The second wants what iterators do, CAP_PERFMON, and nothing of their own.
		for _, t := range []ebpf.ProgramType{ebpf.SchedCLS, ebpf.Kprobe} {
			if err := features.HaveProgramType(t); err != nil && !errors.Is(err, ebpf.ErrNotSupported) { // else the programs say so
				return fmt.Errorf("this process may not load BPF programs: %w", err)
			}
		}
		return nil
	},
	tcx: func() error {
		_, err := link.QueryPrograms(link.QueryOptions{Target: 1, Attach: ebpf.AttachTCXEgress}) // the loopback's
		return err
	},
	sockops: func() error {
		for _, f := range []asm.BuiltinFunc{asm.FnStoreHdrOpt, asm.FnLoadHdrOpt, asm.FnReserveHdrOpt, asm.FnGetNetnsCookie} {
			if err := features.HaveProgramHelper(ebpf.SockOps, f); err != nil {
				return fmt.Errorf("%v: %w", f, err)
			}
		}
		return nil
	},
	load: func(cfg *Config) error {
		p, err := cfg.load(nil, nil)
		if err != nil {
			return err
		}
		return p.close()
	},
	control:  tryControl,
	symbol:   kernelHas,
	cgroup:   (*Config).cgroup,
	link:     netlink.LinkByName,
	features: featuresOf,
	room:     roomTo,
	bpffs:    bpfMount,
}

// kernelHas reports whether the kernel has a function.
func kernelHas(name string) (bool, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return false, fmt.Errorf("look for what the kernel has: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 2 && fields[2] == name {
			return true, nil
		}
	}
	return false, lines.Err()
}

// featuresOf asks for the features of an interface that are on.
func featuresOf(index int) (map[string]bool, error) {
	conn, err := genetlink.Dial(nil)
	if err != nil {
		return nil, fmt.Errorf("ask for the features of the network card: %w", err)
	}
	defer conn.Close()
	on, err := askFeatures(conn, index)
	if err != nil {
		return nil, fmt.Errorf("ask for the features of the network card: %w", err)
	}
	return on, nil
}

func askFeatures(conn *genetlink.Conn, index int) (map[string]bool, error) {
	family, err := conn.GetFamily(unix.ETHTOOL_GENL_NAME)
	if err != nil {
		return nil, err
	}
	ae := netlinkmsg.NewAttributeEncoder()
	ae.Nested(unix.ETHTOOL_A_FEATURES_HEADER, func(ae *netlinkmsg.AttributeEncoder) error {
		ae.Uint32(unix.ETHTOOL_A_HEADER_DEV_INDEX, uint32(index))
		return nil
	})
	b, err := ae.Encode()
	if err != nil {
		return nil, err
	}
	msgs, err := conn.Execute(genetlink.Message{Header: genetlink.Header{Command: unix.ETHTOOL_MSG_FEATURES_GET, Version: unix.ETHTOOL_GENL_VERSION}, Data: b}, family.ID, netlinkmsg.Request)
	if err != nil {
		return nil, err
	}
	on := make(map[string]bool)
	for _, m := range msgs {
		ad, err := netlinkmsg.NewAttributeDecoder(m.Data)
		if err != nil {
			return nil, err
		}
		for ad.Next() {
			if ad.Type() == unix.ETHTOOL_A_FEATURES_ACTIVE {
				ad.Nested(func(set *netlinkmsg.AttributeDecoder) error { return bitNames(set, on) })
			}
		}
		if err := ad.Err(); err != nil {
			return nil, err
		}
	}
	return on, nil
}

// bitNames reads the names of a bit set of ethtool.
func bitNames(set *netlinkmsg.AttributeDecoder, on map[string]bool) error {
	for set.Next() {
		if set.Type() != unix.ETHTOOL_A_BITSET_BITS {
			continue
		}
		set.Nested(func(bits *netlinkmsg.AttributeDecoder) error {
			for bits.Next() {
				bits.Nested(func(bit *netlinkmsg.AttributeDecoder) error {
					for bit.Next() {
						if bit.Type() == unix.ETHTOOL_A_BITSET_BIT_NAME {
							on[bit.String()] = true
						}
					}
					return nil
				})
			}
			return nil
		})
	}
	return nil
}
