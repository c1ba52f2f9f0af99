package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"time"
)

// assets are read from the program's file when they are asked for: they take no memory of an
// agent that serves no page.
//
//go:embed assets
var assets embed.FS

// pages are the documents, by their paths.
var pages = map[string]string{"/": "index.html", "/port": "port.html", "/plan": "plan.html"}

// types are those of the assets, whatever the machine's own tables say.
var types = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for at, name := range pages {
		if at == "/" {
			at = "/{$}"
		}
		mux.HandleFunc("GET "+at, func(w http.ResponseWriter, r *http.Request) { serveAsset(w, r, name) })
	}
	mux.HandleFunc("GET /assets/{name}", func(w http.ResponseWriter, r *http.Request) { serveAsset(w, r, r.PathValue("name")) })
	mux.HandleFunc("GET /api/v1/fleet", s.serveFleet)
	mux.HandleFunc("GET /api/v1/port", s.servePort)
	mux.HandleFunc("GET /api/v1/path", s.servePath)
	mux.HandleFunc("GET /api/v1/why", s.serveWhy)
	mux.HandleFunc("GET /api/v1/past", s.servePast)
	mux.HandleFunc("GET /api/v1/mesh", s.serveMesh)
	mux.HandleFunc("GET /api/v1/mesh/why", s.serveMeshWhy)
	mux.HandleFunc("GET /api/v1/live", s.serveLive)
	mux.HandleFunc("GET /api/v1/plan", s.servePlan)
	return mux
}

func serveAsset(w http.ResponseWriter, r *http.Request, name string) {
	text, err := assets.ReadFile(path.Join("assets", path.Base(name)))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	sum := sha256.Sum256(text)
	w.Header().Set("Content-Type", types[path.Ext(name)])
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:12])+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}
