// Package inject lets a test make system calls fail: it runs a part of the test in a child process
// and attaches strace to it. The child meets the errors that the kernel would give, so that error
// paths are tested without failing disks or full memory. It knows nothing of what is
// tested; only tests import it.
package inject

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

const (
	variable = "HEADRACE_INJECT"
	marker   = "answer: "
	ready    = "ready"
	patience = 20 * time.Second
)

// Run starts this test binary again to run only the test named child, and waits until that calls Begin. Then it
// attaches strace with the faults ("pread64:error=EIO:when=1..3"; several are separated by semicolons; "path=/dev/zero"
// among them spares all calls that do not concern that file). It returns what the child gives to Answer. argument is
// what Begin returns. If strace is missing or may not attach, it skips the test and says why.
func Run(t *testing.T, child, argument, faults string) string {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed: no fault can be injected")
	}
	process := exec.Command(os.Args[0], "-test.run=^"+child+"$", "-test.v")
	process.Env = append(os.Environ(), variable+"="+argument)
	in, err := process.StdinPipe()
	check(t, err)
	out, err := process.StdoutPipe()
	check(t, err)
	check(t, process.Start())
	defer end(process)
	lines := bufio.NewScanner(out)
	if said := next(lines); said != ready {
		t.Fatalf("the child says %q", said)
	}
	defer end(attach(t, strace, process.Process.Pid, faults))
	_, err = io.WriteString(in, "go\n")
	check(t, err)
	return next(lines)
}

// attach returns once strace is in place.
func attach(t *testing.T, strace string, pid int, faults string) *exec.Cmd {
	t.Helper()
	arguments := []string{"-f", "-o", "/dev/null", "-p", fmt.Sprint(pid)}
	for fault := range strings.SplitSeq(faults, ";") {
		if path, found := strings.CutPrefix(fault, "path="); found {
			arguments = append(arguments, "-P", path)
			continue
		}
		arguments = append(arguments, "-e", "inject="+fault)
	}
	tracer := exec.Command(strace, arguments...)
	said, err := tracer.StderrPipe()
	check(t, err)
	check(t, tracer.Start())
	first := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(said)
		lines.Scan()
		first <- lines.Text()
		for lines.Scan() { // otherwise strace would block on a full pipe
		}
	}()
	select {
	case line := <-first:
		if !strings.Contains(line, "attached") {
			end(tracer)
			t.Skipf("strace cannot attach: %s", line)
		}
	case <-time.After(patience):
		end(tracer)
		t.Fatal("strace says nothing")
	}
	return tracer
}

// The child calls Begin at the point where faults should begin; it returns Run's argument. In an ordinary run of the
// tests it skips the test.
func Begin(t *testing.T) (argument string, begin func()) {
	t.Helper()
	argument, isChild := os.LookupEnv(variable)
	if !isChild {
		t.Skip("runs only as the child of another test")
	}
	// strace counts calls by thread ("when=1..3").
	runtime.LockOSThread()
	return argument, func() {
		fmt.Println(marker + ready)
		// An error here means that the parent has died, and this child ends next.
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	}
}

// Answer reports what the child met; it is one line.
func Answer(text string) { fmt.Println(marker + text) }

func next(lines *bufio.Scanner) string {
	for lines.Scan() {
		if text, found := strings.CutPrefix(lines.Text(), marker); found {
			return text
		}
	}
	return "the child ended without an answer"
}

func end(c *exec.Cmd) {
	_ = c.Process.Kill() // it may have ended already
	_ = c.Wait()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
