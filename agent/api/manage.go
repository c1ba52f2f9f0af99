package api

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// Paths of a daemon's socket that read its device as a whole and change its
// configuration. They take a Described for a daemon that has no configuration yet:
// ?platform=NAME or ?device=FILE.
const (
	FactsPath  = "/v1/facts"  // GET: one Facts
	SetupPath  = "/v1/setup"  // GET: one Setup
	HealthPath = "/v1/health" // GET: one Health
	MTUPath    = "/v1/mtu"    // GET: one MTUs; PUT: one MTUs with the ports to set
	ConfigPath = "/v1/config" // GET: one Config; PUT: a fleet file with exactly one local device; DELETE: everything of csig is removed
)

// Formats of the answers.
const (
	FactsFormat  = "csig.facts/v1"
	SetupFormat  = "csig.setup/v1"
	HealthFormat = "csig.health/v1"
	MTUFormat    = "csig.mtu/v1"
	ConfigFormat = "csig.config/v1"
	ErrorFormat  = "csig.error/v1"
)

// What a request's body may have, in bytes: the fleet file of one device, the
// MTUs of its ports.
const (
	maxConfig = 2 << 20
	maxMTUs   = 1 << 20
)

// argument is one of a request's query, and never of its body.
func argument(r *http.Request, name string) string { return r.URL.Query().Get(name) }

// Described is what a client says of the device to a daemon that has no configuration:
// nothing, or one of the two.
type Described struct {
	Platform string // the name of a known platform, never anything else: it leads to no secret
	File     string // a fleet file of the device alone: it may name addresses, secrets and programs
}

// described is the device that a request describes.
func described(r *http.Request) Described {
	return Described{Platform: argument(r, "platform"), File: argument(r, "device")}
}

// Setup is what a device has now. It names the configuration that the daemon
// runs, where it does.
type Setup struct {
	Format string        `json:"format"`
	Setup  vendors.Setup `json:"setup"`
}

// Config is a configuration that a daemon runs, or ran before.
type Config struct {
	Format string   `json:"format"`
	Hash   string   `json:"config_hash"`
	File   fileText `json:"config"` // a fleet file
}

// Health is the error and drop counters of a device's ports.
type Health struct {
	Format string               `json:"format"`
	Ports  []vendors.PortHealth `json:"ports"`
}

// MTUs is the MTU of ports, in bytes as the device counts them.
type MTUs struct {
	Format string    `json:"format"`
	Ports  []PortMTU `json:"ports"` // in the order of their names
}

// PortMTU is the MTU of one port.
type PortMTU struct {
	Port string `json:"port"`
	MTU  int    `json:"mtu"`
}

// Error is an answer other than success.
type Error struct {
	Format    string `json:"format"`
	Message   string `json:"error"`
	Permanent bool   `json:"permanent"` // a retry will fail, too
	Kind      string `json:"kind"`      // for programs: a Kind constant; "" for the rest
}

// Kinds of errors.
const (
	KindNotYet      = "not-yet"     // vendors.ErrNotYet
	KindUnsupported = "unsupported" // errors.ErrUnsupported
	KindReverted    = "reverted"    // vendors.ErrReverted
	KindForbidden   = "forbidden"   // fs.ErrPermission: the peer may read the status only
	KindLocked      = "locked"      // ErrLocked
	KindNoOwner     = "no_owner"    // ErrNoOwner
)

// kinds are the errors that the client maps back to Go errors.
var kinds = map[string]error{KindNotYet: vendors.ErrNotYet, KindUnsupported: errors.ErrUnsupported, KindReverted: vendors.ErrReverted, KindForbidden: fs.ErrPermission, KindLocked: ErrLocked, KindNoOwner: ErrNoOwner}

// kindError is an error of a kind that came as text.
type kindError struct {
	text string
	kind error
}

func (e *kindError) Error() string { return e.text }

func (e *kindError) Unwrap() error { return e.kind }

// Manager is what answers the paths above. A *vendors.PermanentError is a
// refusal: nothing has changed.
type Manager interface {
	Facts(ctx context.Context, device Described) (vendors.Facts, error)
	Setup(ctx context.Context, device Described) (vendors.Setup, error)
	Health(ctx context.Context, device Described) ([]vendors.PortHealth, error)

	// MTUs is the MTU of every port that the device reports; SetMTU sets that
	// of one.
	MTUs(ctx context.Context, device Described) (map[string]int, error)
	SetMTU(ctx context.Context, device Described, port string, mtu int) error

	// Config is the running configuration, or one kept from the history, by its
	// hash.
	Config(ctx context.Context, hash string) (string, error)

	// Configure puts a fleet file in force on the device, now and after a
	// restart. token is that of StartRevert, where it was called for this change;
	// the error wraps vendors.ErrReverted when the device has already reverted.
	// "" cancels a pending auto-revert.
	Configure(ctx context.Context, file []byte, token string) error

	// RemoveSetup removes everything of csig from the device, and the
	// configuration; idempotent. token is as for Configure.
	RemoveSetup(ctx context.Context, device Described, token string) error

	// The next three are as those of a vendors.AutoReverter.
	StartRevert(ctx context.Context, device Described, after time.Duration) (token string, err error)
	Confirm(ctx context.Context, token string) error
	PendingRevert(ctx context.Context) error

	// Admit takes the change lock for an operator, or keeps it, before each change. The error
	// wraps ErrLocked while another one has it. Leave frees it, where that session has it.
	Admit(ctx context.Context, op Operator) error
	Leave(ctx context.Context, session string) error

	// Links are tried at ports of the configuration that runs. The error
	// wraps vendors.ErrNotYet when it lacks the port, or the tag's TPID.
	vendors.LinkProber
}

// Manage lets the server answer the paths of a Manager, too. It is called
// before Serve.
func (s *Server) Manage(m Manager) {
	s.admit = m.Admit
	s.manageLock(m)
	s.manageLinks(m)
	s.manageRevert(m)
	s.mux.HandleFunc("GET "+FactsPath, s.opens(func(r *http.Request) (any, error) {
		f, err := m.Facts(r.Context(), described(r))
		return FactsOf(f), err
	}))
	s.mux.HandleFunc("GET "+SetupPath, s.opens(func(r *http.Request) (any, error) {
		setup, err := m.Setup(r.Context(), described(r))
		return Setup{SetupFormat, setup}, err
	}))
	s.mux.HandleFunc("GET "+HealthPath, s.opens(func(r *http.Request) (any, error) {
		list, err := m.Health(r.Context(), described(r))
		return Health{HealthFormat, listed(list)}, err
	}))
	s.mux.HandleFunc("GET "+MTUPath, s.opens(func(r *http.Request) (any, error) {
		mtus, err := m.MTUs(r.Context(), described(r))
		out := MTUs{MTUFormat, []PortMTU{}}
		for _, port := range slices.SortedFunc(maps.Keys(mtus), inventory.CompareNames) {
			out.Ports = append(out.Ports, PortMTU{port, mtus[port]})
		}
		return out, err
	}))
	s.mux.HandleFunc("PUT "+MTUPath, s.change(maxMTUs, func(r *http.Request, body []byte) (any, error) {
		var want MTUs
		if err := decode(body, "the MTUs", MTUFormat, &want, &want.Format); err != nil {
			return nil, err
		}
		for _, p := range want.Ports {
			if err := m.SetMTU(r.Context(), described(r), p.Port, p.MTU); err != nil {
				return nil, err
			}
		}
		return struct{}{}, nil
	}))
	s.mux.HandleFunc("GET "+ConfigPath, answer(func(r *http.Request) (any, error) {
		hash := argument(r, "hash")
		if !vendors.IsProfileHash(hash) {
			return nil, &vendors.PermanentError{Err: errors.New("which configuration: want ?hash= and 64 hexadecimal digits")}
		}
		text, err := m.Config(r.Context(), hash)
		return Config{ConfigFormat, hash, fileText(text)}, err
	}))
	s.mux.HandleFunc("PUT "+ConfigPath, s.change(maxConfig, func(r *http.Request, file []byte) (any, error) {
		return struct{}{}, m.Configure(r.Context(), file, argument(r, "mark"))
	}))
	s.mux.HandleFunc("DELETE "+ConfigPath, s.change(0, func(r *http.Request, _ []byte) (any, error) {
		return struct{}{}, m.RemoveSetup(r.Context(), described(r), argument(r, "mark"))
	}))
}

// answer writes one object, or the error.
func answer(f func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := f(r)
		if err != nil {
			WriteError(w, err)
			return
		}
		text, err := json.Marshal(v)
		if err != nil {
			WriteError(w, err)
			return
		}
		reply(w, http.StatusOK, append(text, '\n'))
	}
}

// change answers a request that changes something, with a body of at most most
// bytes. A client that has gone away, or whose deadline has passed, no longer wants
// it: the request may have waited while this process was stopped. The log gets one
// line before anything happens.
func (s *Server) change(most int64, f func(r *http.Request, body []byte) (any, error)) http.HandlerFunc {
	return answer(func(r *http.Request) (any, error) {
		body, err := s.body(r, most)
		if err != nil {
			return nil, err
		}
		if c := connOf(r); c != nil && hungUp(c.Conn) {
			return nil, &vendors.PermanentError{Err: errors.New("the client has gone away")}
		}
		if end, err := time.Parse(time.RFC3339Nano, r.Header.Get(DeadlineHeader)); err == nil && time.Now().After(end) {
			return nil, &vendors.PermanentError{Err: fmt.Errorf("the client waited until %s only: nothing was done", end.UTC().Format(time.RFC3339))}
		}
		op, err := operatorOf(r)
		if err == nil {
			err = s.admit(r.Context(), op)
		}
		if err != nil {
			return nil, err
		}
		if r.URL.Path != LockPath { // it is kept again and again
			s.note(r, "change requested", "sha256", fmt.Sprintf("%x", sha256.Sum256(body)))
		}
		return f(r, body)
	})
}

// opens answers a request that changes nothing and opens the device, with its secrets and the
// programs that fetch them. The log gets one line before that.
func (s *Server) opens(f func(r *http.Request) (any, error)) http.HandlerFunc {
	return answer(func(r *http.Request) (any, error) {
		s.note(r, "device read requested")
		return f(r)
	})
}

// body reads the body of a request, at most most bytes.
func (s *Server) body(r *http.Request, most int64) ([]byte, error) {
	body, err := untrusted.ReadAll(r.Body, most)
	if errors.Is(err, untrusted.ErrTooLong) {
		err = fmt.Errorf("request body too large: %d bytes at most", most)
	}
	if err != nil {
		return nil, &vendors.PermanentError{Err: fmt.Errorf("reading the request: %w", err)}
	}
	return body, nil
}

// decode reads a body of one of our formats.
func decode(body []byte, what, format string, v any, got *string) error {
	if err := json.Unmarshal(body, v); err != nil {
		return &vendors.PermanentError{Err: fmt.Errorf("reading %s: %w", what, err)}
	}
	if *got != format {
		return &vendors.PermanentError{Err: fmt.Errorf("%s in format %q: this daemon reads %q", what, untrusted.Text(*got, 40), format)}
	}
	return nil
}

// WriteError answers with an error.
func WriteError(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if permanent(err) {
		code = http.StatusUnprocessableEntity
	}
	writeErrorCode(w, code, err)
}

func permanent(err error) bool { return vendors.IsPermanent(err) }

func writeErrorCode(w http.ResponseWriter, code int, err error) {
	out := Error{Format: ErrorFormat, Message: err.Error(), Permanent: permanent(err)}
	for kind, is := range kinds {
		if errors.Is(err, is) {
			out.Kind = kind
		}
	}
	text, err := json.Marshal(out)
	if err != nil { // it is text and a bool
		panic(err)
	}
	reply(w, code, append(text, '\n'))
}
