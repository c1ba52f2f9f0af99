//go:build race

package openflow

// raced: the race detector makes computing take ten times as long, so that tests take fewer samples.
const raced = true
