package linux

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// A frame that is too long for the far end of its cable is dropped: the port's
// health counts it, and that of other ports does not.
func TestHealth(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.ip("link set far0 mtu 1000")
	d := openDriver(t, w.netns)
	discards := func() map[string]uint64 {
		t.Helper()
		list, err := d.Health(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]uint64{}
		for _, p := range list {
			out[p.Port] = p.Discards
		}
		return out
	}
	before := discards()
	if _, ok := before["swp1"]; !ok {
		t.Fatalf("no swp1 in %v", before)
	}
	frame := make([]byte, 1400)
	copy(frame, "\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02\x88\xb5")
	if _, err := unix.Write(w.port.fd, frame); err != nil && !errors.Is(err, unix.ENOBUFS) {
		t.Fatal(err)
	}
	after := discards()
	delete(before, "far0") // it is what drops: the kernel counts the frame there, too
	for port, n := range before {
		want := n
		if port == "swp1" {
			want++
		}
		if after[port] != want {
			t.Errorf("%s: %d discards, want %d", port, after[port], want)
		}
	}
}
