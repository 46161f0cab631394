// Package fetch reads ranges of remote objects before they are needed. Its user adds ranges in the order in which they
// will be needed. Requests are sent in that order, far enough ahead to use the whole bandwidth, and neighbours in an
// object share a request.
//
// It has three limits: bytes of memory that are fetched or being fetched, requests in flight, and bytes that are
// fetched out of order because they lie beside something that is due. What was read belongs to the user until Free.
//
// The package knows neither images and datasets nor protocols: a Source reads a range.
package fetch
