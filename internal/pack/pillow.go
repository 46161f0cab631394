package pack

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
	"github.com/headrace/headrace/native"
)

// pillow is a process, one for each thread, that decodes with Pillow what the engine does not decode. It is started at
// the first such file. It reads files from its standard input and writes answers to its standard output: a byte for the
// kind of answer, its length in 8 bytes, and its bytes.
// It is a process and not a Python thread: a decoder that crashes ends only its own process, and several decode at
// once.
type pillow struct {
	ctx     context.Context
	argv    []string
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// These are the kinds of an answer.
// Any other first byte is an error.
const (
	pillowImage   = 0 // a PNG of the pixels
	pillowRefusal = 1 // a sentence that says why not
)

// The process decodes hostile files, so it is not trusted to answer, nor are its answers.
const (
	// A decoder that never returns must not hang a job. The slowest codecs take seconds for an image.
	// The time is for each file.
	pillowPatience = 2 * time.Minute
	// The writer of a sentence cuts it to this length.
	maxRefusal = 4096
)

// throughPillow replaces a file that is unsupported, or of unknown type, by a PNG of Pillow's pixels. If Pillow refuses
// the file too, it stays as it is.
// Both sides read a PNG without loss. From there on it is treated like any file, with limits and checksum.
func (in *inspector) throughPillow(r *record) error {
	unsupported := r.verdict == catalog.Unsupported
	if in.pillow == nil || !unsupported && !unknown(r.verdict, r.facts.Codec) || r.raw || len(r.data) == 0 {
		return nil
	}
	answer, refusal, err := in.ask(r, r.data)
	if err != nil {
		return err
	}
	if refusal != "" {
		if unsupported {
			r.reason += "; " + refusal
		}
		return nil
	}
	// The record is kept as it was, because it is restored if the PNG exceeds a limit.
	was := *r
	r.data, r.length, r.extension, r.verdict, r.reason = answer, int64(len(answer)), "png", catalog.Unknown, ""
	r.pillow = true
	if err := in.inspect(r); err != nil {
		return err
	}
	// Limits apply to Pillow's image as to any file.
	if r.verdict != catalog.Good { // it exceeds a limit
		reason := r.reason
		*r = was
		r.reason += "; and of Pillow's pixels: " + reason
		return nil
	}
	r.original = was.length
	return nil
}

// furtherThroughPillow does the same for the further images of a sample, which are fields of bytes. An image that
// neither can read keeps its bytes, and the record says so.
// further has the numbers of those fields. Each image is replaced on its own, so a failure does not affect the others.
func (in *inspector) furtherThroughPillow(r *record, further []int) error {
	if in.pillow == nil {
		return nil
	}
	for _, n := range further {
		file, ok := r.fields[n].([]byte)
		if !ok || uint64(len(file)) > in.limits.MaxRecordBytes {
			continue
		}
		codec, why := in.refusal(file)
		if why == nil || why.Code != native.Unsupported && (why.Code != native.Bad || codec != native.CodecUnknown) {
			continue
		}
		answer, refusal, err := in.ask(r, file)
		if err != nil {
			return err
		}
		if refusal == "" {
			if _, over := in.refusal(answer); over != nil {
				refusal = "and of Pillow's pixels: " + over.Text
			}
		}
		if refusal != "" {
			r.unread = why.Text + "; " + refusal
			continue
		}
		r.fields[n] = answer
		r.further++
	}
	return nil
}

// unknown is true for the verdict on bytes of unknown type. Some types have no signature that distinguishes them from
// noise, and a program may have plugins.
// The engine recognises some types that it does not decode. Pillow may still read what the engine does not recognise.
func unknown(verdict catalog.Verdict, codec uint8) bool {
	return verdict == catalog.Bad && codec == native.CodecUnknown
}

// refusal says why the engine does not open a file; nil if it does.
// The header is enough; no entropy data are read.
func (in *inspector) refusal(file []byte) (codec uint8, why *native.Error) {
	if len(file) == 0 {
		return native.CodecUnknown, nil
	}
	facts, _, err := in.context.Inspect(unsafe.Pointer(unsafe.SliceData(file)), int64(len(file)), false)
	errors.As(err, &why)
	return facts.Codec, why
}

// ask lets Pillow decode a file. It returns a PNG of the pixels, or the reason why there is none.
// If the process has failed it is ended; the next file starts a new one.
func (in *inspector) ask(r *record, file []byte) (answer []byte, refusal string, err error) {
	kind, answer, err := in.pillow.decode(file, in.limits.MaxRecordBytes)
	if in.pillow.ctx.Err() != nil {
		return nil, "", in.pillow.ctx.Err()
	}
	if err != nil {
		in.pillow.end()
		if short := (*shortMemory)(nil); errors.As(err, &short) {
			return nil, "", recordError(r, fault.KindMemory, short.Error(), nil)
		}
		return nil, "nor does Pillow read it: " + err.Error(), nil
	}
	if kind == pillowRefusal {
		return nil, strings.ToValidUTF8(string(answer), "?"), nil
	}
	return answer, "", nil
}

// shortMemory says that there is not enough memory for an answer.
type shortMemory struct{ error }

// start starts the process if none runs. It is kept for the thread's next file, because starting Python takes longer
// than an image.
func (p *pillow) start() error {
	if p.process != nil {
		return nil
	}
	c := exec.CommandContext(p.ctx, p.argv[0], p.argv[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the job, which ends this process
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		in.Close()
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	p.process, p.in, p.out = c, in, bufio.NewReader(out)
	return nil
}

// decode asks for one file. After an error the process cannot be used any more.
// most limits the answer, because the process, which decodes hostile files, says its length first.
func (p *pillow) decode(file []byte, most uint64) (kind byte, answer []byte, err error) {
	if err := p.start(); err != nil {
		return 0, nil, err
	}
	process := p.process.Process
	// The kill closes the process's pipes and so ends the read below. A deadline on the pipe would not end a process that
	// is stuck.
	late := time.AfterFunc(pillowPatience, func() { process.Kill() })
	defer late.Stop()
	if _, err := p.in.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(file)))); err != nil {
		return 0, nil, ended(err)
	}
	if _, err := p.in.Write(file); err != nil {
		return 0, nil, ended(err)
	}
	var head [9]byte
	if _, err := io.ReadFull(p.out, head[:]); err != nil {
		return 0, nil, ended(err)
	}
	kind = head[0]
	if kind == pillowRefusal {
		most = maxRefusal
	}
	length := binary.LittleEndian.Uint64(head[1:])
	if kind > pillowRefusal || length > most {
		return 0, nil, fmt.Errorf("its answer has %d bytes (expected at most %d)", length, most)
	}
	if short := headroom.Memory(int64(length)); short != nil {
		return 0, nil, &shortMemory{short}
	}
	answer = make([]byte, length)
	if _, err := io.ReadFull(p.out, answer); err != nil {
		return 0, nil, ended(err)
	}
	return kind, answer, nil
}

// ended makes the error of a broken pipe, which only shows that the process has ended.
func ended(err error) error { return fmt.Errorf("its process ended (%w)", err) }

// end ends the process, even if it still works on a file.
// Wait follows Kill, so that no zombie is left.
func (p *pillow) end() {
	if p.process == nil {
		return
	}
	p.in.Close()
	p.process.Process.Kill()
	p.process.Wait()
	p.process = nil
}
