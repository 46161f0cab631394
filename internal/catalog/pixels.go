package catalog

import (
	"fmt"
	"unsafe"

	"github.com/headrace/headrace/internal/headroom"
)

// Pixels describes one image of an array: value c of pixel (y, x) is at Origin + y*Row + x*Pixel + c*Channel of the
// sample's bytes.
type Pixels struct {
	Height, Width, Channels     uint32
	Origin, Row, Pixel, Channel int64
}

// The codes are those of native/core/facts.h, and one that exists only in indexes of containers.
const (
	codecRaw      = 4
	processRaw    = 7
	processPlanar = 13
	processPlanes = 14 // the first plane is red
)

// RawSize is the form of an image that lies in a container as pixels without a header. The zero value stands for any
// other image.
//
//	not Planar        rows of pixels: of 3 channels RGB, of 4 RGBA, of 2 grey and alpha
//	Planar            planes: of 3 channels blue, green and red, as Caffe has them; of 1 that of grey
//	Planar and RGB    planes: of 3 channels red, green and blue, of 4 alpha behind these
//
// Alpha is dropped when the image is decoded.
type RawSize struct {
	Width, Height, Channels uint32
	Planar, RGB             bool
}

// bytes returns the size of such an image.
func (r RawSize) bytes() uint64 { return uint64(r.Channels) * uint64(r.Width) * uint64(r.Height) }

// Fills says whether the image has a form that is read, and exactly so many bytes. For any other image it is true.
func (r RawSize) Fills(bytes uint32) bool {
	// Each image has only one form, so that indexes state it in one way.
	known := r.Channels == 3 || r.Channels == 1 && r.Planar || r.Channels == 2 && !r.Planar || r.Channels == 4 && r.Planar == r.RGB
	known = known && (!r.RGB || r.Planar && r.Channels > 2)
	return r == RawSize{} || bytes > 0 && known && max(r.Width, r.Height) <= mostSide && r.bytes() == uint64(bytes)
}

// RawSize returns the form of a raw image, as it was given to MakeRaw or stands in an index.
func (s *Sample) RawSize() RawSize {
	return RawSize{s.Width, s.Height, uint32(s.Channels), s.Process == processPlanar || s.Process == processPlanes, s.Process == processPlanes}
}

// newlyRaw is true for a raw image that readers before inBlocksReader would take for a damaged one.
func (s *Sample) newlyRaw() bool {
	return s.Codec == codecRaw && (s.Channels == 2 || s.Channels == 4 || s.Process == processPlanes || s.Block.Codec != 0)
}

// MakeRaw turns a sample into such an image.
func (s *Sample) MakeRaw(r RawSize) {
	s.Width, s.Height, s.Channels, s.Codec, s.Process = r.Width, r.Height, uint8(r.Channels), codecRaw, processRaw
	pixel := int64(r.Channels)
	s.Pixels = &Pixels{Height: r.Height, Width: r.Width, Channels: r.Channels, Row: pixel * int64(r.Width), Pixel: pixel, Channel: 1}
	if r.Channels == 2 { // the decoder takes 1, 3 or 4 channels: it skips the alpha
		s.Pixels.Channels = 1
	}
	plane := int64(r.Width) * int64(r.Height)
	switch {
	case r.RGB:
		s.Process = processPlanes
		s.Pixels.Row, s.Pixels.Pixel, s.Pixels.Channel = int64(r.Width), 1, plane
	// Caffe's planes are blue, green, red. So the first channel is the last plane, and the others lie before it.
	case r.Planar:
		s.Process = processPlanar
		s.Pixels.Origin, s.Pixels.Row, s.Pixels.Pixel, s.Pixels.Channel = plane*int64(r.Channels-1), int64(r.Width), 1, -plane
	}
}

// ImageForm returns the size of all images, and whether all have one channel, if they are arrays of one shape;
// otherwise 0, 0.
func (d *Dataset) ImageForm() (width, height uint32, grey bool) {
	if d.arrays != nil {
		return d.arrays.pixels.Width, d.arrays.pixels.Height, d.arrays.pixels.Channels == 1
	}
	for i, part := range d.Parts() {
		w, h, g := part.ImageForm()
		if i > 0 && (w != width || h != height || g != grey) {
			return 0, 0, false
		}
		width, height, grey = w, h, g
	}
	return width, height, grey
}

// Bytes returns the program's own memory in which an image lies. Its first value is at Origin of its Pixels.
func (d *Dataset) Bytes(s Sample) (unsafe.Pointer, bool) {
	holder := d.Holder(s.Index)
	if holder.kind != InMemory {
		return nil, false
	}
	return unsafe.Add(holder.arrays.memory, s.Offset), true
}

// PPM returns an image of an array as a binary PPM file, or PGM if it has one channel. This is what callers get that
// ask for the encoded bytes of such an image. A fourth channel is dropped.
func (p *Pixels) PPM(data []byte) ([]byte, error) {
	kind, channels := 6, int64(3)
	if p.Channels == 1 {
		kind, channels = 5, 1
	}
	head := fmt.Sprintf("P%d %d %d 255\n", kind, p.Width, p.Height)
	bytes := int64(len(head)) + int64(p.Width)*int64(p.Height)*channels // below 2^51
	if short := headroom.Memory(bytes); short != nil {
		return nil, short
	}
	file := append(make([]byte, 0, bytes), head...)
	for y := range int64(p.Height) {
		row := p.Origin + y*p.Row
		if p.Channel == 1 && p.Pixel == channels {
			file = append(file, data[row:row+int64(p.Width)*channels]...)
			continue
		}
		for x := range int64(p.Width) {
			at := row + x*p.Pixel
			for c := range channels {
				file = append(file, data[at+c*p.Channel])
			}
		}
	}
	return file, nil
}
