package pipeline

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachDecodeThreadHasAProcessorBesideThoseOfTheStart(t *testing.T) {
	addDecoders(0)
	first := processors.first
	before := processors.decoders
	addDecoders(7)
	require.Equal(t, before+7, processors.decoders)
	require.GreaterOrEqual(t, runtime.GOMAXPROCS(0), first+7)
	raised := runtime.GOMAXPROCS(0)
	addDecoders(-7)
	require.Equal(t, raised, runtime.GOMAXPROCS(0), "changing their number stops the world")
	addDecoders(3)
	require.Equal(t, raised, runtime.GOMAXPROCS(0))
	addDecoders(-3)
	require.Equal(t, before, processors.decoders)
}
