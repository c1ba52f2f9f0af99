package reflect_test

import (
	"errors"
	"fmt"
	"log"
	"net"
	"net/netip"
	"time"

	"github.com/csig-agent/csig/hosts/reflect"
	"github.com/csig-agent/csig/quantize"
)

// Two ends on the loopback, where nothing inserts tags: payloads come as they would without csig, and there are no signals.
func ExampleTransport() {
	loopback := netip.MustParseAddrPort("127.0.0.1:0")
	var ends [2]*reflect.Transport
	for i := range ends {
		var err error
		if ends[i], err = reflect.Listen(loopback, quantize.Draft00, []quantize.Signal{quantize.MinABW, quantize.MinABWC}); err != nil {
			log.Fatal(err)
		}
		defer ends[i].Close()
	}
	if err := ends[0].Send(ends[1].LocalAddr(), []byte("hello")); err != nil {
		log.Fatal(err)
	}
	payload, from, err := ends[1].Receive()
	if err != nil {
		log.Fatal(err)
	}
	known := ends[1].Signals(from)
	fmt.Printf("%s: %d tags received, %d reflected\n", payload, len(known.Received), len(known.Learned))
	// Output: hello: 0 tags received, 0 reflected
}

// A receiver asks its peer for as much as its path has left.
func ExampleSignals_Connection() {
	signals, err := reflect.Open("/run/example/host-signals.sock")
	if err != nil { // as here, where nothing runs
		fmt.Println("csig host run does not run: the program goes on without signals")
		return
	}
	defer signals.Close()
	conn, err := net.Dial("tcp", "192.0.2.7:5201")
	if err != nil {
		log.Fatal(err)
	}
	switch known, err := signals.Connection(conn.(*net.TCPConn)); {
	case errors.Is(err, reflect.ErrNone):
		fmt.Println("the peer does not reflect tags")
	case err != nil:
		log.Fatal(err)
	default:
		for _, r := range known.Received {
			if r.Age < time.Second && r.LM != signals.Layout().LMStale() {
				fmt.Println(r.T, "bucket", r.S, "at locator", r.LM)
			}
		}
	}
	// Output: csig host run does not run: the program goes on without signals
}
