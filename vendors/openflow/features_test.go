package openflow

import (
	"errors"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestFlatTableThatCannot refuses the one table by number and by what it cannot do, before
// anything is written; one of which the switch reports nothing is assumed to be able to.
func TestFlatTableThatCannot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newFlatLab(t, false, nil)
		setup := flatWant(inventory.Conservative, "p2")
		for _, tc := range []struct {
			want   string
			change func(*oftest.TableFeatures)
		}{
			{"cannot mask VLAN_VID", func(t *oftest.TableFeatures) { t.Unmask(oftest.FieldVLANVID) }},
			{"cannot match VLAN_PCP", func(t *oftest.TableFeatures) { t.Drop(oftest.FieldVLANPCP) }},
			{"cannot match IN_PORT", func(t *oftest.TableFeatures) { t.Drop(oxmInPort) }},
			{"cannot set VLAN_VID", func(t *oftest.TableFeatures) { t.DropSet(oftest.FieldVLANVID) }},
			{"cannot apply actions", func(t *oftest.TableFeatures) { t.DropInstruction(4) }},
			{"is too small: csig needs", func(t *oftest.TableFeatures) { t.MaxEntries = 40 }},
		} {
			l.proxy.Set(func(f *oftest.Faults) {
				f.Features = func(t *oftest.TableFeatures) {
					if t.ID == 0 {
						tc.change(t)
					}
				}
			})
			l.proxy.Cut()
			d := l.open(t, nil)
			l.proxy.Reset()
			err := d.Apply(t.Context(), setup)
			var permanent *vendors.PermanentError
			if !errors.As(err, &permanent) || !strings.Contains(err.Error(), "table 0") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v", tc.want, err)
			}
			if c := l.proxy.Counts(); c.FlowMods > 0 {
				t.Errorf("%s: %d flows were written", tc.want, c.FlowMods)
			}
			f, err := d.Probe(t.Context())
			if err != nil || f.Update.Level != vlanrules.Refused || !strings.Contains(f.Update.Reason, tc.want) {
				t.Errorf("%s: %+v, %v", tc.want, f.Update, err)
			}
		}
		l.proxy.Set(func(f *oftest.Faults) { *f = oftest.Faults{NoFeatures: true} })
		l.proxy.Cut()
		d := l.open(t, nil)
		if err := d.Apply(t.Context(), setup); err != nil {
			t.Errorf("a switch that does not report it: %v", err)
		}
		if f, err := d.Probe(t.Context()); err != nil || f.Update.Level != vlanrules.Degraded || !strings.Contains(f.Update.Reason, "does not report what its tables can do") {
			t.Errorf("a switch that does not report it: %+v, %v", f.Update, err)
		}
	})
}
