package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/plans/rollout"
	"github.com/csig-agent/csig/vendors/vendorstest"
)

// hostile drives a terminal: with a sequence, an 8-bit control character, an override of
// the direction and a byte that is no UTF-8.
const hostile = "\x1b]0;x\a\u009b2J\u202e\xff"

// texts calls f with every text in v, one after the other, and with where it is.
func texts(v reflect.Value, where string, f func(where string, text reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			texts(v.Elem(), where, f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				texts(v.Field(i), where+"."+field.Name, f)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			texts(v.Index(i), fmt.Sprintf("%s[%d]", where, i), f)
		}
	case reflect.String:
		f(where, v)
	}
}

// raw is the first character of a text that does not print.
func raw(text string) (rune, bool) {
	for _, r := range text {
		if r != '\n' && !unicode.IsPrint(r) {
			return r, true
		}
	}
	return unicode.ReplacementChar, !utf8.ValidString(text)
}

// TestHostileTexts puts what drives a terminal into texts of a plan and of a journal, one at a
// time, and runs what prints them. Nothing of it arrives. Of the texts in a list's elements it
// takes the first of each kind.
func TestHostileTexts(t *testing.T) { hostileTexts(t) }

// TestLongHostileTexts has every text.
func TestLongHostileTexts(t *testing.T) { hostileTexts(t) }

func hostileTexts(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	put(t, "fleet.yaml", strings.Replace(oneDevice, "address: 192.0.2.77, management: {ssh: {user: csig, agent: true}, daemon: {socket: /run/csig/agent.sock}}", "management: {daemon: {socket: "+dir+"/none.sock}}", 1))
	fleet := must(inventory.Load("fleet.yaml"))
	made, _, err := makePlan(t.Context(), fleet, &planOptions{offline: true})
	if err != nil {
		t.Fatal(err)
	}
	made.Offline = false
	made.Findings = append(made.Findings, findings.Finding{Level: findings.Warning})
	made.Target, made.RelyOn = []string{"s1"}, []plans.Relied{{Device: "s2"}}
	for i := range made.Devices {
		made.Devices[i].Gone = []string{"swp9"}
		if made.Devices[i].Device == "s1" && len(made.Devices[i].Changes) == 0 {
			t.Fatal("nothing changes")
		}
	}
	var b bytes.Buffer
	if err := made.Write(&b); err != nil {
		t.Fatal(err)
	}
	fresh := func() *plans.Plan {
		p := &plans.Plan{}
		if err := json.Unmarshal(b.Bytes(), p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	printed := func(where, what, text string) {
		if r, is := raw(text); is {
			t.Errorf("%s, %s: %q arrives:\n%q", where, what, r, text)
		}
	}
	run := func(where string, args ...string) {
		out, err := call(t, args...)
		printed(where, args[0], out)
		if err != nil { // as main prints it
			printed(where, args[0]+"'s error", printableLines(err.Error()))
		}
	}
	n := 0
	element := regexp.MustCompile(`\[\d+\]`)
	tried := map[string]bool{} // kinds
	texts(reflect.ValueOf(fresh()), "plan", func(where string, _ reflect.Value) {
		kind := element.ReplaceAllString(where, "")
		if tried[kind] && !vendorstest.Long(t) {
			return
		}
		tried[kind] = true
		n++
		p := fresh()
		texts(reflect.ValueOf(p), "plan", func(at string, text reflect.Value) {
			if at == where {
				text.SetString(text.String() + hostile)
			}
		})
		if where != "plan.Format" && where != "plan.Integrity" {
			for _, name := range []string{"a.plan", "a.plan.journal", "b.journal"} {
				_ = os.Remove(name)
			}
			if err := savePlan(io.Discard, "a.plan", p); err != nil {
				t.Fatal(err)
			}
			run(where, "apply", "a.plan", "--soak", "0s", "--timeout", "1s")
			j, err := rollout.CreateJournal("b.journal", "v1"+hostile, p)
			if err != nil {
				printed(where, "the journal", printableLines(err.Error()))
				return
			}
			printed(where, "the question", question(j, "apply", 80)+question(j, "rollback", 80))
			r := &rollout.Run{Journal: j}
			_ = r.Apply(t.Context()) // it begins, and ends at once
			_ = j.Close()
			run(where, "apply", "--resume", "b.journal", "--soak", "0s", "--timeout", "1s")
			run(where, "rollback", "b.journal", "--timeout", "1s")
		}
	})
	if n < 20 {
		t.Errorf("%d texts are tried", n)
	}
	// What a journal or a device adds.
	var out bytes.Buffer
	cmd := newRoot()
	cmd.SetOut(&out)
	show := newProgress(cmd, false, "apply")
	for _, e := range []rollout.Event{rollout.EventStart, rollout.EventAutoRevert, rollout.EventDone, rollout.EventFailed, rollout.EventGate, rollout.EventUndoing, rollout.EventUndone, rollout.EventProved, rollout.EventHand, rollout.EventRollback, rollout.EventEnd} {
		p := rollout.Progress{Event: e, Err: fmt.Errorf("no%s", hostile)}
		texts(reflect.ValueOf(&p).Elem(), "progress", func(at string, text reflect.Value) {
			if at != "progress.Event" {
				text.SetString("x" + hostile)
			}
		})
		show.report(p)
		p.Err = nil
		show.report(p)
	}
	show.print("Signed by " + hostile)
	show.interrupt("lost" + hostile)
	newScreen(&out).remark("left: %s", hostile)
	printed("progress", "lines", out.String())
	if !strings.Contains(out.String(), `\x1b]0;x\x07\u009b2J\u202e\xff`) {
		t.Errorf("%q", out.String())
	}
	// A path that a plan names, and one that does not exist.
	put(t, "x"+hostile, "")
	odd := filepath.Join(dir, "x"+hostile)
	if err := os.Chmod(odd, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := device.CheckOwner(odd); err == nil {
		t.Error("it is used")
	} else {
		printed("a foreign file", "its error", err.Error())
	}
	if got := printableLines("  two  blanks\n\tand a tab, é, \x1b[1m"); got != "  two  blanks\n and a tab, é, "+`\x1b[1m` {
		t.Errorf("%q", got)
	}
}
