package ofp

import (
	"errors"
	"fmt"
)

// Error is the switch's refusal of a message (§7.5.4).
type Error struct {
	Type, Code uint16
	Name       string // of the change that was refused, "" where it was no change of a flow
}

// Types and codes that csig knows by name.
const (
	errBadAction  = 2
	errFlowMod    = 5
	errBundle     = 17
	errHelloClash = 0
)

var errorNames = map[[2]uint16]string{
	{errHelloClash, 0}: "no OpenFlow version in common (OFPHFC_INCOMPATIBLE)",
	{1, 0}:             "OpenFlow version not allowed (OFPBRC_BAD_VERSION)",
	{1, 1}:             "a message type it does not know (OFPBRC_BAD_TYPE)",
	{1, 5}:             "no right to (OFPBRC_EPERM)",
	{errBadAction, 0}:  "an action it does not know (OFPBAC_BAD_TYPE)",
	{errBadAction, 2}:  "an extension it does not know (OFPBAC_BAD_EXPERIMENTER)",
	{errBadAction, 3}:  "an action of an extension that it does not know (OFPBAC_BAD_EXP_TYPE)",
	{errBadAction, 10}: "actions that do not agree with the match (OFPBAC_MATCH_INCONSISTENT)",
	{errFlowMod, 1}:    "the table is full (OFPFMFC_TABLE_FULL)",
	{errFlowMod, 2}:    "no such table (OFPFMFC_BAD_TABLE_ID)",
	{errFlowMod, 4}:    "no right to (OFPFMFC_EPERM)",
	{errBundle, 15}:    "a change in the bundle was refused (OFPBFC_MSG_FAILED)",
	{errBundle, 10}:    "the bundle took too long (OFPBFC_TIMEOUT)",
}

func (e *Error) Error() string {
	text, known := errorNames[[2]uint16{e.Type, e.Code}]
	if !known {
		text = "no reason that csig knows"
	}
	return fmt.Sprintf("the switch refuses: %s (OpenFlow error type %d, code %d)", text, e.Type, e.Code)
}

// TableFull tells whether there was no room for a flow.
func (e *Error) TableFull() bool { return e.Type == errFlowMod && e.Code == 1 }

// ErrMalformed is wrapped by errors about bytes that are no OpenFlow 1.4.
var ErrMalformed = errors.New("malformed OpenFlow")

func errMalformed(what string) error { return fmt.Errorf("%w: %s", ErrMalformed, what) }
