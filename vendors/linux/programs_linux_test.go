package linux

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// attachOther attaches a foreign program to a device's tcx egress, and
// returns its name.
func attachOther(t *testing.T, n *netns, dev string) string {
	t.Helper()
	const name = "another_app"
	err := n.do(func() error {
		index, err := ifindex(dev)
		if err != nil {
			return err
		}
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.SchedCLS, AttachType: ebpf.AttachTCXEgress,
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, tcxNext), asm.Return()}, License: "Apache-2.0"})
		if err != nil {
			return err
		}
		defer p.Close()
		return link.RawAttachProgram(link.RawAttachProgramOptions{Target: index, Program: p, Attach: ebpf.AttachTCXEgress})
	})
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// programs are the names of the programs on a device's tcx egress.
func programs(t *testing.T, n *netns, dev string) (names []string) {
	t.Helper()
	err := n.do(func() error {
		index, err := ifindex(dev)
		if err != nil {
			return err
		}
		found, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: ebpf.AttachTCXEgress})
		if err != nil {
			return err
		}
		for _, f := range found.Programs {
			p, err := ebpf.NewProgramFromID(f.ID)
			if err != nil {
				return err
			}
			info, err := p.Info()
			if err != nil {
				return err
			}
			names = append(names, info.Name)
			p.Close()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
