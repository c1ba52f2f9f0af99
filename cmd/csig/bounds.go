package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// bounded is a flag's value that is refused below a least one while the command
// line is read, before anything is done.
type bounded[T int | time.Duration] struct {
	pflag.Value
	p     *T
	least T
	zero  bool // 0 is fine, too
}

// atLeast bounds a flag that is there already.
func atLeast[T int | time.Duration](f *pflag.FlagSet, name string, p *T, least T, zero bool) {
	flag := f.Lookup(name)
	flag.Value = &bounded[T]{Value: flag.Value, p: p, least: least, zero: zero}
}

func (b *bounded[T]) Set(text string) error {
	before := *b.p
	if err := b.Value.Set(text); err != nil {
		return err
	}
	if *b.p >= b.least || b.zero && *b.p == 0 {
		return nil
	}
	*b.p = before
	err := &boundError{fmt.Sprintf("want %v or more", b.least)}
	if b.zero {
		err.want += ", or 0"
	}
	return err
}

// boundError is a number or a time that a flag takes, and too small.
type boundError struct{ want string }

func (e *boundError) Error() string { return e.want }
