//go:build race

package refreshtest

// ciWindows is how many windows of each class CI judges: the race detector makes each take eight times as long.
const ciWindows = 8_000
