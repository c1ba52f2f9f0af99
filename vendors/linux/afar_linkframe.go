package linux

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ssh"
)

var _ vendors.LinkHearer = (*Afar)(nil)

// heardPrefix begins the name of a table in which a switch notes test frames.
const heardPrefix = "csig-link-"

// How long such a table stays if nobody comes back to remove it, how often the
// shell that sees to that looks, in seconds, and how often a listener does.
const (
	heardLimit = 60
	heardPoll  = 2
	heardLook  = 20 * time.Millisecond
)

// noPort is the exit status of a command that says that there is no such port.
const noPort = 3

// ListenLink has the switch note the test frames that arrive at a port: a chain
// at the port's ingress, in a table of its own, adds each to a set, with its
// tag, its nonce and its length. It lets every frame pass. Nothing on a plain
// Linux sends such frames, so that this is one direction only. The listener
// works over the driver's connection, and is not safe beside its other methods.
func (d *Afar) ListenLink(ctx context.Context, port string) (vendors.LinkListener, error) {
	if !plain(port) {
		return nil, &vendors.PermanentError{Port: port, Err: errors.New(notPlain)}
	}
	if err := d.meet(ctx); err != nil {
		return nil, err
	}
	l := &afarListener{ctx: ctx, d: d, table: heardPrefix + vendors.NewMark(), seen: map[heardKey]bool{}}
	// The shell removes the table when csig was killed or cut off.
	_, err := d.shell(ctx, fmt.Sprintf(`ip link show dev "%[5]s" >/dev/null || exit %[6]d; %[1]s -f - || exit 1; $(command -v setsid) sh -c "trap \"\" HUP; left=%[3]d; while [ \$left -gt 0 ]; do sleep %[4]d; left=\$((left-%[4]d)); `+
		`have=\$(%[1]s list tables netdev) && case \$have in *%[2]s*) ;; *) exit 0;; esac; done; %[1]s delete table netdev %[2]s" </dev/null >/dev/null 2>&1 &`,
		d.command(), l.table, heardLimit, heardPoll, port, noPort), heardScript(l.table, port))
	exit := (*ssh.ExitError)(nil)
	if errors.As(err, &exit) && exit.Status == noPort { // newer kernels take rules for a device that is yet to come
		return nil, &vendors.PortError{Port: port, Err: errors.New("there is no such network device")}
	}
	if exit != nil {
		return nil, fmt.Errorf("port %s: the switch's nft cannot note test frames: %w: %w", port, errors.ErrUnsupported, err)
	}
	if err != nil {
		return nil, fmt.Errorf("port %s: take in test frames: %w", port, err)
	}
	return l, nil
}

// heardScript makes the table. Frames without a tag and with one of each length
// have a set each: what follows the tag is at another place.
func heardScript(table, port string) []byte {
	w := fmt.Appendf(nil, "add table netdev %s { comment \"csig v1: test frames of links\"; }\nadd chain netdev %s c { type filter hook ingress device \"%s\" priority 0; }\n", table, table, port)
	for _, tag := range []int{0, 4, 8} {
		at := 8 * (12 + tag) // of the ethertype, in bits
		key := fmt.Sprintf("@ll,%d,64 . meta length", at+48)
		if tag > 0 {
			key = fmt.Sprintf("@ll,96,%d . ", 8*tag) + key
		}
		w = fmt.Appendf(w, "add set netdev %s tag%d { typeof %s; flags dynamic; size 1024; }\n", table, tag, key)
		w = fmt.Appendf(w, "add rule netdev %s c @ll,0,48 0x%x @ll,%d,16 0x%x @ll,%d,32 0x%x add @tag%d { %s }\n", table, linkGroup, at, linkType, at+16, linkMagic, tag, key)
	}
	return w
}

// afarListener reads what the switch has noted.
type afarListener struct {
	ctx     context.Context //nolint:containedctx // of the commands: that of a Next is shorter than one of them may take
	d       *Afar
	table   string
	seen    map[heardKey]bool
	pending []vendors.LinkFrame
}

// heardKey is a frame that compares.
type heardKey struct {
	nonce uint64
	tag   string
	size  int
}

// Next waits for the next test frame that is not the same as one before. It looks
// once at least, however soon ctx ends.
func (l *afarListener) Next(ctx context.Context) (vendors.LinkFrame, error) {
	for {
		if len(l.pending) > 0 {
			f := l.pending[0]
			l.pending = l.pending[1:]
			return f, nil
		}
		text, err := l.d.nft(l.ctx, "-y list table netdev "+l.table, nil)
		if err != nil {
			return vendors.LinkFrame{}, fmt.Errorf("what the switch has heard: %w", err)
		}
		for _, f := range heardFrames(string(text)) {
			key := heardKey{f.Nonce, string(f.Tag), f.Size}
			if !l.seen[key] {
				l.seen[key] = true
				l.pending = append(l.pending, f)
			}
		}
		if len(l.pending) > 0 {
			continue
		}
		timer := time.NewTimer(heardLook)
		select {
		case <-ctx.Done():
			timer.Stop()
			return vendors.LinkFrame{}, ctx.Err()
		case <-timer.C:
		}
	}
}

// Close removes the table.
func (l *afarListener) Close() error {
	if _, err := l.d.nft(context.WithoutCancel(l.ctx), "delete table netdev "+l.table, nil); err != nil {
		return fmt.Errorf("remove the table netdev %s, which the switch does itself within %d s: %w", l.table, heardLimit, err)
	}
	return nil
}

// heardElement is an element of a set as nft lists it: the tag where there is
// one, the nonce, and the length behind the L2 header.
var heardElement = regexp.MustCompile(`(?:(0x[0-9a-f]{1,16}) \. )?(0x[0-9a-f]{1,16}) \. ([0-9]{1,6})\b`)

var heardSet = regexp.MustCompile(`(?s)\bset tag([048]) \{(.*?)\n\t\}`)

// heardFrames are the frames in the listing of a table. What is no frame is left
// out.
func heardFrames(listing string) []vendors.LinkFrame {
	var out []vendors.LinkFrame
	for _, set := range heardSet.FindAllStringSubmatch(listing, -1) {
		tagged := int(set[1][0] - '0')
		for _, m := range heardElement.FindAllStringSubmatch(set[2], -1) {
			nonce, err := strconv.ParseUint(m[2], 0, 64)
			length, e := strconv.Atoi(m[3])
			if err != nil || e != nil || (m[1] == "") != (tagged == 0) {
				continue
			}
			f := vendors.LinkFrame{Nonce: nonce, Size: etherHeader + length}
			if tagged > 0 {
				v, err := strconv.ParseUint(m[1], 0, 8*tagged)
				if err != nil {
					continue
				}
				var b [8]byte
				binary.BigEndian.PutUint64(b[:], v)
				f.Tag = append(f.Tag, b[8-tagged:]...)
				// The kernel takes an outermost VLAN tag out of the frame, whose
				// length is then without it (net/core/dev.c, skb_vlan_untag).
				if tpid := binary.BigEndian.Uint16(f.Tag); tpid == 0x8100 || tpid == 0x88a8 {
					f.Size += 4
				}
			}
			out = append(out, f)
		}
	}
	return out
}
