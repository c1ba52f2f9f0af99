package tcp

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// TestControlLoads has the kernel take the congestion control, once in each network namespace.
func TestControlLoads(t *testing.T) {
	cfg := local(t)
	cfg.Host.TCP.Control = "csig"
	p, err := cfg.load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if p.unloaded != nil {
		var v *ebpf.VerifierError
		if errors.As(p.unloaded, &v) {
			t.Fatalf("%+v", v)
		}
		t.Fatal(p.unloaded)
	}
	if err := p.control.register(""); err != nil {
		t.Fatal(err)
	}
	again, err := cfg.controlAfter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if err := again.register(""); !errors.Is(err, unix.EEXIST) {
		t.Errorf("a second one: %v", err)
	}
}
