//go:build !race

package openflow

const raced = false
