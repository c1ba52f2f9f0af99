package api_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/csig-agent/csig/agent/api"
)

// A program asks the agent of its machine which ports are not live.
func ExampleClient_Status() {
	socket, end := standIn() // api.DefaultSocket() of a real agent
	defer end()
	c := api.NewClient(socket)
	defer c.Close()
	s, err := c.Status(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range s.Ports {
		if p.State != api.StateLive {
			fmt.Printf("%s %s is %s: %s\n", s.Device, p.Port, p.State, p.Reason)
		}
	}
	// Output:
	// tor1 swp2 is down: the link is down
}

// standIn answers as an agent with two ports does.
func standIn() (socket string, end func()) {
	dir, err := os.MkdirTemp("", "csig")
	if err != nil {
		log.Fatal(err)
	}
	socket = filepath.Join(dir, "agent.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"format":"csig.status/v1","device":"tor1","ports":[{"port":"swp1","state":"live"},{"port":"swp2","state":"down","reason":"the link is down"}]}`)
	})}
	go func() { _ = srv.Serve(ln) }() // until it is closed
	return socket, func() {
		_ = srv.Close()
		_ = os.RemoveAll(dir)
	}
}
