//go:build !linux

package qualify

import "errors"

// OpenCard needs the packet sockets of Linux.
func OpenCard(string, string) (*Port, error) {
	return nil, errors.New("csig qualify needs the packet sockets of Linux: run it on a Linux machine")
}

// Restore has nothing to do where no card can be opened.
func Restore(string, string) error { return nil }
