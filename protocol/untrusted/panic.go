package untrusted

import (
	"fmt"
	"runtime"
	"strings"
)

// PanicError is a panic in the work for one device or peer: a defect of csig or
// of a library, most likely in reading what the peer has sent.
type PanicError struct {
	Value any
	Where string // function and line of source that panicked
}

func (e *PanicError) Error() string {
	return Text(fmt.Sprintf("a defect in csig, please report it: %v (in %s)", e.Value, e.Where), maxError)
}

// Recover makes an error of a panic. It is deferred around the work for one
// device, which must not end the work for the others:
//
//	defer untrusted.Recover(&err)
func Recover(err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{v, panicked()}
	}
}

// panicked is where a panic that is being recovered began: what called Go's
// runtime last.
func panicked() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for inside := false; ; {
		f, more := frames.Next()
		switch ours := !strings.HasPrefix(f.Function, "runtime."); {
		case f.Function == "runtime.gopanic":
			inside = true
		case inside && ours:
			return fmt.Sprintf("%s:%d", f.Function, f.Line)
		}
		if !more {
			return "an unknown place"
		}
	}
}
