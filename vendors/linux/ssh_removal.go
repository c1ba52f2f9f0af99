package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/csig-agent/csig/vendors"
)

// Runner runs commands on the switch; an *ssh.Client is one. A command that ends
// with another status than 0 is an *ssh.ExitError.
type Runner interface {
	Run(ctx context.Context, command string, stdin []byte) ([]byte, error)
	Close() error
}

// SSHRemoval is a switch whose agent does not answer: with its nft command alone csig
// removes what it made there, and sets nothing up. Its methods are not safe for
// concurrent use.
type SSHRemoval struct {
	Runner

	// Native is of a switch of platform linux-ebpf, whose program no command of a switch is
	// sure to remove.
	Native  bool
	removed bool
}

const overSSH = "over SSH csig only removes its table: run csig agent --wait on the switch, and reach it through that (management: daemon)"

// Probe reads nothing: whatever the switch is, nothing can be set up.
func (d *SSHRemoval) Probe(context.Context) (vendors.Facts, error) {
	f := facts()
	f.Update, f.Strip, f.Lease, f.Others = vendors.Refusal(overSSH), vendors.Refusal(overSSH), vendors.Refusal(overSSH), 0
	return f, nil
}

// Observe does not tell what is there before Remove.
func (d *SSHRemoval) Observe(context.Context) (vendors.Setup, error) {
	if d.removed {
		return vendors.Setup{}, nil
	}
	return vendors.Setup{Damaged: "not read: its agent does not answer"}, nil
}

// Diff lists what turns one setup into another.
func (d *SSHRemoval) Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	return Diff(have, want)
}

// Apply is refused.
func (d *SSHRemoval) Apply(context.Context, vendors.Setup) error {
	return &vendors.PermanentError{Err: errors.New(overSSH)}
}

// nativeProgram is the data plane of platform linux-ebpf.
const nativeProgram = "csig_egress"

// removal prints whether bpftool, where there is one, sees nativeProgram; it prints our table without its elements, and deletes it where it carries our
// mark. Before it go the tables of oldRevert.
var removal = "exec /bin/sh -c '" + strings.Join([]string{
	`PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C; export PATH LC_ALL`,
	`nft=nft bpf=bpftool; [ "$(id -u)" = 0 ] || nft="sudo -n nft" bpf="sudo -n bpftool"`,
	`$bpf net show 2>/dev/null | grep -q ` + nativeProgram + ` && echo ` + nativeProgram,
	`tables=$($nft list tables netdev) || exit 1`,
	`for t in $(echo "$tables" | sed -n "s/^table netdev \(csig-back-[0-9a-f]\{16\}-[0-9]*\)$/\1/p"); do $nft delete table netdev $t || exit 1; done`,
	`echo "$tables" | grep -qx "table netdev ` + tableName + `" || exit 0`,
	`list=$($nft -t list table netdev ` + tableName + `) || exit 1`,
	`echo "$list"`,
	`echo "$list" | grep -qx "	comment \"` + tableMark + `\"" || exit 0`,
	`exec $nft delete table netdev ` + tableName,
}, "; ") + "'"

// Remove deletes our table, and what waits to undo an earlier change. A table of our
// name that is not ours stays, which is a *vendors.PermanentError, and so is each port
// whose tags a BPF program goes on stripping: csig on the switch can remove that.
func (d *SSHRemoval) Remove(ctx context.Context) error {
	out, err := d.Run(ctx, removal, nil)
	if err != nil {
		return fmt.Errorf("remove the nftables table netdev %s over SSH (this takes nft on the switch, and root or sudo): %w", tableName, err)
	}
	out, seen := bytes.CutPrefix(out, []byte(nativeProgram+"\n"))
	have := &observed{table: len(out) > 0}
	var errs []error
	if seen || d.Native {
		errs = append(errs, &vendors.PermanentError{Err: errors.New("the BPF program " + nativeProgram + ", which csig made as platform linux-ebpf, stays, since it cannot be removed over SSH; its ports fall back when their deadline ends: start csig agent --wait on the switch and run csig off again")})
	}
	for line := range strings.Lines(string(out)) {
		comment, ok := strings.CutPrefix(strings.TrimSpace(line), `comment "`)
		comment, end := strings.CutSuffix(comment, `"`)
		if !ok || !end {
			continue
		}
		if strings.HasPrefix(line, "\tcomment") {
			have.comment = comment
		} else if p, ok := parsePortComment(comment); ok && p.Strips() {
			errs = append(errs, &vendors.PermanentError{Port: p.Port, Err: errors.New("its BPF program, which strips tags, stays, since it cannot be removed over SSH: start csig agent --wait on the switch and run csig off again")})
		}
	}
	if err := foreign(have); err != nil {
		return err
	}
	d.removed = true
	return errors.Join(errs...)
}
