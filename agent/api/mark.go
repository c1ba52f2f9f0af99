package api

import (
	"path/filepath"
	"strings"
)

// OffMark is the file with which csig off marks a device whose daemon does not
// answer at this socket: the daemon programs nothing while it is there
// (docs/agent.md). It is beside the socket. What is below /run does not outlive
// a reboot, and a service manager may clear it away: the marks of such sockets
// are in /var/lib/csig.
func OffMark(socket string) string {
	path, err := filepath.Abs(socket)
	if err != nil { // there is no working directory
		path = filepath.Clean(socket)
	}
	below, ok := strings.CutPrefix(strings.TrimPrefix(path, "/var"), "/run/")
	if !ok || strings.HasPrefix(below, "user/") { // whose user has no place in /var/lib
		return path + ".off"
	}
	return "/var/lib/csig/" + strings.ReplaceAll(below, "/", "-") + ".off"
}
