package mmap

// WillNeed says that [offset, offset+length) will be read soon, if not in order, so that the storage
// may be asked for it as a whole: reads in its parts then find them in the page cache. It does not
// wait, and a range that is not there is passed over.
func (f *File) WillNeed(offset, length int64) {
	if offset < 0 || length <= 0 || offset > f.size-length || !f.acquire() {
		return
	}
	willNeed(f.fd, offset, length)
	_ = f.release() // where this was the last holder, nobody is left to tell
}
