package pack

import (
	"bufio"
	"hash/crc32"

	"github.com/headrace/headrace/internal/catalog"
)

// seekFile collects the seek points of all records. The file is made at the first record that has some.
// There is one file for a dataset, because one for each shard would be one more file to open with every shard.
type seekFile struct {
	create  func() (catalog.Made, error)
	file    catalog.Made
	out     *bufio.Writer
	size    int64
	samples int64
}

// add appends a record's points and returns their place.
// The checksum covers one record's points, so that reading a sample needs no other sample's points.
func (s *seekFile) add(points []byte) (catalog.SeekPlace, error) {
	if len(points) == 0 {
		return catalog.SeekPlace{}, nil
	}
	if s.file == nil {
		f, err := s.create()
		if err != nil {
			return catalog.SeekPlace{}, err
		}
		s.file, s.out = f, bufio.NewWriterSize(f, 1<<18)
		s.out.Write(catalog.SeekHead()) // a bufio.Writer keeps its error for the next write
		s.size = catalog.SeekHeadBytes
	}
	if _, err := s.out.Write(points); err != nil {
		return catalog.SeekPlace{}, catalog.IOError(s.file.Name(), "cannot write the seek file", err)
	}
	place := catalog.SeekPlace{Offset: s.size, Length: int64(len(points)), CRC32C: crc32.Checksum(points, castagnoli)}
	s.size += place.Length
	s.samples++
	return place, nil
}

// finish makes sure that all is on disk or in the store; it returns nil if there is no file. The caller sets the name.
// It is called before the index is finished, because the index names places in the file.
func (s *seekFile) finish() (*catalog.SeekFile, error) {
	if s.file == nil {
		return nil, nil
	}
	err := s.out.Flush()
	if err == nil {
		err = s.file.Commit()
	}
	if err != nil {
		return nil, catalog.IOError(s.file.Name(), "cannot write the seek file", err)
	}
	return &catalog.SeekFile{Size: s.size, Samples: s.samples}, nil
}

// abandon closes and removes the file.
func (s *seekFile) abandon() {
	if s.file != nil {
		s.file.Abandon()
		s.file = nil
	}
}
