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

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/headroom"
)

// pillow is a process of one thread's that decodes with Pillow what the engine does not. It is
// started at the first such file. It reads files from its standard input and writes answers to its
// standard output: a byte that says what follows, the length of it as 8 bytes, and the bytes.
type pillow struct {
	ctx     context.Context
	argv    []string
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// What an answer is.
const (
	pillowImage   = 0 // a PNG of the pixels
	pillowRefusal = 1 // a sentence
)

const (
	// A decoder that never returns must not hang a job. The slowest codecs take seconds an image.
	pillowPatience = 2 * time.Minute
	// A sentence is cut by who writes it.
	maxRefusal = 4096
)

// throughPillow puts a PNG of Pillow's pixels in the place of a file that is unsupported. What
// Pillow refuses, too, stays as it is.
func (in *inspector) throughPillow(r *record) error {
	if in.pillow == nil || r.verdict != catalog.Unsupported || r.raw || len(r.data) == 0 {
		return nil
	}
	kind, answer, err := in.pillow.decode(r.data, in.limits.MaxRecordBytes)
	if in.pillow.ctx.Err() != nil {
		return in.pillow.ctx.Err()
	}
	if err != nil {
		in.pillow.end()
		if short := (*shortMemory)(nil); errors.As(err, &short) {
			return recordError(r, fault.KindMemory, short.Error(), nil)
		}
		r.reason += "; nor does Pillow read it: " + err.Error()
		return nil
	}
	if kind == pillowRefusal {
		r.reason += "; " + strings.ToValidUTF8(string(answer), "?")
		return nil
	}
	was := *r
	r.data, r.length, r.extension, r.verdict, r.reason = answer, int64(len(answer)), "png", catalog.Unknown, ""
	r.pillow = true
	if err := in.inspect(r); err != nil {
		return err
	}
	if r.verdict != catalog.Good { // over a limit
		reason := r.reason
		*r = was
		r.reason += "; and of Pillow's pixels: " + reason
		return nil
	}
	r.original = was.length
	return nil
}

// shortMemory says that an answer does not fit what memory there is.
type shortMemory struct{ error }

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
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	p.process, p.in, p.out = c, in, bufio.NewReader(out)
	return nil
}

// decode asks for one file. After an error the process is of no use.
func (p *pillow) decode(file []byte, most uint64) (kind byte, answer []byte, err error) {
	if err := p.start(); err != nil {
		return 0, nil, err
	}
	process := p.process.Process
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

func ended(err error) error { return fmt.Errorf("its process ended (%w)", err) }

// end leaves no process behind. One that still works on a file is killed.
func (p *pillow) end() {
	if p.process == nil {
		return
	}
	p.in.Close()
	p.process.Process.Kill()
	p.process.Wait()
	p.process = nil
}
