package quantize_test

import (
	"encoding/hex"
	"fmt"
	"log"

	"github.com/csig-agent/csig/quantize"
)

// A receiver finds the tag of a frame, behind whatever VLAN tags there are, and
// reads it in its domain's terms.
func Example() {
	abw, err := quantize.Preset(quantize.MinABW, "log-10G")
	if err != nil {
		log.Fatal(err)
	}
	profile := &quantize.Profile{
		TPID:    0x9900,
		Layout:  quantize.Draft00,
		Signals: map[quantize.Signal]quantize.SignalProfile{quantize.MinABW: {Buckets: abw}},
	}

	frame, _ := hex.DecodeString("020000000001" + "020000000002" + "81000064" + "99000b05" + "0800" + "4500")
	tag, pos, err := quantize.ReadTag(frame, profile.TPIDs(), profile.Layout)
	if err != nil {
		log.Fatal(err)
	}
	reading, err := profile.Read(tag)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("behind %d VLAN tag: %s S=%d, %s, from locator %s\n", pos.VLANs, tag.T, tag.S, reading, reading.Locator)
	// Output:
	// behind 1 VLAN tag: abw S=22, 1.12–1.4 Gbit/s, from locator 5
}

func ExampleTag_Encode() {
	tag := quantize.Tag{TPID: 0x9900, T: quantize.MinABWC, S: 7, LM: 5}
	raw, err := tag.Encode(quantize.Draft00)
	fmt.Printf("%x %v\n", raw, err)
	raw, err = tag.Encode(quantize.UEC) // one bit less for LM, D in the last bit
	fmt.Printf("%x %v\n", raw, err)
	// Output:
	// 99002385 <nil>
	// 9900238a <nil>
}

func ExampleBuckets_Bucket() {
	table, err := quantize.Preset(quantize.MinABW, "draft-appendix-a")
	if err != nil {
		log.Fatal(err)
	}
	for _, text := range []string{"0", "999Mbps", "1Gbps", "400Gbps"} {
		v, err := quantize.MinABW.Unit().Parse(text)
		if err != nil {
			log.Fatal(err)
		}
		s := table.Bucket(v)
		fmt.Printf("%s is in bucket %d: %s\n", quantize.FormatValue(quantize.MinABW, v), s, table.FormatRange(s))
	}
	// Output:
	// 0 bit/s is in bucket 0: 0–250 Mbit/s
	// 999 Mbit/s is in bucket 3: 750 Mbit/s – 1 Gbit/s
	// 1 Gbit/s is in bucket 4: 1–2 Gbit/s
	// 400 Gbit/s is in bucket 31: 97.5 Gbit/s and above
}

func ExampleUnit_Parse() {
	v, err := quantize.MaxPD.Unit().Parse("2.5us")
	fmt.Println(v, err)
	_, err = quantize.MinABW.Unit().Parse("5%")
	fmt.Println(err)
	// Output:
	// 2500 <nil>
	// "5%": "%" is the wrong unit, the value is counted in bit/s: want a rate, e.g. 250Mbit/s
}

func ExampleNewBucketsFromRanges() {
	ranges := make([]quantize.Range, quantize.NumBuckets)
	for i := range ranges {
		ranges[i] = quantize.Range{Low: uint64(i) * 1e9, High: uint64(i+1) * 1e9}
	}
	ranges[4].Low += 500e6
	_, err := quantize.NewBucketsFromRanges(quantize.MinABW, ranges)
	fmt.Println(err)
	// Output:
	// abw: gap between ranges 3 and 4: neither contains 4–4.5 Gbit/s
}

func ExampleLocator() {
	format := quantize.Locator{Fields: []quantize.LocatorField{
		{Name: "stage", Bits: 2, Names: map[string]uint16{"tor": 0, "spine": 1}},
		{Name: "orientation", Bits: 1, Names: map[string]uint16{"up": 0, "down": 1}},
		{Name: "port", Bits: 4},
	}}
	bits := quantize.Draft00.LMBits()
	if err := format.Validate(bits); err != nil {
		log.Fatal(err)
	}
	lm, err := format.Encode(bits, map[string]string{"stage": "spine", "orientation": "up", "port": "3"})
	fmt.Println(lm, err)
	fmt.Println(format.Text(bits, lm))
	fmt.Println(format.Text(bits, quantize.Draft00.LMNone()))
	// Output:
	// 35 <nil>
	// stage=spine,orientation=up,port=3
	// none
}

func ExampleQuantumRange() {
	const quantum = 8_000_000 // 8 Mbit/s reach 8.4 Tbit/s in 20 bits
	const s = 1250
	low, high := quantize.QuantumRange(quantum, s)
	fmt.Println(s, quantize.FormatRange(quantize.MinABW, low, high))
	// Output:
	// 1250 10–10.008 Gbit/s
}
