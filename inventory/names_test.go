package inventory

import (
	"slices"
	"testing"
)

func TestCompareNames(t *testing.T) {
	got := []string{"swp10", "lo", "Ethernet1/10", "swp2", "swp02", "eth1", "Ethernet1/9", "swp1", "eth", "leaf-02b", "leaf-10"}
	slices.SortFunc(got, CompareNames)
	want := []string{"Ethernet1/9", "Ethernet1/10", "eth", "eth1", "leaf-02b", "leaf-10", "lo", "swp1", "swp02", "swp2", "swp10"}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
