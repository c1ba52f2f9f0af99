package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// Bounds of an answer, and of each status of a watch: its size, the length of a
// text in it, both in bytes, and the time that a request may take whose caller
// sets no deadline.
const (
	maxAnswer  = 4 << 20
	maxText    = 4 << 10
	maxRequest = 5 * time.Minute
)

// DeadlineHeader has the instant, as RFC 3339 in UTC, after which the client of a
// request no longer waits: a daemon refuses a change whose instant has passed. It
// is sent to daemons of the same machine, whose clock is the client's.
const DeadlineHeader = "Csig-Deadline"

// answers reads the objects of an answer.
type answers struct {
	*json.Decoder
	body  io.Closer
	bound *untrusted.Reader
}

func newAnswers(body io.ReadCloser) *answers {
	bound := untrusted.NewReader(body, 0) // next sets it
	return &answers{json.NewDecoder(bound), body, bound}
}

// next reads the next object into v, with its text made safe to print.
func (a *answers) next(v any) error {
	a.bound.Reset(maxAnswer)
	if err := a.Decode(v); err != nil {
		return untrusted.Error(err)
	}
	printable(reflect.ValueOf(v))
	return nil
}

func (a *answers) Close() error { return a.body.Close() }

// printable cleans each text in what v points to, but a fleet file, which is read
// and not shown.
func printable(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			printable(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				printable(v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			printable(v.Index(i))
		}
	case reflect.Map:
		clean := reflect.MakeMapWithSize(v.Type(), v.Len())
		for _, k := range v.MapKeys() {
			key, value := reflect.New(k.Type()).Elem(), reflect.New(v.Type().Elem()).Elem()
			key.Set(k)
			value.Set(v.MapIndex(k))
			printable(key)
			printable(value)
			clean.SetMapIndex(key, value)
		}
		if v.CanSet() {
			v.Set(clean)
		}
	case reflect.String:
		if v.CanSet() && v.Type() != reflect.TypeFor[fileText]() {
			v.SetString(untrusted.Text(v.String(), maxText))
		}
	}
}

// Printable makes every text of an object of a peer, given by a pointer, safe for terminals.
func Printable(v any) { printable(reflect.ValueOf(v)) }

// fileText is the text of a file.
type fileText string

// object asks for one object and checks its format.
func (c *Client) object(ctx context.Context, method, path string, body []byte, v any, want string, format *string) error {
	ctx, cancel := context.WithTimeout(ctx, maxRequest)
	defer cancel()
	a, err := c.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer a.Close()
	if err := a.next(v); err != nil {
		return c.broken(err)
	}
	if *format != want {
		return c.otherFormat(*format, want)
	}
	return nil
}

// broken returns why an answer could not be read.
func (c *Client) broken(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return c.noAnswer()
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("agent at %s closed the connection: %w", c.name, err)
	}
	return fmt.Errorf("agent at %s: %w", c.name, err)
}
