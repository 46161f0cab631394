// Package fetch reads ranges of remote objects before they are needed. Its user adds what it wants in the
// order in which it wants it; requests go out in that order, far enough ahead to fill the link, and
// neighbours in an object share one.
//
// Three numbers bound it: bytes of memory that are fetched or being fetched, requests in flight, and bytes
// that were fetched out of order because they lay beside something that was due. What was read belongs to
// the user until Free.
//
// The package knows nothing of images and datasets, and nothing of protocols: a Source reads a range.
package fetch
