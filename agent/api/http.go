package api

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Deadlines of every HTTP server of csig, and what one client may take of it.
const (
	headerTimeout = 5 * time.Second  // of a request's header, the TLS handshake included
	idleTimeout   = time.Minute      // of a connection between requests
	bodyTimeout   = 30 * time.Second // of a request's body
	leaveTimeout  = time.Second      // of a body that is not read: so that its client reads why
	writeTimeout  = 10 * time.Second // of an answer, or of one part of a stream
	maxHeader     = 16 << 10         // bytes
	maxStreams    = 32               // requests at a time of an HTTP/2 connection
)

// newHTTP is the only way to an HTTP server of csig. Its clients send what they have begun with
// and take what they have asked for, in time, or are dropped. takes reports which requests have
// a body that a handler may want, which then calls wantBody; nil: none. Where listener and
// connections are of a limited, it also knows which of them may make room for others.
func newHTTP(h http.Handler, takes func(*http.Request) bool) *http.Server {
	answer := func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		if r.ContentLength != 0 {
			leaveBody(w, r)
			if takes == nil || !takes(r) {
				writeErrorCode(w, http.StatusBadRequest, errors.New("this request has no body"))
				return
			}
		}
		h.ServeHTTP(w, r)
		_ = rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // of what is still to be sent, after a stream, too
	}
	return &http.Server{
		Handler: http.HandlerFunc(answer), ConnContext: withConn, ConnState: noteState,
		ReadHeaderTimeout: headerTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams, WriteByteTimeout: writeTimeout, SendPingTimeout: idleTimeout},
	}
}

// leaveBody has the server not wait for a body that nobody reads: the connection ends with the
// answer, and makes room for others from now on.
func leaveBody(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(leaveTimeout))
	if c := connOf(r); c != nil && r.ProtoMajor == 1 {
		c.setActive(false)
	}
}

// wantBody has a handler read the body of a request, whose sender may send it.
func wantBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 {
		return
	}
	w.Header().Del("Connection")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // net/http ends it with the body
	r.Body = &waited{r.Body, connOf(r)}
}

// waited is a body. Its connection may make room for others until all of it has come.
type waited struct {
	io.ReadCloser
	of *conn // nil in tests
}

func (b *waited) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.of != nil && errors.Is(err, io.EOF) {
		b.of.setActive(true)
	}
	return n, err
}

// Send writes a part of a stream, which its client has to take within a time. The stream may be
// silent for as long as it likes until the next one.
func Send(w http.ResponseWriter, part []byte, within time.Duration) error {
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(within))
	if len(part) > 0 {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	err := rc.Flush()
	_ = rc.SetWriteDeadline(time.Time{}) // HTTP/2 ends a stream there, also one that has nothing to send
	return err
}

// stream sends each part of an answer as Send does.
type stream struct{ http.ResponseWriter }

func (s stream) Write(p []byte) (int, error) {
	if err := Send(s.ResponseWriter, p, writeTimeout); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s stream) FlushError() error { return Send(s.ResponseWriter, nil, writeTimeout) }

func (s stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }
