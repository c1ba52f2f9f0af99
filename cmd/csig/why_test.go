package main

import (
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
)

// whyOf is a port that got busier at 12:00:01, and of which the device then took nothing.
func whyOf() *api.Why {
	at := func(s int) time.Time { return time.Date(2026, 11, 22, 12, 0, s, 2e6, time.Local) }
	moment := func(s int, load uint64, bucket int) api.Moment {
		return api.Moment{
			At: at(s), ReadAt: at(s).Add(-2 * time.Millisecond), Octets: 1000 * uint64(s), WindowStart: at(s - 1), WindowEnd: at(s), WindowErrNS: 50_000, Bits: load,
			Estimate: "ok", CapacityBPS: 1e9, LoadBPS: load, ABWBPS: 1e9 - load, ABWCPPM: uint32(1e6 - load/1000), ReadNS: 700_000, ProgramNS: 400_000, Operations: 6, LeaseEnds: at(s + 3), Buckets: []int{bucket},
		}
	}
	signal := func(s uint8) []api.Signal {
		return []api.Signal{{Signal: "abw", Bucket: s, Low: 560e6, High: 710e6, Unit: "bit/s", LM: 5, Locator: "5"}}
	}
	return &api.Why{
		Format: api.WhyFormat, Device: "sw1", Port: "swp7", Action: "update", Hold: 3, OnStale: "conservative", Time: at(5).Add(time.Minute),
		Records: []api.Record{
			{First: moment(0, 100e6, 31), Last: moment(0, 100e6, 31), Cycles: 1, MinABW: 900e6, MaxABW: 900e6, State: "live", Written: true, Signals: signal(31)},
			{First: moment(1, 400e6, 29), Last: moment(4, 100e6, 31), Cycles: 4, MinABW: 600e6, MaxABW: 900e6, State: "live", Written: true, Signals: signal(29)},
			{First: moment(5, 100e6, 31), Last: moment(5, 100e6, 31), Cycles: 1, MinABW: 900e6, MaxABW: 900e6, State: "live", Refused: "the table is full", Signals: signal(31)},
		},
	}
}

// Nothing that a shadow has not done is said to have happened.
func TestWhyOfAShadow(t *testing.T) {
	w := whyOf()
	w.Shadow = true
	text := whyText(w, 1, time.Time{}, 80)
	if !strings.Contains(text, "SHADOW: nothing is programmed") || !strings.Contains(text, "6 operations would have been sent") || strings.Contains(text, "acknowledged") || strings.Contains(text, "the lease lasts") {
		t.Error(text)
	}
}

func TestWhyText(t *testing.T) {
	w := whyOf()
	for at, want := range map[string]string{
		"12:00:03": `swp7 of sw1, update

4 cycles, from 12:00:01.002 to 12:00:04.002: live
abw: S 29 (560 Mbit/s to 710 Mbit/s), LM 5 (5)

First cycle, which ended at 12:00:01.002:
  counter 1000 octets at 12:00:01.000, read in 700µs
  window 1s ± 50µs, up to 12:00:01.002: 400000000 bits of 1 Gbit/s
  load 400 Mbit/s, ABW 600 Mbit/s, ABW/C 60 %
  abw: bucket 29
  6 operations on the device, acknowledged after 400µs
  the lease lasts until 12:00:04.002
Last cycle, which ended at 12:00:04.002:
  counter 4000 octets at 12:00:04.000, read in 700µs
  window 1s ± 50µs, up to 12:00:04.002: 100000000 bits of 1 Gbit/s
  load 100 Mbit/s, ABW 900 Mbit/s, ABW/C 90 %
  abw: bucket 31; damping keeps 29 until a better one was seen 3 times in a row
  6 operations on the device, acknowledged after 400µs
  the lease lasts until 12:00:07.002
ABW of these cycles: 600 Mbit/s to 900 Mbit/s

   FROM          TO            CYCLES  STATE          WRITES     ABW
   12:00:00.002  12:00:00.002  1       live           abw 31(5)  900M..900M
>  12:00:01.002  12:00:04.002  4       live           abw 29(5)  600M..900M
   12:00:05.002  12:00:05.002  1       live, refused  abw 31(5)  900M..900M
`,
		"": "not written: the table is full",
	} {
		when, err := parseAt(at, time.Date(2026, 11, 22, 13, 0, 0, 0, time.Local))
		if err != nil {
			t.Fatal(err)
		}
		i, err := recordAt(w, when)
		if err != nil {
			t.Fatal(err)
		}
		got := whyText(w, i, when, 120)
		if at != "" && got != want || !strings.Contains(got, want) {
			t.Errorf("at %q:\n%s\nwant\n%s", at, got, want)
		}
	}
}

// TestWhyGap: a record of before the time that is asked for does not pass for one of that time.
func TestWhyGap(t *testing.T) {
	w := whyOf()
	last := w.Records[2].Last.At
	w.Time = last.Add(500 * time.Millisecond)
	for name, c := range map[string]struct {
		record int
		when   time.Time
		want   string
	}{
		"now":                    {2, time.Time{}, ""},
		"within a record":        {1, last.Add(-2 * time.Second), ""},
		"between two cycles":     {1, w.Records[1].Last.At.Add(900 * time.Millisecond), ""},
		"long after the last":    {2, last.Add(time.Minute), "no cycle is recorded between 12:00:05.002 and 12:01:05.002, the time that is asked for"},
		"long after another one": {0, w.Records[0].Last.At.Add(2 * time.Second), "no cycle is recorded between 12:00:00.002 and 12:00:02.002"},
	} {
		if got := whyText(w, c.record, c.when, 200); strings.Contains(got, "no cycle is recorded") != (c.want != "") || !strings.Contains(got, c.want) {
			t.Errorf("%s:\n%s\nwant %q", name, got, c.want)
		}
	}
	w.Time = last.Add(time.Minute) // the agent hangs
	if got := whyText(w, 2, time.Time{}, 200); !strings.Contains(got, "between 12:00:05.002 and 12:01:05.002") {
		t.Errorf("of an agent that hangs:\n%s", got)
	}
}

// TestWhyOfAnotherDay: a time of another day than that of the question has its date.
func TestWhyOfAnotherDay(t *testing.T) {
	w := whyOf()
	if text := whyText(w, 1, time.Time{}, 200); strings.Contains(text, "2026-11-22") {
		t.Errorf("of the same day:\n%s", text)
	}
	w.Time = w.Time.AddDate(0, 0, 2)
	text := whyText(w, 2, time.Time{}, 200)
	for _, want := range []string{
		"one cycle, at 2026-11-22 12:00:05.002: live", "between 2026-11-22 12:00:05.002 and 12:01:05.002, the time", "First cycle, which ended at 2026-11-22 12:00:05.002",
		"octets at 2026-11-22 12:00:05.000", "up to 2026-11-22 12:00:05.002", ">  2026-11-22 12:00:05.002  2026-11-22 12:00:05.002  1 ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nwant %q", text, want)
		}
	}
	for line := range strings.Lines(text) {
		if clocks, dates := strings.Count(line, "12:00:0"), strings.Count(line, "2026-11-22 12:00:0"); clocks != dates {
			t.Errorf("a time without its date: %s", line)
		}
	}
}

func TestWhen(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"12:00:00": "2026-11-22T12:00:00Z", "12:00:00.5": "2026-11-21T12:00:00.5Z", "11:59": "2026-11-22T11:59:00Z",
		"2026-11-20T01:02:03+01:00": "2026-11-20T00:02:03Z", "noon": "", "25:00": "",
	} {
		got, err := parseAt(text, now)
		if (err != nil) != (want == "") || err == nil && got.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
	if _, err := recordAt(whyOf(), now.AddDate(0, 0, -1)); err == nil || !strings.Contains(err.Error(), "the first record is of") {
		t.Errorf("before the first record: %v", err)
	}
	if _, err := recordAt(&api.Why{Port: "p1"}, time.Time{}); err == nil {
		t.Error("no record at all is explained")
	}
}
