package tcp

// CheckFormat is the Format of a Check.
const CheckFormat = "csig.host-check/v1"

// Check is whether this machine can give TCP connections tags.
type Check struct {
	Format string `json:"format"`
	Host   string `json:"host"` // of the fleet file; "" without one
	OK     bool   `json:"ok"`   // nothing that is needed is missing
	Parts  []Part `json:"parts"`
}

// Part is one thing that was looked at.
type Part struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Needed bool   `json:"needed"` // without it csig host run refuses
	Reason string `json:"reason"` // what was found, or what is missing
	Next   string `json:"next"`   // what to do; "" where nothing is to be done
}
