package comware

import (
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vendors/reconcile"
)

// TestTPID: csig sets the TPID where it is the default, changes its own, and gives back
// what it found. What another user has set stays.
func TestTPID(t *testing.T) {
	t.Parallel()
	for _, at := range []qos.Position{qos.Inner, qos.Outer} {
		clitest.Run(t, at.String(), func(t *testing.T) {
			b, _ := nearAt(t, at)
			before := b.Running()
			is := func() uint16 {
				v := b.view(t)
				if at == qos.Outer {
					return v.Port(xge1).TPID
				}
				return v.InnerTPID
			}
			set := func(tpid string) {
				if at == qos.Outer {
					b.Type("interface "+xge1, "qinq ethernet-type service-tag "+tpid)
				} else {
					b.Type("qinq ethernet-type customer-tag " + tpid)
				}
			}
			b.apply(t, plain(xge1, xge2))
			other := plain(xge1, xge2)
			other.TPID = 0x9901
			if is() != 0x9900 {
				t.Errorf("0x%04x", is())
			}
			if changes, err := b.driver.Diff(vendors.Setup{}, other); err != nil || changes[0].Disruptive == "" {
				t.Errorf("%+v, %v", changes, err)
			}
			b.apply(t, other)
			if is() != 0x9901 {
				t.Errorf("0x%04x", is())
			}
			set("8100") // another user gives it back: it is repaired
			time.Sleep(2 * reconcile.Every)
			if res := b.give(t, both(7)); is() != 0x9901 || res.Repaired == nil {
				t.Errorf("0x%04x, %+v", is(), res)
			}
			set("9700") // or takes it: that is refused, and stays
			time.Sleep(2 * reconcile.Every)
			if _, err := b.driver.Update(t.Context(), both(8), time.Minute); err == nil || !strings.Contains(err.Error(), "is 0x9700, which csig did not set") {
				t.Error(err)
			}
			if err := b.driver.Remove(t.Context()); err != nil || is() != 0x9700 || strings.Contains(b.Running(), qos.Prefix) {
				t.Errorf("%v, left:\n%s", err, b.Running())
			}
			set("8100")
			b.apply(t, plain(xge1, xge2))
			if err := b.driver.Remove(t.Context()); err != nil || b.Running() != before {
				t.Errorf("%v, left:\n%s", err, b.Running())
			}
			set("9900") // the operator has it already: it stays when csig goes
			before = b.Running()
			b.apply(t, plain(xge1))
			if err := b.driver.Remove(t.Context()); at == qos.Inner && (err != nil || b.Running() != before) {
				t.Errorf("%v, left:\n%s", err, b.Running())
			}
		})
	}
}
