package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// Reader reads a trace, one reading at a time.
type Reader struct {
	header Header
	in     *bufio.Reader
	number int // of the line
	buf    []byte
	line   line
	out    Reading
	err    error
}

// NewReader reads the header of a trace, compressed or not.
func NewReader(r io.Reader) (*Reader, error) {
	in := bufio.NewReader(r)
	if magic, err := in.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		gz, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("trace: %w", err)
		}
		in = bufio.NewReaderSize(gz, 1<<16)
	}
	t := &Reader{in: in}
	text, err := t.next()
	if errors.Is(err, io.EOF) {
		err = errors.New("empty file")
	}
	if err == nil {
		if err = json.Unmarshal(text, &t.header); err == nil {
			err = t.header.check()
			h := &t.header
			h.Device, h.Source, h.Note = untrusted.Text(h.Device, maxName), untrusted.Text(h.Source, maxName), untrusted.Text(h.Note, maxText)
		} else {
			err = fmt.Errorf("line 1: this is no trace that csig recorded: %w", err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	return t, nil
}

// Header returns the trace's header.
func (t *Reader) Header() *Header { return &t.header }

// next returns the next line, io.EOF after the last one and io.ErrUnexpectedEOF
// when there is only a part of it.
func (t *Reader) next() ([]byte, error) {
	t.buf = t.buf[:0]
	for {
		part, err := t.in.ReadSlice('\n')
		if len(t.buf)+len(part) > maxLine {
			return nil, fmt.Errorf("line %d: longer than %d MiB", t.number+1, maxLine>>20)
		}
		t.buf = append(t.buf, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && len(t.buf) == 0:
			return nil, io.EOF
		case err == io.EOF:
			return nil, fmt.Errorf("line %d: cut off: %w", t.number+1, io.ErrUnexpectedEOF)
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", t.number+1, err)
		}
		t.number++
		return bytes.TrimSuffix(t.buf, []byte("\n")), nil
	}
}

// Next returns the next reading, which is valid until the next call, and io.EOF
// after the last. After any error it returns the same again.
func (t *Reader) Next() (*Reading, error) {
	if t.err != nil {
		return nil, t.err
	}
	if err := t.read(); err != nil {
		t.err = err
		if !errors.Is(err, io.EOF) {
			t.err = fmt.Errorf("trace of device %s: %w", t.header.Device, err)
		}
		return nil, t.err
	}
	return &t.out, nil
}

func (t *Reader) read() error {
	text, err := t.next()
	if err != nil {
		return err
	}
	ports := t.line.Ports
	clear(ports)
	t.line = line{Ports: ports[:0]}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err = dec.Decode(&t.line); err == nil && dec.More() {
		err = errors.New("more than one value")
	}
	if err == nil {
		err = t.line.take(&t.out, t.header.Ports)
	}
	if err != nil {
		return fmt.Errorf("line %d: %w", t.number, err)
	}
	return nil
}
