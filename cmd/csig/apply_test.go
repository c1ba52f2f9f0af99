package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/plans/rollout"
	"github.com/csig-agent/csig/vendors"
)

// call runs a command and returns what it prints.
func call(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := newRoot()
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// A repeated rollback, and a resume of what is complete, are success, also when
// the fleet file is gone.
func TestNothingToDo(t *testing.T) {
	t.Chdir(t.TempDir())
	j, err := rollout.CreateJournal("p.journal", "test", &plans.Plan{Format: plans.Format, Fleet: "/gone.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	r := &rollout.Run{Journal: j}
	for _, tc := range []struct {
		do   func() error
		args []string
		want string
	}{
		{func() error { return r.Apply(t.Context()) }, []string{"apply", "--resume", "p.journal"}, "nothing to do: the plan is complete; csig rollback p.journal undoes it\n"},
		{func() error { return r.Rollback(t.Context()) }, []string{"rollback", "p.journal"}, "nothing to do: already rolled back\n"},
	} {
		if err := tc.do(); err != nil {
			t.Fatal(err)
		}
		_ = j.Close()
		if out, err := call(t, tc.args...); err != nil || out != tc.want {
			t.Errorf("%v: %q, %v", tc.args, out, err)
		}
		if out, err := call(t, append(tc.args, "--json")...); err != nil || !strings.Contains(out, `"event":"end"`) {
			t.Errorf("%v: %q, %v", tc.args, out, err)
		}
		if j, err = rollout.OpenJournal("p.journal"); err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		r.Journal = j
	}
	_ = j.Close()
	if _, err := call(t, "apply", "--resume", "p.journal"); err == nil || !strings.Contains(err.Error(), "its plan was rolled back; make a new one") {
		t.Errorf("resumed after a rollback: %v", err)
	}
}

const oneDevice = `format: csig.fleet/v1
profile: {name: x, tpid: 0x9900, interval: 100ms, signals: {abw: {buckets: log-10G}}}
devices:
  - {name: s1, platform: linux, address: 192.0.2.77, management: {ssh: {user: csig, agent: true}, daemon: {socket: /run/csig/agent.sock}}, ports: [{name: swp1, speed: 1G, peer: h1}]}
`

// planned is a plan in a folder, with its fleet file, that nothing has to be
// reached for.
func planned(t *testing.T) (*plans.Plan, *inventory.Fleet) {
	t.Helper()
	if err := os.WriteFile("fleet.yaml", []byte(oneDevice), 0o600); err != nil {
		t.Fatal(err)
	}
	fleet, err := inventory.Load("fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := makePlan(t.Context(), fleet, &planOptions{offline: true})
	if err != nil {
		t.Fatal(err)
	}
	p.Offline = false
	if err := savePlan(io.Discard, "a.plan", p); err != nil {
		t.Fatal(err)
	}
	return p, fleet
}

// A plan that an older csig made for a device of an experimental platform is refused before
// there is a journal.
func TestApplyOfAnExperimentalDriver(t *testing.T) {
	t.Chdir(t.TempDir())
	text := strings.NewReplacer("0x9900", "0x9100", "platform: linux", "platform: sonic", "swp1", "Ethernet0", ", peer: h1", ", action: passthrough").Replace(oneDevice)
	put(t, "fleet.yaml", text)
	fleet := must(inventory.Load("fleet.yaml"))
	p, _, err := makePlan(t.Context(), fleet, &planOptions{offline: true})
	if err != nil {
		t.Fatal(err)
	}
	d := &fleet.Devices[0]
	p.Offline, p.Findings, p.Stages = false, []findings.Finding{}, []plans.Stage{{Name: plans.StageReady, Waves: []plans.Wave{{Name: "rest", Steps: []plans.Step{{ID: 1, Device: d.Name, Want: vendors.SetupOf(&fleet.Profile, fleet.Policy, d)}}}}}}
	if err := savePlan(io.Discard, "a.plan", p); err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, "apply", "a.plan"); err == nil || !strings.Contains(err.Error(), "a.plan: device s1: its driver is experimental (") || !strings.Contains(err.Error(), "make a new one with csig plan") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat("a.plan.journal"); err == nil {
		t.Error("a journal is left")
	}
}

// A copy of a plan, and of its fleet under another name, is not applied while
// another csig is at work on the same device; nothing names the journal that was
// never begun.
func TestApplyOfACopy(t *testing.T) {
	t.Chdir(t.TempDir())
	_, fleet := planned(t)
	copied := strings.Replace(oneDevice, "name: s1", "name: other", 1)
	if err := os.WriteFile("copy.yaml", []byte(copied), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := inventory.Load("copy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []*inventory.Fleet{fleet, other} {
		release, err := rollout.LockDevices(f, []string{f.Devices[0].Name}, func(err error) { t.Error(err) })
		if err != nil {
			t.Fatal(err)
		}
		out, err := call(t, "apply", "a.plan")
		release()
		if err == nil || !strings.Contains(err.Error(), "another csig apply or rollback is running on device s1 (address 192.0.2.77)") || strings.Contains(err.Error(), "journal") {
			t.Errorf("got %v", err)
		}
		if want := "Fleet file: fleet.yaml\n"; out != want {
			t.Errorf("printed %q, want %q", out, want)
		}
		if _, err := os.Stat("a.plan.journal"); err == nil {
			t.Error("the journal is left")
		}
	}
}

// A plan leads to its fleet file from every folder, and one that does not is
// refused.
func TestPlanNamesItsFleet(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	p, fleet := planned(t)
	if want := filepath.Join(dir, "fleet.yaml"); p.Fleet != want {
		t.Errorf("it names %s, want %s", p.Fleet, want)
	}
	release, err := rollout.LockDevices(fleet, []string{"s1"}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	t.Chdir(t.TempDir())
	if out, err := call(t, "apply", filepath.Join(dir, "a.plan")); err == nil || !strings.Contains(err.Error(), "is running on device s1") || out != "Fleet file: "+p.Fleet+"\n" {
		t.Errorf("from another folder: %q, %v", out, err)
	}
	p.Fleet = "fleet.yaml"
	if err := savePlan(io.Discard, "b.plan", p); err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, "apply", "b.plan"); err == nil || !strings.Contains(err.Error(), `its fleet file as "fleet.yaml"`) || !strings.Contains(err.Error(), "-i") {
		t.Errorf("a relative path: %v", err)
	}
}

// Every command that opens devices by a file refuses a foreign one, and one
// that includes it.
func TestForeignFleet(t *testing.T) {
	t.Chdir(t.TempDir())
	p, _ := planned(t)
	journal := func() {
		t.Helper()
		j, err := rollout.CreateJournal("a.journal", "test", p)
		if err != nil {
			t.Fatal(err)
		}
		_ = j.Close()
	}
	journal()
	for name, spoil := range map[string]func() error{
		"fleet.yaml": func() error { return os.Chmod("fleet.yaml", 0o666) },
		"part.yaml": func() error {
			head, devices, _ := strings.Cut(oneDevice, "devices:")
			err := os.WriteFile("fleet.yaml", []byte(strings.Replace(head, "profile:", "include: part.yaml\nprofile:", 1)), 0o600)
			if err == nil {
				err = os.Chmod("fleet.yaml", 0o600)
			}
			if err == nil {
				err = os.WriteFile("part.yaml", []byte("format: csig.fleet/v1\ndevices:"+devices), 0o600)
			}
			if err == nil {
				err = os.Chmod("part.yaml", 0o666)
			}
			return err
		},
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"apply", "a.plan"}, {"apply", "a.plan", "-i", "fleet.yaml"}, {"apply", "--resume", "a.journal"}, {"rollback", "a.journal"},
			{"agent", "-i", "fleet.yaml", "--dry-run", "--socket", "s"}, {"agent", "-i", "fleet.yaml", "--wait", "--socket", "s"},
			{"plan", "-i", "fleet.yaml"}, {"assess", "-i", "fleet.yaml"}, {"off", "-i", "fleet.yaml"},
			{"counters", "read", "-i", "fleet.yaml"}, {"counters", "watch", "-i", "fleet.yaml"},
		} {
			if out, err := call(t, args...); err == nil || !strings.Contains(err.Error(), name+" is not used: others may write") {
				t.Errorf("%s, %v: %s, %v", name, args, out, err)
			}
		}
		for _, args := range [][]string{{"plan", "-i", "fleet.yaml", "--offline"}, {"assess", "-i", "fleet.yaml", "--offline"}, {"inventory", "check", "-i", "fleet.yaml"}} {
			if _, err := call(t, args...); errors.As(err, new(*device.ForeignError)) {
				t.Errorf("%s, %v: %v", name, args, err)
			}
		}
	}
	// Also with the mistakes that keep csig off from nothing.
	if err := os.Chmod("fleet.yaml", 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, "fleet.yaml", string(must(os.ReadFile("fleet.yaml")))+"nonsense: 1\n")
	if _, err := call(t, "off", "-i", "fleet.yaml"); err == nil || !strings.Contains(err.Error(), "part.yaml is not used: others may write") {
		t.Errorf("off with a mistake in the file: %v", err)
	}
	if err := os.Chmod("a.journal", 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"apply", "--resume", "a.journal"}, {"rollback", "a.journal"}} {
		if _, err := call(t, args...); err == nil || !strings.Contains(err.Error(), "a.journal is not used") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// An earlier csig set devices up itself, by nft over SSH or in network namespaces: its
// journals are refused by its name, with the steps to take.
func TestJournalOfACsigThatNeededNoAgent(t *testing.T) {
	for _, via := range []string{"ssh csig@192.0.2.77", "netns /run/netns/s1"} {
		t.Chdir(t.TempDir())
		p, _ := planned(t)
		p.Devices[0].Via = via
		if err := p.Seal(); err != nil {
			t.Fatal(err)
		}
		j, err := rollout.CreateJournal("old.journal", "v0.7.0", p)
		if err != nil {
			t.Fatal(err)
		}
		_ = j.Close()
		for _, args := range [][]string{{"rollback", "old.journal"}, {"rollback", "old.journal", "--fleet-changed"}, {"apply", "--resume", "old.journal"}} {
			if _, err := call(t, args...); err == nil || !strings.Contains(err.Error(), "an earlier csig (v0.7.0), which set s1 up itself") || !strings.Contains(err.Error(), "csig agent --wait") {
				t.Errorf("%s, csig %s: %v", via, strings.Join(args, " "), err)
			}
		}
	}
}

// A plan that another user may write or exchange is refused, as the journal in its folder
// would be by rollback, and so is a folder for the journal. A signature does in place of the
// plan's owner.
func TestForeignPlan(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if out, err := keygen(t, nil, "-t", "ed25519", "-N", "", "-f", "key", "-C", "test"); err != nil {
		t.Fatal(out)
	}
	put(t, "allowed", "alice "+string(must(os.ReadFile("key.pub"))))
	text := signedPlan(t, "key")
	fleet := must(device.LoadFleet("fleet.yaml"))
	release, err := rollout.LockDevices(fleet, []string{"s1"}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	const passed = "is running on device s1"
	for name, mode := range map[string]os.FileMode{"shared": 0o777, "group": 0o775, "sticky": 0o777 | os.ModeSticky} {
		if err := errors.Join(os.Mkdir(name, 0o700), os.Chmod(name, mode)); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"a.plan", "a.plan.sig"} {
			put(t, filepath.Join(name, file), string(must(os.ReadFile(file))))
		}
	}
	put(t, "open.plan", string(text))
	put(t, "open.plan.sig", string(must(os.ReadFile("a.plan.sig"))))
	put(t, "theirs.plan", string(text))
	put(t, "sticky/theirs.plan", string(text))
	if err := errors.Join(os.Chmod("open.plan", 0o646), os.Chown("theirs.plan", 65534, 65534), os.Chown("sticky/theirs.plan", 65534, 65534), os.Symlink("shared/a.plan", "link.plan")); err != nil {
		t.Fatalf("%v: run the tests as root", err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"a.plan"}, passed},
		{[]string{"sticky/a.plan"}, passed},
		{[]string{"open.plan"}, "open.plan is not used: others may write " + dir + "/open.plan (mode 0646)"},
		{[]string{"theirs.plan"}, "theirs.plan is not used: " + dir + "/theirs.plan belongs to another user (uid 65534)"},
		{[]string{"sticky/theirs.plan"}, "belongs to another user (uid 65534)"},
		{[]string{"shared/a.plan"}, "shared/a.plan is not used: others may write " + dir + "/shared (mode 0777)"},
		{[]string{"group/a.plan"}, "group/a.plan is not used: others may write " + dir + "/group (mode 0775)"},
		{[]string{"link.plan"}, "link.plan is not used: others may write " + dir + "/shared (mode 0777)"},
		{[]string{"open.plan", "--verify", "allowed"}, passed},
		{[]string{"shared/a.plan", "--verify", "allowed", "--journal", "j"}, passed},
		// The journal would be refused when it is needed.
		{[]string{"shared/a.plan", "--verify", "allowed"}, "shared/a.plan.journal is not used: others may write " + dir + "/shared (mode 0777)"},
		{[]string{"a.plan", "--journal", "group/j"}, "group/j is not used: others may write " + dir + "/group (mode 0775)"},
	} {
		out, err := call(t, append([]string{"apply"}, c.args...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %q, %v, want %q", c.args, out, err, c.want)
			continue
		}
		next := "--verify"
		if strings.Contains(c.want, "journal") || strings.Contains(c.want, "/j ") {
			next = "--journal"
		}
		if c.want != passed && (!strings.Contains(err.Error(), "chmod go-w") || !strings.Contains(err.Error(), next)) {
			t.Errorf("%v: what to do is not said: %v", c.args, err)
		}
	}
	// A signature is verified before anything of the plan is used.
	p := must(readPlan("a.plan"))
	p.Fleet = "/nowhere/fleet.yaml"
	if err := savePlan(io.Discard, "shared/a.plan", p); err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, "apply", "shared/a.plan", "--verify", "allowed", "--journal", "j"); err == nil || !strings.Contains(err.Error(), "the signature is not of this plan") {
		t.Errorf("another plan beside the signature: %v", err)
	}
}
