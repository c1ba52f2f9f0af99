// Package webtest is a real Chromium for tests of pages: what its console says, and which hosts
// it asks for anything, is part of each test.
package webtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	devlog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/chromedp"
)

// patience is how long a page has for what has to come.
const patience = 30 * time.Second

// Browser is a tab with an empty profile of its own.
type Browser struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	problems []string // what the console says, and requests to other hosts
	asked    []string // URLs
	hosts    []string // that the page may ask
}

// Options are how a browser starts.
type Options struct {
	Wrap           []string // stands in front of its command line, as nsenter with its arguments
	AnyCertificate bool     // whoever signed that of the server
}

// Main runs the tests of a package, whose browsers are one Chromium.
func Main(m *testing.M) int {
	defer func() {
		if shared.end != nil {
			shared.end()
		}
	}()
	return m.Run()
}

// shared is the Chromium of a package's tests, from the first that wants one on.
var shared struct {
	mu  sync.Mutex
	ctx context.Context
	end func()
}

// process is that Chromium.
func process(t testing.TB) context.Context {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.ctx != nil {
		return shared.ctx
	}
	dir, err := os.MkdirTemp("", "csig-chromium-")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := start(context.Background(), t, dir, nil)
	shared.ctx, shared.end = ctx, func() { end(); _ = os.RemoveAll(dir) }
	if err := chromedp.Do(ctx); err != nil {
		shared.end()
		t.Fatalf("starting chromium: %v", err)
	}
	return ctx
}

// start is a Chromium with this folder; wrap stands in front of its command line.
func start(ctx context.Context, t testing.TB, dir string, wrap []string) (browser context.Context, end func()) {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("no chromium: apt-get install --no-install-recommends chromium")
	}
	actx, ended := chromedp.NewExecAllocator(ctx,
		chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"),
		chromedp.ModifyCmdFunc(func(cmd *exec.Cmd) {
			if n := len(wrap); n > 0 {
				cmd.Args = append(slices.Clone(wrap), cmd.Args...)
				cmd.Args[n] = path
				if cmd.Path, err = exec.LookPath(wrap[0]); err != nil {
					t.Error(err)
				}
			}
		}),
	)
	browser, closed := chromedp.NewContext(actx)
	return browser, func() { closed(); ended() }
}

// New is a browser that ends with the test. At its end the test fails where the console had
// an error, or a request went elsewhere than to hosts.
func New(t testing.TB, o Options, hosts ...string) *Browser {
	t.Helper()
	var ctx context.Context
	var end func()
	if len(o.Wrap) > 0 {
		ctx, end = start(t.Context(), t, t.TempDir(), o.Wrap)
	} else {
		ctx, end = chromedp.NewContext(process(t), chromedp.WithNewBrowserContext())
	}
	b := &Browser{t: t, ctx: ctx, hosts: hosts}
	t.Cleanup(func() {
		end()
		for _, p := range b.Problems() {
			t.Error(p)
		}
	})
	if err := chromedp.Listen(ctx, b.take); err != nil {
		t.Fatalf("starting chromium: %v", err)
	}
	for _, enable := range []func() (cdp.Empty, error){
		func() (cdp.Empty, error) { return chromedp.Call(ctx, network.Enable, network.EnableParams{}) },
		func() (cdp.Empty, error) { return chromedp.Call(ctx, devlog.Enable, cdp.Empty{}) },
		func() (cdp.Empty, error) { return chromedp.Call(ctx, runtime.Enable, cdp.Empty{}) },
		func() (cdp.Empty, error) {
			return chromedp.Call(ctx, security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: o.AnyCertificate})
		},
	} {
		if _, err := enable(); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// take notes what the test is to know of an event.
func (b *Browser) take(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := ev.(type) {
	case *runtime.EventConsoleAPICalled:
		b.problems = append(b.problems, fmt.Sprintf("the console says %s: %v", e.Type, e.Args))
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, fmt.Sprintf("exception: %s %v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *devlog.EventEntryAdded:
		b.problems = append(b.problems, fmt.Sprintf("the log says %s: %s (%s)", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
		if u, err := url.Parse(e.Request.URL); err != nil || !slices.Contains(b.hosts, u.Host) {
			b.problems = append(b.problems, "a request to another host: "+e.Request.URL)
		}
	}
}

// Problems are what was wrong since they were last asked for.
func (b *Browser) Problems() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.problems
	b.problems = nil
	return out
}

// Open goes to a page.
func (b *Browser) Open(url string) {
	b.t.Helper()
	b.do("opening "+url, chromedp.Navigate(url))
}

// Try goes to a page that may not come.
func (b *Browser) Try(url string) error {
	ctx, done := context.WithTimeout(b.ctx, patience)
	defer done()
	return chromedp.Do(ctx, chromedp.Navigate(url))
}

func (b *Browser) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, done := context.WithTimeout(b.ctx, patience)
	defer done()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// Eval is the value of an expression of JavaScript.
func Eval[T any](b *Browser, expression string) T {
	b.t.Helper()
	v, err := eval[T](b, expression)
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func eval[T any](b *Browser, expression string) (T, error) {
	ctx, done := context.WithTimeout(b.ctx, patience)
	defer done()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression))
}

// Await waits until an expression is true. The page's policy lets no text be evaluated in it, so
// that it is asked again and again. While the browser goes to another page there is no answer, or
// not all of the page is there yet.
func (b *Browser) Await(expression string) {
	b.t.Helper()
	end := time.Now().Add(patience)
	for {
		is, err := eval[bool](b, "Boolean("+expression+")")
		if is && err == nil {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s does not come about (%v); the page:\n%s", expression, err, Eval[string](b, "document.body.innerText"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Type sends keys to what has the focus, as kb has them or letters.
func (b *Browser) Type(keys string) {
	b.t.Helper()
	b.do("typing", chromedp.KeyEvent(keys))
}

// Window is how wide and high the window is, in pixels.
func (b *Browser) Window(width, height int64) {
	b.t.Helper()
	b.do("the window's size", chromedp.EmulateViewport(width, height))
}

// Prefer sets what the reader prefers, as "prefers-color-scheme" "dark".
func (b *Browser) Prefer(feature, value string) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: feature, Value: value}}}); err != nil {
		b.t.Fatal(err)
	}
}

// Unnamed are the controls of the page, and its graphics, that a screen reader has no name for.
func (b *Browser) Unnamed() (out []string) {
	b.t.Helper()
	ctx, done := context.WithTimeout(b.ctx, patience)
	defer done()
	tree, err := chromedp.Call(ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		b.t.Fatal(err)
	}
	text := func(v *accessibility.Value) string {
		if v == nil {
			return ""
		}
		return strings.Trim(string(v.Value), `"`)
	}
	controls := 0
	for _, n := range tree.Nodes {
		if n.Ignored || !slices.Contains([]string{"button", "link", "textbox", "searchbox", "combobox", "checkbox", "slider", "spinbutton", "DisclosureTriangle", "image", "table", "grid", "gridcell"}, text(n.Role)) {
			continue
		}
		controls++
		if name := strings.TrimSpace(text(n.Name)); name == "" {
			out = append(out, fmt.Sprintf("%s, node %d", text(n.Role), n.BackendDOMNodeID))
		}
	}
	if controls == 0 {
		b.t.Error("the page has no controls")
	}
	return out
}

// Picture is the whole page as PNG.
func (b *Browser) Picture() []byte {
	b.t.Helper()
	return b.capture(page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng, CaptureBeyondViewport: new(true)})
}

// FirstScreen is what the window shows, as WebP of middling quality: a fifth of the bytes of PNG.
func (b *Browser) FirstScreen() []byte {
	b.t.Helper()
	return b.capture(page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatWebp, Quality: new(int64(70))})
}

// capture takes the second of two pictures: the first may lack what has just scrolled into the window and is not drawn yet.
func (b *Browser) capture(p page.CaptureScreenshotParams) []byte {
	b.t.Helper()
	ctx, done := context.WithTimeout(b.ctx, patience)
	defer done()
	var data []byte
	for range 2 {
		r, err := chromedp.Call(ctx, page.CaptureScreenshot, p)
		if err != nil {
			b.t.Fatal(err)
		}
		data = r.Data
	}
	return data
}
