package pinned

import (
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestASlotIsMadeDuringAStormOfSignals(t *testing.T) {
	received := make(chan os.Signal, 1)
	signal.Notify(received, unix.SIGUSR1)
	defer signal.Stop(received)
	p := newPool(t, Options{SlotBytes: 64 << 20})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := unix.Gettid()
	var sent atomic.Int64
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Microsecond):
				_ = unix.Tgkill(os.Getpid(), thread, unix.SIGUSR1)
				sent.Add(1)
			}
		}
	}()
	for sent.Load() < 3 {
		time.Sleep(time.Millisecond)
	}
	begin, before := time.Now(), sent.Load()
	s, err := p.Acquire()
	require.NoError(t, err)
	require.NoError(t, s.Populate(0, s.Bytes()))
	assert.Less(t, time.Since(begin), 10*time.Second)
	assert.Greater(t, sent.Load(), before, "signals were sent meanwhile")
	close(stop)
	<-stopped
	require.NoError(t, s.Abandon())
}
