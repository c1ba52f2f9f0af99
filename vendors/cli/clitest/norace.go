//go:build !race

package clitest

const slower = 1
