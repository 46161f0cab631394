package native

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
// other: a call of what stands above is an undefined reference.
func TestEachPackageLinksWithWhatItImportsAlone(t *testing.T) {
	for _, name := range packages(t) {
		program := filepath.Join(t.TempDir(), "main.go")
		text := fmt.Sprintf("package main\n\nimport _ %q\n\nfunc main() {}\n", filepath.Join(module, "native", name))
		require.NoError(t, os.WriteFile(program, []byte(text), 0o600))
		run(t, ".", "go", "build", "-o", os.DevNull, program)
	}
}

// includers are the packages with a C file that the header reaches, by the compiler.
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

// Neither constant is used by the package whose header it stands in: its objects stay the same, and
// only what is embedded can tell the others. A value that was never built before is in no cache.
func TestAChangedHeaderHasEveryPackageThatItReachesCompiledAnew(t *testing.T) {
	root := t.TempDir()
	for _, folder := range []string{"native", "internal/fault"} { // and the one other that native imports
		require.NoError(t, os.CopyFS(filepath.Join(root, folder), os.DirFS(filepath.Join("..", folder))))
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join("..", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(root, name), data, 0o600))
	}
	build := func() []string {
		return strings.Fields(run(t, root, "go", "build", "-trimpath", "-v", "./native/..."))
	}
	build()
	require.Empty(t, build())
	for header, constant := range map[string]string{
		"core/image.h": "HRN_STRIP_ROWS = ",
		"draws/op.h":   "HRN_PAD_SYMMETRIC = ",
	} {
		path := filepath.Join(root, "native", header)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		never := fmt.Sprintf("%s%d + ", constant, time.Now().UnixNano()%1e9)
		changed := strings.Replace(string(data), constant, never, 1)
		require.NotEqual(t, string(data), changed)
		require.NoError(t, os.WriteFile(path, []byte(changed), 0o600))

		built := build()
		reached := includers(t, header)
		require.Greater(t, len(reached), 2, header)
		for _, name := range reached {
			require.True(t, slices.Contains(built, name), "%s is not compiled anew for %s", name, header)
		}
	}
}
