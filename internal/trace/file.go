package trace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/fault"
)

// mostNames is how many names of one trace are tried: the caller's, and those with a number.
const mostNames = 4096

// written holds the files of this process, which never overwrites one of its own.
var (
	writing sync.Mutex
	written = map[string]bool{}
)

// create opens the file of a trace: at path, or with the next number in its name ("run-2.json") if this process has
// written there already, or if another one, such as another rank, is writing there now.
func create(path string) (*os.File, string, error) {
	writing.Lock()
	defer writing.Unlock()
	whole, err := filepath.Abs(path)
	if err != nil {
		return nil, "", err
	}
	extension := filepath.Ext(whole)
	for number := 1; number <= mostNames; number++ {
		name := whole
		if number > 1 {
			name = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(whole, extension), number, extension)
		}
		if written[name] {
			continue
		}
		file, err := begin(name)
		if errors.Is(err, unix.EWOULDBLOCK) {
			continue
		}
		if err == nil {
			written[name] = true
		}
		return file, name, err
	}
	return nil, "", fault.New(fault.KindLimit, fmt.Sprintf("%s: limit: %d traces of that name are there or being written", path, mostNames))
}

// begin opens a file for writing. The file is empty, and locked as long as it is open. A file that another process is
// writing is not touched.
func begin(name string) (*os.File, error) {
	// It does not block, because a FIFO without a reader would keep the loader waiting.
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, err
	}
	undo := func(err error) (*os.File, error) {
		_ = file.Close()
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return undo(err)
	}
	if !info.Mode().IsRegular() {
		return undo(fault.New(fault.KindArgument, fault.Argument("path", name, "a regular file")))
	}
	// On a file system without locks, a name has only one writer if each process is given its own name.
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return undo(err)
	}
	if err := file.Truncate(0); err != nil {
		return undo(err)
	}
	return file, nil
}
