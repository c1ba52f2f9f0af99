package sonicmq

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
)

// Row is one row of a message: a SET where it has fields, else a DEL.
type Row struct {
	Key    string
	Fields [][2]string // names and values, in their order
}

// wordSize is that of the lengths: size_t of a 64-bit orchagent, least significant
// byte first. A 32-bit one has another (armhf).
const wordSize = 8

// Encode is BinarySerializer::serializeBuffer: the number of pairs of texts, and then the
// pairs, each text after its length: the database and the table; and for each row its key
// and the number of its fields in decimal, and its fields. orchagent never answers a message
// without a row, and ends at one that is too long: both are errors here.
func Encode(database, table string, rows []Row) ([]byte, error) {
	if len(rows) == 0 {
		return nil, errors.New("a message without a row, which orchagent does not answer")
	}
	pairs := 1 + len(rows)
	for i := range rows {
		pairs += len(rows[i].Fields)
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(pairs))
	text := func(s string) {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	text(database)
	text(table)
	for i := range rows {
		text(rows[i].Key)
		text(strconv.Itoa(len(rows[i].Fields)))
		for _, f := range rows[i].Fields {
			text(f[0])
			text(f[1])
		}
	}
	if len(b) > MaxBody {
		return nil, fmt.Errorf("a message of %d bytes, more than %d", len(b), MaxBody)
	}
	return b, nil
}

// Decode is the inverse of Encode, and takes nothing else: every error is ErrProtocol.
func Decode(b []byte) (database, table string, rows []Row, err error) {
	d := decoder{rest: b}
	pairs := d.number()
	if len(b) > MaxBody || pairs < 2 || pairs > uint64(len(b)/(2*wordSize)) {
		return "", "", nil, d.wrong("%d bytes with %d pairs", len(b), pairs)
	}
	database, table = d.pair()
	for left := pairs - 1; left > 0 && d.err == nil; left-- {
		key, count := d.pair()
		n, err := strconv.ParseUint(count, 10, 32)
		if d.err == nil && (err != nil || strconv.FormatUint(n, 10) != count || n > left-1) {
			return "", "", nil, d.wrong("a row of %q fields where %d pairs are left", shorten(count), left-1)
		}
		r := Row{Key: key}
		for ; n > 0 && d.err == nil; n-- {
			name, value := d.pair()
			r.Fields = append(r.Fields, [2]string{name, value})
			left--
		}
		rows = append(rows, r)
	}
	if d.err == nil && len(d.rest) > 0 {
		d.err = d.wrong("%d bytes behind the last pair", len(d.rest))
	}
	if d.err != nil {
		return "", "", nil, d.err
	}
	return database, table, rows, nil
}

// decoder reads texts; after an error it has no more of them.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) wrong(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrProtocol}, args...)...)
}

func (d *decoder) number() uint64 {
	if len(d.rest) < wordSize {
		if d.err == nil {
			d.err = d.wrong("it ends within a length")
		}
		d.rest = nil
		return 0
	}
	n := binary.LittleEndian.Uint64(d.rest)
	d.rest = d.rest[wordSize:]
	return n
}

func (d *decoder) pair() (first, second string) { return d.text(), d.text() }

func (d *decoder) text() string {
	n := d.number()
	if d.err == nil && n > uint64(len(d.rest)) {
		d.err = d.wrong("a text of %d bytes where %d are left", n, len(d.rest))
	}
	if d.err != nil {
		return ""
	}
	s := string(d.rest[:n])
	d.rest = d.rest[n:]
	return s
}

func shorten(s string) string { return s[:min(len(s), 32)] }
