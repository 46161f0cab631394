package catalog

import (
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
)

// The columns of every index, in the order of the file. Only key and path have rows of different length. A reader looks
// columns up by name and ignores those that it does not know.
var (
	sampleColumns = []arrow.Field{
		{Name: "shard", Type: arrow.PrimitiveTypes.Uint32},
		{Name: "offset", Type: arrow.PrimitiveTypes.Uint64},
		{Name: "length", Type: arrow.PrimitiveTypes.Uint32},
		{Name: "codec", Type: arrow.PrimitiveTypes.Uint8},
		{Name: "sampling", Type: arrow.PrimitiveTypes.Uint8},
		{Name: "process", Type: arrow.PrimitiveTypes.Uint8},
		{Name: "channels", Type: arrow.PrimitiveTypes.Uint8},
		{Name: "orientation", Type: arrow.PrimitiveTypes.Uint8},
		{Name: "verdict", Type: arrow.PrimitiveTypes.Uint8},
		{Name: "width", Type: arrow.PrimitiveTypes.Uint32},
		{Name: "height", Type: arrow.PrimitiveTypes.Uint32},
		{Name: "crc32c", Type: arrow.PrimitiveTypes.Uint32},
		{Name: "seek_offset", Type: arrow.PrimitiveTypes.Uint64},
		{Name: "seek_length", Type: arrow.PrimitiveTypes.Uint32},
		{Name: "seek_crc32c", Type: arrow.PrimitiveTypes.Uint32},
		{Name: "label", Type: arrow.PrimitiveTypes.Int64},
		{Name: "key", Type: arrow.BinaryTypes.String},
	}
	folderColumns = []arrow.Field{
		{Name: "path", Type: arrow.BinaryTypes.String},
		{Name: "mtime_ns", Type: arrow.PrimitiveTypes.Int64},
	}
	// For containers with compressed parts: "offset" is that of the block.
	blockColumns = []arrow.Field{
		{Name: "block_stored", Type: arrow.PrimitiveTypes.Uint32},
		{Name: "block_size", Type: arrow.PrimitiveTypes.Uint32},
		{Name: "block_inner", Type: arrow.PrimitiveTypes.Uint32},
		{Name: "block_codec", Type: arrow.PrimitiveTypes.Uint8},
	}
)

// columnsOf returns the columns of a dataset of that kind with those fields, with or without blocks.
func columnsOf(kind Kind, blocks bool, fields []Field) []arrow.Field {
	all := append([]arrow.Field(nil), sampleColumns...)
	if kind == Indexed {
		all = append(all, folderColumns...)
	}
	if blocks {
		all = append(all, blockColumns...)
	}
	for i := range fields {
		all = append(all, fields[i].arrowFields()...)
	}
	return all
}

func schemaOf(kind Kind, blocks bool, fields []Field) *arrow.Schema {
	meta := arrow.MetadataFrom(map[string]string{
		"headrace.version":        strconv.Itoa(formatVersion),
		"headrace.rows_per_batch": strconv.Itoa(RowsPerBatch),
	})
	return arrow.NewSchema(columnsOf(kind, blocks, fields), &meta)
}
