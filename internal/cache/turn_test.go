package cache

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOneThreadAtATimeHasTheTurnOfAKeyAndOtherKeysDoNotWait(t *testing.T) {
	c := Open(t.TempDir(), LeastBound)
	defer c.Close()
	var inside, most atomic.Int32
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			end := c.Turn(Key{1})
			now := inside.Add(1)
			most.Store(max(most.Load(), now))
			time.Sleep(time.Millisecond)
			inside.Add(-1)
			end()
		})
	}
	all.Wait()
	require.EqualValues(t, 1, most.Load())
	end := c.Turn(Key{1})
	c.Turn(Key{9, 9})() // would hang if it waited
	end()
}

// turnOf names the directory of a child that takes a turn and never ends.
const turnOf = "HEADRACE_TEST_TURN"

func TestTheTurnOfAKilledProcessIsFree(t *testing.T) {
	dir := t.TempDir()
	program, err := os.Executable()
	require.NoError(t, err)
	command := exec.Command(program)
	command.Env = append(os.Environ(), turnOf+"="+dir)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	var line string
	_, err = fmt.Fscanln(out, &line)
	require.NoError(t, err)
	c := Open(dir, LeastBound)
	defer c.Close()
	had := make(chan bool)
	go func() {
		c.Turn(Key{1})()
		close(had)
	}()
	select {
	case <-had:
		t.Fatal("two processes had the turn")
	case <-time.After(5 * turnPause):
	}
	require.NoError(t, command.Process.Kill())
	_ = command.Wait()
	<-had
}

func TestNobodyWaitsForATurnWhereFilesCannotBeLocked(t *testing.T) {
	c := Open(t.TempDir(), LeastBound)
	defer c.Close()
	require.NoError(t, os.Mkdir(c.path(turnsName), 0o700))
	first, second := c.Turn(Key{1}), c.Turn(Key{1})
	first()
	second()
}
