package snmp

import (
	"testing"

	"github.com/csig-agent/csig/fabric"
)

func TestMain(m *testing.M) { fabric.Tests(m, fabric.Loopback) }
