package qualifytest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/protocol/packets"
	"github.com/csig-agent/csig/vendors/vendorstest/memory"
)

// attach adds the ports of a host of a fabric to a switch, which forwards between them
// until the test ends.
func attach(t testing.TB, s *memory.Switch, node *fabric.Node) {
	t.Helper()
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{NetNS: node.FD()})
	if err != nil {
		t.Fatalf("switch: %v", err)
	}
	t.Cleanup(func() { conn.Close() })
	var running sync.WaitGroup
	var socks []*packets.Socket
	for _, p := range node.Ports() {
		var sock *packets.Socket
		if err := node.Do(func() (err error) {
			if sock, err = packets.Open(p.Index(), nil); err == nil {
				err = sock.Promiscuous(p.Index())
			}
			return err
		}); err != nil {
			t.Fatalf("switch: port %s: %v", p, err)
		}
		port := s.AddPort(p.Name, func(frame []byte) {
			// A link that is down loses frames, as a cable that was pulled does.
			if err := sock.Send(frame); err != nil && !errors.Is(err, unix.ENETDOWN) && !errors.Is(err, unix.EMSGSIZE) && !errors.Is(err, unix.ENOBUFS) {
				t.Errorf("switch: port %s: send: %v", p, err)
			}
		})
		port.SetLosses(func() uint64 {
			n, err := linkLosses(conn, p.Index())
			if err != nil {
				t.Errorf("switch: port %s: %v", p, err)
			}
			return n
		})
		socks = append(socks, sock)
		running.Go(func() {
			for {
				frame, _, err := sock.Receive()
				switch {
				case errors.Is(err, unix.ENETDOWN):
				case err != nil:
					return // closed
				case frame != nil:
					port.Receive(frame)
				}
			}
		})
	}
	t.Cleanup(func() {
		for _, s := range socks {
			s.Close()
		}
		running.Wait()
	})
}

// iflaCarrierDownCount is the kernel's IFLA_CARRIER_DOWN_COUNT.
const iflaCarrierDownCount = 48

// linkLosses is how often a device has lost its link.
func linkLosses(conn *netlink.Conn, index int) (uint64, error) {
	body := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(body[4:], uint32(index))
	answers, err := conn.Execute(netlink.Message{Header: netlink.Header{Type: unix.RTM_GETLINK, Flags: netlink.Request}, Data: body})
	if err != nil {
		return 0, fmt.Errorf("read its link: %w", err)
	}
	for _, a := range answers {
		if len(a.Data) < unix.SizeofIfInfomsg {
			continue
		}
		ad, err := netlink.NewAttributeDecoder(a.Data[unix.SizeofIfInfomsg:])
		if err != nil {
			return 0, fmt.Errorf("read its link: %w", err)
		}
		for ad.Next() {
			if ad.Type() == iflaCarrierDownCount {
				return uint64(ad.Uint32()), nil
			}
		}
	}
	return 0, errors.New("the kernel does not count how often a link is lost (needs Linux 4.16)")
}
