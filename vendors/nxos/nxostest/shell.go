package nxostest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Errors of NX-OS's command line.
const (
	invalid    = "                      ^\n% Invalid command at '^' marker."
	incomplete = "% Incomplete command at '^' marker."
	noRange    = "% Invalid number, range is (1500-9216) at '^' marker."
)

// Modes.
const (
	exec   = ""
	config = "config"
	port   = "config-if"
	list   = "config-acl"
)

// shell is one login.
type shell struct {
	c    *Switch
	mode string
	name string // of the interface or access list
	page int
}

func (s *shell) Prompt() string {
	if s.mode == exec {
		return s.c.Name + "# "
	}
	return s.c.Name + "(" + s.mode + ")# "
}

func (s *shell) Page() (int, string) { return s.page, "--More--" }

// Do carries out one line.
func (s *shell) Do(line string) (string, bool) {
	w := strings.Fields(line)
	if len(w) == 0 {
		return "", false
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	before, hardware := s.c.running(), s.c.hardware()
	answer, end := s.do(w)
	if s.c.running() != before {
		s.c.changes++
	}
	if s.c.hardware() != hardware {
		s.c.changed()
	}
	return answer, end
}

func (c *Switch) hardware() string {
	text := ""
	for _, i := range c.ifaces {
		text += fmt.Sprintf("%s %04x %v %d;", i.name, i.hardware, i.vlans, i.native)
	}
	return text
}

func (s *shell) do(w []string) (string, bool) {
	text := strings.Join(w, " ")
	switch {
	case w[0] == "show":
		return s.show(text), false
	case text == "end":
		s.mode = exec
		return "", false
	case text == "exit" && s.mode == exec:
		return "", true
	case text == "exit" && s.mode == config:
		s.mode = exec
		return "", false
	case text == "exit":
		s.mode = config
		return "", false
	case s.mode == exec:
		return s.exec(w, text), false
	case s.c.Locked:
		return "ERROR: Rollback is in progress, configuration is locked", false
	}
	if answer := s.config(w); answer != invalid {
		return answer, false
	}
	switch s.mode {
	case port:
		return s.port(s.c.iface(s.name), w, text), false
	case list:
		return s.list(w, text), false
	}
	return invalid, false
}

func (s *shell) exec(w []string, text string) string {
	switch {
	case text == "configure terminal":
		s.mode = config
		return "Enter configuration commands, one per line. End with CNTL/Z."
	case text == "terminal length 0":
		s.page = 0
	case text == "terminal width 511":
	case text == "copy running-config startup-config":
		s.c.saves++
		return "[########################################] 100%\nCopy complete."
	default:
		return invalid
	}
	return ""
}

// config is what any mode of configuration takes.
func (s *shell) config(w []string) string {
	switch {
	case w[0] == "interface" && len(w) == 2:
		if s.c.iface(w[1]) == nil {
			return "% Invalid interface format at '^' marker."
		}
		s.mode, s.name = port, w[1]
	case len(w) == 3 && w[0] == "ip" && w[1] == "access-list":
		if s.c.lists[w[2]] == nil {
			s.c.lists[w[2]] = map[int]string{}
			s.c.order = append(s.c.order, w[2])
		}
		s.mode, s.name = list, w[2]
	case len(w) == 4 && w[0] == "no" && w[1] == "ip" && w[2] == "access-list":
		if s.c.lists[w[3]] == nil {
			return "ERROR: access list does not exist"
		}
		delete(s.c.lists, w[3])
		s.c.order = slices.DeleteFunc(s.c.order, func(name string) bool { return name == w[3] })
		s.mode = config
	default:
		return invalid
	}
	return ""
}

func (s *shell) port(i *iface, w []string, text string) string {
	switch {
	case strings.HasPrefix(text, "switchport dot1q ethertype"):
		if len(w) < 4 {
			return incomplete
		}
		tpid, ok := map[string]uint16{"0x8100": standard, "0x88a8": 0x88a8, "0x9100": 0x9100}[w[3]]
		if !ok || len(w) > 4 {
			return invalid
		}
		if i.routed {
			return "ERROR: " + i.name + ": Port is not a L2 port"
		}
		i.set(tpid)
	case text == "no switchport dot1q ethertype":
		i.set(standard)
	case text == "no switchport":
		i.routed = true
	case text == "no mtu":
		i.mtu = 1500
	case w[0] == "mtu" && len(w) == 2:
		n, err := strconv.Atoi(w[1])
		switch {
		case err != nil || n < 1500 || n > 9216:
			return noRange
		case !i.routed && n != 1500 && n != 9216:
			return "ERROR: " + i.name + ": MTU can only be default or system jumbo MTU for L2 interfaces"
		}
		i.mtu = n
	case w[0] == "description" && len(w) > 1:
		i.lines = append(i.lines, text)
	case w[0] == "channel-group" && len(w) == 4:
		i.channel = w[1]
	case strings.HasPrefix(text, "switchport trunk allowed vlan ") && len(w) == 5:
		var v VIDs
		if n, _ := fmt.Sscanf(w[4], "%d-%d", &v.First, &v.Last); n != 2 {
			return invalid
		}
		i.vlans = v
	default:
		return invalid
	}
	return ""
}

// set programs hardware where the configuration changes, and only there (CSCvw27705: the
// command has to be removed before it helps).
func (i *iface) set(tpid uint16) {
	if i.tpid != tpid {
		i.tpid, i.hardware = tpid, tpid
	}
}

func (s *shell) list(w []string, text string) string {
	lines := s.c.lists[s.name]
	if lines == nil { // another login has removed it since
		return invalid
	}
	seq, err := strconv.Atoi(w[0])
	switch {
	case len(w) == 2 && w[0] == "no":
		seq, err = strconv.Atoi(w[1])
		if err != nil || lines[seq] == "" {
			return "ERROR: sequence number does not exist"
		}
		delete(lines, seq)
	case err == nil && seq > 0 && len(w) > 2 && (w[1] == "remark" || w[1] == "permit"):
		rest := strings.TrimPrefix(text, w[0]+" ")
		if len(rest) > len("remark ")+100 {
			return invalid
		}
		if old := lines[seq]; old != "" && old != rest {
			return "ERROR: sequence number already exists"
		}
		lines[seq] = rest
	default:
		return invalid
	}
	return ""
}

func (s *shell) show(text string) string {
	switch text {
	case "show running-config interface":
		return s.c.interfaces()
	case "show running-config aclmgr":
		return s.c.aclmgr()
	case "show interface":
		return s.c.status()
	case "show version":
		return "Cisco Nexus Operating System (NX-OS) Software\nTAC support: http://www.cisco.com/tac\nCopyright (C) 2002-2019, Cisco and/or its affiliates.\nSoftware\n  BIOS: version 07.66\n NXOS: version 9.3(3)\n  NXOS image file is: bootflash:///nxos.9.3.3.bin\nHardware\n  cisco Nexus9000 C93180YC-FX Chassis \n  Intel(R) Xeon(R) CPU D-1526 @ 1.80GHz with 24571704 kB of memory.\n  Processor Board ID FDO00000AAA\n  Device name: " + s.c.Name + "\n  bootflash:   53298520 kB\nKernel uptime is " + s.c.uptime() + "\n"
	}
	return invalid
}

func (c *Switch) status() string {
	var b strings.Builder
	for _, i := range c.ifaces {
		mode, flapped, tpid := "trunk", "never", i.hardware
		if i.routed {
			mode = "routed"
		}
		if !i.flapped.IsZero() {
			flapped = span(time.Since(i.flapped))
		}
		if c.Hides {
			tpid = i.tpid
		}
		fmt.Fprintf(&b, "%s is up\nadmin state is up, Dedicated Interface\n  Hardware: 1000/10000/25000 Ethernet, address: 9077.ee01.bf07 (bia 9077.ee01.bf08)\n  MTU %d bytes, BW 10000000 Kbit , DLY 10 usec\n  reliability 255/255, txload 1/255, rxload 1/255\n  Encapsulation ARPA, medium is broadcast\n  Port mode is %s\n  full-duplex, 10 Gb/s, media type is 10G\n  Switchport monitor is off \n  EtherType is 0x%04x \n  EEE (efficient-ethernet) : n/a\n  Last link flapped %s\n  Last clearing of \"show interface\" counters never\n  RX\n    4 unicast packets  0 multicast packets  0 broadcast packets\n\n", i.name, i.mtu, mode, tpid, flapped)
	}
	return b.String()
}

// span is a time as NX-OS prints it.
func span(d time.Duration) string {
	if days := int(d.Hours() / 24); days > 0 {
		return fmt.Sprintf("%dweek(s) %dday(s)", days/7, days%7)
	}
	d = d.Round(time.Second)
	return fmt.Sprintf("%02d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}
