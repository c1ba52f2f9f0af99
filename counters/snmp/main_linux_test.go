package snmp

import (
	"testing"

	"github.com/csig-agent/csig/integration/fabric"
)

func TestMain(m *testing.M) { fabric.Tests(m, fabric.Loopback) }
