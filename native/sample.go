package native

/*
#cgo noescape hrn_sample
#cgo nocallback hrn_sample
#cgo noescape hrn_samples
#cgo nocallback hrn_samples
#cgo noescape hrn_learned
#cgo nocallback hrn_learned
#include "native.h"
*/
import "C"

import "unsafe"

// Seek is a record's seek points: C or mapped memory that stays readable for the call. With HasCRC,
// points whose checksum is not CRC32C are ignored: the pixels are still right, but take longer.
type Seek struct {
	Data   unsafe.Pointer
	Length int64
	CRC32C uint32
	HasCRC bool
	// For points that were learned: they are ignored unless Image is the record's CRC-32C.
	Image    uint32
	HasImage bool
	// Learn notes missing points while the sample is decoded; Learned returns them.
	Learn bool
}

// Raw says what the bytes of a sample without a header are: pixels, with value c of pixel (y, x) at
// Origin + y*Row + x*Pixel + c*Channel. The zero value stands for a sample that has a header.
type Raw struct {
	Width, Height, Channels     uint32
	Origin, Row, Pixel, Channel int64
}

func (r *Raw) c() C.hrn_raw {
	return C.hrn_raw{width: C.uint32_t(r.Width), height: C.uint32_t(r.Height), channels: C.uint32_t(r.Channels),
		origin: C.int64_t(r.Origin), row: C.int64_t(r.Row), pixel: C.int64_t(r.Pixel), channel: C.int64_t(r.Channel)}
}

// View is one image of a sample: the plan that makes it, and where it goes. To is C, mapped or
// pinned memory of at least the plan's size.
type View struct {
	Plan     *Plan
	To       unsafe.Pointer
	Capacity uint64

	// For an unmixed plan, whose view must be the sample's only one: what of it is finished at
	// once; whether it stays at To to wait for another sample; and the samples that are made with
	// it then.
	Patches [2]Patch
	Waits   bool
	MixUps  [2]MixUp
}

// MixUp is a sample that is made of the sample at hand and of Other, which already waits.
type MixUp struct {
	To, Other unsafe.Pointer // To is nil for none
	Lambda    float64        // the share of the sample that it is made for,
	Theirs    bool           // which is Other if this is true
}

func (m *MixUp) c() C.hrn_mixup {
	mixup := C.hrn_mixup{destination: m.To, other: m.Other, lambda: C.double(m.Lambda)}
	if m.Theirs {
		mixup.theirs = 1
	}
	return mixup
}

// Patch is a part of a finished sample: the pixels of a box, or all others.
type Patch struct {
	To                       unsafe.Pointer // the place of a whole sample; nil for no patch
	Top, Left, Height, Width int32
	Outside                  bool
}

func (p *Patch) c() C.hrn_patch {
	patch := C.hrn_patch{destination: p.To, top: C.int32_t(p.Top), left: C.int32_t(p.Left),
		height: C.int32_t(p.Height), width: C.int32_t(p.Width)}
	if p.Outside {
		patch.outside = 1
	}
	return patch
}

// MaxViews is how many views a sample may have.
const MaxViews = C.HRN_MAX_VIEWS

// Sample makes one finished sample from the encoded bytes at data and writes each of its views to
// its place: checksum (unless crc is nil), header, limits, draws, cropped decode, resize, flip,
// normalise, cast. It is one C call and allocates nothing in Go unless it fails. The key is that of
// the first view. The others differ from it only in View, which counts up.
//
// seek is the record's seek points, as InspectSeek made them, or the zero value.
//
// data is C, mapped or pinned memory. warnings counts what the decoder complained about; the pixels
// are still Pillow's. The error is an *Error. After an error the views' content is undefined.
func (c *Context) Sample(data unsafe.Pointer, length int64, seek Seek, key Key, crc *uint32,
	views ...View) (warnings uint32, err error) {
	return c.sample(data, length, seek, nil, key, crc, views)
}

// SampleRaw is Sample for bytes without a header.
func (c *Context) SampleRaw(data unsafe.Pointer, length int64, raw *Raw, key Key, views ...View) error {
	_, err := c.sample(data, length, Seek{}, raw, key, nil, views)
	return err
}

func (c *Context) sample(data unsafe.Pointer, length int64, seek Seek, raw *Raw, key Key, crc *uint32,
	views []View) (warnings uint32, err error) {
	if length < 0 {
		return 0, &Error{Code: Argument, Offset: -1, Text: "negative record length"}
	}
	if len(views) > MaxViews {
		return 0, &Error{Code: Argument, Offset: -1, Text: "too many views"}
	}
	job := C.hrn_job{
		bytes:       (*C.uint8_t)(data),
		length:      C.size_t(length),
		key:         key.c(),
		view_count:  C.int32_t(len(views)),
		seek:        (*C.uint8_t)(seek.Data),
		seek_length: C.size_t(seek.Length),
	}
	if raw != nil {
		job.raw = raw.c()
	}
	for i, v := range views {
		job.views[i] = C.hrn_view{plan: v.Plan.c, destination: v.To, capacity: C.uint64_t(v.Capacity)}
	}
	if len(views) == 1 {
		for k := range views[0].Patches {
			job.patches[k] = views[0].Patches[k].c()
			job.mixups[k] = views[0].MixUps[k].c()
		}
		if views[0].Waits {
			job.waits = 1
		}
	}
	if seek.HasCRC {
		job.seek_crc32c = C.uint32_t(seek.CRC32C)
		job.check_seek_crc = 1
	}
	if seek.HasImage {
		job.image_crc32c = C.uint32_t(seek.Image)
		job.check_image_crc = 1
	}
	if seek.Learn {
		job.learn = 1
	}
	if crc != nil {
		job.crc32c = C.uint32_t(*crc)
		job.check_crc = 1
	}
	var status C.hrn_status
	C.hrn_sample(c.c, &job, &status)
	if status.code != C.HRN_OK {
		return uint32(status.warnings), failure(&status)
	}
	return uint32(status.warnings), nil
}

// Row is one image of a run. Bytes and To are C, mapped or pinned memory, or the program's own.
type Row struct {
	Bytes        unsafe.Pointer
	Sample, Draw uint64
	To           unsafe.Pointer
}

// Samples is SampleRaw for many images of one array in one C call. Each image has length bytes, a
// key that differs in sample and draw, and a place of at least capacity bytes. The first done
// images are finished. An error, which is an *Error, is that of the next one.
func (c *Context) Samples(plan *Plan, raw *Raw, length int64, capacity uint64, key Key, rows []Row) (done int, err error) {
	if len(rows) == 0 {
		return 0, nil
	}
	run := C.hrn_run{plan: plan.c, raw: raw.c(), length: C.size_t(length), capacity: C.uint64_t(capacity), key: key.c()}
	var status C.hrn_status
	var finished C.int32_t
	// A Row is an hrn_run_row (init checks).
	C.hrn_samples(c.c, &run, (*C.hrn_run_row)(unsafe.Pointer(&rows[0])), C.int32_t(len(rows)), &finished, &status)
	if status.code != C.HRN_OK {
		return int(finished), failure(&status)
	}
	return int(finished), nil
}

func init() {
	var r Row
	var c C.hrn_run_row
	if unsafe.Sizeof(r) != unsafe.Sizeof(c) || unsafe.Offsetof(r.Draw) != unsafe.Offsetof(c.draw) ||
		unsafe.Offsetof(r.To) != unsafe.Offsetof(c.destination) {
		panic("native.Row is not laid out as hrn_run_row")
	}
}

// Learned returns the seek points that Sample noted for the record that it made last, as
// InspectSeek finds them, or those of its first rows. crc is the CRC-32C of the record's bytes,
// which must still be readable. The points are the context's until its next call. If ok is true and
// there are no points, the record can never have any, because it is not clean to its end. If ok is
// false, nothing was learned: the record is no baseline JPEG, or was decoded with the points that
// it had.
func (c *Context) Learned() (points []byte, crc uint32, ok bool) {
	var found *C.uint8_t
	var size C.size_t
	var sum C.uint32_t
	if c.c == nil || !C.hrn_learned(c.c, &found, &size, &sum) {
		return nil, 0, false
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(found)), int(size)), uint32(sum), true
}
