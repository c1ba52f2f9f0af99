package sonic

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/protocol/sonicmq"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// appResponses is where p4rt_app, and no other program of SONiC, waits for answers about
// VRFs: since 202605 those to P4RT_TABLE are on its own connection, which does not show
// (sonic-pins p4rt_app/p4rt.cc, CreateVrfTable).
const appResponses = "APPL_DB_VRF_TABLE_RESPONSE_CHANNEL"

// overMQ reports whether rows go over ZeroMQ.
func (t *orchSession) overMQ() bool {
	if t == nil {
		return false
	}
	_, is := t.wire.(mqWire)
	return is
}

// findMQ opens the ZeroMQ socket of an orchagent that takes PORT_TABLE and not P4RT_TABLE
// from Redis. One that restarts warm finds its ports made, and makes its P4Orch after other
// parts: so it is looked for, and P4RT_TABLE's subscriber, too, for as long as an answer may take.
// Then both are nil where it does not run any more.
func (d *Driver) findMQ(ctx context.Context) (*sonicmq.Conn, orchState, error) {
	for end := time.Now().Add(d.cfg.Patience); ; {
		mq, err := d.openMQ(ctx)
		if err == nil {
			o, err := d.orchagent(ctx)
			return mq, o, err
		}
		if again := errors.Is(err, errNoMQ) && !errors.Is(err, fs.ErrPermission); !again || !time.Now().Before(end) {
			return nil, orchState{}, err
		}
		if err := vendors.Wait(ctx, orchPause); err != nil {
			return nil, orchState{}, err
		}
		if o, err := d.orchagent(ctx); err != nil || !o.onlyPorts() || !o.ready {
			return nil, o, err
		}
	}
}

var errNoMQ = errors.New("its orchagent does not take P4RT_TABLE from Redis, as SONiC 202205 to 202511 do, and its ZeroMQ socket, which it has since 202605, for root alone, cannot be opened (run csig agent as root on the switch, or give management: ssh: sudo)")

// openMQ opens orchagent's ZeroMQ socket. The length of its words is the switch's: csig
// sends nothing before Redis has said that it is of 64 bits.
func (d *Driver) openMQ(ctx context.Context) (*sonicmq.Conn, error) {
	bits, err := d.archBits(ctx)
	if err != nil {
		return nil, err
	}
	if bits != "64" {
		return nil, &vendors.PermanentError{Err: fmt.Errorf("the switch's Redis reports arch_bits %q (INFO server): orchagent's ZeroMQ messages have lengths of the machine's word, and csig has those of 64 bits alone", bits)}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d.cfg.Patience, fmt.Errorf("%w: its ZeroMQ socket %s is open, and says nothing", ErrSilent, d.cfg.Endpoint))
	defer cancel()
	conn, err := d.db.Dial(ctx, "unix", d.cfg.Endpoint)
	if err != nil {
		err = fmt.Errorf("%w: %w; where there is none, the image has no P4Orch, and csig cannot drive it", errNoMQ, err)
		if answered := errors.As(err, new(syscall.Errno)) || ssh.Refused(err); answered {
			return nil, &vendors.PermanentError{Err: err}
		}
		return nil, err
	}
	mq, err := sonicmq.Open(ctx, conn)
	if errors.Is(err, sonicmq.ErrProtocol) {
		err = &vendors.PermanentError{Err: fmt.Errorf("%s: %w: csig knows P4Orch of SONiC 202605", d.cfg.Endpoint, err)}
	} else if err != nil {
		err = fmt.Errorf("%s: %w", d.cfg.Endpoint, err)
	}
	return mq, err
}

// archBits is the length of a word, by Redis, which is of the same image; "" where it does
// not say.
func (d *Driver) archBits(ctx context.Context) (string, error) {
	answers, err := d.db.All(ctx, []string{sonicdb.Appl, "INFO", "server"})
	if err != nil {
		return "", err
	}
	text, _ := redis.String(answers[0], nil)
	for line := range strings.Lines(text) {
		if bits, ok := strings.CutPrefix(line, "arch_bits:"); ok {
			return untrusted.Text(strings.TrimSpace(bits), 8), nil
		}
	}
	return "", nil
}

// fenceKey is of a table that P4Orch does not have: it refuses to delete that, and nothing
// changes (sonic-swss orchagent/p4orch/p4orch.cpp, doTask: "Failed to find P4Orch Manager").
const fenceKey = "ACL_CSIG_NO_TABLE:{}"

// fence returns when P4Orch has nothing left of a connection that csig lost: what was sent
// there is carried out later (libzmq keeps what it has received). A REP socket takes from its
// connections in turn, one message each: of two messages here, it has taken that one before
// the second.
func (d *Driver) fence(ctx context.Context) error {
	for range 2 {
		c := &chain{ops: []rowOp{{key: fenceKey}}}
		if err := d.session.run(ctx, []*chain{c}, 1); err != nil {
			return err
		}
		if c.unknown {
			return c.err
		}
	}
	return nil
}
