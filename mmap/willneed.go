package mmap

// WillNeed says that [offset, offset+length) will be read soon, even if not in order, so that the storage can be asked
// for it as a whole: reads of its parts then find them in the page cache. It does not wait, and a range that is not
// there is ignored.
func (f *File) WillNeed(offset, length int64) {
	if offset < 0 || length <= 0 || offset > f.size-length || !f.acquire() {
		return
	}
	willNeed(f.fd, offset, length)
	_ = f.release() // if this was the last holder, nobody is left to get the error
}
