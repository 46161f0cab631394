// Package scan opens any kind of source that a user has. It finds a source's kind by its content, and reads the headers
// of containers without an index into a catalog.Table. It passes packed datasets, indexes and image folders on to
// package catalog.
//
// Each kind of container has its own file (tar.go, tfrecord.go, recordio.go, beton.go, zip.go, mds.go, lmdb.go,
// litdata.go, table.go for Arrow and Parquet), which walks it and yields samples as named cells:
// a cell is a value, or the place of bytes in the file. What is the image, the label and a field of a sample is decided
// in one place for all containers (columns.go, part.go and the files beside it, merge.go). So the options image=,
// label=, fields= and classes= mean the same everywhere. The package decodes no pixels and never unpickles. Names
// inside containers are only names: nothing is opened by them.
package scan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
)

// Options are the options of Open. With the zero value everything is found automatically.
type Options struct {
	catalog.Options
	Format  string   // one of Formats; "": by content
	Image   string   // column of images; alternatives are separated by ";"
	Label   string   // column of labels; "json.NAME" is a member of a JSON object
	Fields  []string // columns to keep beside them; nil: all
	Classes []string // names of labels in the order of their numbers
	Split   string   // one of the splits by file names, or of an LMDB's databases, or of the folders in an archive

	MostBlock int64 // largest size of a compressed block that is decoded for its samples, both stored and decoded; 0: blocks.MostBytes

	// Inspect finds out what a source holds even if image or label are unclear or missing: such errors become warnings.
	// The resulting dataset is to be looked at, not read.
	Inspect bool

	// Users do not set the following members. They are set while the source is opened, and are here because the walks need
	// them.
	lit      *litFolder // the index of LitData's chunks
	database string     // Split, if it is one of an LMDB's databases
	within   string     // Split, if it is a folder in an archive

	rows []string   // tables of the selected rows of a saved dataset; nil: all rows
	away *awayFiles // the containers, if they lie in a store; nil: files on disk

	walked *walked // counts the work of this scan
}

// Formats are the names of the containers that are read.
// Errors list them in this order.
var Formats = []string{"webdataset", "tar", "tfrecord", "recordio", "beton", "zip", "mds", "lmdb", "arrow", "parquet", "litdata"}

// check refuses what is wrong whatever the containers hold. Whether a column exists only the containers show.
func (o *Options) check() error {
	if o.Format != "" && !slices.Contains(Formats, o.Format) {
		return catalog.NewError(fault.KindArgument, "", "%s", fault.Argument("format", o.Format, fmt.Sprintf("one of %q", Formats)))
	}
	// Only one of them would be looked for, and a sample that has only the other would have no label.
	if strings.Count(";"+o.Label, ";json.") > 1 {
		return catalog.NewError(fault.KindArgument, "", "%s", fault.Argument("label", o.Label, "at most one member of JSON objects"))
	}
	return nil
}

// Given is true if any option is set that is only for containers.
// An index was made with those options already, and an image folder has no use for them.
func (o *Options) Given() bool {
	return o.Format != "" || o.Image != "" || o.Label != "" || o.Fields != nil || o.Classes != nil || o.Split != ""
}
