package netdev

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/vendors"
)

// NS is an open file descriptor of a network namespace; 0 is the caller's own.
type NS int

// Do runs f on a thread inside the namespace, where the kernel looks up devices' indices.
func (ns NS) Do(f func() error) error {
	if ns == 0 {
		return f()
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Setns(int(ns), unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("enter the network namespace: %w", err)
			return
		}
		result <- f()
	}()
	return <-result
}

// route opens the kernel's list of network devices.
func (ns NS) route() (*netlink.Handle, error) {
	in := vnetns.None()
	if ns != 0 {
		in = vnetns.NsHandle(int(ns))
	}
	return netlink.NewHandleAt(in, unix.NETLINK_ROUTE)
}

// listTries is how often a dump of the devices is repeated because one came or went
// in the middle.
const listTries = 5

// List lists the network devices.
func (ns NS) List(ctx context.Context) ([]netlink.Link, error) {
	h, err := ns.route()
	if err != nil {
		return nil, err
	}
	defer h.Close()
	for try := 1; ; try++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		links, err := h.LinkList()
		if !errors.Is(err, netlink.ErrDumpInterrupted) || try == listTries {
			return links, err
		}
	}
}

// MTUs reads the MTU of every network device.
func (ns NS) MTUs(ctx context.Context) (map[string]int, error) {
	links, err := ns.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("read MTUs: %w", err)
	}
	out := make(map[string]int, len(links))
	for _, l := range links {
		out[l.Attrs().Name] = l.Attrs().MTU
	}
	return out, nil
}

// SetMTU sets the MTU of one port.
func (ns NS) SetMTU(ctx context.Context, port string, mtu int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h, err := ns.route()
	if err != nil {
		return err
	}
	defer h.Close()
	l, err := h.LinkByName(port)
	if err != nil {
		return err
	}
	return h.LinkSetMTU(l, mtu)
}

// Health reads the error and drop counters of every network device. Discards
// are the device's own; those of its queueing discipline are not among them,
// since a full queue is what congestion is.
func (ns NS) Health(ctx context.Context) ([]vendors.PortHealth, error) {
	links, err := ns.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("read error counters: %w", err)
	}
	var out []vendors.PortHealth
	for _, l := range links {
		if s := l.Attrs().Statistics; s != nil {
			out = append(out, vendors.PortHealth{Port: l.Attrs().Name, Errors: s.RxErrors + s.TxErrors, Discards: s.RxDropped + s.TxDropped})
		}
	}
	return out, nil
}

// KernelRelease is what uname -r prints; "" where it is not known.
func KernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
