package qualify

import "slices"

// All are the experiments, in the order in which they run.
func All() []Experiment {
	return slices.Concat(Forwarding(), Rules())
}
