package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/mmap"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A manifest ends in its own checksum, over every byte before this tail. Without it, nobody would notice a flipped bit
// in a class name.
const (
	tailFormat = ",\n \"crc32c\": \"%08x\"\n}\n"
	tailBytes  = len(",\n \"crc32c\": \"00000000\"\n}\n")
)

func hexCRC(crc uint32) string { return fmt.Sprintf("%08x", crc) }

// parseCRC takes exactly eight hexadecimal digits.
func parseCRC(s string) (uint32, error) {
	v, err := strconv.ParseUint(s, 16, 32)
	if err != nil || len(s) != 8 {
		return 0, fmt.Errorf("%.20q is no checksum of eight hexadecimal digits", s)
	}
	return uint32(v), nil
}

// Encode returns the bytes of headrace.json.
func (m *Manifest) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	// This keeps "<" in a class name readable.
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(m); err != nil {
		return nil, err
	}
	if b.Len()+tailBytes > maxManifestBytes {
		return nil, fmt.Errorf("it has %d bytes (expected at most %d)", b.Len()+tailBytes, maxManifestBytes)
	}
	body := bytes.TrimSuffix(b.Bytes(), []byte("\n}\n"))
	return fmt.Appendf(body, tailFormat, crc32.Checksum(body, castagnoli)), nil
}

// DecodeManifest is the inverse of Encode, for bytes from any source.
func DecodeManifest(file string, data []byte) (*Manifest, error) {
	m := new(Manifest)
	err := json.Unmarshal(data, m)
	if m.Format == formatName && m.MinReader > readerVersion {
		// This comes first, because what a later version writes need not parse with this one.
		return nil, NewError(fault.KindUnsupported, file, "the dataset needs a reader of version %d, this is version %d", m.MinReader, readerVersion)
	}
	if err != nil {
		return nil, NewError(fault.KindBadFile, file, "the manifest is not understood: %v", err)
	}
	// The checksum is compared before anything in the manifest is trusted. Someone who changes it on purpose can make a
	// new checksum, and is stopped by the checks that follow.
	body := data[:max(0, len(data)-tailBytes)]
	found := fmt.Sprintf(tailFormat, crc32.Checksum(body, castagnoli))
	if string(data[len(body):]) != found {
		return nil, &Error{Kind: fault.KindChecksum, File: file, Record: -1, Offset: int64(len(body)),
			Text: fmt.Sprintf("the manifest's checksum is not that of the bytes before it (expected %08x)", crc32.Checksum(body, castagnoli))}
	}
	if err := m.check(); err != nil {
		return nil, NewError(fault.KindBadFile, file, "the manifest is wrong: %v", err)
	}
	return m, nil
}

// ReadManifest reads and checks the manifest at path.
func ReadManifest(path string) (*Manifest, error) {
	f, err := mmap.OpenRegular(path)
	if err != nil {
		return nil, IOError(path, "cannot open the manifest", err)
	}
	defer f.Close()
	// This counts the text and what is made of it.
	if info, err := f.Stat(); err == nil {
		if short := headroom.Memory(4 * min(info.Size(), maxManifestBytes)); short != nil {
			return nil, short
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxManifestBytes+1))
	if err != nil {
		return nil, IOError(path, "cannot read the manifest", err)
	}
	if len(data) > maxManifestBytes {
		return nil, NewError(fault.KindLimit, path, "the manifest has more than %d bytes, the limit", maxManifestBytes)
	}
	return DecodeManifest(path, data)
}
