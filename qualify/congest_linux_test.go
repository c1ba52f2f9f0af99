package qualify_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/qualify"
	"github.com/csig-agent/csig/qualify/qualifytest"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
)

// TestLongQueueOfKernel has a port of the kernel's bridge that is slow, and sends DSCP 46
// first where it finds the IP header: behind a TPID of VLANs it does, behind another not.
func TestLongQueueOfKernel(t *testing.T) {
	for _, r := range []struct {
		tpid uint16
		want string
	}{{0x88a8, ""}, {0x9900, "queue:queue-ignores-dscp"}} {
		bed := qualifytest.NewBed(t, 2)
		for _, line := range []string{
			"qdisc add dev swp2 root handle 1: htb default 20",
			"class add dev swp2 parent 1: classid 1:1 htb rate 10mbit ceil 10mbit burst 2k quantum 1600",
			"class add dev swp2 parent 1:1 classid 1:10 htb rate 8kbit ceil 10mbit prio 0 quantum 1600",
			"class add dev swp2 parent 1:1 classid 1:20 htb rate 8kbit ceil 10mbit prio 1 quantum 1600",
			"qdisc add dev swp2 parent 1:10 pfifo limit 1000",
			"qdisc add dev swp2 parent 1:20 pfifo limit 1000",
			"filter add dev swp2 parent 1: protocol all u32 match ip tos 0xb8 0xfc flowid 1:10",
		} {
			if out, err := bed.Switch.Command("tc", strings.Fields(line)...).CombinedOutput(); err != nil {
				t.Fatalf("tc %s: %v: %s", line, err, out)
			}
		}
		b := benchOf(t, bed)
		b.Profile.TPID = r.tpid
		wantFound(t, b, r.want, only("queue"))
	}
}

// collects has a bridge sample one frame in two, and the bench receive it.
func collects(t *testing.T, b *qualify.Bench, node *fabric.Node, s *ovstest.Switch, bridge string) {
	t.Helper()
	err := node.Do(func() (err error) {
		b.SFlow, err = net.ListenPacket("udp", "127.0.0.1:0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.SFlow.Close() })
	s.Vsctl("--", "--id=@s", "create", "sflow", "agent=lo", fmt.Sprintf("target=%q", b.SFlow.LocalAddr().String()), "header=128", "sampling=2", "polling=0", "--", "set", "bridge", bridge, "sflow=@s")
}
