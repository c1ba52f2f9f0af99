package linux

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// TestLinkFrames sends test frames over a link: with what the port does to
// tags, up to the length that its bridge forwards, and no further.
func TestLinkFrames(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	d := openDriver(t, w.netns)
	w.ip("link set swp1 mtu 1500\nlink set far0 mtu 1500")
	const longest, bare = 14 + 1500 + slack, vlanrules.Action(255) // bare: nothing of ours
	csig := []byte{0x99, 0x00, initial >> 8, initial & 0xff}
	for _, c := range []struct {
		name    string
		action  vlanrules.Action
		tag     []byte
		size    int
		want    []byte // the tag that arrives
		smaller int    // bytes less than were sent
		lost    bool
	}{
		{"nothing of ours", bare, csig, longest, csig, 0, false},
		{"without a tag", bare, nil, 14 + 1500, nil, 0, false},
		{"the least", bare, csig, 0, csig, -linkLeast, false},
		{"a wide tag", bare, []byte{0x99, 0x01, 1, 2, 3, 4, 5, 6}, longest, []byte{0x99, 0x01, 1, 2, 3, 4, 5, 6}, 0, false},
		{"a tag that the kernel takes for a VLAN's", bare, []byte{0x88, 0xa8, 0x2f, 0xfe}, longest, []byte{0x88, 0xa8, 0x2f, 0xfe}, 0, false},
		{"updated", vlanrules.Update, csig, longest, []byte{0x99, 0x00, (3<<7 | 9) >> 8, (3<<7 | 9) & 0xff}, 0, false},
		{"stripped", vlanrules.Strip, csig, longest, nil, 4, false},
		{"too long", bare, csig, longest + 1, nil, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.action == vlanrules.Strip && !realRoot(t) {
				stripRefused(t)
				return
			}
			if c.action != bare {
				apply(t, d, setupFor(vendors.PortSetup{Port: "swp1", Action: c.action}))
			} else if err := d.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c.action == vlanrules.Update {
				update(t, d, time.Minute, vendors.PortUpdate{Port: "swp1", Intents: one(3, 9).Intents})
			}
			far, err := d.ListenLink(t.Context(), "far0")
			if err != nil {
				t.Fatal(err)
			}
			defer far.Close()
			near, err := d.ListenLink(t.Context(), "swp1") // hears nothing of what leaves there
			if err != nil {
				t.Fatal(err)
			}
			defer near.Close()
			for nonce := range uint64(3) {
				if err := d.SendLink(t.Context(), "swp1", vendors.LinkFrame{Nonce: nonce, Tag: c.tag, Size: c.size}); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), map[bool]time.Duration{true: 50 * time.Millisecond, false: 30 * time.Second}[c.lost])
			defer cancel()
			if c.lost {
				if f, err := far.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("got %+v, %v", f, err)
				}
				return
			}
			for nonce := range uint64(3) {
				f, err := far.Next(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if f.Nonce != nonce || !bytes.Equal(f.Tag, c.want) || f.Size != c.size-c.smaller {
					t.Errorf("got %+v, want tag %x and size %d", f, c.want, c.size-c.smaller)
				}
			}
			ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			if f, err := near.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the port that sends hears %+v, %v", f, err)
			}
		})
	}
}

func TestLinkFramesRefused(t *testing.T) {
	t.Parallel()
	d := openDriver(t, newWire(t).netns)
	if _, err := d.ListenLink(t.Context(), "nowhere"); err == nil {
		t.Error("a listener at a port that is not there")
	}
	for name, f := range map[string]vendors.LinkFrame{"port": {Size: 60}, "tag": {Size: 60, Tag: []byte{1, 2}}} {
		port := map[string]string{"port": "nowhere", "tag": "swp1"}[name]
		if err := d.SendLink(t.Context(), port, f); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzParseLink(f *testing.F) {
	for _, tag := range []int{0, 4, 8} {
		f.Add(appendLink(nil, [6]byte{2}, &vendors.LinkFrame{Nonce: 7, Tag: make([]byte, tag), Size: 64}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := parseLink(b)
		if !ok {
			return
		}
		again := appendLink(nil, [6]byte(b[6:12]), &got)
		if n := linkSize + len(got.Tag); got.Size != len(b) || !bytes.Equal(again[:n], b[:n]) {
			t.Errorf("read\n% x, wrote\n% x", b, again)
		}
	})
}
