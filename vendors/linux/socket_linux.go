package linux

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/vendors/linux/netdev"
)

// socket are the netlink sockets to nftables.
type socket struct {
	conn *netlink.Conn // of requests
	fd   int           // of transactions: a cycle writes one and reads its answer, without allocating
	seq  uint32
	max  int // bytes of the longest transaction the kernel takes at once

	// An answer was lost, or may still come: what is read next may belong to
	// another question. Only a new socket is sure.
	broken bool

	answer       []byte
	firstProblem error

	rules map[string]readAs // of the last read, by the kernel's bytes
}

// wantBuffers is asked for on both sides of the socket: a setup of 512 ports
// is about 2.5 MB. Without privileges the kernel gives less, and transactions
// are cut between ports.
const wantBuffers = 8 << 20

// answerLimit is how many seconds the kernel may take to answer a transaction; it
// answers before the write returns, so this only guards against a bug.
const answerLimit = 10

func dial(netns int) (*socket, error) {
	s := &socket{fd: -1, answer: make([]byte, 64<<10)}
	var err error
	if s.conn, err = netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: netns}); err != nil {
		return nil, fmt.Errorf("open a netlink socket to nftables: %w", err)
	}
	if err := netdev.NS(netns).Do(s.open); err != nil {
		return nil, errors.Join(fmt.Errorf("open a netlink socket to nftables: %w", err), s.close())
	}
	return s, nil
}

// open opens the socket of transactions.
func (s *socket) open() (err error) {
	if s.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER); err != nil {
		return err
	}
	err = errors.Join(
		unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, wantBuffers),
		unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, wantBuffers),
		unix.SetsockoptInt(s.fd, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK, 1),
		unix.SetsockoptInt(s.fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1),
		unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: answerLimit}),
	)
	if err != nil {
		return err
	}
	// Beyond the limits for all, where that is permitted.
	_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, wantBuffers)
	_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, wantBuffers)
	buffer, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	s.max = buffer - 4096 // the kernel keeps 32 bytes back, and the batch's end has to fit too
	return err
}

// reconnect replaces a broken socket.
func (s *socket) reconnect(netns int) error {
	if !s.broken {
		return nil
	}
	fresh, err := dial(netns)
	if err != nil {
		return err
	}
	_ = s.close() // nothing of it is of use
	fresh.seq, fresh.rules = s.seq, s.rules
	*s = *fresh
	return nil
}

// commit sends a finished batch and waits for the kernel's answer. The error
// is the first one the kernel gave, with errno to be found by errors.Is.
func (s *socket) commit(b *batch) error {
	if b.err != nil {
		return b.err
	}
	s.seq, s.broken = b.seq, true // until the answer is complete
	if _, err := again(s.fd, b.b, unix.Write); err != nil {
		return fmt.Errorf("nftables transaction of %d bytes: %w", len(b.b), err)
	}
	first, last := b.firstSeq(), b.lastSeq()
	s.firstProblem = nil
	for done := false; !done; {
		n, err := again(s.fd, s.answer, unix.Read)
		if err != nil {
			return fmt.Errorf("answer to an nftables transaction: %w", err)
		}
		done = s.answers(b, s.answer[:n], first, last)
	}
	s.broken = false
	return s.firstProblem
}

// again is a call that a signal does not interrupt.
func again(fd int, p []byte, call func(int, []byte) (int, error)) (int, error) {
	for {
		n, err := call(fd, p)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// answers reads one datagram of the kernel; it reports whether the
// transaction's last answer was in it.
func (s *socket) answers(b *batch, p []byte, first, last uint32) bool {
	for len(p) >= nlmsgHeader+4 {
		size := int(binary.NativeEndian.Uint32(p))
		if size < nlmsgHeader+4 || size > len(p) {
			break
		}
		typ, seq := binary.NativeEndian.Uint16(p[4:]), binary.NativeEndian.Uint32(p[8:])
		if typ == unix.NLMSG_ERROR && seq >= first {
			errno := unix.Errno(-int32(binary.NativeEndian.Uint32(p[nlmsgHeader:])))
			if errno != 0 && s.firstProblem == nil {
				s.firstProblem = b.problem(seq, errno, p[:size])
			}
			// An error of the first message is one of the whole batch: a wrong
			// generation, missing rights. Nothing follows it.
			if seq == last || seq == first && errno != 0 {
				return true
			}
		}
		p = p[min(len(p), (size+3)&^3):]
	}
	return false
}

// firstSeq is the sequence number of the message that begins the batch.
func (b *batch) firstSeq() uint32 { return binary.NativeEndian.Uint32(b.b[8:]) }

// problem makes an error of the kernel's answer to message seq.
func (b *batch) problem(seq uint32, errno unix.Errno, answer []byte) error {
	what := "transaction"
	for _, l := range b.what {
		if l.seq <= seq {
			what = l.text
		}
	}
	// An nlmsgerr is the errno and the header of our message; what the kernel
	// has to say about it follows as attributes.
	if binary.NativeEndian.Uint16(answer[6:])&unix.NLM_F_ACK_TLVS != 0 && len(answer) > nlmsgHeader+4+nlmsgHeader {
		if ad, err := netlink.NewAttributeDecoder(answer[nlmsgHeader+4+nlmsgHeader:]); err == nil {
			for ad.Next() {
				if ad.Type() == unix.NLMSGERR_ATTR_MSG {
					return fmt.Errorf("nftables, %s: %w (%s)", what, errno, ad.String())
				}
			}
		}
	}
	return fmt.Errorf("nftables, %s: %w", what, errno)
}

// request makes a nftables request other than a transaction and returns the
// data of its answers, without the nfgenmsg header.
func (s *socket) request(typ, flags int, attrs []byte) ([]netlink.Message, error) {
	m := netlink.Message{
		Header: netlink.Header{
			Type:  netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | typ),
			Flags: netlink.Request | netlink.HeaderFlags(flags),
		},
		Data: append([]byte{netdevFamily, unix.NFNETLINK_V0, 0, 0}, attrs...),
	}
	answers, err := s.conn.Execute(m)
	if err != nil {
		return nil, err
	}
	for i := range answers {
		if len(answers[i].Data) < genmsgHeader {
			return nil, fmt.Errorf("answer of %d bytes to nftables request %d", len(answers[i].Data), typ)
		}
		answers[i].Data = answers[i].Data[genmsgHeader:]
	}
	return answers, nil
}

// generation is the ruleset's generation, which every transaction of anybody
// raises.
func (s *socket) generation() (uint32, error) {
	answers, err := s.request(unix.NFT_MSG_GETGEN, 0, nil)
	if err != nil {
		return 0, fmt.Errorf("read nftables' generation: %w", err)
	}
	for _, m := range answers {
		ad, err := netlink.NewAttributeDecoder(m.Data)
		if err != nil {
			return 0, fmt.Errorf("read nftables' generation: %w", err)
		}
		ad.ByteOrder = binary.BigEndian
		for ad.Next() {
			if ad.Type() == unix.NFTA_GEN_ID {
				return ad.Uint32(), nil
			}
		}
	}
	return 0, errors.New("read nftables' generation: the kernel's answer has none")
}

func (s *socket) close() error {
	err := s.conn.Close()
	if s.fd >= 0 {
		err = errors.Join(err, unix.Close(s.fd))
	}
	s.fd = -1
	return err
}
