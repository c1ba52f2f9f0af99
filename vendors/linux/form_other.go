//go:build !linux

package linux

// formOf is a rule as two rules are compared.
func formOf(steps []step) []any { return []any{steps} }
