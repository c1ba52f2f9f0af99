package sonicmq

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// The bits of a frame's first byte (ZMTP 3.0, spec/23, "Framing").
const (
	more    = 1 << 0 // another frame of the message follows
	long    = 1 << 1 // the length has 8 bytes, most significant first, and not one
	command = 1 << 2
)

// greetingSize is the bytes with which either side begins.
const greetingSize = 64

// greeting is csig's: version 3.0, mechanism NULL, no server.
func greeting() []byte {
	b := make([]byte, greetingSize)
	b[0], b[9], b[10] = 0xff, 0x7f, 3
	copy(b[12:32], "NULL")
	return b
}

// checkGreeting checks that of the peer.
func checkGreeting(b []byte) error {
	mechanism := string(bytes.TrimRight(b[12:32], "\x00"))
	switch {
	case b[0] != 0xff || b[9]&1 == 0:
		return fmt.Errorf("%w: it begins with another thing than ZMTP's greeting", ErrProtocol)
	case b[10] < 3:
		return fmt.Errorf("%w: it speaks ZMTP %d, and csig 3", ErrProtocol, b[10])
	case mechanism != "NULL":
		return fmt.Errorf("%w: it wants the security mechanism %q, and csig knows NULL alone", ErrProtocol, untrusted.Text(mechanism, 20))
	}
	return nil
}

// appendFrame appends a frame.
func appendFrame(b []byte, flags byte, body []byte) []byte {
	if len(body) > 255 {
		return append(binary.BigEndian.AppendUint64(append(b, flags|long), uint64(len(body))), body...)
	}
	return append(append(b, flags, byte(len(body))), body...)
}

// readFrame reads a frame of up to most bytes. What a header announces beyond that is
// an error before anything is allocated.
func readFrame(in io.Reader, most int) (flags byte, body []byte, err error) {
	var head [9]byte
	if _, err := io.ReadFull(in, head[:2]); err != nil {
		return 0, nil, err
	}
	flags = head[0]
	size := uint64(head[1])
	if flags&long != 0 {
		if _, err := io.ReadFull(in, head[2:]); err != nil {
			return 0, nil, noEOF(err)
		}
		size = binary.BigEndian.Uint64(head[1:])
	}
	switch {
	case flags&^(more|long|command) != 0 || flags&command != 0 && flags&more != 0:
		return 0, nil, fmt.Errorf("%w: a frame with the flags %#02x", ErrProtocol, flags)
	case size > uint64(most):
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes: %w, %d are taken", ErrProtocol, size, untrusted.ErrTooLong, most)
	}
	body = make([]byte, size)
	if _, err := io.ReadFull(in, body); err != nil {
		return 0, nil, noEOF(err)
	}
	return flags, body, nil
}

// noEOF is for an end in the middle.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// ready is the command READY of a socket of this type (spec/23, "The NULL Security
// Mechanism"; a REQ socket has an identity, too, and csig's is empty).
func ready(socketType string) []byte {
	b := append([]byte{5}, "READY"...)
	for _, p := range [][2]string{{"Socket-Type", socketType}, {"Identity", ""}} {
		b = append(append(b, byte(len(p[0]))), p[0]...)
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(p[1]))), p[1]...)
	}
	return b
}

// parseReady reads the type of the socket of a command READY.
func parseReady(b []byte) (socketType string, err error) {
	wrong := fmt.Errorf("%w: its READY cannot be read", ErrProtocol)
	name, b, ok := shortText(b)
	if ok && name == "ERROR" {
		reason, _, _ := shortText(b)
		return "", fmt.Errorf("orchagent's ZeroMQ socket refuses csig's: %q", untrusted.Text(reason, 128))
	}
	if !ok || name != "READY" {
		return "", wrong
	}
	for len(b) > 0 {
		var prop string
		if prop, b, ok = shortText(b); !ok || len(b) < 4 {
			return "", wrong
		}
		n := binary.BigEndian.Uint32(b)
		if b = b[4:]; uint64(n) > uint64(len(b)) {
			return "", wrong
		}
		if prop == "Socket-Type" {
			socketType = string(b[:n])
		}
		b = b[n:]
	}
	return socketType, nil
}

// shortText cuts a text behind its length of one byte.
func shortText(b []byte) (text string, rest []byte, ok bool) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return "", nil, false
	}
	return string(b[1 : 1+b[0]]), b[1+int(b[0]):], true
}
