package all

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ebpf"
	"github.com/csig-agent/csig/vendors/linux"
	"github.com/csig-agent/csig/vendors/linux/netdev"
	"github.com/csig-agent/csig/vendors/ovs"
)

// linuxTable is what platform linux has in a device's namespace, which is the device's alone.
func linuxTable(ctx context.Context, cfg *vendors.Config) ([]vendors.Former, error) {
	o, _, err := findLinux(ctx, cfg.NetNS)
	return o, err
}

// findLinux finds the same, and the network devices that it is at.
func findLinux(ctx context.Context, ns int) (found []vendors.Former, at []string, err error) {
	left, err := linux.FindLeft(ctx, linux.Config{NetNS: ns})
	if err != nil || left.What == "" {
		return nil, nil, mayLook(err)
	}
	return []vendors.Former{{What: madeAs(left.What, "linux"), Remove: func(ctx context.Context) error {
		d, err := linux.Open(linux.Config{NetNS: ns})
		if err != nil {
			return err
		}
		return errors.Join(d.Remove(ctx), d.Close())
	}}}, left.Ports, nil
}

// ebpfPlane is what platform linux-ebpf has in a device's namespace, which is the device's alone.
func ebpfPlane(ctx context.Context, cfg *vendors.Config) ([]vendors.Former, error) {
	o, _, err := findEBPF(ctx, cfg.NetNS)
	return o, err
}

func findEBPF(ctx context.Context, ns int) (found []vendors.Former, at []string, err error) {
	at, err = ebpf.FindLeft(ctx, ebpf.Config{NetNS: ns})
	if err != nil || len(at) == 0 {
		return nil, nil, mayLook(err)
	}
	return []vendors.Former{{What: madeAs("the BPF program csig_egress", ebpf.Platform.Name), Remove: func(ctx context.Context) error {
		d, err := ebpf.Open(ebpf.Config{NetNS: ns})
		if err != nil {
			return err
		}
		return errors.Join(d.Remove(ctx), d.Close())
	}}}, at, nil
}

// mayLook is nil of the error of a process that may not look for what the kernel has. One in a
// user namespace of its own has made the devices that it drives; and csig off of a bridge, by an
// account that may do no more, is not to fail for it.
func mayLook(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return nil
	}
	return err
}

// devicesOf are the network devices of a namespace that are ports of a switch: a name alone
// is another switch's as well, behind a proxy or in a namespace of its own.
func devicesOf(ns int, ports []ofp.Port) (names map[string]bool, err error) {
	var here []net.Interface
	if err := netdev.NS(ns).Do(func() error { here, err = net.Interfaces(); return err }); err != nil {
		return nil, err
	}
	mac := make(map[string]net.HardwareAddr, len(here))
	for i := range here {
		mac[here[i].Name] = here[i].HardwareAddr
	}
	names = make(map[string]bool, len(ports))
	for i := range ports {
		if at, ok := mac[ports[i].Name]; ok && slices.Equal(at, ports[i].MAC[:]) {
			names[ports[i].Name] = true
		}
	}
	return names, nil
}

// kernelPlanes find both, of a switch that neither platform drives: an agent that locks the
// namespace may drive them for another device.
func kernelPlanes(with session) finder {
	return func(ctx context.Context, cfg *vendors.Config) (all []vendors.Former, err error) {
		if !onThisMachine(&cfg.Device) {
			return nil, nil
		}
		var ports map[string]bool // the device's, once they are asked for
		names := portNames(&cfg.Device)
		for _, find := range []func(context.Context, int) ([]vendors.Former, []string, error){findLinux, findEBPF} {
			found, at, err := find(ctx, cfg.NetNS)
			if err != nil {
				return nil, err
			}
			if len(found) > 0 && ports == nil {
				if err := with(ctx, func(of *ofp.Conn) error {
					all, err := of.Ports(ctx)
					if err == nil {
						ports, err = devicesOf(cfg.NetNS, all)
					}
					return err
				}); err != nil {
					return nil, err
				}
			}
			for i := range found {
				found[i].Apart = !slices.ContainsFunc(at, func(p string) bool { return names[p] && ports[p] })
			}
			all = append(all, found...)
		}
		if len(all) == 0 {
			return nil, nil
		}
		by, err := namespaceHolder(cfg.NetNS)
		for i := range all {
			all[i].By = by
		}
		return all, err
	}
}

// namespaceHolder is the other agent that locks a network namespace; "" where none does.
func namespaceHolder(ns int) (by string, err error) {
	err = netdev.NS(ns).Do(func() error {
		h, err := netdev.AgentOf(vendors.AgentLock, filepath.Join(vendors.AgentDir(), "lock"))
		switch {
		case err != nil:
			return fmt.Errorf("who drives the ports of this network namespace: %w", err)
		case h == nil, h.PID == os.Getpid(): // this process locks the namespace for this device
		case h.PID == 0:
			by = "a csig agent"
		default:
			by = fmt.Sprintf("a csig agent (process %d)", h.PID)
		}
		return nil
	})
	return by, err
}

// Bounds of what is read of the namespace's bridges.
const (
	mostBridges  = 256
	bridgeWithin = 10 * time.Second // a busy machine's ovs-vswitchd takes more than one
)

// bridgesOf are all bridges of a device's namespace that have flows of csig's.
func bridgesOf(ctx context.Context, cfg *vendors.Config) ([]vendors.Former, error) {
	return bridges(ctx, cfg, "")
}

// bridges are the bridges of Open vSwitch in a namespace that have flows of csig's, but for
// the one of socket own: those by which ovs-vswitchd takes OpenFlow, whatever their folder.
func bridges(ctx context.Context, cfg *vendors.Config, own string) (all []vendors.Former, err error) {
	sockets, err := bridgeSockets(cfg.NetNS)
	if err != nil {
		return nil, err
	}
	found := make([][]vendors.Former, len(sockets))
	var wait sync.WaitGroup
	for i, at := range sockets {
		if sameFile(at, own) {
			continue
		}
		wait.Go(func() {
			var err error
			defer func() {
				if err != nil && !nobody(err) {
					found[i] = []vendors.Former{{What: "the bridge of Open vSwitch at " + at, Unread: err}}
				}
			}()
			defer untrusted.Recover(&err)
			found[i], err = bridgeAt(ctx, cfg, at)
		})
	}
	wait.Wait()
	return slices.Concat(found...), nil
}

// errStranger is a socket of a process that cannot program ports, and has nothing at them: anybody
// may have one of that name.
var errStranger = errors.New("a process listens there that cannot program ports")

func dialSwitch(ctx context.Context, socket string) (net.Conn, error) {
	c, err := dialUnix(ctx, socket)
	if err != nil {
		return nil, err
	}
	h, err := netdev.PeerOf(c.(*net.UnixConn))
	if err == nil && !h.MayProgram() {
		err = errStranger
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// nobody reports whether an error is that no switch listens at a socket.
func nobody(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, errStranger)
}

func sameFile(a, b string) bool {
	if a == b {
		return true
	}
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

func bridgeSockets(ns int) (paths []string, err error) {
	err = netdev.NS(ns).Do(func() error {
		f, err := os.Open("/proc/thread-self/net/unix")
		if err != nil {
			return err
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		for lines.Scan() && len(paths) < mostBridges {
			fields := strings.Fields(lines.Text()) // a connection is listed with its listener's path, and the listener may be in another namespace
			if len(fields) == 8 && accepts(fields[3]) && strings.HasSuffix(fields[7], ".mgmt") && filepath.IsAbs(fields[7]) && !slices.Contains(paths, fields[7]) {
				paths = append(paths, fields[7])
			}
		}
		return lines.Err()
	})
	return paths, err
}

// accepts reports whether the flags of a line of /proc/net/unix are a listener's.
func accepts(flags string) bool {
	const acceptsConnections = 1 << 16 // __SO_ACCEPTCON
	n, err := strconv.ParseUint(flags, 16, 32)
	return err == nil && n&acceptsConnections != 0
}

// bridgeAt is what csig has on one bridge.
func bridgeAt(ctx context.Context, cfg *vendors.Config, socket string) (found []vendors.Former, err error) {
	ctx, cancel := context.WithTimeout(ctx, bridgeWithin)
	defer cancel()
	dir, file := filepath.Split(socket)
	bridge := ovs.Config{Bridge: strings.TrimSuffix(file, ".mgmt"), RunDir: filepath.Clean(dir), Who: cfg.Who, Take: cfg.Take}
	with := dialed(nil, func(ctx context.Context) (net.Conn, error) { return dialSwitch(ctx, socket) })
	var ports map[string]bool
	n := 0
	if err := with(ctx, func(of *ofp.Conn) error {
		all, err := of.Ports(ctx)
		if err == nil {
			ports, err = devicesOf(cfg.NetNS, all)
		}
		if err != nil {
			return err
		}
		flows, _, err := ovs.FlowsLeft(ctx, of)
		n = len(flows)
		return err
	}); err != nil {
		return nil, err
	}
	if found, err = openFlows(ctx, bridge.Bridge, with); err != nil {
		return nil, err
	}
	if n > 0 {
		o := flowsOf("bridge "+bridge.Bridge, "ovs", n, false)
		if o.By, err = ovs.Holder(ctx, bridge); err != nil {
			o.By = "another csig, perhaps (its lock cannot be read: " + err.Error() + ")"
		}
		o.Remove = func(ctx context.Context) error {
			d, err := ovs.Open(bridge)
			if err != nil {
				return err
			}
			return errors.Join(d.Remove(ctx), d.Close())
		}
		found = append(found, o)
	}
	apart := true
	for name := range portNames(&cfg.Device) {
		apart = apart && !ports[name]
	}
	for i := range found {
		found[i].Apart = apart
	}
	return found, nil
}
