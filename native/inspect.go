package native

/*
#cgo noescape hrn_inspect
#cgo nocallback hrn_inspect
#cgo noescape hrn_inspect_seek
#cgo nocallback hrn_inspect_seek
#cgo noescape hrn_decode_header
#cgo nocallback hrn_decode_header
#cgo noescape hrn_decode_size
#cgo nocallback hrn_decode_size
#cgo noescape hrn_crc32c
#cgo nocallback hrn_crc32c
#include "native.h"
*/
import "C"

import (
	"errors"
	"unsafe"
)

// The values of Facts.Codec.
const (
	CodecUnknown uint8 = C.HRN_CODEC_UNKNOWN
	CodecJPEG    uint8 = C.HRN_CODEC_JPEG
	CodecPNG     uint8 = C.HRN_CODEC_PNG
	CodecPPM     uint8 = C.HRN_CODEC_PPM
	CodecRaw     uint8 = C.HRN_CODEC_RAW
	CodecWebP    uint8 = C.HRN_CODEC_WEBP
	CodecBMP     uint8 = C.HRN_CODEC_BMP
	CodecGIF     uint8 = C.HRN_CODEC_GIF
	CodecTIFF    uint8 = C.HRN_CODEC_TIFF
)

// The values of Facts.Sampling: how a JPEG's colour is stored in proportion to its brightness.
const (
	SamplingUnknown uint8 = C.HRN_SAMPLING_UNKNOWN
	Sampling444     uint8 = C.HRN_SAMPLING_444
	Sampling422     uint8 = C.HRN_SAMPLING_422
	Sampling420     uint8 = C.HRN_SAMPLING_420
	Sampling440     uint8 = C.HRN_SAMPLING_440
	Sampling411     uint8 = C.HRN_SAMPLING_411
	SamplingGrey    uint8 = C.HRN_SAMPLING_GREY
	SamplingOther   uint8 = C.HRN_SAMPLING_OTHER
)

// The values of Facts.Process: how the data is coded.
const (
	ProcessUnknown       uint8 = C.HRN_PROCESS_UNKNOWN
	ProcessBaseline      uint8 = C.HRN_PROCESS_BASELINE
	ProcessProgressive   uint8 = C.HRN_PROCESS_PROGRESSIVE
	ProcessArithmetic    uint8 = C.HRN_PROCESS_ARITHMETIC
	ProcessLossless      uint8 = C.HRN_PROCESS_LOSSLESS
	ProcessPNG           uint8 = C.HRN_PROCESS_PNG
	ProcessPNGInterlaced uint8 = C.HRN_PROCESS_PNG_INTERLACED
	ProcessRaw           uint8 = C.HRN_PROCESS_RAW
	ProcessWebP          uint8 = C.HRN_PROCESS_WEBP
	ProcessWebPLossless  uint8 = C.HRN_PROCESS_WEBP_LOSSLESS
	ProcessRLE           uint8 = C.HRN_PROCESS_RLE
	ProcessLZW           uint8 = C.HRN_PROCESS_LZW
	ProcessDeflate       uint8 = C.HRN_PROCESS_DEFLATE
)

// Facts are what a record's header says of it.
type Facts struct {
	Width, Height   uint32 // pixels; 0 if the header could not be read
	RestartInterval uint32 // MCUs, 0 for none
	ScanOffset      uint32 // first entropy-coded byte; 0 except for JPEG
	CRC32C          uint32 // of all bytes, whatever the verdict
	Scans           uint32 // counted when the entropy data was read

	Codec, Sampling, Process uint8
	Channels                 uint8 // components of a pixel as stored: 1, 2, 3, 4
	Bits                     uint8 // bits of a sample
	Orientation              uint8 // EXIF's 1-8, 0 for none
}

// Inspect reads the header of the record at data, or with entropy all of its coded data once,
// without making pixels. The error is then the verdict on the file. It is an *Error, or nil. facts
// are filled as far as they could be read, also with an error. warnings counts what libjpeg or zlib
// would have complained about; the pixels are still Pillow's.
func (c *Context) Inspect(data unsafe.Pointer, length int64, entropy bool) (facts Facts,
	warnings uint32, err error) {
	if length < 0 {
		return Facts{}, 0, &Error{Code: Argument, Offset: -1, Text: "negative record length"}
	}
	if c.c == nil {
		return Facts{}, 0, errors.New("native: Inspect on a closed context")
	}
	depth := C.int(C.HRN_HEADER)
	if entropy {
		depth = C.HRN_ENTROPY
	}
	var f C.hrn_facts
	var status C.hrn_status
	C.hrn_inspect(c.c, (*C.uint8_t)(data), C.size_t(length), depth, &f, &status)
	return factsOf(&f), uint32(status.warnings), failure(&status)
}

func factsOf(f *C.hrn_facts) Facts {
	return Facts{
		Width:           uint32(f.width),
		Height:          uint32(f.height),
		RestartInterval: uint32(f.restart_interval),
		ScanOffset:      uint32(f.scan_offset),
		CRC32C:          uint32(f.crc32c),
		Scans:           uint32(f.scans),
		Codec:           uint8(f.codec),
		Sampling:        uint8(f.sampling),
		Process:         uint8(f.process),
		Channels:        uint8(f.channels),
		Bits:            uint8(f.bits),
		Orientation:     uint8(f.orientation),
	}
}

// Header reads the size of the record at data, and nothing behind the header. The error is an
// *Error.
func (c *Context) Header(data unsafe.Pointer, length int64) (width, height uint32, err error) {
	if length < 0 || c.c == nil {
		return 0, 0, &Error{Code: Argument, Offset: -1, Text: "negative record length, or a closed context"}
	}
	var w, h C.uint32_t
	var status C.hrn_status
	C.hrn_decode_header(c.c, (*C.uint8_t)(data), C.size_t(length), &w, &h, &status)
	if status.code != C.HRN_OK {
		return 0, 0, failure(&status)
	}
	return uint32(w), uint32(h), nil
}

// Size returns the size of the image that Sample or Header read last.
func (c *Context) Size() (width, height uint32) {
	var w, h C.uint32_t
	if c.c != nil {
		C.hrn_decode_size(c.c, &w, &h)
	}
	return uint32(w), uint32(h)
}

// SeekStep is the distance between seek points in a row, in MCUs.
const SeekStep = C.HRN_SEEK_STEP

// InspectSeek is Inspect with entropy that also appends the record's seek points to seek: where
// every step-th MCU of each row begins. It appends nothing if there are none, because the record is
// no baseline JPEG or drew a warning.
func (c *Context) InspectSeek(data unsafe.Pointer, length int64, step uint32, seek []byte) (facts Facts,
	points []byte, warnings uint32, err error) {
	if length < 0 {
		return Facts{}, seek, 0, &Error{Code: Argument, Offset: -1, Text: "negative record length"}
	}
	if c.c == nil {
		return Facts{}, seek, 0, errors.New("native: InspectSeek on a closed context")
	}
	var f C.hrn_facts
	var status C.hrn_status
	var found *C.uint8_t
	var size C.size_t
	C.hrn_inspect_seek(c.c, (*C.uint8_t)(data), C.size_t(length), C.uint32_t(step), &f, &found, &size,
		&status)
	if found != nil {
		seek = append(seek, unsafe.Slice((*byte)(unsafe.Pointer(found)), int(size))...)
	}
	return factsOf(&f), seek, uint32(status.warnings), failure(&status)
}

// CRC32C continues the Castagnoli checksum crc, which is 0 at the start, over b.
func CRC32C(crc uint32, b []byte) uint32 {
	return uint32(C.hrn_crc32c(C.uint32_t(crc), (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(b))),
		C.size_t(len(b))))
}

// SIMD names the instruction set in use, "avx512", "avx2" or "scalar". The error says what is wrong
// with HEADRACE_SIMD; scalar is then used.
func SIMD() (string, error) {
	name := C.GoString(C.hrn_simd_name())
	if text := C.hrn_simd_error(); text != nil {
		return name, errors.New(C.GoString(text))
	}
	return name, nil
}

// Versions names the linked libraries and their versions.
func Versions() string { return C.GoString(C.hrn_library_versions()) }
