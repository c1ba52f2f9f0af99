package qualify

import (
	"context"
	"fmt"
	"slices"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// wrongs are frames that did not leave as they should.
type wrongs struct {
	total    int
	list     []wrong
	unjudged int // of total, where a rule may be right or wrong

	caps    vlanrules.Caps
	without int // of unjudged, tags that no rule can match
}

// unmatched reports whether a tag was left as it came that no rule can match, as the driver says.
func (w *wrongs) unmatched(x wrong) bool {
	vid := x.sent & 0xfff
	if x.rest != "" || x.got != x.sent || vid >= w.caps.VIDMin && (w.caps.VIDMax == 0 || vid <= w.caps.VIDMax) {
		return false
	}
	w.unjudged++
	w.without++
	return true
}

type wrong struct {
	sent, got uint16
	rest      string
	from      int
	layout    quantize.Layout
	intents   []vlanrules.Intent
}

func wrongOnes(seen []Seen, layout quantize.Layout, intents []vlanrules.Intent, from int) (list []wrong) {
	for i := range seen {
		if sent, got, rest := tagOf(&seen[i]); rest != "" || got != compared(sent, layout, intents) {
			list = append(list, wrong{sent, got, rest, from, layout, intents})
		}
	}
	return list
}

func framesOf(list []wrong, tpid uint16) (out []Frame) {
	for _, x := range list {
		out = append(out, tagged(1-x.from, tpid, x.sent)...)
	}
	return out
}

func (w *wrongs) add(list []wrong) { w.list = append(w.list, list...) }

// withoutRules takes out what the switch does to tags without rules, too: that is for
// other experiments to find.
func (w *wrongs) withoutRules(ctx context.Context, t *Trial) error {
	if len(w.list) == 0 {
		return nil
	}
	if err := t.Apply(ctx, t.Setup(vlanrules.Passthrough)); err != nil {
		return Cannot("the driver cannot apply a setup without rules: %v", err)
	}
	if err := vendors.Wait(ctx, t.patience()); err != nil { // until no rule is on the wire any more
		return err
	}
	var left []wrong
	for from := range 2 {
		list := slices.DeleteFunc(slices.Clone(w.list), func(x wrong) bool { return x.from != from })
		if len(list) == 0 {
			continue
		}
		seen, err := t.Exchange(ctx, from, framesOf(list, t.Profile.TPID))
		if err != nil {
			return err
		}
		plain := fates{}
		plain.add(seen)
		for range chances {
			again := slices.DeleteFunc(slices.Clone(list), func(x wrong) bool { return x.rest == "" || plain[fate{x.sent, x.rest}] })
			if len(again) == 0 {
				break
			}
			more, err := t.Exchange(ctx, from, framesOf(again, t.Profile.TPID))
			if err != nil {
				return err
			}
			plain.add(more)
		}
		for i, x := range list {
			_, got, rest := tagOf(&seen[i])
			switch {
			case x.rest != "" && plain[fate{x.sent, x.rest}]:
				w.unjudged++
			case rest == x.rest && sameButMarks(got, x.sent, x.got, compared(x.sent, x.layout, x.intents)):
			default:
				left = append(left, x)
			}
		}
	}
	if n := len(w.list) - len(left); n > 0 {
		t.Note("%d frames are lost or altered without rules, too, and left out here", n)
	}
	w.list = left
	return nil
}

// fates are what became of tags, beside their 16 bits, once at least: not each time, where a
// switch forwards by what it remembers of earlier frames.
type fates map[fate]bool

type fate struct {
	sent uint16
	rest string
}

func (f fates) add(seen []Seen) {
	for i := range seen {
		sent, _, rest := tagOf(&seen[i])
		f[fate{sent, rest}] = true
	}
}

// sameButMarks reports whether a tag that a rule took differs from what it should be just
// as it does where there is no rule: in PCP and DEI.
func sameButMarks(plain, sent, got, want uint16) bool {
	return plain&0xfff == sent&0xfff && got&0xfff == want&0xfff && (plain^sent)&0xf000 == (got^want)&0xf000
}

// report makes a fault of each kind of wrong.
func (w *wrongs) report(t *Trial) {
	first, count := map[string]*wrong{}, map[string]int{}
	var codes []string
	for i := range w.list {
		x := &w.list[i]
		code := x.code()
		if first[code] == nil {
			first[code] = x
			codes = append(codes, code)
		}
		count[code]++
	}
	for _, code := range codes {
		x := first[code]
		t.Fault(code, "%d of %d frames: %s", count[code], w.total, x)
	}
}

func (x *wrong) code() string {
	want := compared(x.sent, x.layout, x.intents)
	switch {
	case x.rest == lost:
		return "lost"
	case x.rest != "":
		return "frame-altered"
	case x.got>>13 != want>>13:
		return "pcp-altered"
	case x.got&0x1000 != want&0x1000:
		return "dei-altered"
	case x.got == x.sent:
		return "not-rewritten"
	case want == x.sent:
		return "rewritten-wrongly"
	}
	return "wrong-value"
}

func (x *wrong) String() string {
	text := fmt.Sprintf("the tag %04x", x.sent)
	switch {
	case x.rest != "" && kindOf(x.rest) == "altered":
		return text + ": " + x.rest
	case x.rest != "":
		return text + " " + x.rest
	}
	return text + fmt.Sprintf(" became %04x, and has to be %04x where the port writes %s", x.got, compared(x.sent, x.layout, x.intents), intentText(x.intents))
}

func intentText(intents []vlanrules.Intent) string {
	text := ""
	for i, in := range intents {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s=%d at locator %d", in.Signal, in.S, in.LM)
	}
	return text
}
