package fault

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// packages returns the names of the module's packages whose errors a user can see. "labels" is left out: it is
// also an argument of a loader, and errors about an argument begin with its name.
func packages(t *testing.T) []string {
	found := []string{"capi", "mmap", "native", "pinned"}
	below, err := os.ReadDir("..")
	require.NoError(t, err)
	for _, entry := range below {
		if entry.IsDir() && entry.Name() != "labels" {
			found = append(found, regexp.QuoteMeta(entry.Name()))
		}
	}
	require.Greater(t, len(found), 20)
	return found
}

func TestNoTextInTheSourceBeginsWithItsPackagesName(t *testing.T) {
	prefix := regexp.MustCompile(`^(op %?d?|configuration|` + strings.Join(packages(t), "|") + `): `)
	files, texts := 0, 0
	for _, root := range []string{"../../internal", "../../mmap", "../../capi", "../../pinned"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files++
			parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			require.NoError(t, err)
			ast.Inspect(parsed, func(n ast.Node) bool {
				if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					text, err := strconv.Unquote(literal.Value)
					require.NoError(t, err)
					texts++
					assert.NotRegexp(t, prefix, text, path)
				}
				return true
			})
			return nil
		}))
	}
	require.Greater(t, files, 100)
	require.Greater(t, texts, 1000)
}
