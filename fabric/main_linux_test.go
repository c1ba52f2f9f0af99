package fabric

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// helperEnv makes the test binary play the program of TestEnter.
const helperEnv = "FABRIC_TEST_HELPER"

func TestMain(m *testing.M) {
	Tests(m, func() (func(), error) {
		if role := os.Getenv(helperEnv); role != "" {
			os.Exit(helper(role))
		}
		return func() {}, nil
	})
}

// helper is what runs inside in TestEnter.
func helper(role string) int {
	switch role {
	case "status":
		return 7
	case "echo":
		line, err := bufio.NewReader(os.Stdin).ReadString('\n')
		if err != nil {
			return 1
		}
		fmt.Printf("pid %d uid %d: %s", os.Getpid(), os.Getuid(), line)
		return 0
	case "signal":
		signals := make(chan os.Signal, 4)
		signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGUSR1)
		fmt.Println("ready")
		fmt.Println("first", <-signals)
		fmt.Println("second", <-signals)
		return 3
	case "fabric":
		var f Fabric
		n, err := f.AddSwitch("lonely")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		child := n.Command("sleep", "600")
		if err := child.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		var st unix.Stat_t
		if err := unix.Fstat(n.FD(), &st); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Printf("net:[%d]\n", st.Ino)
		<-time.After(time.Minute) // were it not killed
	}
	return 99
}
