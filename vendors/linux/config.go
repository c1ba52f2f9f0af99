package linux

// Config is how to reach the switch.
type Config struct {
	// NetNS is an open file descriptor of the network namespace whose ports
	// are driven; 0 is the caller's own. The driver does not close it.
	NetNS int
}
