// Package scan opens datasets of whatever a user has: it finds the kind of a source by its content, and
// reads the headers of containers that have no index into a catalog.Table. Packed datasets, indexes and
// image folders it hands on to package catalog.
//
// A container is walked by a file of its own (tar.go, tfrecord.go, recordio.go, beton.go, zip.go, mds.go,
// lmdb.go, litdata.go, table.go for Arrow and Parquet), which yields samples as named cells:
// a cell is a value, or the place of bytes in the file. What is the image, the label and a field of a
// sample is decided in one place for all containers (columns.go, part.go and the files beside it, merge.go), so that
// the words image=, label=, fields= and classes= mean the same everywhere. The package decodes no pixels and never
// unpickles; names inside containers are names only, nothing is opened by them.
package scan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
)

// Options of Open. The zero value finds everything itself.
type Options struct {
	catalog.Options
	Format  string   // one of Formats; "": by content
	Image   string   // column of images; alternatives are separated by ";"
	Label   string   // column of labels; "json.NAME" is a member of a JSON object
	Fields  []string // columns to keep beside them; nil: all
	Classes []string // names of labels in the order of their numbers
	Split   string   // which of the splits that the names of files tell apart, of an LMDB's databases, or of the folders in an archive

	MostBlock int64 // bytes of a compressed block that is decoded for its samples, stored and decoded; 0: blocks.MostBytes

	// Inspect answers what a source holds also where image or label are in doubt or missing: what else is an error is a
	// warning then. The dataset that it gives is to be looked at, not read.
	Inspect bool

	// No user sets what follows: it is settled while the source is opened, and is here because the walks need it.
	lit      *litFolder // of LitData's chunks
	database string     // Split, where it is one of an LMDB's databases
	within   string     // Split, where it is a folder in an archive

	rows []string   // tables of the rows that are selected of a saved dataset; nil: all
	away *awayFiles // where the containers lie in a store, and what waits for it; nil: in files

	walked *walked // what is counted of this scan
}

// Formats are the containers that are read.
// Errors list them in this order.
var Formats = []string{"webdataset", "tar", "tfrecord", "recordio", "beton", "zip", "mds", "lmdb", "arrow", "parquet", "litdata"}

// check refuses what can be told without a container. Whether a column is there only the containers tell.
func (o *Options) check() error {
	if o.Format != "" && !slices.Contains(Formats, o.Format) {
		return catalog.NewError(fault.KindArgument, "", "%s", fault.Argument("format", o.Format, fmt.Sprintf("one of %q", Formats)))
	}
	// Only one of them would be looked for, and a sample with another one alone would have no label.
	if strings.Count(";"+o.Label, ";json.") > 1 {
		return catalog.NewError(fault.KindArgument, "", "%s", fault.Argument("label", o.Label, "at most one member of JSON objects"))
	}
	return nil
}

// Given is true of options that are about containers alone.
// An index has settled them, and an image folder has nothing that they could choose.
func (o *Options) Given() bool {
	return o.Format != "" || o.Image != "" || o.Label != "" || o.Fields != nil || o.Classes != nil || o.Split != ""
}
