package native

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/headrace/headrace/"

func run(t *testing.T, folder, name string, arguments ...string) string {
	command := exec.Command(name, arguments...)
	command.Dir = folder
	output, err := command.CombinedOutput()
	require.NoError(t, err, string(output))
	return string(output)
}

// packages are this one and those below it that hold C code, by their folders.
func packages(t *testing.T) []string {
	files, err := filepath.Glob("*/doc.go")
	require.NoError(t, err)
	found := []string{"."}
	for _, file := range files {
		found = append(found, filepath.Dir(file))
	}
	require.Greater(t, len(found), 1)
	return found
}

// A program that imports one package has the C code of that one and of those it imports, and no
// other. A call of a function of any other package is an undefined reference.
func TestAProgramThatImportsOnePackageOfNativeLinks(t *testing.T) {
	for _, name := range packages(t) {
		program := filepath.Join(t.TempDir(), "main.go")
		text := fmt.Sprintf("package main\n\nimport _ %q\n\nfunc main() {}\n", filepath.Join(module, "native", name))
		require.NoError(t, os.WriteFile(program, []byte(text), 0o600))
		run(t, ".", "go", "build", "-o", os.DevNull, program)
	}
}

// includers are the packages with a C file that includes the header, as the compiler says.
func includers(t *testing.T, header string) []string {
	var found []string
	for _, name := range packages(t) {
		sources, err := filepath.Glob(filepath.Join(name, "*.c"))
		require.NoError(t, err)
		output := run(t, ".", "gcc", append([]string{"-std=c11", "-D_GNU_SOURCE", "-MM"}, sources...)...)
		for _, file := range strings.Fields(output) {
			if filepath.Clean(file) == header {
				found = append(found, filepath.Join(module, "native", name))
				break
			}
		}
	}
	return found
}

// go build -n lists what would be compiled, with an overlay as the changed header. Neither constant is used
// by the package whose header defines it. So that package's objects stay the same, and the others can notice
// the change only by the files that are embedded.
func TestAChangedHeaderRecompilesEveryPackageThatIncludesIt(t *testing.T) {
	stale := func(flags ...string) (names []string) {
		for line := range strings.Lines(run(t, ".", "go", append(append([]string{"build", "-n"}, flags...), "./...")...)) {
			if name, found := strings.CutPrefix(strings.TrimSpace(line), "# "+module); found {
				names = append(names, module+name)
			}
		}
		return names
	}
	run(t, ".", "go", "build", "./...")
	require.Empty(t, stale())
	for header, constant := range map[string]string{
		"core/image.h": "HRN_STRIP_ROWS = ",
		"draws/op.h":   "HRN_PAD_SYMMETRIC = ",
	} {
		path, err := filepath.Abs(header)
		require.NoError(t, err)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		changed := strings.Replace(string(data), constant, constant+"77 + ", 1)
		require.NotEqual(t, string(data), changed)
		other, overlay := filepath.Join(t.TempDir(), "changed.h"), filepath.Join(t.TempDir(), "overlay.json")
		require.NoError(t, os.WriteFile(other, []byte(changed), 0o600))
		replaced, err := json.Marshal(map[string]map[string]string{"Replace": {path: other}})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(overlay, replaced, 0o600))

		reached := includers(t, header)
		require.Greater(t, len(reached), 2, header)
		require.Subset(t, stale("-overlay", overlay), reached, header)
	}
}
