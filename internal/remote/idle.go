package remote

// CloseIdle ends the connections to this storage that nobody uses now, and those in use when they become
// idle, unless another request is made before. The next request makes new ones.
// A dataset in a store calls it when it is closed: sockets of a process that trains on would stay open for the minute
// that servers keep them.
func (s Storage) CloseIdle() { clientOf(s).web.CloseIdleConnections() }
