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
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ebpf"
	"github.com/csig-agent/csig/vendors/linux"
	"github.com/csig-agent/csig/vendors/linux/netdev"
	"github.com/csig-agent/csig/vendors/openflow/ofp"
	"github.com/csig-agent/csig/vendors/ovs"
	"github.com/csig-agent/csig/vendors/untrusted"
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

func overlap(cfg *vendors.Config, ports []string) bool {
	names := portNames(&cfg.Device)
	return slices.ContainsFunc(ports, func(p string) bool { return names[p] })
}

// kernelPlanes are both, of a device that neither platform drives: an agent that locks the
// namespace may drive them for another device.
func kernelPlanes(ctx context.Context, cfg *vendors.Config) (all []vendors.Former, err error) {
	if !onThisMachine(&cfg.Device) {
		return nil, nil
	}
	for _, find := range []func(context.Context, int) ([]vendors.Former, []string, error){findLinux, findEBPF} {
		found, at, err := find(ctx, cfg.NetNS)
		if err != nil {
			return nil, err
		}
		for i := range found {
			found[i].Apart = !overlap(cfg, at)
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

// namespaceHolder is the other agent that locks a network namespace; "" where none does.
func namespaceHolder(ns int) (by string, err error) {
	err = netdev.NS(ns).Do(func() error {
		conn, err := net.DialTimeout("unix", vendors.AgentLock, time.Second)
		switch {
		case errors.Is(err, unix.ECONNREFUSED):
			return nil
		case err != nil:
			return fmt.Errorf("who drives the ports of this network namespace: %w", err)
		}
		defer conn.Close()
		raw, err := conn.(*net.UnixConn).SyscallConn()
		if err != nil {
			return err
		}
		by = "a csig agent"
		var c *unix.Ucred
		if err := raw.Control(func(fd uintptr) { c, _ = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil || c == nil {
			return err
		}
		switch int(c.Pid) {
		case os.Getpid():
			by = "" // this process locks the namespace for this device
		case 0: // of another process namespace
		default:
			by = fmt.Sprintf("a csig agent (process %d)", c.Pid)
		}
		return nil
	})
	return by, err
}

// Bounds of what is read of the namespace's bridges.
const (
	mostBridges  = 256
	bridgeWithin = time.Second
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
			defer untrusted.Recover(&err)
			found[i], err = bridgeAt(ctx, cfg, at)
			_ = err // one that has ended, or does not answer, does not keep this device from its work
		})
	}
	wait.Wait()
	return slices.Concat(found...), nil
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
			fields := strings.Fields(lines.Text())
			if len(fields) == 8 && strings.HasSuffix(fields[7], ".mgmt") && filepath.IsAbs(fields[7]) && !slices.Contains(paths, fields[7]) {
				paths = append(paths, fields[7])
			}
		}
		return lines.Err()
	})
	return paths, err
}

// bridgeAt is what csig has on one bridge.
func bridgeAt(ctx context.Context, cfg *vendors.Config, socket string) (found []vendors.Former, err error) {
	ctx, cancel := context.WithTimeout(ctx, bridgeWithin)
	defer cancel()
	dir, file := filepath.Split(socket)
	bridge := ovs.Config{Bridge: strings.TrimSuffix(file, ".mgmt"), RunDir: filepath.Clean(dir), Who: cfg.Who, Take: cfg.Take}
	with := dialed(nil, func(ctx context.Context) (net.Conn, error) { return dialUnix(ctx, socket) })
	var names []string
	n := 0
	if err := with(ctx, func(of *ofp.Conn) error {
		ports, err := of.Ports(ctx)
		if err != nil {
			return err
		}
		for _, p := range ports {
			names = append(names, p.Name)
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
	for i := range found {
		found[i].Apart = !overlap(cfg, names)
	}
	return found, nil
}
