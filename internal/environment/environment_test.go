package environment

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAVariableHasTheValueThatCHasNow(t *testing.T) {
	t.Setenv("HEADRACE_TEST_ENVIRONMENT", "a value")
	require.Equal(t, "a value", Get("HEADRACE_TEST_ENVIRONMENT"))
	require.Empty(t, Get("HEADRACE_TEST_NO_SUCH"))
}

func TestWhatIsTheSameInCAndGoStays(t *testing.T) {
	t.Setenv("HEADRACE_TEST_ENVIRONMENT", "a=b")
	before := os.Environ()
	require.False(t, Follow("HEADRACE_", "PATH"))
	require.ElementsMatch(t, before, os.Environ())
	// A child gets what C has, so nothing of it was lost either.
	out, err := exec.Command("env").Output()
	require.NoError(t, err)
	require.Contains(t, strings.Split(string(out), "\n"), "HEADRACE_TEST_ENVIRONMENT=a=b")
}
