package main

/*
#include "headrace.h"
*/
import "C"

//export goClose
func goClose(handle C.hr_handle, out *C.hr_error) C.int32_t {
	return answer(out, func() error {
		o, ok := handles.remove(int64(handle))
		if !ok {
			return badHandle(int64(handle))
		}
		return o.close()
	})
}
