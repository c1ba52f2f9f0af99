// Package integration holds the end-to-end tests: the csig command on real
// kernel switches with real traffic. Its folders are the parts that these
// tests and csig demo are made of.
package integration
