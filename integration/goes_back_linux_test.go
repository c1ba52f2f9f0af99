package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
)

// TestLongNextOwnerGoesBack: what an owner kept of a device's earlier configurations its next one has on
// another machine. csig rollback finds the one before, and a change that nobody confirmed before the owner
// was killed is taken back.
func TestLongNextOwnerGoesBack(t *testing.T) {
	t.Parallel()
	c := newControllers(t, 2*time.Second, controllersText)
	for i := range c.ops {
		c.start(i)
	}
	of6 := func(tci int) bool { return tci&0x7f == 6 && tci>>7 < 31 }
	file := func(name string) string { return filepath.Join(c.dir, name) }
	text, err := os.ReadFile(c.ops[0].fleet)
	if err == nil && !bytes.Contains(text, []byte("lm: 5")) {
		t.Fatal("no port has lm: 5")
	}
	if err == nil {
		err = os.WriteFile(file("six.yaml"), bytes.ReplaceAll(text, []byte("lm: 5"), []byte("lm: 6")), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	owner := c.owner(0, 1, 2)
	next := func(what string) {
		t.Helper()
		_ = c.where[owner].signal(syscall.SIGKILL)
		before := owner
		owner = c.owner(others(before)...)
		c.where[owner].await(what+": the next owner", live)
		c.start(before).await("that it answers", func(*api.Status) bool { return true })
	}
	c.ops[0].run(2, "plan", "-i", c.ops[0].fleet, "-o", file("up.plan"))
	c.ops[0].run(0, "apply", file("up.plan"), "--soak", "50ms")
	c.until("csig apply", 2, ofAgent)
	c.ops[0].run(2, "plan", "-i", file("six.yaml"), "-o", file("six.plan"))
	c.ops[0].run(0, "apply", file("six.plan"), "--soak", "50ms", "--journal", file("six.journal"))
	c.until("another csig apply", 2, of6)
	next("killed after it")
	c.until("the next owner", 2, of6)
	c.ops[0].run(0, "rollback", file("six.journal"))
	c.until("csig rollback by way of another owner", 2, ofAgent)

	// csig apply was killed before it confirmed its change, and so is the owner, who would have gone back.
	client := c.where[owner].client
	device, err := os.ReadFile(filepath.Join(c.ops[owner].dir, "state", "hw1.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.StartRevert(t.Context(), time.Hour)
	if err == nil {
		err = client.Configure(t.Context(), bytes.ReplaceAll(device, []byte("lm: 5"), []byte("lm: 6")))
	}
	if err != nil {
		t.Fatal(err)
	}
	c.until("a change that waits for its confirmation", 2, of6)
	next("killed in the middle of csig apply")
	c.until("a change that nobody confirmed", 2, ofAgent)
	if log := c.where[owner].log.String(); !strings.Contains(log, "not confirmed under the previous owner; rolling back") {
		t.Errorf("the next owner's log does not say why:\n%s", log)
	}
	next("killed once more")
	c.until("the owner after that", 2, ofAgent)
}
