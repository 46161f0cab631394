package pipeline

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/labels"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

// MaxLabels is for how many labels the fields of a batch have room.
const MaxLabels = 12

// mostRows limits the number of boxes or keypoints that an index may claim for a sample.
const mostRows = 1 << 48

// Label is a field of the dataset that moves with the image.
type Label struct {
	Field   string
	Rule    labels.Rule
	encoded bool  // a mask whose field has files
	most    int64 // largest number of rows of any sample
}

// completeLabels checks the fields and finds out how much room they need.
func (c *Config) completeLabels() error {
	if len(c.Labels) > MaxLabels {
		return catalog.NewError(fault.KindArgument, "", "%s", fault.Argument("labels", len(c.Labels), fmt.Sprintf("at most %d", MaxLabels)))
	}
	for _, phase := range c.Recipe.Phases {
		size, _ := phase.Views[0].FixedSize()
		if len(c.Labels) > 0 && (len(phase.Views) > 1 || size.Images > 0) {
			return catalog.NewError(fault.KindArgument, "", "labels move with one image of a sample (expected one view)")
		}
	}
	for i := range c.Labels {
		label := &c.Labels[i]
		field, ok := c.Dataset.Field(label.Field)
		if !ok {
			return catalog.NewError(fault.KindArgument, "", "labels: the dataset has no field %q", label.Field)
		}
		if label.Rule.Kind == labels.Image {
			if field.Type != catalog.Bytes {
				return label.refused(field, "bytes, those of an encoded image")
			}
			if err := label.checkForm(c.Recipe.Phases[0].Views[0].Output()); err != nil {
				return err
			}
			continue
		}
		if label.Rule.Kind == labels.Mask {
			if field.Type != catalog.Bytes && (field.Type != catalog.ArrayType || field.DType != "uint8") {
				return label.refused(field, "bytes or arrays of uint8")
			}
			label.encoded = field.Type == catalog.Bytes
			continue
		}
		width := elementBytes[field.DType]
		if field.Type != catalog.ArrayType || width == 0 {
			return label.refused(field, "arrays of numbers")
		}
		most, err := c.Dataset.MostBytes(label.Field)
		if err != nil {
			return err
		}
		// A damaged index may claim any length. No batch has that many rows, and their bytes fit an int64.
		label.most = min(most/width/int64(label.Rule.Width()), mostRows)
	}
	return nil
}

func (l *Label) refused(f catalog.Field, expected string) error {
	kind := string(f.Type)
	if f.DType != "" {
		kind += " of " + f.DType
	}
	return catalog.NewError(fault.KindArgument, "", "labels: field %q is %s (expected %s)", l.Field, kind, expected)
}

// fields returns a label's fields in a batch of images of that plan. A mask or an image has one tensor. Boxes and
// points have their rows, the original numbers of these rows, and the number of rows.
func (l *Label) fields(number int, plan *native.Plan) []Field {
	size, _ := plan.FixedSize()
	name := func(what string) string { return fmt.Sprintf("%s.%d", what, number) }
	if l.Rule.Kind == labels.Mask {
		shape := []int64{int64(size.Height), int64(size.Width)}
		return []Field{{Name: name("mask"), DType: Uint8, Shape: shape, SampleBytes: shape[0] * shape[1]}}
	}
	if l.Rule.Kind == labels.Image {
		return []Field{l.imageField(name("image"), size, plan.Output())}
	}
	width := int64(l.Rule.Width())
	return []Field{
		{Name: name("places"), DType: Float32, Shape: []int64{l.most, width}, SampleBytes: 4 * l.most * width},
		{Name: name("kept"), DType: Int64, Shape: []int64{l.most}, SampleBytes: 8 * l.most},
		{Name: name("count"), DType: Int64, SampleBytes: 8},
	}
}

// fieldCount is the number of a label's fields in a batch.
func (l *Label) fieldCount() int {
	if l.Rule.Kind == labels.Mask || l.Rule.Kind == labels.Image {
		return 1
	}
	return 3
}

// label moves the labels of a sample that was made into row i of the draft. The worker's context still has the image's
// size; for files without an index nothing else knows it.
func (w *worker) label(d *draft, i int64, sample *catalog.Sample, key native.Key) error {
	l := w.loader
	if len(l.config.Labels) == 0 {
		return nil
	}
	m := motion{plan: l.config.Recipe.Phases[d.phase].Views[0], sample: sample}
	m.width, m.height = w.context.Size()
	var err error
	if m.drawn, err = m.plan.Replay(key, m.width, m.height); err != nil {
		return err
	}
	m.size, _ = m.plan.FixedSize()
	to := d.layout.behind()
	for n := range l.config.Labels {
		label := &l.config.Labels[n]
		var at []unsafe.Pointer // places of its fields in row i
		for range label.fieldCount() {
			place, err := d.place(&to[0], i)
			if err != nil {
				return err
			}
			at, to = append(at, place), to[1:]
		}
		if err := w.moveLabel(d, label, &m, at); err != nil {
			return err
		}
	}
	return nil
}

// settle draws what depends on the boxes of a sample, before its image is made. If the image's size cannot be read,
// nothing is done here, and Sample reports why.
func (w *worker) settle(d *draft, sample *catalog.Sample, view mmap.View, key native.Key) (native.Key, error) {
	l := w.loader
	plan := l.config.Recipe.Phases[d.phase].Views[0]
	if !plan.LooksAtBoxes() {
		return key, nil
	}
	var width, height uint32
	if p := sample.Pixels; p != nil {
		width, height = p.Width, p.Height
	} else {
		var err error
		if width, height, err = w.context.Header(view.Pointer, view.Length); err != nil {
			return key, nil
		}
	}
	n := slices.IndexFunc(l.config.Labels, func(label Label) bool { return label.Rule.LooksAtBoxes() })
	if n < 0 {
		return key, errors.New("internal: no label of Boxes")
	}
	label := &l.config.Labels[n]
	value, err := l.value(label, sample)
	if err != nil {
		return key, err
	}
	values, err := label.numbers(value)
	if err != nil {
		return key, label.blame(err, sample, "")
	}
	key, err = label.Rule.Settle(plan, key, values, width, height)
	return key, label.blame(err, sample, "")
}

// value returns the field of a label from the dataset.
func (l *Loader) value(label *Label, sample *catalog.Sample) (any, error) {
	return l.store.FieldValue(l.store.Waits(), sample.Index, label.Field)
}

// motion is what was done to an image, which its labels have to follow.
type motion struct {
	plan          *native.Plan
	sample        *catalog.Sample
	drawn         []native.Drawn
	width, height uint32      // of the original image
	size          native.Size // of the finished one
}

func (w *worker) moveLabel(d *draft, label *Label, m *motion, to []unsafe.Pointer) error {
	dataset := w.loader.config.Dataset
	// path is the field's own file, if it has one, as images and masks may.
	path, err := dataset.FieldFile(m.sample.Index, label.Field)
	if err != nil {
		return err
	}
	switch label.Rule.Kind {
	case labels.Image:
		err = w.image(d, label, path, m, to[0])
	case labels.Mask:
		err = w.mask(d, label, path, m, to[0])
	default:
		var value any
		if value, err = w.loader.value(label, m.sample); err == nil && w.touch(d) {
			err = label.places(value, m.drawn, m.size, to)
			w.untouch()
		}
	}
	return label.blame(err, m.sample, path)
}

// mask moves a mask: a file of its own, a file in a field of bytes, or an array of one byte for each pixel.
func (w *worker) mask(d *draft, label *Label, path string, m *motion, to unsafe.Pointer) error {
	mask := native.Mask{Width: int32(m.width), Height: int32(m.height), Fill: label.Rule.Fill}
	if label.encoded {
		view, err := w.bytesOf(label, path, m.sample)
		if err != nil {
			return err
		}
		mask.File, mask.Length = view.Pointer, view.Length
	} else {
		value, err := w.loader.value(label, m.sample)
		if err != nil {
			return err
		}
		array, ok := value.(catalog.Array)
		if !ok || len(array.Shape) != 2 || array.Shape[0] != int64(m.height) || array.Shape[1] != int64(m.width) {
			return fmt.Errorf("an array of shape %v (expected the image's [%d %d])", array.Shape, m.height, m.width)
		}
		mask.Pixels = array.Data
	}
	if !w.touch(d) {
		return nil
	}
	defer w.untouch()
	return w.context.MoveMask(m.drawn, mask, to, int32(m.size.Width), int32(m.size.Height))
}

// places writes the boxes or points of one sample; the rest of its rows is zero.
func (l *Label) places(value any, drawn []native.Drawn, size native.Size, to []unsafe.Pointer) error {
	numbers, err := l.numbers(value)
	if err != nil {
		return err
	}
	width := int64(l.Rule.Width())
	moved, kept, err := l.Rule.Move(numbers, drawn, int32(size.Width), int32(size.Height))
	if err != nil {
		return err
	}
	values := unsafe.Slice((*float32)(to[0]), l.most*width)
	clear(values[copy(values, moved):])
	rows := unsafe.Slice((*int64)(to[1]), l.most)
	clear(rows[copy(rows, kept):])
	*(*int64)(to[2]) = int64(len(kept))
	return nil
}

// numbers returns the numbers of boxes or points, row after row.
func (l *Label) numbers(value any) ([]float32, error) {
	array, ok := value.(catalog.Array)
	width := int64(l.Rule.Width())
	if !ok || len(array.Shape) != 2 || array.Shape[1] != width || array.Shape[0] > l.most {
		return nil, fmt.Errorf("an array of shape %v (expected [n %d])", array.Shape, width)
	}
	return floats(array)
}

// elementBytes has the element sizes of arrays that may hold boxes or points.
var elementBytes = map[string]int64{"float32": 4, "float64": 8, "int32": 4, "int64": 8, "int16": 2, "uint16": 2, "uint8": 1}

func floats(a catalog.Array) ([]float32, error) {
	width := int(elementBytes[a.DType])
	if width == 0 || len(a.Data)%width != 0 {
		return nil, fmt.Errorf("an array of %s", a.DType)
	}
	found := make([]float32, len(a.Data)/width)
	for i := range found {
		b := a.Data[i*width : (i+1)*width]
		switch a.DType {
		case "float32":
			found[i] = math.Float32frombits(binary.LittleEndian.Uint32(b))
		case "float64":
			found[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(b)))
		case "int32":
			found[i] = float32(int32(binary.LittleEndian.Uint32(b)))
		case "int64":
			found[i] = float32(int64(binary.LittleEndian.Uint64(b)))
		case "int16":
			found[i] = float32(int16(binary.LittleEndian.Uint16(b)))
		case "uint16":
			found[i] = float32(binary.LittleEndian.Uint16(b))
		default:
			found[i] = float32(b[0])
		}
	}
	return found, nil
}
