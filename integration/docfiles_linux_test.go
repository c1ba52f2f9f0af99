package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
)

// onThisBox are the platforms whose devices a network namespace can be.
var onThisBox = map[string]bool{"linux": true, "linux-ebpf": true}

// minimalText is the shortest fleet file of one device: of an interval and of a platform.
const minimalText = `
format: csig.fleet/v1
profile: {name: minimal, tpid: 0x9900, interval: %v, signals: {abw: {buckets: log-10G}}}
devices:
  - {name: s1, platform: %s, local: true, ports: [{name: swp1, speed: 10G}]}
`

// fleetFiles are the fleet files that pages and examples show, by name, and minimal ones of each
// class of intervals.
func fleetFiles(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../README.md") {
		text := readFile(t, page)
		blocks := strings.Split(string(text), "```yaml")[1:]
		for i, block := range blocks {
			_, block, _ = strings.Cut(block, "\n") // a file's name may be behind "yaml"
			block, _, _ = strings.Cut(block, "```")
			name := fmt.Sprintf("%s %d", filepath.Base(page), i)
			switch {
			case strings.Contains(block, "\ninclude:"): // of files that the page does not show
			case strings.HasPrefix(block, "format: "+inventory.Format):
				out[name] = block
			case strings.HasPrefix(block, "profile:\n") && strings.Contains(block, "\ndevices:\n"): // the signals are on another page
				out[name] = "format: " + inventory.Format + "\n" + strings.Replace(block, "profile:\n", "profile:\n  name: lab\n  signals: {abw: {buckets: log-10G, quantum: 1Mbit/s}}\n", 1)
			}
		}
	}
	if len(out) < 2 {
		t.Errorf("%d fleet files on pages: this test checks next to nothing", len(out))
	}
	examples, err := filepath.Glob("../examples/*.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatalf("%d examples, %v", len(examples), err)
	}
	for _, file := range examples {
		out[filepath.Base(file)] = file
	}
	for interval := 100 * time.Microsecond; interval <= 10*time.Second; interval *= 10 {
		for platform := range onThisBox {
			if platform == "linux" && interval < inventory.MinPeriod {
				continue
			}
			out[fmt.Sprintf("minimal %v %s", interval, platform)] = fmt.Sprintf(minimalText, interval, platform)
		}
	}
	return out
}

// TestLongShownFilesStart starts an agent from every fleet file that a page or an example shows of a
// device that this machine can be: one that reading accepts and an agent refuses is none to copy.
func TestLongShownFilesStart(t *testing.T) {
	ebpf := mayLoad(t, "--native")
	started, few := 0, make(chan struct{}, 4)
	for name, text := range fleetFiles(t) {
		read := func() (*inventory.Fleet, error) { return inventory.Parse(name, []byte(text)) }
		if strings.HasPrefix(text, "../") {
			read = func() (*inventory.Fleet, error) { return inventory.Load(text) }
		}
		fleet, err := read()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i := range fleet.Devices {
			dev := &fleet.Devices[i]
			if !onThisBox[dev.Platform] || dev.Remote() || dev.Platform == "linux-ebpf" && !ebpf {
				continue
			}
			started++
			t.Run(name+" "+dev.Name, func(t *testing.T) {
				t.Parallel()
				few <- struct{}{}
				defer func() { <-few }()
				file, shown := filepath.Join(t.TempDir(), "fleet.yaml"), []byte(text)
				var err error
				switch {
				case len(fleet.Devices) > 1 || !dev.Local: // csig apply writes the file of such an agent
					shown, err = inventory.Marshal(fleet.DeviceView(dev))
				case strings.HasPrefix(text, "../"):
					shown, err = os.ReadFile(text)
				}
				if err == nil {
					err = os.WriteFile(file, shown, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				starts(t, dev, file)
			})
		}
	}
	if started < 12 {
		t.Errorf("%d agents started: this test checks next to nothing", started)
	}
}

// starts runs an agent on a host that has the device's ports, until its status has those that update.
func starts(t *testing.T, dev *inventory.Device, file string) {
	t.Helper()
	host := newHost(t, "s1")
	err := host.Do(func() (err error) {
		for i := range dev.Ports {
			l := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: dev.Ports[i].Name}, PeerName: "end" + strconv.Itoa(i)}
			err = errors.Join(err, netlink.LinkAdd(l), netlink.LinkSetUp(l))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(filepath.Dir(file), "agent.sock")
	cmd := host.Command(csig, "agent", "-i", file, "--socket", socket)
	cmd.Env = append(os.Environ(), "SNMP_COMMUNITY=public") // the secret that an example names
	a := launchIn(t, cmd, socket)
	a.await("its ports", func(s *api.Status) bool { return len(s.Ports) > 0 })
}
