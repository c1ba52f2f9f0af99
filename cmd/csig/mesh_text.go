package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/csig-agent/csig/hosts/mesh"
)

// printMesh shows what limits the pairs of a mesh.
func printMesh(w io.Writer, s *mesh.Status) {
	live, states := 0, map[string]int{}
	for i := range s.Hosts {
		if s.Hosts[i].State == "live" {
			live++
		}
	}
	for i := range s.Pairs {
		states[s.Pairs[i].State]++
	}
	fmt.Fprintf(w, "mesh %s: %d of %s live; %d pairs:", s.Profile, live, count(len(s.Hosts), "host"), len(s.Pairs))
	sep := " "
	for _, state := range mesh.States {
		if n := states[state]; n > 0 {
			fmt.Fprintf(w, "%s%d %s", sep, n, state)
			sep = ", "
		}
	}
	fmt.Fprintln(w)
	if len(s.Bottlenecks) == 0 {
		fmt.Fprintln(w, "no egress port limits a pair")
		return
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "BOTTLENECK\tLIMITS\tSIGNAL\tWORST\tPLACE\tSINCE\tAGE\tE.G.")
	for i := range s.Bottlenecks {
		b := &s.Bottlenecks[i]
		place := b.Place
		if place == "last hop" {
			place += " (another path does not help)"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", strings.Join(b.Ports, " or "), count(b.Pairs, "pair"), b.Signal, b.Range, place,
			s.Time.Sub(b.Since).Round(time.Second), time.Duration(b.AgeNS).Round(10*time.Millisecond), strings.Join(b.Example, " → "))
	}
	_ = tw.Flush()
}
