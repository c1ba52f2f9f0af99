package process

import (
	"github.com/spf13/pflag"

	"github.com/csig-agent/csig/web"
)

// PageFlags are those of a page for browsers; of is what it shows.
func PageFlags(f *pflag.FlagSet, page *web.Config, of string) {
	f.StringVar(&page.Addr, "web", "", "serve a page of "+of+", for browsers, at this address, e.g. 127.0.0.1:8080; needs the other --web flags unless it is a loopback address")
	f.StringVar(&page.TLS.Cert, "web-cert", "", "certificate of the page (PEM)")
	f.StringVar(&page.TLS.Key, "web-key", "", "its key (PEM)")
	f.StringVar(&page.Token, "web-token", "", "file with a token: who has it may read the page")
	f.StringVar(&page.TLS.CA, "web-ca", "", "authorities of certificates of browsers (PEM)")
	f.StringVar(&page.Plan, "web-plan", "", "plan (csig plan -o) whose differences the page shows, with how far the devices are")
	f.StringSliceVar(&page.Read, "web-read", nil, "names of such certificates that may read the page")
}
