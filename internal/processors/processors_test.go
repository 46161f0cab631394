package processors

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// take calls Take where threads are not scarce.
func take(t *testing.T, n int) {
	t.Helper()
	got, short := Take(n, n)
	require.NoError(t, short)
	require.Equal(t, n, got)
}

func TestGOMAXPROCSIsRaisedByOneForEachGoroutineInC(t *testing.T) {
	require.GreaterOrEqual(t, runtime.GOMAXPROCS(0), 2*Cores())
	take(t, 7)
	raised := runtime.GOMAXPROCS(0)
	require.Equal(t, 2*Cores()+7, raised)
	Return(7)
	require.Equal(t, raised, runtime.GOMAXPROCS(0), "not lowered, because a change of GOMAXPROCS stops the world")
	take(t, 3)
	require.Equal(t, raised, runtime.GOMAXPROCS(0))
	Return(3)
	require.Zero(t, busy)
	take(t, most+100)
	require.Equal(t, 2*Cores()+most, runtime.GOMAXPROCS(0))
	Return(most + 100)
}

func TestScarceThreadsGoToGoroutinesFirstAndThenToProcessors(t *testing.T) {
	const leave, want, least, procs = 6, 16, 3, 20
	require.Zero(t, busy)
	for found, expected := range map[int][2]int{
		10:  {0, 2},
		13:  {3, 2}, // the least number, although nothing is left for others
		16:  {3, 2},
		20:  {5, 2},
		40:  {16, 10},
		100: {16, 20},
	} {
		goroutines, ps := divide(found, leave, want, least, procs)
		require.Equal(t, expected, [2]int{goroutines, ps}, found)
	}
	goroutines, _ := divide(5, leave, want, 0, procs)
	require.Zero(t, goroutines)
}
