package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// A switch without csig notes what arrives, as csig itself hears it, and has
// nothing left of that when it is over.
func TestAfarHearsLinkFrames(t *testing.T) {
	w := newWire(t)
	d, direct := openAfar(t, w.netns), openDriver(t, w.netns)
	w.ip("link set swp1 mtu 1500\nlink set far0 mtu 1500")
	before := w.run("nft", "list", "ruleset")
	far, err := d.ListenLink(t.Context(), "far0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, want := range []vendors.LinkFrame{
		{Nonce: 1 << 63, Size: 1514},
		{Nonce: 7, Tag: []byte{0x99, 0x00, 0x2f, 0xfe}, Size: 1514 + slack},
		{Nonce: 8, Tag: []byte{0x99, 0x01, 0, 0, 4, 5, 6, 0}, Size: 1514 + slack},
		{Nonce: 9, Tag: []byte{0x88, 0xa8, 0x2f, 0xfe}, Size: 1514 + slack},
		{Nonce: 10, Tag: []byte{0x81, 0x00, 0x00, 0x01}, Size: 700},
	} {
		for range 2 { // heard once
			if err := direct.SendLink(ctx, "swp1", want); err != nil {
				t.Fatal(err)
			}
		}
		got, err := far.Next(ctx)
		if err != nil || got.Nonce != want.Nonce || !bytes.Equal(got.Tag, want.Tag) || got.Size != want.Size {
			t.Fatalf("heard %+v, %v, want %+v", got, err, want)
		}
	}
	soon, end := context.WithCancel(ctx)
	end()
	if f, err := far.Next(soon); !errors.Is(err, context.Canceled) {
		t.Errorf("heard %+v, %v", f, err)
	}
	// A wait that ends before a look does has looked all the same.
	if err := direct.SendLink(ctx, "swp1", vendors.LinkFrame{Nonce: 11, Size: 60}); err != nil {
		t.Fatal(err)
	}
	if f, err := far.Next(soon); err != nil || f.Nonce != 11 {
		t.Errorf("heard %+v, %v", f, err)
	}
	if err := far.Close(); err != nil {
		t.Error(err)
	}
	if after := w.run("nft", "list", "ruleset"); after != before {
		t.Errorf("left behind:\n%s", after)
	}
}

func TestAfarCannotHear(t *testing.T) {
	w := newWire(t)
	d := openAfar(t, w.netns)
	_, err := d.ListenLink(t.Context(), "$(id)")
	permanent(t, err, "$(id)", "rename")
	var port *vendors.PortError
	if _, err := d.ListenLink(t.Context(), "nowhere"); !errors.As(err, &port) || port.Port != "nowhere" {
		t.Errorf("no such port: %v", err)
	}
	d = openAfarBy(t, func(context.Context) (Runner, error) { return oldSwitch{&shellRunner{n: w.netns}, "dynamic"}, nil })
	if _, err := d.ListenLink(t.Context(), "far0"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("an nft without dynamic sets: %v", err)
	}
	if got := w.run("nft", "list", "ruleset"); got != "" {
		t.Errorf("left behind:\n%s", got)
	}
}

func TestHeardFrames(t *testing.T) {
	const listing = `table netdev csig-link-00 {
	set tag0 {
		typeof @ll,144,64 . meta length
		size 1024
		flags dynamic
		elements = { 0x7 . 46 }
	}

	set tag4 {
		typeof @ll,96,32 . @ll,176,64 . meta length
		elements = { 0x81002ffe . 0x9876543210 . 582,
			     0x99002ffe . 0x8 . 1500 }
	}

	set tag8 {
		typeof @ll,96,64 . @ll,208,64 . meta length
		elements = { 0x1000102030405 . 0xfedcba9876543210 . 1500 }
	}
}
`
	want := []vendors.LinkFrame{
		{Nonce: 7, Size: 60},
		{Nonce: 0x9876543210, Tag: []byte{0x81, 0, 0x2f, 0xfe}, Size: 600},
		{Nonce: 8, Tag: []byte{0x99, 0, 0x2f, 0xfe}, Size: 1514},
		{Nonce: 0xfedcba9876543210, Tag: []byte{0, 1, 0, 1, 2, 3, 4, 5}, Size: 1514},
	}
	if got := heardFrames(listing); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// What a switch prints is read back as it was meant, and nothing else harms.
func FuzzHeardFrames(f *testing.F) {
	f.Add(uint64(7), []byte{0x99, 0, 0x2f, 0xfe}, uint16(1500), "")
	f.Add(uint64(1)<<63, []byte{}, uint16(46), "\tset tag4 {\n elements = { 0x1 . 0x2 . 3 }\n\t}")
	f.Fuzz(func(t *testing.T, nonce uint64, tag []byte, length uint16, rest string) {
		heardFrames(rest)
		if len(tag) != 0 && len(tag) != 4 && len(tag) != 8 {
			return
		}
		element := fmt.Sprintf("%#x . %d", nonce, length)
		want := vendors.LinkFrame{Nonce: nonce, Size: 14 + int(length)}
		if len(tag) > 0 {
			want.Tag = tag
			var v uint64
			for _, b := range tag {
				v = v<<8 | uint64(b)
			}
			element = fmt.Sprintf("%#x . %s", v, element)
			if tag[0] == 0x81 && tag[1] == 0 || tag[0] == 0x88 && tag[1] == 0xa8 {
				want.Size += 4
			}
		}
		got := heardFrames(fmt.Sprintf("\tset tag%d {\n\t\telements = { %s }\n\t}\n", len(tag), element))
		if len(got) != 1 || got[0].Nonce != want.Nonce || !bytes.Equal(got[0].Tag, want.Tag) || got[0].Size != want.Size {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}
