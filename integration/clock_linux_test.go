package integration

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// clockSource is added to package time: its Now is beside the machine's time of day by as many
// seconds as the file has. A namespace has no time of day of its own, and the machine's is not a
// test's to set. Now may run where nothing may wait, so the file is read beside it.
const clockSource = `package time

import (
	"sync/atomic"
	"syscall"
)

var clockSet atomic.Int64

func init() {
	name, ok := syscall.Getenv("CSIG_TEST_CLOCK")
	if !ok {
		return
	}
	go func() {
		for ; ; Sleep(10 * Millisecond) {
			fd, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
			if err != nil {
				continue
			}
			var b [8]byte
			n, _ := syscall.Read(fd, b[:])
			syscall.Close(fd)
			by := int64(0)
			for i, v := range b {
				by |= int64(v) << (8 * i)
			}
			if n == len(b) {
				clockSet.Store(by)
			}
		}
	}()
}
`

// steppable builds csig-controller, its NATS server included, with a time of day that can be set
// (CSIG_TEST_CLOCK); its monotonic clock stays the machine's.
func steppable(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	own := readFile(t, filepath.Join(at, "time.go"))
	const reads = "sec, nsec, mono := runtimeNow()\n\tif mono == 0"
	if strings.Count(string(own), reads) != 1 {
		t.Fatal("time.Now of this Go reads the clock in another way: adapt this test")
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, text := range map[string]string{
		"time.go":      strings.Replace(string(own), reads, "sec, nsec, mono := runtimeNow()\n\tsec += clockSet.Load()\n\tif mono == 0", 1),
		"clock_set.go": clockSource,
	} {
		file := filepath.Join(dir, name)
		writeFile(t, file, []byte(text))
		overlay.Replace[filepath.Join(at, name)] = file
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list, out := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "csig-controller")
	writeFile(t, list, text)
	build := exec.Command("go", "build", "-overlay", list, "-o", out, "github.com/csig-agent/csig/cmd/csig-controller")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return out
}

// setClock sets the time of day of a controller, beside the machine's, to another than it has.
func (c *controllers) setClock(i int, by time.Duration) {
	c.t.Helper()
	file := c.clock(i)
	offset := func() []byte { return binary.LittleEndian.AppendUint64(nil, uint64(int64(by/time.Second))) }
	if has, _ := os.ReadFile(file); bytes.Equal(has, offset()) {
		by += time.Hour
	}
	err := os.WriteFile(file+".new", offset(), 0o600)
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// clock is the file that has it.
func (c *controllers) clock(i int) string { return filepath.Join(c.ops[i].dir, "clock") }
