package pipeline

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/labels"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

// imageField returns the field of a further image of each sample, for first images of that size and form.
func (l *Label) imageField(name string, size native.Size, images native.Output) Field {
	scale := int64(l.Rule.Image.Scale)
	output := l.Rule.Image.Output(images)
	height, width := scale*int64(size.Height), scale*int64(size.Width)
	shape := []int64{3, height, width}
	if output.Layout == native.NHWC {
		shape = []int64{height, width, 3}
	}
	dtype := imageTypes[output.DType]
	return Field{Name: name, DType: dtype, Shape: shape, SampleBytes: 3 * height * width * dtype.Bytes()}
}

// checkForm refuses a form that no image can have.
func (l *Label) checkForm(images native.Output) error {
	plan, err := native.NewPlan(nil, l.Rule.Image.Output(images))
	if err != nil {
		return catalog.NewError(fault.KindArgument, "", "labels: %q (Image): %s", l.Field, err)
	}
	plan.Close()
	return nil
}

// image makes a further image of a sample with the ops that were drawn for the first one. It has its own plan of fixed
// ops, which draw nothing, so that only the part that its crop needs is decoded.
func (w *worker) image(d *draft, label *Label, path string, m *motion, to unsafe.Pointer) error {
	view, err := w.bytesOf(label, path, m.sample)
	if err != nil {
		return err
	}
	width, height, err := w.context.Header(view.Pointer, view.Length)
	if err != nil {
		return err
	}
	form := &label.Rule.Image
	scale := uint64(form.Scale)
	if uint64(width) != scale*uint64(m.width) || uint64(height) != scale*uint64(m.height) {
		return fmt.Errorf("%d x %d pixels, height x width, where the first image has %d x %d (expected %d times as many: %d x %d)",
			height, width, m.height, m.width, scale, scale*uint64(m.height), scale*uint64(m.width))
	}
	ops, err := labels.Follow(m.drawn, form.Scale, int32(m.size.Width), int32(m.size.Height))
	if err != nil {
		return err
	}
	plan, err := native.NewPlan(ops, form.Output(m.plan.Output()))
	if err != nil {
		return err
	}
	defer plan.Close()
	made, err := plan.DrawnSize(native.Key{}, width, height)
	if err != nil {
		return err
	}
	if uint64(made.Width) != scale*uint64(m.size.Width) || uint64(made.Height) != scale*uint64(m.size.Height) {
		return &native.Error{Code: fault.KindInternal, Offset: -1, Text: fmt.Sprintf("an image of %d x %d pixels moved to %d x %d", height, width, made.Height, made.Width)}
	}
	if !w.touch(d) {
		return nil
	}
	defer w.untouch()
	_, err = w.context.Sample(view.Pointer, view.Length, native.Seek{}, native.Key{}, nil, native.View{Plan: plan, To: to, Capacity: made.Bytes})
	return err
}

// bytesOf returns the encoded bytes of a further image: those of its own file, or of a field.
func (w *worker) bytesOf(label *Label, path string, sample *catalog.Sample) (mmap.View, error) {
	l := w.loader
	if path != "" {
		return l.store.ReadBeside(path, *sample, &w.beside)
	}
	value, err := l.value(label, sample)
	if err != nil {
		return mmap.View{}, err
	}
	data, ok := value.([]byte)
	if !ok {
		return mmap.View{}, fmt.Errorf("%T is no encoded image (expected bytes)", value)
	}
	// The decoder must not read memory that Go may move, so the bytes are copied.
	room, err := w.beside.Reserve(int64(len(data)))
	if err != nil {
		return mmap.View{}, err
	}
	copy(room, data)
	return w.beside.Part(0, int64(len(data))), nil
}

// blame adds to an error the field and the sample, and the file if it is not the sample's own (path is empty
// otherwise). An error that has a file already is returned unchanged.
func (l *Label) blame(err error, sample *catalog.Sample, path string) error {
	if err == nil {
		return nil
	}
	found := &catalog.Error{Kind: fault.KindBadFile, File: path, Record: sample.Index, Offset: -1}
	var known *catalog.Error
	var pixels *native.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &pixels):
		found.Kind, found.Text = pixels.Code, pixels.Text
		if path != "" {
			found.Offset = pixels.Offset
		}
	default:
		found.Text = err.Error()
		if kind := fault.KindOf(err); kind != fault.KindInternal {
			found.Kind = kind
		}
	}
	found.Text = fmt.Sprintf("field %q: %s", l.Field, found.Text)
	return found
}
