package sonic

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vlanrules"
)

// lagLab is a lab of a few ports.
type lagLab struct {
	*lab
	ports []string
}

func newLagLab(t *testing.T, release sonictest.Release, ports ...string) *lagLab {
	l := &lagLab{lab: newLab(t, release, ports...), ports: ports}
	l.loose = true
	return l
}

func (l *lagLab) setup() vendors.Setup { return setupOf(quantize.Draft00, l.ports...) }

// configured wants these TPIDs in CONFIG_DB.
func (l *lagLab) configured(want map[string]string) {
	l.t.Helper()
	for name, tpid := range want {
		if got := l.sw.Redis.Hash(4, carrierKey(name))["tpid"]; got != tpid {
			l.t.Errorf("%s: TPID %q in CONFIG_DB, want %q", name, got, tpid)
		}
	}
}

// refused wants an error of exactly these ports, each with these words, and no
// entries of theirs.
func (l *lagLab) refused(err error, words string, ports ...string) {
	l.t.Helper()
	got := portErrors(err)
	if len(got) != len(ports) || err != nil && len(got) == 0 {
		l.t.Fatalf("%v, want errors of %v; refused %v", err, ports, l.sw.Refusals())
	}
	for _, p := range ports {
		if got[p] == nil || !strings.Contains(got[p].Error(), words) {
			l.t.Errorf("%s: %v, want %q", p, got[p], words)
		}
		if _, n := l.sw.Entries(p); n != 0 {
			l.t.Errorf("%s: %d entries", p, n)
		}
	}
}

// cycle has every port write its own values once it is time to look again; left
// out are those that are refused.
func (l *lagLab) cycle(left ...string) error {
	l.t.Helper()
	var us []vendors.PortUpdate
	for i, p := range l.ports {
		us = append(us, vendors.PortUpdate{Port: p, Intents: intents(uint16(5+i), uint8(21+i), 10, 11)})
	}
	l.sw.Settle()
	l.now = map[string][]vlanrules.Intent{}
	for _, u := range us {
		if !slices.Contains(left, u.Port) {
			l.now[u.Port] = u.Intents
		}
	}
	l.elapse(recheck)
	_, err := l.Update(l.t.Context(), us, time.Second)
	l.exact()
	l.clean()
	return err
}

// TestAggregate: members have entries of their own, and their aggregate the TPID,
// which it gets and gives back as a port does.
func TestAggregate(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		l := newLagLab(t, release, "Ethernet0", "Ethernet4", "Ethernet8")
		l.sw.Join("PortChannel7", "Ethernet0", "Ethernet4")
		if err := l.Apply(t.Context(), l.setup()); err != nil {
			t.Fatal(err)
		}
		l.configured(map[string]string{"PortChannel7": "0x88a8", "Ethernet0": "", "Ethernet4": "", "Ethernet8": "0x88a8"})
		l.refused(l.cycle(), "")
		if have, err := l.Observe(t.Context()); err != nil || have.Damaged != "" || have.Ports[0].Damaged != "" {
			t.Errorf("%+v, %v", have, err)
		}

		// Another process changes it, and it is restored.
		l.sw.Redis.Do(4, "HSET", "PORTCHANNEL|PortChannel7", "tpid", "0x9100")
		if have, err := l.Observe(t.Context()); err != nil || !strings.Contains(have.Ports[1].Damaged, "the TPID of PortChannel7 in CONFIG_DB is 0x9100") {
			t.Errorf("%+v, %v", have, err)
		}
		l.refused(l.cycle(), "")
		l.configured(map[string]string{"PortChannel7": "0x88a8"})

		// One leaves: SAI has given it the default, and it gets a TPID of its own.
		l.sw.Leave("PortChannel7", "Ethernet4")
		l.refused(l.cycle(), "")
		l.configured(map[string]string{"PortChannel7": "0x88a8", "Ethernet0": "", "Ethernet4": "0x88a8"})
		// The last one does: the aggregate gets its own back.
		l.sw.Leave("PortChannel7", "Ethernet0")
		l.refused(l.cycle(), "")
		l.configured(map[string]string{"PortChannel7": "0x8100", "Ethernet0": "0x88a8"})

		// From the beginning, with what the aggregate had before.
		if err := l.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.sw.Redis.Do(4, "HSET", "PORTCHANNEL|PortChannel7", "tpid", "0x9200")
		l.sw.Join("PortChannel7", "Ethernet0", "Ethernet4")
		if err := l.Apply(t.Context(), l.setup()); err != nil {
			t.Fatal(err)
		}
		l.refused(l.cycle(), "")
		if err := l.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.configured(map[string]string{"PortChannel7": "0x9200", "Ethernet0": "0x8100", "Ethernet8": "0x8100"})
		if keys := l.sw.Redis.Keys(6, "*CSIG*"); len(keys) > 0 {
			t.Errorf("left in STATE_DB: %v", keys)
		}
	})
}

// TestAggregateInPart: an aggregate of which csig has not all members is refused
// by name before anything of it changes, which a plan says, too; where a member
// is added later, the others stay as they are.
func TestAggregateInPart(t *testing.T) {
	t.Parallel()
	l := newLagLab(t, sonictest.R202311, "Ethernet0", "Ethernet4", "Ethernet8")
	l.sw.Redis.Do(4, "HSET", "PORT|Ethernet12", "admin_status", "up")
	l.sw.Join("PortChannel7", "Ethernet0", "Ethernet4", "Ethernet12")
	const words = "frames of PortChannel7 also leave by Ethernet12"
	have, err := l.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	changes, err := l.Diff(have, l.setup())
	if err != nil || len(changes) != 4 || !strings.Contains(changes[2].Detail, words) || strings.Contains(changes[3].Detail, words) {
		t.Errorf("%+v, %v", changes, err)
	}
	l.refused(l.Apply(t.Context(), l.setup()), words, "Ethernet0", "Ethernet4")
	l.configured(map[string]string{"PortChannel7": "", "Ethernet0": "", "Ethernet8": "0x88a8"})
	l.refused(l.cycle("Ethernet0", "Ethernet4"), words, "Ethernet0", "Ethernet4")

	l.sw.Leave("PortChannel7", "Ethernet12")
	l.refused(l.cycle(), "")
	l.configured(map[string]string{"PortChannel7": "0x88a8"})

	l.sw.Join("PortChannel7", "Ethernet12")
	l.refused(l.cycle(), "")
	if have, err = l.Observe(t.Context()); err != nil || !strings.Contains(have.Ports[0].Damaged, words) || have.Ports[2].Damaged != "" {
		t.Errorf("%+v, %v", have, err)
	}
	l.sw.Redis.Do(4, "HSET", "PORTCHANNEL|PortChannel7", "tpid", "0x9100")
	l.refused(l.cycle(), "")
	l.configured(map[string]string{"PortChannel7": "0x88a8"})
	l.open() // nor does a csig that was started again take anything away
	if err := l.Apply(t.Context(), l.setup()); err != nil {
		t.Fatal(err)
	}
	l.refused(l.cycle(), "")
}

// TestAggregateJoined: of a port that joins an aggregate with a TPID of its own it
// is not known what the ASIC makes of it. It loses its entries until it leaves.
func TestAggregateJoined(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		l := newLagLab(t, release, "Ethernet0", "Ethernet4", "Ethernet8")
		l.sw.Join("PortChannel7", "Ethernet0")
		if err := l.Apply(t.Context(), l.setup()); err != nil {
			t.Fatal(err)
		}
		l.refused(l.cycle(), "")
		l.sw.Join("PortChannel7", "Ethernet8")
		for range 2 {
			l.refused(l.cycle("Ethernet8"), "TPID of its own", "Ethernet8")
			l.configured(map[string]string{"PortChannel7": "0x88a8", "Ethernet8": "0x8100"})
		}
		l.sw.Leave("PortChannel7", "Ethernet8")
		l.refused(l.cycle(), "")
		l.configured(map[string]string{"Ethernet8": "0x88a8"})

		// The way that docs/sonic.md tells.
		two := l.setup()
		two.Ports = two.Ports[:2]
		if err := l.Apply(t.Context(), two); err != nil {
			t.Fatal(err)
		}
		l.configured(map[string]string{"Ethernet8": "0x8100"})
		l.sw.Join("PortChannel7", "Ethernet8")
		if err := l.Apply(t.Context(), l.setup()); err != nil {
			t.Fatal(err)
		}
		l.refused(l.cycle(), "")
		l.configured(map[string]string{"PortChannel7": "0x88a8", "Ethernet8": "0x8100"})
	})
}

// TestAggregateFixed: a SAI that cannot change an aggregate's TPID, and a switch
// whose teammgrd is not there.
func TestAggregateFixed(t *testing.T) {
	t.Parallel()
	l := newLagLab(t, sonictest.R202405, "Ethernet0", "Ethernet4")
	l.sw.Redis.Do(6, "HSET", switchCapability, "LAG_TPID_CAPABLE", "false")
	l.sw.Join("PortChannel7", "Ethernet0")
	f, err := l.Probe(t.Context())
	if notes := strings.Join(f.Notes, "\n"); err != nil || !strings.Contains(notes, "PortChannel7 (Ethernet0)") || !strings.Contains(notes, "LAG_TPID_CAPABLE") {
		t.Errorf("%s, %v", notes, err)
	}
	l.refused(l.Apply(t.Context(), l.setup()), "LAG_TPID_CAPABLE", "Ethernet0")
	l.configured(map[string]string{"PortChannel7": "", "Ethernet4": "0x88a8"})
	l.refused(l.cycle("Ethernet0"), "LAG_TPID_CAPABLE", "Ethernet0")

	l = newLagLab(t, sonictest.R202405, "Ethernet0")
	l.sw.NoTeammgrd = true
	l.sw.Join("PortChannel7", "Ethernet0")
	if err := l.listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.cfg.Patience = 100 * time.Millisecond // with teammgrd alone: orchagent has the session's
	err = l.Apply(t.Context(), l.setup())
	var pe *vendors.PortError
	if got := portErrors(err); len(got) != 1 || !errors.As(err, &pe) || pe.Port != "Ethernet0" || !strings.Contains(err.Error(), "is teammgrd running?") {
		t.Errorf("%v", err)
	}
}

// TestAggregateRandom goes through random joins, leaves and restarts: after each,
// a port either writes what it is told, for the TPID that its ASIC takes, or it is
// refused by name and has no entries.
func TestAggregateRandom(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		l := newLagLab(t, release, "Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12")
		lags := []string{"PortChannel1", "PortChannel2"}
		in := map[string]string{}
		rnd := rand.New(rand.NewPCG(3, uint64(release)))
		if err := l.Apply(t.Context(), l.setup()); err != nil {
			t.Fatal(err)
		}
		for range sized(t, 4, 20) {
			p := l.ports[rnd.IntN(len(l.ports))]
			switch lag := in[p]; {
			case lag != "":
				l.sw.Leave(lag, p)
				delete(in, p)
			case rnd.IntN(3) > 0:
				lag := lags[rnd.IntN(2)]
				// As SONiC's command line has it, or not.
				if rnd.IntN(3) > 0 {
					l.open()
					s := l.setup()
					s.Ports = slices.DeleteFunc(s.Ports, func(ps vendors.PortSetup) bool { return ps.Port == p })
					if err := l.Apply(t.Context(), s); len(portErrors(err)) == 0 && err != nil {
						t.Fatal(err)
					}
				}
				l.sw.Join(lag, p)
				in[p] = lag
			default:
				l.sw.Restart()
				l.elapse(recheck)
			}
			err := l.Apply(t.Context(), l.setup())
			left := portErrors(err)
			if err != nil && len(left) == 0 {
				t.Fatalf("%v; refused %v", err, l.sw.Refusals())
			}
			var names []string
			for name := range left {
				if in[name] == "" {
					t.Fatalf("%s is no member: %v", name, left[name])
				}
				names = append(names, name)
			}
			l.refused(l.cycle(names...), "it became a member of", names...)
		}
	})
}
