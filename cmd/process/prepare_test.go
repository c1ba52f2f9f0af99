package process

import "testing"

func TestMemoryLimit(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	if got := memoryLimit(256 << 20); got != 256<<20 {
		t.Errorf("a limit of %d bytes", got)
	}
	t.Setenv("GOMEMLIMIT", "1GiB")
	if got := memoryLimit(256 << 20); got != -1 {
		t.Errorf("the environment's limit becomes %d", got)
	}
}
