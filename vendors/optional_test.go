package vendors

import (
	"context"
	"errors"
	"testing"
)

// wrapped is a driver behind another one.
type wrapped struct {
	Driver
	what any
}

func (w wrapped) Unwrap() any { return w.what }

// able can all that a driver can do beside the contract.
type able struct {
	Driver
	Confirmer
	ArmedReader
	LinkProber
	Looker
	SelfTester
	HealthReader
	MTUSetter
}

// health is a capability with an answer that is recognised.
type health struct{ Driver }

func (health) Health(context.Context) ([]PortHealth, error) {
	return []PortHealth{{Port: "swp1", Errors: 3}}, nil
}

// TestAs looks for each capability through two wrappers, and for none through those
// of a driver that has none.
func TestAs(t *testing.T) {
	for name, has := range map[string]func(any) bool{
		"confirm": can[Confirmer], "armed": can[ArmedReader], "links": can[LinkProber], "look": can[Looker],
		"self-test": can[SelfTester], "health": can[HealthReader], "MTU": can[MTUSetter],
	} {
		if through := (wrapped{what: wrapped{what: able{}}}); !has(through) || !has(able{}) {
			t.Errorf("%s does not come through", name)
		}
		if has(wrapped{what: wrapped{}}) || has(nil) {
			t.Errorf("%s comes from a driver without it", name)
		}
	}
	through := wrapped{what: health{}}
	if list, err := Health(t.Context(), through); err != nil || len(list) != 1 || list[0].Errors != 3 {
		t.Errorf("%+v, %v", list, err)
	}
	if mtus, err := MTUs(t.Context(), through); mtus != nil || err != nil {
		t.Errorf("%v, %v", mtus, err)
	}
	if _, err := Links(through); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v, want what wraps errors.ErrUnsupported", err)
	}
}

func can[T any](driver any) bool { _, ok := As[T](driver); return ok }
