package environment

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAVariableHasItsCurrentValueInC(t *testing.T) {
	t.Setenv("HEADRACE_TEST_ENVIRONMENT", "a value")
	require.Equal(t, "a value", Get("HEADRACE_TEST_ENVIRONMENT"))
	require.Empty(t, Get("HEADRACE_TEST_NO_SUCH"))
}

func TestFollowChangesNothingWhereCAndGoAgree(t *testing.T) {
	t.Setenv("HEADRACE_TEST_ENVIRONMENT", "a=b")
	before := os.Environ()
	require.False(t, Follow("HEADRACE_", "PATH"))
	require.ElementsMatch(t, before, os.Environ())
	// A child process gets C's variables, so none of those was lost either.
	out, err := exec.Command("env").Output()
	require.NoError(t, err)
	require.Contains(t, strings.Split(string(out), "\n"), "HEADRACE_TEST_ENVIRONMENT=a=b")
}

func TestNoVariableIsLostWhileAnotherThreadSetsAndUnsetsOthers(t *testing.T) {
	// These stand before the others, which move when one of these is set or unset.
	churn := make([]string, 300)
	for i := range churn {
		churn[i] = fmt.Sprintf("HEADRACE_CHURN_%d", i)
		t.Setenv(churn[i], "")
	}
	names := make([]string, 200)
	for i := range names {
		names[i] = fmt.Sprintf("HEADRACE_STEADY_%d", i)
		t.Setenv(names[i], names[i])
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			default:
			}
			name := churn[i%len(churn)]
			os.Unsetenv(name)
			os.Setenv(name, strings.Repeat("x", i%100))
		}
	}()
	for range 300 {
		changed := Follow("HEADRACE_STEADY_")
		if changed {
			t.Error("a variable that did not change was set or unset")
			break
		}
	}
	close(over)
	<-ended
	for _, name := range names {
		require.Equal(t, name, Get(name))
		require.Equal(t, name, os.Getenv(name))
	}
}
