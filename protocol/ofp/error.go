package ofp

import (
	"errors"
	"fmt"
	"strings"
)

// Error is the switch's refusal of a message (1.3.5 §7.4.4, 1.4 §7.5.4).
type Error struct {
	Type, Code uint16
	Name       string   // of the change that was refused, "" where it was none or is not known any more
	Late       bool     // it came after the barrier that follows the change
	Also       []*Error // further refusals, of the same exchange
}

// Types that csig has names for.
const (
	errHelloFailed = 0
	errBadRequest  = 1
	errBadAction   = 2
	errBadInst     = 3
	errBadMatch    = 4
	errFlowMod     = 5
	errGroupMod    = 6
	errRoleRequest = 11
	errBundle      = 17
)

var errorNames = map[[2]uint16]string{
	{errHelloFailed, 0}: "no OpenFlow version in common (OFPHFC_INCOMPATIBLE)",
	{errHelloFailed, 1}: "no right to (OFPHFC_EPERM)",
	{errBadRequest, 0}:  "OpenFlow version not allowed (OFPBRC_BAD_VERSION)",
	{errBadRequest, 1}:  "a message type it does not know (OFPBRC_BAD_TYPE)",
	{errBadRequest, 2}:  "a multipart request it does not know (OFPBRC_BAD_MULTIPART)",
	{errBadRequest, 3}:  "an extension it does not know (OFPBRC_BAD_EXPERIMENTER)",
	{errBadRequest, 5}:  "no right to (OFPBRC_EPERM)",
	{errBadRequest, 9}:  "no such table (OFPBRC_BAD_TABLE_ID)",
	{errBadRequest, 10}: "csig is a slave: another controller has become master (OFPBRC_IS_SLAVE)",
	{errBadAction, 0}:   "an action it does not know (OFPBAC_BAD_TYPE)",
	{errBadAction, 2}:   "an extension it does not know (OFPBAC_BAD_EXPERIMENTER)",
	{errBadAction, 3}:   "an action of an extension that it does not know (OFPBAC_BAD_EXP_TYPE)",
	{errBadAction, 4}:   "no such port (OFPBAC_BAD_OUT_PORT)",
	{errBadAction, 9}:   "no such group (OFPBAC_BAD_OUT_GROUP)",
	{errBadAction, 10}:  "actions that do not agree with the match (OFPBAC_MATCH_INCONSISTENT)",
	{errBadAction, 13}:  "a field that it cannot set (OFPBAC_BAD_SET_TYPE)",
	{errBadInst, 0}:     "an instruction it does not know (OFPBIC_UNKNOWN_INST)",
	{errBadInst, 1}:     "an instruction it does not support (OFPBIC_UNSUP_INST)",
	{errBadInst, 2}:     "no such table to continue in (OFPBIC_BAD_TABLE_ID)",
	{errBadInst, 3}:     "metadata it cannot write (OFPBIC_UNSUP_METADATA)",
	{errBadInst, 4}:     "a mask of metadata it cannot write (OFPBIC_UNSUP_METADATA_MASK)",
	{errBadMatch, 6}:    "a field that it cannot match (OFPBMC_BAD_FIELD)",
	{errBadMatch, 8}:    "a mask that it cannot match (OFPBMC_BAD_MASK)",
	{errBadMatch, 9}:    "a field whose prerequisite is missing (OFPBMC_BAD_PREREQ)",
	{errFlowMod, 1}:     "the table is full (OFPFMFC_TABLE_FULL)",
	{errFlowMod, 2}:     "no such table (OFPFMFC_BAD_TABLE_ID)",
	{errFlowMod, 3}:     "another flow overlaps (OFPFMFC_OVERLAP)",
	{errFlowMod, 4}:     "no right to (OFPFMFC_EPERM)",
	{errFlowMod, 5}:     "a timeout it does not support (OFPFMFC_BAD_TIMEOUT)",
	{errGroupMod, 0}:    "there is such a group already (OFPGMFC_GROUP_EXISTS)",
	{errGroupMod, 1}:    "a group that it cannot have (OFPGMFC_INVALID_GROUP)",
	{errGroupMod, 3}:    "the group table is full (OFPGMFC_OUT_OF_GROUPS)",
	{errGroupMod, 8}:    "no such group (OFPGMFC_UNKNOWN_GROUP)",
	{errGroupMod, 14}:   "no right to (OFPGMFC_EPERM)",
	{errRoleRequest, 0}: "another controller has chosen a newer generation (OFPRRFC_STALE)",
	{errRoleRequest, 1}: "a role it does not support (OFPRRFC_UNSUP)",
	{errBundle, 14}:     "the bundle took too long (OFPBFC_TIMEOUT)",
	{errBundle, 13}:     "a change in the bundle was refused (OFPBFC_MSG_FAILED)",
}

func (e *Error) Error() string {
	text, known := errorNames[[2]uint16{e.Type, e.Code}]
	if !known {
		text = "no reason that csig knows"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the switch refuses: %s (OpenFlow error type %d, code %d)", text, e.Type, e.Code)
	if e.Late {
		b.WriteString(", after it has answered the barrier")
	}
	if len(e.Also) > 0 {
		fmt.Fprintf(&b, ", and %d more", len(e.Also))
	}
	return b.String()
}

// TableFull reports whether there was no room for a flow.
func (e *Error) TableFull() bool { return e.Type == errFlowMod && e.Code == 1 }

// IsSlave reports whether another controller has become master, and csig may only read.
func (e *Error) IsSlave() bool { return e.Type == errBadRequest && e.Code == 10 }

// ErrMalformed is wrapped by errors about bytes that are no OpenFlow.
var ErrMalformed = errors.New("malformed OpenFlow")

func errMalformed(what string) error { return fmt.Errorf("%w: %s", ErrMalformed, what) }

// parse reads the body of an error message.
func (e *Error) parse(body []byte) error {
	if len(body) < 4 {
		return errMalformed("an error message")
	}
	e.Type, e.Code = order.Uint16(body), order.Uint16(body[2:])
	return nil
}

// readError is the body of an error message as an error.
func readError(body []byte) error {
	e := new(Error)
	if err := e.parse(body); err != nil {
		return err
	}
	return e
}
