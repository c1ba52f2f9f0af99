package mesh

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Sizes in bytes.
const (
	MinKey = 16 // of the mesh's key

	compactFields = 2 // what a tag has behind its TPID
	wideFields    = 6
	macSize       = 16
	answerHead    = 22                                    // in front of the tag's fields
	longestAnswer = answerHead + wideFields + 8 + macSize // 52
	answerMagic   = 0x4353474d                            // "CSGM"
	answerVersion = 1
	flagValid     = 1 << 0
	flagWide      = 1 << 1
)

// ErrNotAnswer is the error for what is no answer that this version reads; ErrForged for an answer
// or a probe whose MAC is not that of the mesh's key.
var (
	ErrNotAnswer = errors.New("not an answer of a mesh")
	ErrForged    = errors.New("not signed with the mesh's key")
)

// Answer is what a host sends back for each probe that arrives (draft-00 §4.2.2).
type Answer struct {
	Run, Seq uint64 // the probe's
	Valid    bool   // it arrived with a tag
	Wide     bool   // of 8 bytes

	// Fields is what the tag had behind its TPID, as it arrived: 2 bytes, or 6 where Wide.
	Fields   [wideFields]byte
	Received time.Time // by the answering host's clock, to the ns
}

// AppendTo appends the answer to b, signed with a key: 48 bytes, or 52 where Wide.
func (a *Answer) AppendTo(b, key []byte) []byte {
	start, flags, fields := len(b), byte(0), a.Fields[:compactFields]
	if a.Valid {
		flags |= flagValid
	}
	if a.Wide {
		flags |= flagWide
		fields = a.Fields[:]
	}
	b = append(binary.BigEndian.AppendUint32(b, answerMagic), answerVersion, flags)
	b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, a.Run), a.Seq)
	b = append(b, fields...)
	b = binary.BigEndian.AppendUint64(b, uint64(a.Received.UnixNano()))
	return append(b, sign(key, b[start:])...)
}

// ParseAnswer reads an answer, which is all of b. Errors: ErrNotAnswer, ErrForged.
func ParseAnswer(b, key []byte) (a Answer, err error) {
	if len(b) < answerHead || binary.BigEndian.Uint32(b) != answerMagic {
		return a, ErrNotAnswer
	}
	if b[4] != answerVersion {
		return a, fmt.Errorf("%w: it is of version %d, want %d", ErrNotAnswer, b[4], answerVersion)
	}
	a.Valid, a.Wide = b[5]&flagValid != 0, b[5]&flagWide != 0
	size := compactFields
	if a.Wide {
		size = wideFields
	}
	if end := answerHead + size + 8; len(b) != end+macSize {
		return a, fmt.Errorf("%w: it has %d bytes, want %d", ErrNotAnswer, len(b), end+macSize)
	} else if !hmac.Equal(sign(key, b[:end]), b[end:]) {
		return a, ErrForged
	}
	a.Run, a.Seq = binary.BigEndian.Uint64(b[6:]), binary.BigEndian.Uint64(b[14:])
	copy(a.Fields[:], b[answerHead:answerHead+size])
	a.Received = time.Unix(0, int64(binary.BigEndian.Uint64(b[answerHead+size:])))
	return a, nil
}

// sign is HMAC-SHA-256, its first 16 bytes (RFC 2104 §5).
func sign(key, b []byte) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write(b)
	return h.Sum(nil)[:macSize]
}
