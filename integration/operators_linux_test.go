package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/csig-agent/csig/fabric"
)

// elsewhere is csig as another operator's machine runs it: it shares no files for locks.
func (o *operator) elsewhere(args ...string) *fabric.Cmd {
	const script = `mount -t tmpfs none /run && mkdir -m 1777 /run/lock || exit 99; exec env SUDO_USER=bob "$@"`
	cmd := o.host.Command("unshare", append([]string{"--mount", "sh", "-c", script, "sh", csig}, args...)...)
	cmd.Dir = o.dir
	return cmd
}

// severalOperators applies a change of the locator as far as a check that takes its time, where
// it is killed: another operator is refused by name meanwhile, and undoes it then, with the journal
// that the controllers have.
func (o *operator) severalOperators() {
	t := o.t
	t.Helper()
	text := readFile(t, o.fleet)
	changed, plan, checking := filepath.Join(o.dir, "changed.yaml"), filepath.Join(o.dir, "changed.plan"), filepath.Join(o.dir, "checking")
	check := filepath.Join(o.dir, "check.sh")
	for file, text := range map[string]string{
		changed: strings.ReplaceAll(string(text), "lm: 5", "lm: 6"),
		check:   "echo $$ > " + checking + ".new && mv " + checking + ".new " + checking + " && exec sleep 600",
	} {
		writeFile(t, file, []byte(text))
	}
	o.run(2, "plan", "-i", changed, "-o", plan)
	ann := o.host.Command(csig, "apply", plan, "--soak", "1ms", "--check", "sh,"+check)
	ann.Dir = o.dir
	var out strings.Builder
	ann.Stdout, ann.Stderr = &out, &out
	if err := ann.Start(); err != nil {
		t.Fatal(err)
	}
	var sleeper []byte
	for end := time.Now().Add(patience); ; {
		if text, err := os.ReadFile(checking); err == nil {
			sleeper = text
			break
		}
		if time.Now().After(end) {
			_ = ann.Process.Kill()
			_ = ann.Wait()
			t.Fatalf("csig apply has not come to its check:\n%s", out.String())
		}
		time.Sleep(10 * time.Millisecond) // between looks
	}
	back := filepath.Join(o.dir, "back.plan")
	o.run(2, "plan", "-i", o.fleet, "-o", back)
	busy := regexp.MustCompile(`(?s)another operator is changing the device: \S+@\S+ \(csig apply of plan \S+\) on hw1 since`)
	for _, args := range [][]string{{"apply", back, "--journal", filepath.Join(o.dir, "bob.journal")}} {
		if out := exits(t, 1, o.elsewhere(args...)); !busy.MatchString(out) {
			t.Errorf("another operator's csig %s:\n%s", args[0], out)
		}
	}
	socket := filepath.Join(o.dir, "hw1.sock")
	_ = ann.Process.Signal(syscall.SIGKILL)
	_ = ann.Wait()
	pid, err := strconv.Atoi(strings.TrimSpace(string(sleeper)))
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL) // the check, which outlives it
	id := regexp.MustCompile(`Journal for all operators: ([0-9a-f]{16})`).FindStringSubmatch(out.String())
	if id == nil {
		t.Fatalf("it names no journal:\n%s", out.String())
	}
	if list := exits(t, 0, o.elsewhere("journals", "--socket", socket)); !strings.Contains(list, id[1]) || !strings.Contains(list, "csig apply of plan") {
		t.Errorf("the journals:\n%s", list)
	}
	fetched := filepath.Join(o.dir, "fetched.journal")
	exits(t, 0, o.elsewhere("journals", "--socket", socket, id[1], "-o", fetched))
	own, err := os.ReadFile(plan + ".journal")
	if got, e := os.ReadFile(fetched); err != nil || e != nil || string(got) != string(own) {
		t.Errorf("fetched %d bytes, the file has %d (%v, %v)", len(got), len(own), err, e)
	}
	if out := exits(t, 1, o.elsewhere("rollback", fetched)); !busy.MatchString(out) { // it may be that the other only hangs
		t.Errorf("a rollback right after the kill:\n%s", out)
	}
	exits(t, 0, o.host.Command(csig, "rollback", fetched)) // the same operator's
	if out := exits(t, 1, o.host.Command(csig, "apply", "--resume", plan+".journal")); !strings.Contains(out, "another operator continued it") {
		t.Errorf("the journal that was left behind:\n%s", out)
	}
}
