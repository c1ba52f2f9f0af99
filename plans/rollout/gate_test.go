package rollout

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// lossy is a device whose port a loses frames.
type lossy struct {
	Target
	readings *[]vendors.PortHealth // what Health says, one after the other
}

func (l lossy) Health(context.Context) ([]vendors.PortHealth, error) {
	next := (*l.readings)[0]
	*l.readings = (*l.readings)[1:]
	return []vendors.PortHealth{next, {Port: "other", Errors: 1 << 40}}, nil
}

func TestHealthGate(t *testing.T) {
	port := func(errors, discards uint64) vendors.PortHealth {
		return vendors.PortHealth{Port: "a", Errors: errors, Discards: discards}
	}
	for name, tc := range map[string]struct {
		readings []vendors.PortHealth // before the baseline, after it, after the wave
		losses   uint64
		change   func(f *fleet)
		command  []string
		want     string // in the error; "": the gate opens
	}{
		"quiet":               {readings: []vendors.PortHealth{port(7, 9), port(7, 9), port(7, 9)}},
		"errors":              {readings: []vendors.PortHealth{port(7, 9), port(7, 9), port(8, 9)}, want: "device s1, port a: 1 frames with errors"},
		"discards":            {readings: []vendors.PortHealth{port(7, 9), port(7, 9), port(7, 12)}, want: "device s1, port a: 3 frames discarded"},
		"allowed":             {readings: []vendors.PortHealth{port(7, 9), port(7, 9), port(8, 12)}, losses: 3},
		"as many as before":   {readings: []vendors.PortHealth{port(0, 0), port(0, 100), port(0, 300)}}, // twice as many
		"more than before":    {readings: []vendors.PortHealth{port(0, 0), port(0, 100), port(0, 301)}, want: "device s1, port a: 201 frames discarded in 10ms since the wave began, 100 in 10ms before"},
		"far more":            {readings: []vendors.PortHealth{port(0, 0), port(0, 100), port(0, 15100)}, want: "frames discarded"},
		"reset to zero":       {readings: []vendors.PortHealth{port(50, 50), port(50, 50), port(0, 0)}},
		"changed behind us":   {readings: []vendors.PortHealth{port(0, 0), port(0, 0), port(0, 0)}, change: func(f *fleet) { f.devices["s1"] = vendors.Setup{} }, want: "device s1: the setup read back is not the wanted one"},
		"the command agrees":  {readings: []vendors.PortHealth{port(0, 0), port(0, 0), port(0, 0)}, command: []string{"sh", "-c", `test "$CSIG_WAVE $CSIG_DEVICES" = "fence/all s1"`}},
		"the command says no": {readings: []vendors.PortHealth{port(0, 0), port(0, 0), port(0, 0)}, command: []string{"sh", "-c", "echo loss on rack 7; exit 3"}, want: "sh: exit status 3: loss on rack 7"},
	} {
		gate := func(t *testing.T) {
			p, f := threeStages(t)
			g := &Health{Plan: p, Losses: tc.losses, Soak: 10 * time.Millisecond, Command: tc.command, Open: func(ctx context.Context, device string) (Target, error) {
				d, err := f.open(ctx, device)
				return lossy{d, &tc.readings}, err
			}}
			if err := g.Before(t.Context(), []string{"s1"}); err != nil {
				t.Fatal(err)
			}
			f.devices["s1"] = setup(vlanrules.Strip, "a")
			if tc.change != nil {
				tc.change(f)
			}
			_, err := g.After(t.Context(), "fence/all", []string{"s1"})
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("the gate stayed closed: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if len(tc.readings) > 0 && tc.change == nil {
				t.Errorf("%d readings left", len(tc.readings))
			}
		}
		t.Run(name, func(t *testing.T) {
			if tc.command != nil {
				gate(t)
				return
			}
			synctest.Test(t, gate) // how much is too much depends on the time it took
		})
	}
}

// Ctrl-C ends the watching, and a gate that has not finished does not open.
func TestGateInterrupted(t *testing.T) {
	p, f := threeStages(t)
	g := &Health{Plan: p, Soak: time.Hour, Open: f.open}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	cancel(why)
	if _, err := g.After(ctx, "fence/all", []string{"s1"}); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

// asSent is what a link may do to a frame: S and LM change where a port
// updates, the tag goes where it strips, and nothing else.
func TestAsSent(t *testing.T) {
	sent := vendors.LinkFrame{Tag: []byte{0x99, 0x00, 0x2f, 0xfe}, Size: 1518}
	for name, tc := range map[string]struct {
		got    vendors.LinkFrame
		strips bool
		want   string // in the error; "": as it should be
	}{
		"as it is":              {got: sent},
		"updated":               {got: vendors.LinkFrame{Tag: []byte{0x99, 0x00, 0x21, 0x89}, Size: 1518}},
		"stripped":              {got: vendors.LinkFrame{Size: 1514}, strips: true},
		"not stripped":          {got: sent, strips: true, want: "the port strips, and a frame of 1518 bytes arrives with its tag 99002ffe"},
		"stripped, and cut":     {got: vendors.LinkFrame{Size: 1510}, strips: true, want: "with 1510 bytes, want 1514"},
		"stripped by others":    {got: vendors.LinkFrame{Size: 1514}, want: "without its tag 99002ffe"},
		"cut":                   {got: vendors.LinkFrame{Tag: sent.Tag, Size: 1500}, want: "arrives with 1500"},
		"another TPID":          {got: vendors.LinkFrame{Tag: []byte{0x81, 0x00, 0x2f, 0xfe}, Size: 1518}, want: "arrives as 81002ffe"},
		"another T":             {got: vendors.LinkFrame{Tag: []byte{0x99, 0x00, 0x0f, 0xfe}, Size: 1518}, want: "T and R are not to change"},
		"R set":                 {got: vendors.LinkFrame{Tag: []byte{0x99, 0x00, 0x3f, 0xfe}, Size: 1518}, want: "T and R are not to change"},
		"wide instead of short": {got: vendors.LinkFrame{Tag: []byte{0x99, 0x00, 0x2f, 0xfe, 0, 0, 0, 0}, Size: 1518}, want: "arrives as"},
	} {
		t.Run(name, func(t *testing.T) {
			tag, err := quantize.DecodeTag(sent.Tag, quantize.Draft00, false)
			if err != nil {
				t.Fatal(err)
			}
			err = asSent(tag, &sent, &tc.got, tc.strips, quantize.Draft00)
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// Neither a device that says nothing nor a command that never ends holds the
// gate for ever.
func TestGateLimits(t *testing.T) {
	p, f := threeStages(t)
	f.devices["s1"] = setup(vlanrules.Strip, "a")
	g := &Health{Plan: p, Open: f.open, Limit: 10 * time.Millisecond, CommandLimit: time.Second, Command: []string{"sh", "-c", "echo measuring; exec sleep 1000"}}
	if err := g.Before(t.Context(), []string{"s1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.After(t.Context(), "fence/all", []string{"s1"}); err == nil || err.Error() != "sh: it did not end within 1s: measuring" {
		t.Errorf("got %v", err)
	}
	g.Open = func(ctx context.Context, name string) (Target, error) {
		d, err := f.open(ctx, name)
		return mute{d}, err
	}
	if _, err := g.After(t.Context(), "fence/all", []string{"s1"}); err == nil || err.Error() != "device s1: reading its setup: not done within 10ms" {
		t.Errorf("got %v", err)
	}
}

// Devices of a wave are looked at side by side.
func TestGateInParallel(t *testing.T) {
	p, f := threeStages(t)
	f.devices["s1"], f.devices["s3"] = setup(vlanrules.Strip, "a"), setup(vlanrules.Strip, "a")
	there := make(chan struct{})
	g := &Health{Plan: p, Parallel: 2, Limit: time.Second, Open: func(ctx context.Context, name string) (Target, error) {
		select { // the two meet
		case there <- struct{}{}:
		case <-there:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		return f.open(ctx, name)
	}}
	if err := g.Before(t.Context(), []string{"s1", "s3"}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.After(t.Context(), "fence/all", []string{"s1", "s3"}); err != nil {
		t.Error(err)
	}
}
