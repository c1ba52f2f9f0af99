// Package gnmi is a client of gNMI targets (gNMI specification 0.10): the connection, its login,
// and what one target can make csig do, which is bounded (limits.go).
package gnmi
