package explain_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
	"github.com/csig-agent/csig/vlanrules/explain"
)

var rewriteDocs = flag.Bool("update", false, "write the output of the commands in docs/rules.md into it")

// TestDocs holds the blocks of docs/rules.md that begin with a command
// against what that command prints.
func TestDocs(t *testing.T) {
	const path = "../../docs/rules.md"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const fence = "```console\n$ csig rules explain"
	parts := strings.Split(string(raw), fence)
	if len(parts) < 8 {
		t.Fatalf("%s has %d command blocks", path, len(parts)-1)
	}
	out := parts[0]
	for _, part := range parts[1:] {
		block, rest, closed := strings.Cut(part, "\n```\n")
		args, old, _ := strings.Cut(block, "\n")
		if !closed {
			t.Fatalf("block %q does not end", args)
		}
		text := strings.TrimRight(run(t, strings.Fields(args)), "\n")
		if text != old && !*rewriteDocs {
			t.Errorf("csig rules explain%s prints\n%s\nthe document has\n%s\nrun go test ./vlanrules/explain -update", args, text, old)
		}
		out += fence + args + "\n" + text + "\n```\n" + rest
	}
	if *rewriteDocs {
		if err := os.WriteFile(path, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// run is the command with these flags.
func run(t *testing.T, args []string) string {
	t.Helper()
	f := flag.NewFlagSet("explain", flag.ContinueOnError)
	signal, layout, match := f.String("signal", "abw", ""), f.String("layout", "draft-00", ""), f.String("match", "ternary", "")
	bucket, lm, from := f.Int("bucket", 0, ""), f.Int("lm", 1, ""), f.Int("from", -1, "")
	fromLM, budget, costs := f.Int("from-lm", -1, ""), f.Int("budget", 0, ""), f.Bool("costs", false, "")
	if err := f.Parse(args); err != nil || f.NArg() > 0 {
		t.Fatalf("%v: %v", args, err)
	}
	if *costs {
		return explain.Costs().Text()
	}
	o := explain.Options{Bucket: uint8(*bucket), LM: uint16(*lm), Budget: *budget}
	var err error
	if o.Signal, err = quantize.ParseSignal(*signal); err != nil {
		t.Fatal(err)
	}
	if o.Layout, err = quantize.ParseLayout(*layout); err != nil {
		t.Fatal(err)
	}
	if o.Match, err = vlanrules.ParseMatchKind(*match); err != nil {
		t.Fatal(err)
	}
	if *from >= 0 {
		o.From = &explain.State{Bucket: uint8(*from), LM: o.LM}
		if *fromLM >= 0 {
			o.From.LM = uint16(*fromLM)
		}
	}
	r, err := explain.Explain(o)
	if err != nil {
		t.Fatal(err)
	}
	return r.Text()
}
