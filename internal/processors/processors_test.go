package processors

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachGoroutineInCHasAProcessorBesideThoseOfTheStart(t *testing.T) {
	require.GreaterOrEqual(t, runtime.GOMAXPROCS(0), 2*Cores())
	Add(7)
	raised := runtime.GOMAXPROCS(0)
	require.Equal(t, 2*Cores()+7, raised)
	Add(-7)
	require.Equal(t, raised, runtime.GOMAXPROCS(0), "changing their number stops the world")
	Add(3)
	require.Equal(t, raised, runtime.GOMAXPROCS(0))
	Add(-3)
	require.Zero(t, busy)
	Add(most + 100)
	require.Equal(t, 2*Cores()+most, runtime.GOMAXPROCS(0))
	Add(-most - 100)
}
