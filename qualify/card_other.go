//go:build !linux

package qualify

import "errors"

// OpenCard needs the packet sockets of Linux.
func OpenCard(string, string) (*Port, error) {
	return nil, errors.New("csig qualify needs the packet sockets of Linux: run it on a Linux machine")
}
