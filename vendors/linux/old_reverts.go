package linux

import "regexp"

// oldRevert is the name of an empty table by which an earlier csig had a switch undo a
// change by itself. A shell that waits on the switch does nothing once its table is gone.
var oldRevert = regexp.MustCompile(`^csig-back-[0-9a-f]{16}-[0-9]+$`)
