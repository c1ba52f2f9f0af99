package plans

import (
	"bytes"
	"testing"
)

func FuzzPlan(f *testing.F) {
	f.Add([]byte(`{"format":"csig.plan/v1"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := Read(bytes.NewReader(text)); err == nil {
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
