package linux

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/linux/netdev"
	"github.com/csig-agent/csig/vlanrules"
)

// Probe finds out what this kernel takes. It sends the whole ruleset of a port
// as a transaction that the kernel checks and takes back, and loads a strip
// program without attaching it.
func (d *Driver) Probe(ctx context.Context) (vendors.Facts, error) {
	f := facts()
	if err := ctx.Err(); err != nil {
		return f, err
	}
	f.Identity.Version = netdev.KernelRelease() // of which model the machine is, nothing that a switch has says
	trial := trialSetup()
	if err := d.try(&trial); err != nil {
		f.Update = vlanrules.Verdict{Level: vlanrules.Refused, Reason: updateRefused(err)}
		f.Lease = vlanrules.Verdict{Level: vlanrules.Refused, Reason: "there are no rules to expire: " + f.Update.Reason}
	}
	for k := 0; k <= maxDepth; k++ {
		v := f.Update
		if k > d.depths && v.Level == vlanrules.Full {
			v = vlanrules.Verdict{Level: vlanrules.Refused, Reason: d.depthWhy}
		}
		f.TagDepths = append(f.TagDepths, v)
	}
	if err := d.Do(func() error {
		for _, spec := range trialPrograms {
			if _, err := d.strip.load(spec); err != nil {
				return err
			}
		}
		_, err := d.strip.check(1, stripSpec{}) // 1 is lo in every namespace
		return err
	}); err != nil {
		f.Strip, f.Others = vlanrules.Verdict{Level: vlanrules.Refused, Reason: err.Error()}, 0
	}
	return f, nil
}

// trialPrograms are the simplest program and the longest.
var trialPrograms = []stripSpec{
	{tpid: 0x9900, own: true},
	{tpid: 0x9900, wide: 0x9901, own: true, others: [maxOthers]vendors.OtherTPID{{TPID: 0x88a8}, {TPID: 0x9902, Wide: true}, {TPID: 0x9903}, {TPID: 0x9904, Wide: true}}},
}

// try has the kernel check the ruleset of a setup, under another name, and
// take it back.
func (d *Driver) try(s *vendors.Setup) error {
	want, err := rulesetOf(s, everywhere, d.depths)
	if err != nil {
		return err
	}
	b := &d.batch
	b.begin(d.sock.seq+1, 0)
	b.table = tableName + "_probe"
	b.addTable()
	for i := range want.sets {
		b.addSet(&want.sets[i])
		want.sets[i].fill(b)
	}
	for i := range want.chains {
		b.addChain(&want.chains[i])
		b.addRules(&want.chains[i])
	}
	b.check()
	return d.sock.commit(b)
}

// updateRefused says in an engineer's words why the kernel refused the trial.
func updateRefused(err error) string {
	switch {
	case errors.Is(err, unix.EPERM):
		return "nftables needs CAP_NET_ADMIN in the network namespace: " + err.Error()
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOENT), errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EINVAL):
		return "the kernel has no nftables egress hook with interval maps (NF_TABLES, NF_TABLES_NETDEV, NETFILTER_EGRESS; Linux 5.16 or newer): " + err.Error()
	}
	return err.Error()
}

// depthsOfKernel is how many VLAN tags may stand in front of a CSIG tag. Where
// the outermost tag has been taken out of the frame into metadata (offloaded),
// older kernels count it when they read behind it and forget it when they
// write there, and so would write to the wrong place.
func depthsOfKernel() (depths int, why string) {
	var major, minor int
	_, _ = fmt.Sscanf(netdev.KernelRelease(), "%d.%d", &major, &minor) // 0.0 where it is not a number
	if major > 6 || major == 6 && minor >= 8 {
		return maxDepth, ""
	}
	return 0, fmt.Sprintf("Linux %d.%d writes to the wrong place behind an offloaded VLAN tag: Linux 6.8 or newer is needed", major, minor)
}
