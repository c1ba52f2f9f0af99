package agent

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

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
