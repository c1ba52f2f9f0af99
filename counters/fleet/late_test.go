package fleet

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestWhatASourceSaidAtTheDeadline(t *testing.T) {
	said := errors.New("device leaf1: no answer: check the address")
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"advice", said, "no answer within 1s: no answer: check the address"},
		{"interrupted, no more", context.Canceled, "no answer within 1s"},
		{"interrupted while connecting", fmt.Errorf("device leaf1: gNMI 192.0.2.1: connect: %w", context.Canceled), "no answer within 1s: gNMI 192.0.2.1: connect"},
		{"interrupted in the middle", fmt.Errorf("%w, so there", context.Canceled), "no answer within 1s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := &lateError{"leaf1", time.Second, tt.err}
			if err.Error() != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%q, want %q", err.Error(), tt.want)
			}
		})
	}
}
