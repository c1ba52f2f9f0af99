package tcp

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// tagSize is what a frame is longer with a tag.
const tagSize = 4

// route is a way that frames to a prefix take.
type route struct {
	to   netip.Prefix // the route's destination
	mtu  int          // of its packets
	line string       // how to give it room: an ip command
}

// routesTo are the routes out of an interface that packets to a prefix may take, of all tables that a rule names: which
// packets a rule is for is not looked at.
func routesTo(prefix netip.Prefix, link netlink.Link, room int) ([]route, error) {
	family := netlink.FAMILY_V4
	if prefix.Addr().Is6() {
		family = netlink.FAMILY_V6
	}
	rules, err := netlink.RuleList(family)
	if err != nil {
		return nil, fmt.Errorf("list the rules of routing: %w", err)
	}
	all, err := netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("list the routes: %w", err)
	}
	var out []route
	looked := map[int]bool{unix.RT_TABLE_UNSPEC: true}
	for i := range rules {
		if table := rules[i].Table; !looked[table] {
			looked[table] = true
			out = append(out, routesOf(table, all, prefix, link, room, family)...)
		}
	}
	return out, nil
}

// routesOf are those of one table.
func routesOf(table int, all []netlink.Route, prefix netip.Prefix, link netlink.Link, room, family int) (out []route) {
	covers := -1 // the longest prefix that the whole prefix is in
	for i := range all {
		dst, ok := destination(&all[i], family)
		if ok && all[i].Table == table && dst.Overlaps(prefix) && dst.Bits() <= prefix.Bits() {
			covers = max(covers, dst.Bits())
		}
	}
	index := link.Attrs().Index
	for i := range all {
		r := &all[i]
		dst, ok := destination(r, family)
		if !ok || r.Table != table || !dst.Overlaps(prefix) || dst.Bits() < covers {
			continue
		}
		if r.LinkIndex != index && !slices.ContainsFunc(r.MultiPath, func(h *netlink.NexthopInfo) bool { return h.LinkIndex == index }) {
			continue
		}
		mtu := r.MTU
		if mtu == 0 {
			mtu = link.Attrs().MTU
		}
		out = append(out, route{dst, mtu, changeLine(r, dst, link.Attrs().Name, room)})
	}
	return out
}

func destination(r *netlink.Route, family int) (netip.Prefix, bool) {
	if r.Type != unix.RTN_UNICAST {
		return netip.Prefix{}, false
	}
	if r.Dst == nil {
		if family == netlink.FAMILY_V4 {
			return netip.MustParsePrefix("0.0.0.0/0"), true
		}
		return netip.MustParsePrefix("::/0"), true
	}
	a, ok := netip.AddrFromSlice(r.Dst.IP)
	bits, _ := r.Dst.Mask.Size()
	if !ok {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a.Unmap(), bits).Masked(), true
}

// changeLine is the command that changes the MTU of a route, and leaves it as it is besides.
func changeLine(r *netlink.Route, dst netip.Prefix, dev string, mtu int) string {
	if len(r.MultiPath) > 0 {
		return fmt.Sprintf("ip route change for %s, which has several next hops, with mtu %d added to what ip route show prints", dst, mtu)
	}
	words := []string{"ip"}
	if dst.Addr().Is6() {
		words = append(words, "-6")
	}
	to := dst.String()
	if dst.Bits() == 0 {
		to = "default"
	}
	words = append(words, "route", "replace", to)
	if r.Gw != nil {
		words = append(words, "via", r.Gw.String())
	}
	words = append(words, "dev", dev)
	if r.Protocol != 0 {
		words = append(words, "proto", r.Protocol.String())
	}
	if dst.Addr().Is4() && r.Scope != netlink.SCOPE_UNIVERSE {
		words = append(words, "scope", r.Scope.String())
	}
	if r.Src != nil {
		words = append(words, "src", r.Src.String())
	}
	if r.Priority != 0 {
		words = append(words, "metric", fmt.Sprint(r.Priority))
	}
	if r.Table != unix.RT_TABLE_MAIN {
		words = append(words, "table", fmt.Sprint(r.Table))
	}
	return strings.Join(append(words, "mtu", fmt.Sprint(mtu)), " ")
}

// errNoRoute is that nothing goes to a prefix out of the interface.
var errNoRoute = errors.New("no route")

// noRoomError is that a route leaves a tag no room.
type noRoomError struct{ reason, next string }

func (e *noRoomError) Error() string { return e.reason + ": " + e.next }

// hasFrames reports why an interface has no tags: a tunnel's packets are in no Ethernet frames.
func hasFrames(link netlink.Link) error {
	if kind := link.Attrs().EncapType; kind != "ether" {
		return fmt.Errorf("it has no Ethernet frames (its link is %s), and so no tags: name the network card", kind)
	}
	return nil
}

// refuse reports what a connection with tags would die of: routes whose packets are as long as the interface takes.
func (cfg *Config) refuse() error {
	link, err := netlink.LinkByName(cfg.Host.Interface)
	if err != nil {
		return fmt.Errorf("host %s: interface %s: %w", cfg.Host.Name, cfg.Host.Interface, err)
	}
	if err := hasFrames(link); err != nil {
		return fmt.Errorf("host %s: interface %s: %w", cfg.Host.Name, cfg.Host.Interface, err)
	}
	for _, text := range cfg.Host.TCP.To {
		if err := roomTo(netip.MustParsePrefix(text), link); err != nil && !errors.Is(err, errNoRoute) {
			return fmt.Errorf("host %s: tcp: to %s: %w", cfg.Host.Name, text, err)
		}
	}
	return nil
}

// roomTo is why a packet to a prefix has no room for a tag.
func roomTo(prefix netip.Prefix, link netlink.Link) error {
	has := link.Attrs().MTU
	routes, err := routesTo(prefix, link, has-tagSize)
	if err != nil {
		return err
	}
	if len(routes) == 0 {
		return fmt.Errorf("%w out of %s: connections there have no tags until there is one", errNoRoute, link.Attrs().Name)
	}
	for _, r := range routes {
		if r.mtu > has-tagSize {
			return &noRoomError{
				reason: fmt.Sprintf("packets of the route %s have up to %d bytes, and with a tag %d more than the MTU %d of %s", r.to, r.mtu, r.mtu+tagSize-has, has, link.Attrs().Name),
				next:   fmt.Sprintf("%s; or give %s, and all that is on the path, an MTU of %d, and the route mtu %d", r.line, link.Attrs().Name, r.mtu+tagSize, r.mtu),
			}
		}
	}
	return nil
}

// cgroup is the directory of the control group whose connections have tags.
func (cfg *Config) cgroup() (string, error) {
	mount, err := cgroupMount()
	if err != nil {
		return "", err
	}
	at := cfg.Host.TCP.CGroup
	if at == "" {
		return mount, nil
	}
	if at != mount && !strings.HasPrefix(at, mount+"/") {
		return "", fmt.Errorf("host %s: tcp: cgroup: %s is not below %s, where the control groups (v2) of this machine are", cfg.Host.Name, at, mount)
	}
	if fi, err := os.Stat(at); err != nil {
		return "", fmt.Errorf("host %s: tcp: cgroup: %w: the service that has it may not run yet", cfg.Host.Name, err)
	} else if !fi.IsDir() {
		return "", fmt.Errorf("host %s: tcp: cgroup: %s is not a directory", cfg.Host.Name, at)
	}
	return at, nil
}

// cgroupMount is where the control groups of version 2 are mounted.
func cgroupMount() (string, error) {
	at, err := mountOf("cgroup2")
	if err == nil && at == "" {
		err = errors.New("no control groups of version 2 are mounted: mount -t cgroup2 none /sys/fs/cgroup, or start the system with systemd.unified_cgroup_hierarchy=1")
	}
	return at, err
}

// mountOf is where a file system of a type is mounted first; "" where none is.
func mountOf(kind string) (string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		sep := slices.Index(fields, "-")
		if sep > 4 && len(fields) > sep+1 && fields[sep+1] == kind {
			return fields[4], nil
		}
	}
	return "", lines.Err()
}
