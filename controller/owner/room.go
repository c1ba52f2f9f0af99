package owner

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// room is what the disk has to take before the server starts again, roomPause the time between
// two looks, and startLimit how long a start may take.
const (
	room       = 1 << 20
	roomPause  = time.Second
	startLimit = 30 * time.Second
)

// watch starts the server again that has given up JetStream, which it does for good when a
// write to its disk fails, once the disk takes writes. The others of the cluster go on
// meanwhile, and clients of this process reach them through it.
func (s *Server) watch(ctx context.Context) {
	defer close(s.watched)
	full := false
	for pause(ctx, roomPause); ctx.Err() == nil; pause(ctx, roomPause) {
		ns := s.now()
		if ns.Running() && ns.JetStreamEnabled() {
			full = false
			continue
		}
		if err := writable(s.options.StoreDir); err != nil {
			if !full {
				s.log.WithError(err).Error("the NATS server of this controller cannot write: the others continue; it restarts when there is space")
			}
			full = true
			continue
		}
		s.end()
		sctx, done := context.WithTimeout(ctx, startLimit)
		err := s.start(sctx)
		if done(); err != nil {
			s.log.WithError(err).Warn("the NATS server does not start again")
			continue
		}
		full = false
		s.log.Info("the NATS server could not write; started again")
	}
}

// writable tries whether a folder's disk takes a few blocks.
func writable(dir string) error {
	f, err := os.Create(filepath.Join(dir, "room")) // the name stays, so that none are left by kills
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(make([]byte, room))
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
