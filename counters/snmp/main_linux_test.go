package snmp

import (
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/csig-agent/csig/integration/fabric"
)

func TestMain(m *testing.M) { fabric.Tests(m, loopback) }

// loopback brings lo up: peers of these tests listen there.
func loopback() (func(), error) {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return nil, fmt.Errorf("bring lo up: %w", err)
	}
	return func() {}, nil
}
