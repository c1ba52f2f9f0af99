//go:build race

package clitest

const slower = 4 // times fewer samples: the race detector makes code five to ten times slower
