package api

// Change is what happened to a device, or to one port of it, from one status to the next.
type Change struct {
	Port     string // "": the whole device
	What     string // "waiting", "data_plane", or "state" of a port
	From, To string
	Reason   string
}

// Changes are those between two statuses of a device; was is nil before the first.
func Changes(was, is *Status) (out []Change) {
	add := func(port, what, from, to, reason string) {
		if from != to {
			out = append(out, Change{port, what, from, to, reason})
		}
	}
	if was == nil {
		was = &Status{}
	}
	add("", "waiting", was.Waiting, is.Waiting, "")
	add("", "data_plane", was.DataPlane, is.DataPlane, is.DataPlaneReason)
	states := make(map[string]string, len(was.Ports))
	for i := range was.Ports {
		states[was.Ports[i].Port] = was.Ports[i].State
	}
	for i := range is.Ports {
		p := &is.Ports[i]
		add(p.Port, "state", states[p.Port], p.State, p.Reason)
	}
	return out
}
