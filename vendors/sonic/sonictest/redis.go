// Package sonictest is a SONiC switch for tests: a real redis-server, and a fake
// of orchagent that interprets P4Orch's grammar strictly and simulates the egress
// pipeline that it would program.
package sonictest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Redis is a redis-server of the test's own, at a unix socket.
type Redis struct {
	Dir    string
	Socket string
	File   string // database_config.json

	t   testing.TB
	cmd *exec.Cmd

	used bool // by a test that had it stand still: no other has it

	mu    sync.Mutex
	pools map[int]*redis.Pool // by database
}

// idle are servers that tests are done with, for the next ones: see Reuse.
var idle struct {
	sync.Mutex
	reuse bool
	list  []*Redis
}

// Reuse has tests take the servers of earlier ones, whose data is gone, until end ends them
// all: for TestMain.
func Reuse() (end func()) {
	idle.Lock()
	defer idle.Unlock()
	idle.reuse = true
	return func() {
		idle.Lock()
		defer idle.Unlock()
		for _, r := range idle.list {
			r.Stop()
			_ = os.RemoveAll(r.Dir)
		}
		idle.reuse, idle.list = false, nil
	}
}

// again is a server of an earlier test; nil: there is none.
func again(t testing.TB) *Redis {
	idle.Lock()
	defer idle.Unlock()
	n := len(idle.list)
	if n == 0 {
		return nil
	}
	r := idle.list[n-1]
	idle.list = idle.list[:n-1]
	r.t = t
	return r
}

// done leaves the server, empty, to another test, or ends it.
func (r *Redis) done() {
	idle.Lock()
	reuse := idle.reuse && !r.used && r.cmd != nil
	idle.Unlock()
	if reuse && r.clear() == nil {
		idle.Lock()
		defer idle.Unlock()
		idle.list = append(idle.list, r)
		return
	}
	r.Stop()
	_ = os.RemoveAll(r.Dir)
}

// clear makes the server what a new one is. It is an error where somebody still has a
// connection to it.
func (r *Redis) clear() error {
	r.closePools()
	c, err := redis.Dial("unix", r.Socket)
	if err != nil {
		return err
	}
	defer c.Close()
	for try := 0; ; try++ { // it notices later that a connection has ended
		list, err := redis.String(c.Do("CLIENT", "LIST"))
		if strings.Count(list, "\n") == 1 {
			break
		}
		if err != nil || try == 1000 {
			return fmt.Errorf("there are other clients: %s, %w", list, err)
		}
		time.Sleep(time.Millisecond)
	}
	_, err1 := c.Do("FLUSHALL")
	_, err2 := c.Do("SCRIPT", "FLUSH")
	_, err4 := c.Do("CONFIG", "SET", "port", "0")
	files, err3 := os.ReadDir(r.Dir)
	for _, f := range files { // orchagent's socket, among others
		if path := filepath.Join(r.Dir, f.Name()); path != r.Socket && path != r.File {
			err3 = errors.Join(err3, os.RemoveAll(path))
		}
	}
	return errors.Join(err1, err2, err3, err4)
}

// StartRedis runs a redis-server until the test ends.
func StartRedis(t testing.TB) *Redis {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatalf("%v: install it (Debian: apt-get install redis-server)", err)
	}
	r := again(t)
	if r == nil {
		dir, err := os.MkdirTemp("", "csig-redis") // the path of a socket has to be short
		if err != nil {
			t.Fatal(err)
		}
		r = &Redis{Dir: dir, Socket: filepath.Join(dir, "redis.sock"), File: filepath.Join(dir, "database_config.json"), t: t}
		r.Start()
	}
	r.writeConfig()
	t.Cleanup(r.done)
	return r
}

// shortDir is a folder of the test's own: the path of a socket has to be short.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "csig-redis")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// writeConfig writes the map of the databases as SONiC has it.
func (r *Redis) writeConfig() {
	text := fmt.Sprintf(`{"INSTANCES":{"redis":{"hostname":"127.0.0.1","port":6379,"unix_socket_path":%q}},"DATABASES":{`, r.Socket)
	for id, name := range map[int]string{0: "APPL_DB:", 1: "ASIC_DB:", 2: "COUNTERS_DB:", 4: "CONFIG_DB|", 5: "FLEX_COUNTER_DB:", 6: "STATE_DB|"} {
		text += fmt.Sprintf(`%q:{"id":%d,"separator":%q,"instance":"redis"},`, name[:len(name)-1], id, name[len(name)-1:])
	}
	text += `"APPL_STATE_DB":{"id":14,"separator":":","instance":"redis"}},"VERSION":"1.0"}`
	if err := os.WriteFile(r.File, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// Start starts the server, with nothing in it.
func (r *Redis) Start() {
	r.t.Helper()
	_ = os.Remove(r.Socket)
	r.cmd = exec.Command("redis-server", "--port", "0", "--unixsocket", r.Socket, "--dir", r.Dir, "--save", "", "--appendonly", "no",
		"--databases", "20", "--notify-keyspace-events", "KEA", "--daemonize", "no", "--loglevel", "warning")
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	Await(r.t, "redis-server does not listen", func() bool {
		c, err := net.Dial("unix", r.Socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// Await waits for what tells nobody when it is so, and ends the test with these words where it
// does not become so.
func Await(t testing.TB, otherwise string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(otherwise)
		}
	}
}

// Stop ends the server: its data is lost.
func (r *Redis) Stop() {
	if r.cmd == nil {
		return
	}
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
	r.cmd = nil
	r.closePools()
}

// closePools ends the connections of Do.
func (r *Redis) closePools() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pools {
		_ = p.Close()
	}
	r.pools = nil
}

// Freeze stops the server's process, so that it takes connections and answers nothing, or
// has it go on.
func (r *Redis) Freeze(frozen bool) {
	r.t.Helper()
	r.used = true
	sig := syscall.SIGCONT
	if frozen {
		sig = syscall.SIGSTOP
	}
	if err := r.cmd.Process.Signal(sig); err != nil {
		r.t.Fatal(err)
	}
}

// conn is a connection to a database, which is closed after its use.
func (r *Redis) conn(db int) redis.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pools[db]
	if p == nil {
		p = &redis.Pool{MaxIdle: 2, Dial: func() (redis.Conn, error) { return redis.Dial("unix", r.Socket, redis.DialDatabase(db)) }}
		if r.pools == nil {
			r.pools = map[int]*redis.Pool{}
		}
		r.pools[db] = p
	}
	return p.Get()
}

// Do runs a command in a database.
func (r *Redis) Do(db int, command string, args ...any) any {
	r.t.Helper()
	a, err := r.do(db, command, args...)
	if err != nil {
		r.t.Fatalf("%s %v: %v", command, args, err)
	}
	return a
}

// Try runs a command in a database that may be gone.
func (r *Redis) Try(db int, command string, args ...any) error {
	_, err := r.do(db, command, args...)
	return err
}

func (r *Redis) do(db int, command string, args ...any) (any, error) {
	c := r.conn(db)
	defer c.Close()
	return c.Do(command, args...)
}

// Hash is a row.
func (r *Redis) Hash(db int, key string) map[string]string {
	r.t.Helper()
	m, err := redis.StringMap(r.Do(db, "HGETALL", key), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

// Keys are the keys of a database that match a pattern.
func (r *Redis) Keys(db int, pattern string) []string {
	r.t.Helper()
	k, err := redis.Strings(r.Do(db, "KEYS", pattern), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return k
}

// Dial connects for sonicdb.Options.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, address)
}
