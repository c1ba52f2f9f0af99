package linux

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ssh"
	"github.com/csig-agent/csig/vlanrules"
)

// Offline is what the platform promises without a device at hand: what Probe
// finds on Linux 6.8 or newer with the rights that csig needs. From afar, by
// commands over SSH, it cannot strip.
func Offline(afar bool) vendors.Facts {
	f := facts()
	f.Depths = make([]vlanrules.Verdict, maxDepth+1)
	f.Notes = append(f.Notes, "promised, not probed: Linux 6.8 or newer with nftables' egress hook; strip needs tcx and CAP_SYS_ADMIN too")
	if afar {
		f.Strip, f.Others = refused(noStrip), 0
		f.Notes = append(f.Notes, "driven from afar: every update is one run of nft over SSH, and the lease runs by the switch's own clock")
	}
	return f
}

// facts is what is so on every Linux.
func facts() vendors.Facts {
	return vendors.Facts{
		Platform: "linux",
		Rules:    Rules(),
		Slack:    slack,
		Others:   maxOthers,
		Traits:   traits(),
		Wide:     refused("wide tags pass through untouched: a table of 2^20 values of S is more than a map of intervals can keep current, and only compact tags are implemented"),
		Notes: []string{
			"the rewrite happens before the queueing discipline: frames that already wait in a queue keep the value they were given",
			"any TPID can be CSIG's, and ordinary VLANs keep 0x8100 and 0x88a8",
		},
	}
}

func refused(why string) vlanrules.Verdict {
	return vlanrules.Verdict{Level: vlanrules.Refused, Reason: why}
}

// trialSetup is a whole setup, for a kernel to check and take back.
func trialSetup() vendors.Setup {
	return vendors.Setup{TPID: 0x9900, Layout: quantize.UEC, Signals: quantize.Signals[:], OnStale: inventory.Conservative,
		Ports: []vendors.PortSetup{{Port: "lo", Action: vlanrules.Update}}}
}

// Probe finds out what the switch takes. It has nft and the kernel check the
// whole ruleset of a port without carrying it out, and measures how long the
// shortest update takes from here.
func (d *Afar) Probe(ctx context.Context) (vendors.Facts, error) {
	f := facts()
	if err := d.meet(ctx); err != nil {
		return f, err
	}
	trial := trialSetup()
	want, err := rulesetOf(&trial, everywhere, d.host.depths)
	if err != nil {
		return f, err
	}
	w := newScript(tableName + "_probe")
	w.addTable()
	for i := range want.sets {
		w.addSet(&want.sets[i])
	}
	for i := range want.chains {
		w.addChain(&want.chains[i])
		w.addRules(&want.chains[i])
	}
	w.flushSet(setLease)
	w.addKeys(setLease, leaseKeys(&trial), time.Second)
	_, err = d.nft(ctx, "-c -f -", w.Bytes())
	var exit *ssh.ExitError
	switch {
	case errors.As(err, &exit):
		f.Update = refused(fmt.Sprintf("nft %s on Linux %s does not take the rules (nftables 1.0.1 and Linux 5.16 or newer, with NF_TABLES_NETDEV and NETFILTER_EGRESS, are needed): %s", d.host.nft, d.host.kernel, brief(exit.Stderr)))
		f.Lease = refused("there are no rules to expire: " + f.Update.Reason)
	case err != nil:
		return f, err
	}
	for k := 0; k <= maxDepth; k++ {
		v := f.Update
		if k > d.host.depths && v.Level == vlanrules.Full {
			v = refused(d.host.depthWhy)
		}
		f.Depths = append(f.Depths, v)
	}
	f.Strip, f.Others = refused(noStrip), 0
	f.Notes = append(f.Notes, fmt.Sprintf("driven from afar: nft %s on Linux %s", d.host.nft, d.host.kernel))
	if took, err := d.shortest(ctx); err != nil {
		return f, err
	} else {
		f.Traits.MinUpdate = vendors.That(took, vendors.Source{Mark: vendors.Ran, From: fmt.Sprintf("now, from here: the shortest of %d runs of nft", probeRuns)})
		f.Notes = append(f.Notes, fmt.Sprintf("from here an update takes %v at least (the shortest of %d runs of nft that change nothing): no schedule can be shorter, and what the login shell reads at its start is part of it; the lease runs by the switch's own clock", took.Round(100*time.Microsecond), probeRuns))
	}
	return f, nil
}

// probeRuns is how often Probe runs nft for the shortest time.
const probeRuns = 5

func (d *Afar) shortest(ctx context.Context) (time.Duration, error) {
	var best time.Duration
	for i := range probeRuns {
		start := d.cfg.Now()
		if _, err := d.nft(ctx, "-c -f -", []byte("# nothing\n")); err != nil {
			return 0, fmt.Errorf("measure an update: %w", err)
		}
		if took := d.cfg.Now().Sub(start); i == 0 || took < best {
			best = took
		}
	}
	return best, nil
}
