package agent

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

// prober is a guarded driver that notes the test frames it is to send.
type prober struct {
	guarded
	sent *[]vendors.LinkFrame
}

func (p prober) SendLink(_ context.Context, _ string, f vendors.LinkFrame) error {
	*p.sent = append(*p.sent, f)
	return nil
}

func (p prober) ListenLink(context.Context, string) (vendors.LinkListener, error) {
	return deaf{}, nil
}

type deaf struct{}

func (deaf) Next(ctx context.Context) (vendors.LinkFrame, error) {
	<-ctx.Done()
	return vendors.LinkFrame{}, ctx.Err()
}
func (deaf) Close() error { return nil }

// A daemon sends test frames at ports of its configuration only, with the tags
// of that only, and does not take in more than it can.
func TestDaemonTriesItsLinks(t *testing.T) {
	var sent []vendors.LinkFrame
	can := true
	k := newKeeper(t, &recorder{}, func(cfg *Config) {
		plain := cfg.OpenDriver
		cfg.OpenDriver = func(d *inventory.Device) (vendors.Driver, error) {
			driver, err := plain(d)
			if err == nil && can {
				driver = prober{driver.(guarded), &sent}
			}
			return driver, err
		}
	})
	k.begin(t)
	defer k.close(t)
	ctx := t.Context()
	if _, err := k.ListenLink(ctx, "swp1"); !errors.Is(err, vendors.ErrNotYet) {
		t.Errorf("without a configuration: %v", err)
	}
	k.configure(t, strings.Replace(changed("  tpid: 0x9900", "  tpid: 0x9900\n  wide_tpid: 0x9901\n  retired_tpids: [0x9902]"), "buckets: log-1G", "buckets: log-1G, quantum: 1Mbps", 1))
	for name, tc := range map[string]struct {
		port string
		tag  string
		size int
		want error // nil: it is sent
	}{
		"without a tag":     {port: "swp1"},
		"the domain's tag":  {port: "swp1", tag: "\x99\x00\x2f\xfe", size: 1518},
		"its wide tag":      {port: "swp1", tag: "\x99\x01\x00\x00\x00\x00\x00\x00", size: 9018},
		"a retired one":     {port: "swp1", tag: "\x99\x02\x2f\xfe"},
		"a retired, wide":   {port: "swp1", tag: "\x99\x02\x00\x00\x00\x00\x00\x00", want: vendors.ErrNotYet},
		"short for wide":    {port: "swp1", tag: "\x99\x01\x2f\xfe", want: vendors.ErrNotYet},
		"IP":                {port: "swp1", tag: "\x08\x00\x45\x00", want: vendors.ErrNotYet},
		"nothing of a tag":  {port: "swp1", tag: "\x99\x00", want: vendors.ErrNotYet},
		"another port":      {port: "swp2", want: vendors.ErrNotYet},
		"the longest":       {port: "swp1", size: maxLinkSize},
		"longer than links": {port: "swp1", size: 1 << 16, want: &vendors.PermanentError{}},
		"of negative size":  {port: "swp1", size: -1, want: &vendors.PermanentError{}},
	} {
		n := len(sent)
		err := k.SendLink(ctx, tc.port, vendors.LinkFrame{Nonce: 1, Tag: []byte(tc.tag), Size: tc.size})
		var perm *vendors.PermanentError
		switch {
		case tc.want == nil && (err != nil || len(sent) != n+1 || string(sent[n].Tag) != tc.tag || sent[n].Size != tc.size):
			t.Errorf("%s: %v, sent %+v", name, err, sent[n:])
		case tc.want != nil && (len(sent) != n || !errors.Is(err, tc.want) && !(errors.As(tc.want, &perm) && errors.As(err, &perm))):
			t.Errorf("%s: got %v, want %v; sent %+v", name, err, tc.want, sent[n:])
		}
	}
	if _, err := k.ListenLink(ctx, "swp2"); !errors.Is(err, vendors.ErrNotYet) {
		t.Errorf("at another port: %v", err)
	}
	if l, err := k.ListenLink(ctx, "swp1"); err != nil {
		t.Errorf("at a port of its own: %v", err)
	} else {
		_ = l.Close()
	}
	can = false
	if _, err := k.ListenLink(ctx, "swp1"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a driver that cannot: %v", err)
	}
	if err := k.SendLink(ctx, "swp1", vendors.LinkFrame{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a driver that cannot: %v", err)
	}

	// Who may not change the configuration tries no links, either.
	other := newKeeper(t, &recorder{}, func(c *Config) { c.Shadow = true })
	other.ready = true
	if err := other.SendLink(ctx, "swp1", vendors.LinkFrame{}); err == nil || !strings.Contains(err.Error(), "--dry-run") {
		t.Errorf("--dry-run: %v", err)
	}
}
