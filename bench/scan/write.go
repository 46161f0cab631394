package main

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/protobuf/encoding/protowire"
)

// writers make a container of count samples, numbered from first on: an image of size bytes, of which only the first
// bytes are a JPEG's, and a label.
var writers = map[string]func(path string, first, count, size int) error{
	"tar": file(writeTar), "tfrecord": file(writeTFRecord), "mds": file(writeMDS), "zip": file(writeZip), "arrow": file(writeArrow),
	"lmdb": file(writeLMDB), "beton": file(writeBeton),
}

func file(write func(w io.Writer, first, count, size int) error) func(string, int, int, int) error {
	return func(path string, first, count, size int) error {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		w := bufio.NewWriterSize(f, 1<<20)
		if err := write(w, first, count, size); err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
		return f.Close()
	}
}

// photo returns an image that differs from every other one.
func photo(number, size int) []byte {
	data := make([]byte, size)
	copy(data, "\xff\xd8\xff\xe0")
	binary.LittleEndian.PutUint64(data[8:], uint64(number))
	for i := 16; i < size; i++ {
		data[i] = byte(i * number >> 3)
	}
	return data
}

func writeTar(w io.Writer, first, count, size int) error {
	t := tar.NewWriter(w)
	for i := first; i < first+count; i++ {
		label := fmt.Append(nil, i%1000)
		for ending, data := range map[string][]byte{"jpg": photo(i, size), "cls": label} {
			if err := t.WriteHeader(&tar.Header{Name: fmt.Sprintf("%08d.%s", i, ending), Mode: 0o644, Size: int64(len(data))}); err != nil {
				return err
			}
			if _, err := t.Write(data); err != nil {
				return err
			}
		}
	}
	return t.Close()
}

func writeTFRecord(w io.Writer, first, count, size int) error {
	le, castagnoli := binary.LittleEndian, crc32.MakeTable(crc32.Castagnoli)
	masked := func(b []byte) uint32 {
		crc := crc32.Checksum(b, castagnoli)
		return (crc>>15 | crc<<17) + 0xa282ead8
	}
	field := func(to []byte, number protowire.Number, data []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), data)
	}
	feature := func(to []byte, name string, list protowire.Number, value []byte) []byte {
		entry := field(field(nil, 1, []byte(name)), 2, field(nil, list, value))
		return field(to, 1, entry)
	}
	for i := first; i < first+count; i++ {
		features := feature(nil, "image/encoded", 1, field(nil, 1, photo(i, size)))
		features = feature(features, "image/class/label", 3, field(nil, 1, protowire.AppendVarint(nil, uint64(i%1000))))
		example := field(nil, 1, features)
		record := le.AppendUint64(nil, uint64(len(example)))
		record = append(le.AppendUint32(record, masked(record)), example...)
		if _, err := w.Write(le.AppendUint32(record, masked(example))); err != nil {
			return err
		}
	}
	return nil
}

func writeMDS(w io.Writer, first, count, size int) error {
	const config = `{"column_encodings":["jpeg","int"],"column_names":["image","label"],"column_sizes":[null,8],"format":"mds","version":2}`
	le := binary.LittleEndian
	head := le.AppendUint32(nil, uint32(count))
	for i := range count + 1 {
		head = le.AppendUint32(head, uint32(4+4*(count+1)+len(config)+i*(4+size+8)))
	}
	if _, err := w.Write(append(head, config...)); err != nil {
		return err
	}
	for i := first; i < first+count; i++ {
		sample := append(le.AppendUint32(nil, uint32(size)), photo(i, size)...)
		if _, err := w.Write(le.AppendUint64(sample, uint64(i%1000))); err != nil {
			return err
		}
	}
	return nil
}

func writeZip(w io.Writer, first, count, size int) error {
	z := zip.NewWriter(w)
	for i := first; i < first+count; i++ {
		m, err := z.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("train/%03d/%08d.jpg", i%1000, i), Method: zip.Store})
		if err != nil {
			return err
		}
		if _, err := m.Write(photo(i, size)); err != nil {
			return err
		}
	}
	return z.Close()
}

func writeArrow(w io.Writer, first, count, size int) error {
	schema := arrow.NewSchema([]arrow.Field{{Name: "image", Type: arrow.BinaryTypes.Binary}, {Name: "label", Type: arrow.PrimitiveTypes.Int64}}, nil)
	out := ipc.NewWriter(w, ipc.WithSchema(schema))
	const batch = 1000
	for begin := first; begin < first+count; begin += batch {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for i := begin; i < min(begin+batch, first+count); i++ {
			b.Field(0).(*array.BinaryBuilder).Append(photo(i, size))
			b.Field(1).(*array.Int64Builder).Append(int64(i % 1000))
		}
		if err := out.Write(b.NewRecordBatch()); err != nil {
			return err
		}
	}
	return out.Close()
}

// lmdbPage returns a page of an LMDB with its header (mdb.c, "Page header").
func lmdbPage(number uint64, flags uint16, nodes [][]byte) []byte {
	le, page := binary.LittleEndian, make([]byte, 4096)
	le.PutUint64(page, number)
	le.PutUint16(page[10:], flags)
	upper := len(page)
	for i, node := range nodes {
		upper -= (len(node) + 1) &^ 1
		copy(page[upper:], node)
		le.PutUint16(page[16+2*i:], uint16(upper))
	}
	le.PutUint16(page[12:], uint16(16+2*len(nodes)))
	le.PutUint16(page[14:], uint16(upper))
	return page
}

// writeLMDB writes a tree without free pages. Its values are Datums on pages of their own, each stretch of pages before
// its leaf.
func writeLMDB(w io.Writer, first, count, size int) error {
	const perLeaf, perBranch = 100, 100
	le := binary.LittleEndian
	key := func(i int) []byte { return fmt.Appendf(nil, "%08d", i) }
	type child struct {
		page  uint64
		first []byte
	}
	value := func(i int) []byte {
		data := protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), photo(i, size))
		data = protowire.AppendVarint(protowire.AppendTag(data, 5, protowire.VarintType), uint64(i%1000))
		return protowire.AppendVarint(protowire.AppendTag(data, 7, protowire.VarintType), 1)
	}
	length := len(value(first))
	pages := uint64(16+size+32+4095) / 4096
	leaves := uint64(count+perLeaf-1) / perLeaf
	next := 2 + uint64(count)*pages + leaves // number of the first branch, because the head has the root's place
	level, total := int(leaves), uint64(0)
	for level > 1 {
		level = (level + perBranch - 1) / perBranch
		total += uint64(level)
	}
	root, depth := next+total-1, 1
	for n := int(leaves); n > 1; n = (n + perBranch - 1) / perBranch {
		depth++
	}
	if err := writeLMDBMetas(w, root, depth, count); err != nil {
		return err
	}
	at := uint64(2)
	var children []child
	for begin := first; begin < first+count; begin += perLeaf {
		var nodes [][]byte
		for i := begin; i < min(begin+perLeaf, first+count); i++ {
			stretch := make([]byte, pages*4096)
			le.PutUint64(stretch, at)
			le.PutUint16(stretch[10:], 4)
			le.PutUint32(stretch[12:], uint32(pages))
			data := value(i)
			copy(stretch[16:], data)
			if _, err := w.Write(stretch); err != nil {
				return err
			}
			node := le.AppendUint16(le.AppendUint32(nil, uint32(len(data))), 1)
			node = append(le.AppendUint16(node, 8), key(i)...)
			nodes = append(nodes, le.AppendUint64(node, at))
			at += pages
		}
		if _, err := w.Write(lmdbPage(at, 2, nodes)); err != nil {
			return err
		}
		children = append(children, child{at, key(begin)})
		at++
	}
	for len(children) > 1 {
		var above []child
		for len(children) > 0 {
			own := children[:min(perBranch, len(children))]
			children = children[len(own):]
			var nodes [][]byte
			for _, c := range own {
				node := le.AppendUint16(le.AppendUint32(nil, uint32(c.page)), uint16(c.page>>32))
				nodes = append(nodes, append(le.AppendUint16(node, 8), c.first...))
			}
			if _, err := w.Write(lmdbPage(at, 1, nodes)); err != nil {
				return err
			}
			above = append(above, child{at, own[0].first})
			at++
		}
		children = above
	}
	if at-1 != root || length < size {
		return fmt.Errorf("the root is page %d, the head says %d", at-1, root)
	}
	return nil
}

// writeLMDBMetas writes the two meta pages; a reader takes the one with the later transaction.
func writeLMDBMetas(w io.Writer, root uint64, depth, count int) error {
	le := binary.LittleEndian
	for meta := range uint64(2) {
		page := lmdbPage(meta, 8, nil)
		head := page[16:]
		le.PutUint32(head, 0xBEEFC0DE)
		le.PutUint32(head[4:], 1)
		le.PutUint32(head[24:], 4096)
		le.PutUint64(head[24+40:], 1<<64-1)
		le.PutUint16(head[72+6:], uint16(depth))
		le.PutUint64(head[72+32:], uint64(count))
		le.PutUint64(head[72+40:], root)
		le.PutUint64(head[120:], root)
		le.PutUint64(head[128:], meta)
		if _, err := w.Write(page); err != nil {
			return err
		}
	}
	return nil
}

// writeBeton writes FFCV's header, its rows, one page for each series of images, and the table of allocations.
func writeBeton(w io.Writer, first, count, size int) error {
	le := binary.LittleEndian
	const pageSize, row = 1 << 21, 24
	perPage := pageSize / size
	begin := (24 + 2*1041 + count*row + pageSize - 1) / pageSize * pageSize
	place := func(i int) uint64 { return uint64(begin + i/perPage*pageSize + i%perPage*size) }
	table := begin + (count+perPage-1)/perPage*pageSize
	head := le.AppendUint32(le.AppendUint16(le.AppendUint16(nil, 2), 2), pageSize)
	head = le.AppendUint64(le.AppendUint64(head, uint64(count)), uint64(table))
	for i, name := range []string{"image", "label"} {
		field := make([]byte, 1041)
		field[0] = []byte{2, 1}[i]
		copy(field[1:], name)
		head = append(head, field...)
	}
	for i := range count { // mode, width, height and place; the label is at 16
		cell := make([]byte, row)
		le.PutUint16(cell[1:], 64)
		le.PutUint16(cell[3:], 64)
		le.PutUint64(cell[5:], place(i))
		le.PutUint64(cell[16:], uint64((first+i)%1000))
		head = append(head, cell...)
	}
	if _, err := w.Write(append(head, make([]byte, begin-len(head))...)); err != nil {
		return err
	}
	for i := range count {
		if _, err := w.Write(photo(first+i, size)); err != nil {
			return err
		}
		if last := i%perPage == perPage-1 || i == count-1; last {
			used := (i%perPage + 1) * size
			if _, err := w.Write(make([]byte, pageSize-used)); err != nil {
				return err
			}
		}
	}
	for i := range count {
		entry := le.AppendUint64(le.AppendUint64(nil, uint64(i)), place(i))
		if _, err := w.Write(le.AppendUint64(entry, uint64(size))); err != nil {
			return err
		}
	}
	return nil
}
