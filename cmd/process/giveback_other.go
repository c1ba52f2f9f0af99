//go:build !linux

package process

func unmapStart() {}
