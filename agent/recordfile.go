package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory/outfile"
)

// Bounds of a RecordFile: the size at which another file begins, in bytes, how many records
// wait for the disk, and how long a record may wait, as flash wears out.
const (
	recordFile  = 16 << 20
	recordQueue = 4096
	recordFlush = 30 * time.Second
)

// RecordFile keeps the records of ports on disk: lines of api.RecordFormat in a file, and in
// FILE.1 what was there when it became full. A disk that does not keep up loses records, never
// a cycle.
type RecordFile struct {
	path  string
	log   *logrus.Entry
	most  int64 // size at which another file begins
	queue chan *api.KeptRecord
	ended chan struct{}
	once  sync.Once

	failure atomic.Pointer[error] // why the last record is not in the file; nil where it is, or may still wait

	file *os.File
	buf  *bufio.Writer
	size int64
	kept bool // what the file begins with is on the disk, so that the next start knows it after a power failure
}

// OpenRecordFile opens a file that records are appended to, for its owner alone. What is there,
// or at FILE.1, and is no such file is an error, and stays.
func OpenRecordFile(path string, log *logrus.Entry) (*RecordFile, error) {
	mark := []byte(`{"format":"` + api.RecordFormat + `"`)
	ours := func(head []byte) bool { return bytes.HasPrefix(head, mark) || bytes.HasPrefix(mark, head) } // also one that broke off
	for _, name := range []string{path, path + api.OlderRecords} {
		if err := outfile.Check(name, ours); err != nil {
			return nil, err
		}
	}
	f := &RecordFile{path: path, log: log, most: recordFile, queue: make(chan *api.KeptRecord, recordQueue), ended: make(chan struct{})}
	if err := f.open(); err != nil {
		return nil, err
	}
	go f.write()
	return f, nil
}

func (f *RecordFile) open() error {
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", f.path)
	}
	last := []byte{'\n'}
	if err == nil && info.Size() > 0 {
		_, err = file.ReadAt(last, info.Size()-1)
	}
	if err != nil {
		file.Close()
		return err
	}
	f.file, f.buf, f.size, f.kept = file, bufio.NewWriterSize(file, 64<<10), info.Size(), info.Size() > 0
	if last[0] != '\n' { // a process was killed in a write, or the disk was full, as it may be now
		_ = f.buf.WriteByte('\n') // into memory
	}
	return nil
}

// add hands a record over, and reports whether there was room.
func (f *RecordFile) add(r *api.KeptRecord) bool {
	select {
	case f.queue <- r:
		return true
	default:
		f.failure.CompareAndSwap(nil, &errSlowFile) // which the agent logs
		return false
	}
}

// errSlowFile is the failure of a disk that does not keep up, or hangs. Who meets it waits for no
// disk, and so sets it at once; it ends when there is room again for long.
var errSlowFile = errors.New("records come faster than their file takes them")

// room reports whether there is some for long: a disk that is slow takes a record now and then.
func (f *RecordFile) room() bool { return len(f.queue) <= cap(f.queue)/2 }

// Close writes what waits. Nothing is added any more.
func (f *RecordFile) Close() error {
	f.once.Do(func() { close(f.queue) })
	<-f.ended
	return nil
}

// Err is why records cannot be written to the file now, nil where they can.
func (f *RecordFile) Err() error {
	if err := f.failure.Load(); err != nil {
		return *err
	}
	return nil
}

func (f *RecordFile) note(err error) {
	switch slow := f.slow(); {
	case err == nil && slow && !f.room():
	case err == nil:
		if f.failure.Swap(nil) != nil && !slow {
			f.log.Info("records of ports are written to their file again")
		}
	case f.failure.Swap(&err) == nil || slow:
		f.log.WithError(err).Error("records of ports cannot be written to their file: they are in memory alone until that works")
	}
}

func (f *RecordFile) write() {
	defer close(f.ended)
	flush := time.NewTicker(recordFlush)
	defer flush.Stop()
	for {
		select {
		case r, ok := <-f.queue:
			if !ok {
				f.note(f.end())
				return
			}
			f.take(r)
		case <-flush.C:
			if f.file != nil {
				f.note(f.flush())
			}
		}
	}
}

// take puts a record, to the disk at once where the one before it failed.
func (f *RecordFile) take(r *api.KeptRecord) {
	err := f.put(r)
	if err == nil && (f.Err() == nil || f.slow() && !f.room()) {
		return
	}
	if err == nil && f.file != nil {
		err = f.flush()
	}
	f.note(err)
}

// slow reports whether the failure is that of add.
func (f *RecordFile) slow() bool { return f.failure.Load() == &errSlowFile }

// flush writes what is buffered. A file that fails is closed.
func (f *RecordFile) flush() error {
	err := f.buf.Flush()
	if err == nil && !f.kept {
		err = f.file.Sync()
		f.kept = err == nil
	}
	return f.checked(err)
}

// checked closes the file where an operation on it failed.
func (f *RecordFile) checked(err error) error {
	if err != nil {
		f.file.Close() // the first error says more
		f.file = nil
	}
	return err
}

// put appends a record, to the next file where this one is full. A file that fails is opened
// again for the next record; one that is full and cannot become the older one takes none.
func (f *RecordFile) put(r *api.KeptRecord) error {
	var err error
	if f.file == nil {
		err = f.open()
	}
	if err == nil && f.size >= f.most {
		if err = f.end(); err == nil {
			err = f.open()
		}
	}
	if err != nil {
		return err
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	n, err := f.buf.Write(append(line, '\n'))
	f.size += int64(n)
	if err != nil || f.size < f.most {
		return f.checked(err)
	}
	return f.end()
}

// end writes what is buffered and closes the file. A full one makes room for the next.
func (f *RecordFile) end() error {
	if f.file == nil {
		return nil
	}
	if err := f.flush(); err != nil {
		return err
	}
	err := f.file.Close()
	if f.file = nil; f.size >= f.most {
		err = errors.Join(err, os.Rename(f.path, f.path+api.OlderRecords))
	}
	return err
}
