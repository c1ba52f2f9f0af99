package sonic

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
)

// TestHostile: whatever the switch's Redis does, a reading ends in time, and its errors
// can be printed.
func TestHostile(t *testing.T) {
	for _, h := range sonictest.Hostilities() {
		t.Run(h.Name, func(t *testing.T) {
			r := sonictest.StartHostile(t, h, nil, 0)
			s, err := New(Config{Ports: []string{"Ethernet0", "PortChannel1"}, Redis: sonicdb.New(sonicdb.Options{Dial: sonictest.Dial, File: r.File,
				Timeout: 50 * time.Millisecond, ReadFile: func(_ context.Context, path string) ([]byte, error) { return os.ReadFile(path) }})})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var list []counters.Sample
			for range 2 {
				if list, err = s.Read(t.Context(), list); err == nil && len(list) != 2 {
					t.Errorf("%d samples", len(list))
				}
				for _, sample := range list {
					if sample.Err == nil {
						t.Errorf("%+v", sample)
					} else if text := sample.Err.Error(); untrusted.Text(text, 4096) != text {
						t.Errorf("%q is not to be printed", text)
					}
				}
				if err != nil && untrusted.Text(err.Error(), 4096) != err.Error() {
					t.Errorf("%q is not to be printed", err)
				}
			}
		})
	}
}
