package main

/*
#include "headrace.h"
*/
import "C"

import (
	"unsafe"

	"github.com/headrace/headrace/internal/scan"
)

//export goDatasetOpen
func goDatasetOpen(config *C.char, length C.size_t, into *C.hr_handle, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		var c datasetConfig
		if err := configuration(config, length, &c); err != nil {
			return err
		}
		d, err := openDataset(c)
		if err != nil {
			return err
		}
		*into = C.hr_handle(handles.add(d))
		return nil
	})
}

//export goDatasetInfo
func goDatasetInfo(handle C.hr_handle, index C.int64_t, buffer *C.char, capacity C.size_t, need *C.size_t, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		if handle == 0 && index < 0 {
			return textAnswer(scan.Current(), buffer, capacity, need)
		}
		d, err := useDataset(int64(handle))
		if err != nil {
			return err
		}
		defer d.Release()
		if index < 0 {
			return textAnswer(d.summary(), buffer, capacity, need)
		}
		found, err := d.sample(int64(index))
		if err != nil {
			return err
		}
		return textAnswer(found, buffer, capacity, need)
	})
}

//export goDatasetRead
func goDatasetRead(handle C.hr_handle, index C.int64_t, buffer *C.uint8_t, capacity C.size_t, need *C.size_t, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		d, err := useDataset(int64(handle))
		if err != nil {
			return err
		}
		defer d.Release()
		if length := d.knownLength(int64(index)); length > int64(capacity) { // what was not read need not be read again
			if need != nil {
				*need = C.size_t(length)
			}
			return room(int64(capacity), length)
		}
		return d.read(int64(index), func(data []byte) error {
			return bytesAnswer(data, unsafe.Pointer(buffer), capacity, need)
		})
	})
}
