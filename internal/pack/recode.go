package pack

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/native"
)

// RecodeOptions ask for files that are not the original bytes; the zero value keeps every byte.
// Resize and Quality lose, Baseline and Raw do not.
// They change what a training sees, or at least what is stored, so that the manifest says how many images they were done to.
type RecodeOptions struct {
	Resize   *int32 `json:"resize"`   // pixels of the shorter side, where it is longer
	Quality  *int32 `json:"quality"`  // of the JPEGs written, 1 to 100; nil with Resize: 90
	Baseline bool   `json:"baseline"` // progressive and arithmetic-coded JPEGs become baseline
	Raw      bool   `json:"raw"`      // decoded pixels, as PPM: nothing is left to decode

	// The command of a process that decodes with Pillow what is unsupported; none: such files stay.
	Pillow []string `json:"pillow"`
	// Fields of bytes that are further images of a sample, which go the same way.
	PillowFields []string `json:"pillow_fields"`
}

const (
	defaultQuality = 90
	// libjpeg's longest side (JPEG_MAX_DIMENSION in jmorecfg.h), for the result may be a JPEG. The format itself has 16 bits
	// for it (ITU-T T.81, B.2.2).
	maxResize = 65500
)

// check names what is out of range before any file is read.
func (c *RecodeOptions) check() error {
	for _, o := range []struct {
		name  string
		value *int32
		most  int32
	}{{"resize", c.Resize, maxResize}, {"quality", c.Quality, 100}} {
		if o.value != nil && (*o.value < 1 || *o.value > o.most) {
			return catalog.NewError(fault.KindArgument, "", "%s is %d (expected 1 to %d)", o.name, *o.value, o.most)
		}
	}
	if c.Raw && (c.Quality != nil || c.Baseline) {
		return catalog.NewError(fault.KindArgument, "", "raw goes with resize alone: it writes no JPEG that had a quality or could be baseline")
	}
	return nil
}

// quality counts where an image is encoded anew, by resize= or by quality=.
func (c *RecodeOptions) quality() int32 {
	if c.Quality != nil {
		return *c.Quality
	}
	return defaultQuality
}

// lossy says how images are re-encoded; "" where none is.
// It is written into the manifest as it is (Manifest.Lossy), and shown to whoever opens the dataset.
func (c *RecodeOptions) lossy() string {
	switch {
	case c.Resize != nil && c.Raw:
		return fmt.Sprintf("resize %d, raw", *c.Resize)
	case c.Resize != nil:
		return fmt.Sprintf("resize %d, quality %d", *c.Resize, c.quality())
	case c.Quality != nil:
		return fmt.Sprintf("quality %d", *c.Quality)
	}
	return ""
}

// reencodes reports whether an image is to be encoded anew. What is small enough keeps its bytes:
// another generation would lose for nothing.
// The shorter side decides, as in torchvision's Resize.
func (c *RecodeOptions) reencodes(f *catalog.Facts) bool {
	if c.Resize != nil {
		return min(f.Width, f.Height) > uint32(*c.Resize)
	}
	return c.Quality != nil
}

// recoded says what became of a file.
// The summary counts what lost something apart from what did not.
type recoded uint8

const (
	original   recoded = iota // or the same pixels without a code
	reencoded                 // from pixels: lossy
	toBaseline                // from coefficients: lossless
)

// recode replaces the bytes of a good image as c asks. Faulty images are never touched: whoever
// mends one later needs what was there.
// The bytes are replaced in the record: shard, checksum and seek points are all of the new file.
func (in *inspector) recode(r *record, c *RecodeOptions) error {
	if r.verdict != catalog.Good || len(r.data) == 0 {
		return nil
	}
	codec, first := r.facts.Codec, unsafe.Pointer(unsafe.SliceData(r.data))
	var data []byte
	var err error
	made := original
	switch {
	case c.Raw || c.reencodes(&r.facts):
		how := native.Encoding{Quality: c.quality(), Orientation: r.facts.Orientation}
		if c.Resize != nil {
			how.Shorter = *c.Resize
		}
		write := in.context.Reencode
		if c.Raw {
			write = in.context.ToPPM
		}
		data, err = write(first, r.length, how, r.data[:0])
		made = reencoded
	case c.Baseline && (r.facts.Process == native.ProcessProgressive || r.facts.Process == native.ProcessArithmetic):
		var did bool
		if data, did, err = in.context.ToBaseline(first, r.length, r.data[:0]); did {
			made = toBaseline
		}
	}
	if err != nil {
		return recodeError(r, err)
	}
	if made == original {
		return nil
	}
	if !r.raw && !r.pillow { // of an array, and of what Pillow decoded, it is known
		r.original = r.length
	}
	switch {
	case c.Raw:
		r.raw, r.extension = true, "ppm"
		if !c.reencodes(&r.facts) { // at its own size: no pixel is another
			made = original
		}
	case made == reencoded && codec != native.CodecJPEG:
		r.raw, r.extension = false, "jpg"
	}
	r.data, r.length, r.recoded, r.verdict = data, int64(len(data)), made, catalog.Unknown
	// What the index says is read from the bytes that are stored, whoever wrote them.
	if err := in.inspect(r); err != nil {
		return err
	}
	if r.verdict != catalog.Good {
		return recordError(r, fault.KindInternal, "the file written anew is not good: "+r.reason, nil)
	}
	return nil
}

// recodeError is nil where the file stays as it is: over a limit, or coded as no baseline file can
// be. What is about this machine or about us ends the job.
// An image that cannot be written anew is as good as before: its own bytes are kept.
func recodeError(r *record, err error) error {
	var e *native.Error
	if errors.As(err, &e) {
		switch e.Code {
		case native.Limit, native.Unsupported, native.Bad:
			return nil
		case native.Memory:
			return recordError(r, fault.KindMemory, e.Text, nil)
		}
	}
	return recordError(r, fault.KindInternal, "cannot write the image anew", err)
}
