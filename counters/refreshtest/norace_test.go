//go:build !race

package refreshtest

const ciWindows = 20_000
