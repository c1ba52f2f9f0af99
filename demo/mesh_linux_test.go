package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/hosts/mesh"
	"github.com/csig-agent/csig/inventory"
)

// TestMeshStep: a port is named when it comes first in the table, with all pairs that pass it.
func TestMeshStep(t *testing.T) {
	rows := func(list ...mesh.Bottleneck) *mesh.Status { return &mesh.Status{Bottlenecks: list} }
	row := func(pairs int, ports ...string) mesh.Bottleneck { return mesh.Bottleneck{Ports: ports, Pairs: pairs} }
	for _, tt := range []struct {
		name string
		port string
		now  *mesh.Status
		want bool
	}{
		{"it is first", "s1:swp3", rows(row(4, "s1:swp3"), row(2, "s2:swp3")), true},
		{"none is", "s1:swp3", rows(), false},
		{"another is", "s1:swp3", rows(row(4, "s2:swp3"), row(4, "s1:swp3")), false},
		{"not all pairs have it yet", "s1:swp3", rows(row(3, "s1:swp3")), false},
		{"it is one of two that it may be", "s1:swp3", rows(row(4, "s1:swp3", "s2:swp3")), false},
		{"no port is busy", "", rows(row(4, "s1:swp3")), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &meshStep{began: at(0), port: tt.port, pairs: 4}
			if s.see(at(1500), tt.now); (s.named != nil) != tt.want || tt.want && s.after != 1500*time.Millisecond {
				t.Errorf("named %v after %v", s.named, s.after)
			}
			if s.see(at(2500), rows(row(4, "s1:swp3"))); tt.want && s.after != 1500*time.Millisecond {
				t.Errorf("named again after %v", s.after)
			}
		})
	}
}

// TestMeshVerdict judges steps that were named, and those that lasted and were not.
func TestMeshVerdict(t *testing.T) {
	named := func(after time.Duration) *meshStep {
		return &meshStep{port: "s1:swp3", from: "l1", bps: 68_200_000, named: &mesh.Bottleneck{Pairs: 4, Place: "core"}, after: after}
	}
	quiet, missed, cut := &meshStep{whole: true}, &meshStep{port: "s2:swp3", from: "l2", whole: true}, &meshStep{port: "s2:swp3", from: "l2"}
	for _, tt := range []struct {
		name  string
		steps []*meshStep
		rows  int
		want  string
	}{
		{"nothing yet", nil, 0, "too short to judge"},
		{"a step that was cut short", []*meshStep{quiet, cut}, 0, "too short to judge"},
		{"all named", []*meshStep{quiet, named(time.Second), named(2500 * time.Millisecond), cut}, 2, "right. Each busy port came first in the table, with all pairs that pass it,\nafter 2.5 s at most."},
		{"one missed", []*meshStep{quiet, named(time.Second), missed}, 2, "of 2 busy ports 1 came first"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			if err := (&MeshResult{steps: tt.steps, pairs: 12}).WriteText(&b); err != nil {
				t.Fatal(err)
			}
			if rows := strings.Count(b.String(), " Mbit/s of l"); rows != tt.rows || !strings.Contains(b.String(), "\nVerdict: "+tt.want) {
				t.Errorf("%d rows\n%s", rows, b.String())
			}
		})
	}
}

// TestMeshStepsLimit holds the loads against what the mesh calls a port that limits: at most half of its speed is left
// at the one that is busy, and more at all others.
func TestMeshStepsLimit(t *testing.T) {
	fleet, err := inventory.Parse("demo fleet", meshFile)
	if err != nil {
		t.Fatal(err)
	}
	for n, st := range meshSteps {
		for i := range fleet.Devices {
			speed := fleet.Devices[i].Ports[0].Speed
			load := midBucket(speed, st.util[i], bucketsOf(fleet))
			for j, left := range []uint64{speed - load, (speed - load) * 1_000_000 / speed} {
				half := []uint64{speed / 2, 500_000}[j]
				b := fleet.Profile.Signals[signals[j]].Buckets
				if _, high := b.Range(b.Bucket(left)); (high <= half) != (i == n-1) {
					t.Errorf("%s: hop %d has up to %d of %d left (%s)", st.name, i+1, high, 2*half, signals[j])
				}
			}
		}
	}
}
