package agent

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// portsOnly is a device that tells which ports it has.
type portsOnly struct {
	*recorder
	mtus map[string]int
}

func (p portsOnly) MTUs(context.Context) (map[string]int, error) { return p.mtus, nil }
func (p portsOnly) SetMTU(context.Context, string, int) error    { return nil }

// A port that the device lacks is an error of the shadow, as it is of a real run.
func TestShadowMissesPorts(t *testing.T) {
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	s := NewShadow(portsOnly{&recorder{}, map[string]int{"swp1": 1500}}, quantize.Draft00, logrus.NewEntry(logger))
	want := vendors.Setup{Ports: []vendors.PortSetup{{Port: "swp1", Action: vlanrules.Update}}}
	if err := s.Apply(t.Context(), want); err != nil {
		t.Error(err)
	}
	want.Ports = append(want.Ports, vendors.PortSetup{Port: "swp9", Action: vlanrules.Update})
	missing := map[string]bool{}
	vendors.EachPort(s.Apply(t.Context(), want), func(port string, _ error) { missing[port] = true })
	if len(missing) != 1 || !missing["swp9"] {
		t.Errorf("missing: %v", missing)
	}
}

// TestShadowRefusesWhatCannotBeCompiled has a port whose rules no table of the
// device takes, beside one that is right.
func TestShadowRefusesWhatCannotBeCompiled(t *testing.T) {
	var out bytes.Buffer
	logger := logrus.New()
	logger.SetOutput(&out)
	drv := &recorder{facts: vendors.Facts{Rules: vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true, MatchD: true, Txn: vlanrules.TxnTable}}}
	s := NewShadow(drv, quantize.Draft00, logrus.NewEntry(logger))
	if _, err := s.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	bad := vlanrules.Intent{Signal: quantize.MinABW, Action: vlanrules.Update} // S=0 and LM=0 are VID 0
	good := vlanrules.Intent{Signal: quantize.MinABW, Action: vlanrules.Update, S: 7, LM: 5}
	res, err := s.Update(t.Context(), []vendors.PortUpdate{{Port: "swp1", Intents: []vlanrules.Intent{bad}}, {Port: "swp2", Intents: []vlanrules.Intent{good}}}, 0)
	refused := map[string]string{}
	vendors.EachPort(err, func(port string, err error) { refused[port] = err.Error() })
	if len(refused) != 1 || !strings.Contains(refused["swp1"], "VID 0") {
		t.Errorf("refused: %v", refused)
	}
	if !res.Leased || res.Ports != 1 || !strings.Contains(out.String(), "port=swp2") {
		t.Errorf("%+v\n%s", res, out.String())
	}
	if len(drv.updates)+len(drv.applied) != 0 {
		t.Error("shadow mode reached the device")
	}
}
