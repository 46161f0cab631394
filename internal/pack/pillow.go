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

// pillow is a process of one thread's that decodes with Pillow what the engine does not. It is
// started at the first such file. It reads files from its standard input and writes answers to its
// standard output: a byte that says what follows, the length of it as 8 bytes, and the bytes.
// A process and no thread of Python's: a decoder that crashes ends its own process only, and several decode at the same time.
type pillow struct {
	ctx     context.Context
	argv    []string
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// What an answer is.
// Any other first byte is an error.
const (
	pillowImage   = 0 // a PNG of the pixels
	pillowRefusal = 1 // a sentence
)

// The process decodes hostile files, so that neither its silence nor its answers are trusted.
const (
	// A decoder that never returns must not hang a job. The slowest codecs take seconds an image.
	// Each file has the time anew.
	pillowPatience = 2 * time.Minute
	// A sentence is cut by who writes it.
	maxRefusal = 4096
)

// throughPillow puts a PNG of Pillow's pixels in the place of a file that is unsupported, or of no type that
// is known. What Pillow refuses, too, stays as it is.
// A PNG is what both sides read without a loss; it goes the way of any file from there on, limits and checksum included.
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
	// The record as it was, for it stands if the PNG is over a limit.
	was := *r
	r.data, r.length, r.extension, r.verdict, r.reason = answer, int64(len(answer)), "png", catalog.Unknown, ""
	r.pillow = true
	if err := in.inspect(r); err != nil {
		return err
	}
	// Limits hold for what Pillow made as for any file.
	if r.verdict != catalog.Good { // over a limit
		reason := r.reason
		*r = was
		r.reason += "; and of Pillow's pixels: " + reason
		return nil
	}
	r.original = was.length
	return nil
}

// furtherThroughPillow does the same with the further images of a sample, which are fields of bytes, by
// their numbers. What neither reads keeps its bytes, and the record says so.
// further are numbers of fields; each image is replaced by itself, so that one that fails keeps the others.
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

// unknown is the verdict on bytes that nothing is known of. Some types have no signature that tells them
// from noise, and a program may have plugins.
// The engine knows some types that it does not decode; what it does not know at all may still be an image to Pillow.
func unknown(verdict catalog.Verdict, codec uint8) bool {
	return verdict == catalog.Bad && codec == native.CodecUnknown
}

// refusal says why the engine does not open a file; nil where it does.
// Its header is enough: entropy data are not read here.
func (in *inspector) refusal(file []byte) (codec uint8, why *native.Error) {
	if len(file) == 0 {
		return native.CodecUnknown, nil
	}
	facts, _, err := in.context.Inspect(unsafe.Pointer(unsafe.SliceData(file)), int64(len(file)), false)
	errors.As(err, &why)
	return facts.Codec, why
}

// ask has a file decoded by Pillow: a PNG of its pixels, or why there is none.
// A process that has failed is let go; the next file starts another one.
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

// shortMemory says that an answer does not fit what memory there is.
type shortMemory struct{ error }

// It is kept for the thread's next file: a start of Python takes longer than an image.
func (p *pillow) start() error {
	if p.process != nil {
		return nil
	}
	c := exec.CommandContext(p.ctx, p.argv[0], p.argv[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is the job's, which ends this one
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

// decode asks for one file. After an error the process is of no use.
// most bounds the answer, which the process says the length of before it sends it: it decodes hostile files.
func (p *pillow) decode(file []byte, most uint64) (kind byte, answer []byte, err error) {
	if err := p.start(); err != nil {
		return 0, nil, err
	}
	process := p.process.Process
	// Its pipes end with it, and with them the read below.
	// A timer that kills it and no deadline on the pipe, for a process that is stuck has to end.
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

// ended is the error of a pipe that broke: all it says is that the process is gone.
func ended(err error) error { return fmt.Errorf("its process ended (%w)", err) }

// end leaves no process behind. One that still works on a file is killed.
// Wait behind Kill, so that no zombie is left.
func (p *pillow) end() {
	if p.process == nil {
		return
	}
	p.in.Close()
	p.process.Process.Kill()
	p.process.Wait()
	p.process = nil
}
