package sonic

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// The setup is recorded in STATE_DB, which goes with a reboot, as the rules do, and
// stays when the swss container restarts (doc.go). CONFIG_DB is no place for it: tables
// without a YANG model make its validation fail.
const (
	recordKey    = "CSIG_TABLE|device"
	recordSetup  = "setup"
	recordBefore = "tpid_before|" // and the port or aggregate: what CONFIG_DB had
)

// unknownTPID is recorded for a port that had csig's TPID when csig came, and whose
// former one is unknown: a reboot takes STATE_DB away, and leaves CONFIG_DB as it was saved.
// It gets the default back.
const unknownTPID = "unknown"

// record is what STATE_DB says of us.
type record struct {
	setup  *vendors.Setup    // nil: there is none
	before map[string]string // ports and aggregates whose TPID we changed; what they had
	err    error             // why it cannot be understood
}

func parseRecord(fields row) record {
	r := record{before: map[string]string{}}
	for field, value := range fields {
		switch port, ok := strings.CutPrefix(field, recordBefore); {
		case ok:
			r.before[port] = value
		case field == recordSetup:
			s := new(vendors.Setup)
			err := json.Unmarshal([]byte(value), s)
			if err == nil {
				err = plain(value)
			}
			if err != nil {
				r.err = fmt.Errorf("the record %s in STATE_DB cannot be read: %s", recordKey, untrusted.Text(err.Error(), 128))
				continue
			}
			r.setup = s
		}
	}
	return r
}

// plain refuses JSON with words that cannot be printed, as csig writes none.
func plain(text string) error {
	dec := json.NewDecoder(strings.NewReader(text))
	for {
		word, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if s, ok := word.(string); ok && untrusted.Text(s, maxName) != s {
			return fmt.Errorf("%s is no word of csig's", untrusted.Text(s, 64))
		}
	}
}

// recordCommands write the setup; a port or aggregate that gets our TPID is noted
// with what it had, before it is changed.
func recordCommands(s *vendors.Setup, before map[string]string) ([][]string, error) {
	text, err := json.Marshal(s.Wanted())
	if err != nil {
		return nil, err
	}
	cmd := []string{sonicdb.State, "HSET", recordKey, recordSetup, string(text)}
	for _, p := range sortedKeys(before) {
		cmd = append(cmd, recordBefore+p, before[p])
	}
	return [][]string{cmd}, nil
}

// The TPID of ports in CONFIG_DB (sonic-yang-models sonic-port.yang, leaf tpid).
// orchagent takes the value from there through portmgrd and APPL_DB; a field
// that is deleted changes nothing, so the default is written out.
const defaultTPID = "0x8100"

func tpidText(tpid uint16) string { return fmt.Sprintf("0x%04x", tpid) }

// sameTPID compares two of CONFIG_DB's, "" being the default.
func sameTPID(a, b string) bool {
	norm := func(s string) string {
		if s == "" {
			return defaultTPID
		}
		return strings.ToLower(s)
	}
	return norm(a) == norm(b)
}

func portKey(port string) string { return "PORT|" + port }

func tpidCommand(carrier, tpid string) []string {
	if tpid == "" || tpid == unknownTPID {
		tpid = defaultTPID
	}
	return []string{sonicdb.Config, "HSET", carrierKey(carrier), "tpid", tpid}
}
