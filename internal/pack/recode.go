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
// Resize and Quality lose information, Baseline and Raw do not.
// They change what a training sees, or at least what is stored. So the manifest says how many images were changed.
type RecodeOptions struct {
	Resize   *int32 `json:"resize"`   // pixels of the shorter side, if it is longer
	Quality  *int32 `json:"quality"`  // of the JPEGs written, 1 to 100; nil with Resize: 90
	Baseline bool   `json:"baseline"` // progressive and arithmetic-coded JPEGs become baseline
	Raw      bool   `json:"raw"`      // decoded pixels, as PPM, so that nothing is left to decode

	// The command of a process that decodes unsupported files with Pillow; empty: such files stay as they are.
	Pillow []string `json:"pillow"`
	// Fields of bytes that are further images of a sample, which Pillow decodes likewise.
	PillowFields []string `json:"pillow_fields"`
}

const (
	defaultQuality = 90
	// This is libjpeg's longest side (JPEG_MAX_DIMENSION in jmorecfg.h), because the result may be a JPEG. The format
	// itself has 16 bits for it (ITU-T T.81, B.2.2).
	maxResize = 65500
)

// check refuses what is out of range, before any file is read.
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

// quality is used if an image is re-encoded, because of resize= or quality=.
func (c *RecodeOptions) quality() int32 {
	if c.Quality != nil {
		return *c.Quality
	}
	return defaultQuality
}

// lossy says how images are re-encoded; "" if none is.
// The text goes into the manifest unchanged (Manifest.Lossy), and is shown to whoever opens the dataset.
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

// reencodes says whether an image is to be re-encoded. An image that is small enough keeps its bytes, because
// re-encoding would lose quality for nothing.
// The shorter side decides, as in torchvision's Resize.
func (c *RecodeOptions) reencodes(f *catalog.Facts) bool {
	if c.Resize != nil {
		return min(f.Width, f.Height) > uint32(*c.Resize)
	}
	return c.Quality != nil
}

// recoded says what was done to a file.
// The summary counts lossy and lossless changes separately.
type recoded uint8

const (
	original   recoded = iota // or the same pixels without a code
	reencoded                 // from pixels: lossy
	toBaseline                // from coefficients: lossless
)

// recode replaces the bytes of a good image as c asks. It never changes faulty images, because whoever repairs one
// later needs the original.
// The bytes are replaced in the record, so shard, checksum and seek points are those of the new file.
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
	if !r.raw && !r.pillow { // for arrays and for Pillow's images it is set already
		r.original = r.length
	}
	switch {
	case c.Raw:
		r.raw, r.extension = true, "ppm"
		if !c.reencodes(&r.facts) { // at its own size no pixel changes
			made = original
		}
	case made == reencoded && codec != native.CodecJPEG:
		r.raw, r.extension = false, "jpg"
	}
	r.data, r.length, r.recoded, r.verdict = data, int64(len(data)), made, catalog.Unknown
	// The index's facts are read from the bytes that are stored, whoever wrote them.
	if err := in.inspect(r); err != nil {
		return err
	}
	if r.verdict != catalog.Good {
		return recordError(r, fault.KindInternal, "the file written anew is not good: "+r.reason, nil)
	}
	return nil
}

// recodeError returns nil if the file stays as it is, because it exceeds a limit or is coded as no baseline file can
// be. An error of this machine or of ours ends the job.
// An image that cannot be re-encoded is as good as before, so it keeps its bytes.
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
