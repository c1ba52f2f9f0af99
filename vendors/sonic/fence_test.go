package sonic

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vlanrules"
)

// ownerOf is a client of an owner of the switch.
func ownerOf(r *sonictest.Redis, token uint64) *sonicdb.Client {
	return sonicdb.New(sonicdb.Options{Dial: sonictest.Dial, File: r.File, Token: token,
		ReadFile: func(_ context.Context, path string) ([]byte, error) { return os.ReadFile(path) }})
}

// TestFence: a real Redis takes nothing from an owner of before, in a transaction or outside of
// one, in any database that a newer one has written to; answers are those without a fence.
func TestFence(t *testing.T) {
	t.Parallel()
	r := sonictest.StartRedis(t)
	ctx := t.Context()
	first, second := ownerOf(r, 9), ownerOf(r, 1<<44|3)
	defer first.Close()
	defer second.Close()
	commands := [][]string{
		{sonicdb.Appl, "GET", "none"},
		{sonicdb.Appl, "MULTI"}, {sonicdb.Appl, "SADD", "s", "a", "b"}, {sonicdb.Appl, "HSET", "h", "f", "v w"}, {sonicdb.Appl, "PUBLISH", "c", "G"}, {sonicdb.Appl, "EXEC"},
		{sonicdb.State, "HSET", "x", "f", "1", "g", "2"},
		{sonicdb.State, "HGET", "x", "g"},
		{sonicdb.State, "DEL", "x", "y"},
	}
	got, err := first.All(ctx, commands...)
	if err != nil || len(got) != len(commands) || got[0] != nil {
		t.Fatalf("%v, %v", got, err)
	}
	if exec, err := redis.Ints(got[5], nil); err != nil || len(exec) != 3 || exec[0] != 2 || exec[1] != 1 {
		t.Errorf("EXEC answers %v, %v", got[5], err)
	}
	if n, err := redis.Int(got[6], nil); err != nil || n != 2 {
		t.Errorf("HSET answers %v", got[6])
	}
	if v, err := redis.String(got[7], nil); err != nil || v != "2" {
		t.Errorf("HGET answers %v", got[7])
	}
	if _, err := second.All(ctx, []string{sonicdb.Appl, "SREM", "s", "a"}); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range [][][]string{{{sonicdb.Appl, "SADD", "s", "late"}}, {{sonicdb.Appl, "MULTI"}, {sonicdb.Appl, "SADD", "s", "late"}, {sonicdb.Appl, "EXEC"}}} {
		if _, err := first.All(ctx, cmd...); !errors.Is(err, sonicdb.ErrFenced) {
			t.Errorf("%q: %v", cmd, err)
		}
	}
	if got, err := redis.Strings(r.Do(0, "SMEMBERS", "s"), nil); err != nil || len(got) != 1 || got[0] != "b" {
		t.Errorf("the set has %v, %v", got, err)
	}
	// A refused command is an error among the others, as in a transaction.
	if _, err := second.All(ctx, []string{sonicdb.Appl, "MULTI"}, []string{sonicdb.Appl, "SADD", "h", "x"}, []string{sonicdb.Appl, "SREM", "s", "b"}, []string{sonicdb.Appl, "EXEC"}); err == nil || errors.Is(err, sonicdb.ErrFenced) {
		t.Errorf("a wrong type: %v", err)
	}
	if got, err := redis.Strings(r.Do(0, "SMEMBERS", "s"), nil); err != nil || len(got) != 0 {
		t.Errorf("the set has %v, %v", got, err)
	}
}

// TestFencedDriver: an owner that was stopped and goes on when another drives the switch
// changes nothing there.
func TestFencedDriver(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202511, "Ethernet0")
	l.loose = true
	open := func(token uint64) *Driver {
		d := Open(Config{Redis: ownerOf(l.sw.Redis, token), Patience: l.patience, Endpoint: l.sw.Endpoint()})
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	give := func(d *Driver, s uint8) error {
		_, err := d.Update(t.Context(), []vendors.PortUpdate{{Port: "Ethernet0", Intents: []vlanrules.Intent{{Signal: quantize.MinABW, Action: vlanrules.Update, S: s, LM: 5}}}}, time.Minute)
		return err
	}
	first := open(7)
	if err := first.Apply(t.Context(), setupOf(quantize.Draft00, "Ethernet0")); err != nil {
		t.Fatal(err)
	}
	if err := give(first, 9); err != nil {
		t.Fatal(err)
	}
	// The next owner ends the session of the one before, and goes on.
	second := open(8)
	for end := time.Now().Add(time.Minute); ; {
		_, err := second.Probe(t.Context())
		if err == nil {
			err = second.Apply(t.Context(), setupOf(quantize.Draft00, "Ethernet0"))
		}
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	if err := give(second, 4); err != nil {
		t.Fatal(err)
	}
	before := l.sw.Redis.Do(0, "GET", sonicdb.OwnerKey)
	for range 3 {
		if err := give(first, 3); err == nil {
			t.Fatal("the owner before writes")
		}
	}
	if _, err := first.db.All(t.Context(), []string{sonicdb.Appl, "SADD", "late", "x"}); !errors.Is(err, sonicdb.ErrFenced) {
		t.Errorf("the owner before: %v", err)
	}
	if after := l.sw.Redis.Do(0, "GET", sonicdb.OwnerKey); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the token is %v, and was %v", after, before)
	}
	if err := give(second, 5); err != nil {
		t.Errorf("the owner, beside the one before: %v", err)
	}
}
