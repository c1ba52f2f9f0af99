package offer

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Format is the Format of an Offer.
const Format = "csig.signals/v2"

// Sockets are where csig host run offers signals unless its --socket is another: the unit csig-host, and one that was started by hand.
var Sockets = [...]string{"/run/csig-host/host-signals.sock", "/run/csig/host-signals.sock"}

// SocketOf is where it does so with a --socket.
func SocketOf(socket string) string { return strings.TrimSuffix(socket, ".sock") + "-signals.sock" }

// TPID is that of all tags.
const TPID = 0x88a8

// What programs ask for, and read (hosts/tcp/udp.h).
const (
	Mark     = 0xc5160000 // of SO_RCVMARK, beside the 16 bits of a tag behind its TPID
	MarkMask = 0xffff0000
)

// Priority is the SO_PRIORITY of who asks for T: odd ones, as the even ones are those of IP_TOS, by which many programs mark
// their datagrams. That of T 3, 7, takes CAP_NET_ADMIN.
func Priority(t int) int { return 1 + 2*t }

// Offer is what a program has to know to read the maps.
type Offer struct {
	Format string `json:"format"`
	Layout string `json:"layout"`    // of tags: draft-00 or uec
	Mesh   uint16 `json:"mesh_port"` // of UDP, whose probes may have tags; 0: there is no mesh

	// Where the readings are in the values of both maps: each 24 bytes, the monotonic time in ns (8, 0: none), the moving
	// average (8), the tag behind its TPID (2) and whether there is an average (1), in the machine's order; by T. The maps' files are there both or not at all.
	Flows     Flows     `json:"flows"`
	Datagrams Datagrams `json:"datagrams"`
	Files     string    `json:"files"` // why there are none; "" where there are
}

// Flows is the map of connections, whose key is a socket of the process that asks (4 bytes).
type Flows struct {
	Size     int `json:"size"` // of a value, in bytes
	Received int `json:"received"`
	Learned  int `json:"learned"`
}

// Datagrams is the map of UDP's flows: its key has the remote address and the local one (16 bytes each, IPv4 mapped), and the
// ports in the machine's order, the remote one first (2 each).
type Datagrams struct {
	Size     int `json:"size"`
	Received int `json:"received"`
}

// Tag is the tag that a datagram came with, behind its TPID, by the control messages of a socket with SO_RCVMARK.
func Tag(control []byte) (tci uint16, ok bool) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0, false
	}
	for i := range messages {
		m := &messages[i]
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_MARK && len(m.Data) >= 4 {
			mark := binary.NativeEndian.Uint32(m.Data)
			return uint16(mark), mark&MarkMask == Mark
		}
	}
	return 0, false
}

// Readings is how many T a value has readings of.
const Readings = 4

// longest bounds a message.
const longest = 4096

// Server offers signals.
type Server struct {
	listener *net.UnixListener

	mu    sync.Mutex
	offer *Offer // nil: nothing is offered now
	files []*os.File
	open  map[*net.UnixConn]uint32 // by user
	done  bool
}

// Bounds of connections.
const (
	mostOpen   = 1024
	mostOfUser = 64
)

// Listen offers nothing yet. The socket's name is the caller's alone: what is left there is removed.
func Listen(socket string) (*Server, error) {
	if fi, err := os.Lstat(socket); err == nil && fi.Mode().Type() == os.ModeSocket {
		if err := os.Remove(socket); err != nil {
			return nil, fmt.Errorf("socket %s: %w", socket, err)
		}
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", socket, err)
	}
	if err := os.Chmod(socket, 0o666); err != nil {
		return nil, errors.Join(fmt.Errorf("socket %s: %w", socket, err), l.Close())
	}
	return &Server{listener: l, open: make(map[*net.UnixConn]uint32)}, nil
}

// Serve answers until Close.
func (s *Server) Serve() {
	for {
		c, err := s.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(100 * time.Millisecond) // no more files may be opened for a while
			continue
		}
		if !s.greet(c) {
			c.Close()
		}
	}
}

func (s *Server) greet(c *net.UnixConn) bool {
	user, err := userOf(c)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	of := 0
	for _, u := range s.open {
		if u == user {
			of++
		}
	}
	if s.offer == nil || s.done || len(s.open) >= mostOpen || of >= mostOfUser {
		return false
	}
	text, err := json.Marshal(s.offer)
	if err != nil {
		return false
	}
	var rights []byte
	if len(s.files) > 0 {
		fds := make([]int, len(s.files))
		for i, f := range s.files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	if _, _, err := c.WriteMsgUnix(text, rights, nil); err != nil {
		return false
	}
	s.open[c] = user
	go func() { // it sends nothing: an end, or what ends it
		_, _ = c.Read(make([]byte, 1))
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, c)
		c.Close()
	}()
	return true
}

func userOf(c *net.UnixConn) (uint32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil || failed != nil {
		return 0, errors.Join(err, failed)
	}
	return cred.Uid, nil
}

// Offer replaces what is offered, nil by nothing, and ends the connections of who has the former.
func (s *Server) Offer(o *Offer, files []*os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		_ = f.Close()
	}
	s.offer, s.files = o, files
	for c := range s.open {
		_ = c.CloseRead() // its goroutine does the rest
	}
}

// Close ends it.
func (s *Server) Close() error {
	s.Offer(nil, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = true
	return s.listener.Close()
}

// Client has an offer.
type Client struct {
	Offer
	Maps  []*os.File // connections', datagrams'; none where Files says why
	conn  *net.UnixConn
	ended chan struct{}
}

// Ask asks for the offer at a socket; "" is the first of Sockets that is there.
func Ask(socket string) (*Client, error) {
	if socket == "" {
		for _, socket = range Sockets {
			if _, err := os.Stat(socket); err == nil {
				break
			}
		}
	}
	c, err := net.DialTimeout("unixpacket", socket, time.Second)
	if err != nil {
		return nil, fmt.Errorf("csig host run does not answer at %s: %w", socket, err)
	}
	k := &Client{conn: c.(*net.UnixConn), ended: make(chan struct{})}
	if err := k.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("socket %s: %w", socket, err), k.conn.Close())
	}
	go func() {
		_, _ = k.conn.Read(make([]byte, 1))
		close(k.ended)
	}()
	return k, nil
}

func (k *Client) read() error {
	_ = k.conn.SetReadDeadline(time.Now().Add(2 * time.Second))
	b, oob := make([]byte, longest), make([]byte, unix.CmsgSpace(2*4))
	n, on, flags, _, err := k.conn.ReadMsgUnix(b, oob)
	if err != nil {
		return fmt.Errorf("csig host run offers nothing now: its programs are at no interface, or it has too many readers (%w)", err)
	}
	_ = k.conn.SetReadDeadline(time.Time{})
	messages, err := unix.ParseSocketControlMessage(oob[:on])
	if err != nil {
		return err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			k.Maps = append(k.Maps, os.NewFile(uintptr(fd), "map"))
		}
	}
	err = json.Unmarshal(b[:n], &k.Offer)
	switch {
	case err != nil || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || k.Format != Format:
		err = errors.New("what answers there is not csig host run of this version")
	case k.Files == "" && len(k.Maps) != 2:
		err = errors.New("csig host run hands over no maps: this process may have too many files open")
	}
	if err != nil {
		k.closeMaps()
	}
	return err
}

func (k *Client) closeMaps() {
	for _, f := range k.Maps {
		_ = f.Close()
	}
	k.Maps = nil
}

// Ended is closed when what was offered holds no more.
func (k *Client) Ended() <-chan struct{} { return k.ended }

// Close gives it back.
func (k *Client) Close() error {
	k.closeMaps()
	return k.conn.Close()
}
