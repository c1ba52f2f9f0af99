package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/csig-agent/csig/agent/api"
)

// policy lets the page load from its own server alone, run no inline script, be framed by
// nobody and send forms nowhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// guard refuses what is no request of a person who reads the page, and sets the headers that
// all answers have.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "the page is read-only: GET and HEAD", http.StatusMethodNotAllowed)
		case !s.named(r.Host):
			// A name that another site has pointed here, so that its scripts may read this page.
			http.Error(w, "this page does not have that name: open it by the address that it listens at", http.StatusMisdirectedRequest)
		case r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate":
			http.Error(w, "another site's page may link to this one, and load nothing from it", http.StatusForbidden)
		case !s.admits(r):
			if s.cfg.Token != "" {
				h.Set("WWW-Authenticate", `Basic realm="csig: any name, the token as the password", charset="UTF-8"`)
				http.Error(w, "the token is wrong or missing", http.StatusUnauthorized)
				return
			}
			http.Error(w, "no certificate with a name of --web-read", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// admits reports whether a request may read: with a certificate or the token where either is asked for.
func (s *Server) admits(r *http.Request) bool {
	if !s.ln.TLS() && s.cfg.Token == "" {
		return true
	}
	if _, err := s.ln.Reads(r); err == nil {
		return true
	}
	if s.cfg.Token == "" {
		return false
	}
	scheme, given, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if ok = ok && strings.EqualFold(scheme, "Bearer"); !ok {
		_, given, ok = r.BasicAuth()
	}
	if !ok {
		return false
	}
	token, err := readToken(s.cfg.Token) // each time: one that was changed is no longer good
	if err != nil {
		s.cfg.Log.WithError(err).Warn("the page's token")
		return false
	}
	is, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(is[:], want[:]) == 1
}

// Bounds of a token, in bytes.
const (
	minToken = 16
	maxToken = 4 << 10
)

// readToken is the token of a file that others cannot read.
func readToken(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("--web-token: %w", err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("--web-token: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	token := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", fmt.Errorf("--web-token %s: %w", file, err)
	case fi.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("--web-token %s: other users may open it: chmod 600 %s", file, file)
	case len(token) < minToken || len(text) > maxToken:
		return "", fmt.Errorf("--web-token %s: it has %d characters, and has to have %d to %d: openssl rand -hex 24 makes one", file, len(token), minToken, maxToken)
	}
	return token, nil
}

// named reports whether a request's Host may be this server's: with TLS a name of its certificate,
// else this machine's own, whatever any name server answers. The port may be the near end of an ssh -L.
func (s *Server) named(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	if s.ln.TLS() {
		return s.ln.Names(name)
	}
	return api.IsLoopback(name)
}
