package formats

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// TarBlock is the unit of a tar archive: a header is one block, and contents fill whole blocks.
const TarBlock = 512

const (
	tarRecord  = 20 * TarBlock // archives end with a record of 20 blocks, as tar itself writes them
	maxTarSize = 1<<33 - 1     // eleven octal digits
)

// These are the places of the fields of a header block (POSIX.1-1988, ustar).
var (
	tarName, tarMode     = tarField{0, 100}, tarField{100, 8}
	tarUID, tarGID       = tarField{108, 8}, tarField{116, 8}
	tarSize, tarMTime    = tarField{124, 12}, tarField{136, 12}
	tarChecksum, tarType = tarField{148, 8}, 156
	tarLink              = tarField{157, 100}
	tarMagic, tarPrefix  = tarField{257, 8}, tarField{345, 155}
	tarDevices           = [...]tarField{{329, 8}, {337, 8}}
)

const (
	ustarMagic = "ustar\x0000"
	gnuMagic   = "ustar  \x00"
)

type tarField struct{ at, length int }

func (f tarField) of(block []byte) []byte { return block[f.at : f.at+f.length] }

// text returns the field up to its NUL, if it has one.
func (f tarField) text(block []byte) string {
	b := f.of(block)
	if end := bytes.IndexByte(b, 0); end >= 0 {
		b = b[:end]
	}
	return string(b)
}

func (f tarField) putOctal(block []byte, v int64) {
	s := strconv.FormatInt(v, 8)
	copy(f.of(block), strings.Repeat("0", f.length-1-len(s))+s)
}

// number reads an octal field, with the blanks and NULs that writers put around the digits.
func (f tarField) number(block []byte) (int64, error) {
	b := f.of(block)
	if b[0]&0x80 != 0 {
		// GNU writes numbers that do not fit eleven octal digits in another form ("Extensions to the Standard" in its
		// manual). 0x80 begins a positive number, of a member of 8 GiB or more, which is valid but not read; 0xff begins a
		// negative one.
		kind := ErrBad
		if b[0] == 0x80 {
			kind = ErrUnsupported
		}
		return 0, fmt.Errorf("%w: a number is stored in base 256 (expected octal digits, which members of less than 8 GiB have)", kind)
	}
	s := strings.Trim(string(b), " \x00")
	if end := strings.IndexByte(s, 0); end >= 0 {
		s = s[:end]
	}
	if s == "" {
		return 0, nil
	}
	v, err := strconv.ParseUint(s, 8, 62)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is no octal number", ErrBad, s)
	}
	return int64(v), nil
}

// byteSum adds eight bytes at a time, in four lanes of 16 bits, which 64 words cannot overflow.
func byteSum(block *[TarBlock]byte) int64 {
	const lanes = 0x00ff00ff00ff00ff
	sum := uint64(0)
	// This sum is most of the work of a walk; it is computed once for each member.
	for at := 0; at < TarBlock; at += 8 {
		word := binary.LittleEndian.Uint64(block[at:])
		sum += word&lanes + word>>8&lanes
	}
	return int64(sum&0xffff + sum>>16&0xffff + sum>>32&0xffff + sum>>48)
}

// hasChecksum is true for a complete header. Nearly all have the unsigned sum.
func hasChecksum(block []byte) bool {
	stored, err := tarChecksum.number(block)
	if err != nil {
		return false
	}
	sum := byteSum((*[TarBlock]byte)(block))
	for _, c := range tarChecksum.of(block) {
		sum += ' ' - int64(c)
	}
	if stored == sum {
		return true
	}
	// Old writers treated bytes as signed. The two sums are equal if no byte is above 127.
	_, signed := checksums(block)
	return stored == signed
}

// checksums returns the sums of a header's bytes with the checksum field as blanks: unsigned as POSIX says, and signed
// as some old writers computed it.
func checksums(block []byte) (unsigned, signed int64) {
	unsigned = byteSum((*[TarBlock]byte)(block))
	signed = unsigned
	for _, c := range block[:TarBlock] {
		signed -= int64(c&0x80) << 1
	}
	for _, c := range tarChecksum.of(block) {
		unsigned += ' ' - int64(c)
		signed += ' ' - int64(int8(c))
	}
	return unsigned, signed
}

// padding returns how many bytes fill the last block of a content.
func padding(size int64) int64 { return -size & (TarBlock - 1) }

// splitName divides a name between the fields prefix and name, at a slash.
func splitName(name string) (prefix, rest string, ok bool) {
	if len(name) <= tarName.length {
		return "", name, true
	}
	// The last slash that leaves a prefix short enough gives the shortest rest.
	cut := strings.LastIndexByte(name[:min(len(name), tarPrefix.length+1)], '/')
	if cut <= 0 || len(name)-cut-1 > tarName.length || cut == len(name)-1 {
		return "", "", false
	}
	return name[:cut], name[cut+1:], true
}

// putTarHeader fills a block for a regular file. Owner, mode and time are fixed, so that equal samples give equal
// archives. Device numbers are zeros, because Python's tarfile expects digits.
func putTarHeader(block *[TarBlock]byte, name string, size int64) error {
	*block = [TarBlock]byte{}
	b := block[:]
	prefix, rest, ok := splitName(name)
	if !ok {
		return fmt.Errorf("%w: the name %.80q does not fit a ustar header", ErrLimit, name)
	}
	if size < 0 || size > maxTarSize {
		return fmt.Errorf("%w: %d bytes in one member, at most %d fit a ustar header", ErrLimit, size, int64(maxTarSize))
	}
	copy(tarName.of(b), rest)
	copy(tarPrefix.of(b), prefix)
	copy(tarMagic.of(b), ustarMagic)
	b[tarType] = '0'
	tarMode.putOctal(b, 0o644)
	tarSize.putOctal(b, size)
	for _, f := range [...]tarField{tarUID, tarGID, tarMTime, tarDevices[0], tarDevices[1]} {
		f.putOctal(b, 0)
	}
	sum, _ := checksums(b)
	copy(tarChecksum.of(b), fmt.Sprintf("%06o\x00 ", sum))
	return nil
}

// mostEmptyTar is the largest size of an archive without members: two blocks of zeros, filled up to a record. A record
// has 20 blocks unless its writer was asked for another number.
const mostEmptyTar = 128 * TarBlock

// IsEmptyTar recognises an archive without members by its first block and its size.
func IsEmptyTar(head []byte, size int64) bool {
	return len(head) >= TarBlock && [TarBlock]byte(head) == [TarBlock]byte{} && size%TarBlock == 0 && size >= 2*TarBlock && size <= mostEmptyTar
}

// IsTar recognises an archive by its first header, which must have a valid checksum, whoever wrote it.
func IsTar(head []byte) bool {
	if len(head) < TarBlock || [TarBlock]byte(head) == [TarBlock]byte{} {
		return false
	}
	return hasChecksum(head[:TarBlock])
}
