package vendorstest

import "testing"

// TestEveryPair: each number follows each, itself included, exactly once.
func TestEveryPair(t *testing.T) {
	for n := 1; n < 8; n++ {
		list := everyPair(n)
		seen := map[[2]int]int{}
		for i := 1; i < len(list); i++ {
			seen[[2]int{list[i-1], list[i]}]++
		}
		if len(list) != n*n+1 || len(seen) != n*n {
			t.Errorf("%d: %v", n, list)
		}
	}
}
