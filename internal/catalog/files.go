package catalog

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/remote"
)

// givenFiles is a list of files at any place, each with its label.
type givenFiles struct {
	names  formats.Names
	labels []int64
}

func (g *givenFiles) Len() int64          { return g.names.Len() }
func (g *givenFiles) Path(i int64) string { return string(g.names.Bytes(i)) }
func (g *givenFiles) Label(i int64) int64 {
	if g.labels == nil {
		return NoLabel
	}
	return g.labels[i]
}

// FromFiles makes a dataset of files where they lie. No file is touched: a missing one is an error when it is read.
// labels may be nil, and so may classes.
func FromFiles(paths []string, labels []int64, classes []string) (*Dataset, error) {
	if len(paths) == 0 {
		return nil, NewError(fault.KindEmpty, "", "no paths were given")
	}
	if labels != nil && len(labels) != len(paths) {
		return nil, NewError(fault.KindArgument, "", "labels has %d entries (expected %d, one for each of paths)", len(labels), len(paths))
	}
	files := &givenFiles{}
	if labels != nil {
		files.labels = append([]int64(nil), labels...)
	}
	for i, p := range paths {
		if p == "" || len(p) > formats.MaxNameBytes || strings.IndexByte(p, 0) >= 0 {
			return nil, NewError(fault.KindArgument, "", "paths[%d] is %.80q (expected 1 to %d bytes without NUL)", i, p, formats.MaxNameBytes)
		}
		if remote.IsURL(p) { // an address may hold a secret, and paths are shown in errors
			return nil, NewError(fault.KindUnsupported, remote.Display(p), "paths[%d] is the address of an object (expected the path of a file; objects are read as folders or containers)", i)
		}
		files.names.Append(p)
	}
	for i, label := range labels {
		if len(classes) > 0 && (label < 0 || label >= int64(len(classes))) {
			return nil, NewError(fault.KindArgument, paths[i], "labels[%d] is %d (expected 0 to %d, there are %d classes)", i, label, len(classes)-1, len(classes))
		}
	}
	d := &Dataset{kind: Listed, rows: files.Len(), files: files, classes: append([]string(nil), classes...)}
	d.fingerprint = sync.OnceValue(func() string { return listFingerprint(files) })
	d.refs.Store(1)
	return d, nil
}

// listFingerprint covers what is known of listed files: names and labels, in order.
func listFingerprint(files fileList) string {
	h := sha256.New()
	var b []byte
	for i := range files.Len() {
		name := files.Path(i)
		b = binary.LittleEndian.AppendUint64(b[:0], uint64(len(name)))
		b = append(b, name...)
		b = binary.LittleEndian.AppendUint64(b, uint64(files.Label(i)))
		h.Write(b)
	}
	return "listed-" + hex.EncodeToString(h.Sum(nil)[:16])
}
