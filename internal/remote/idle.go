package remote

// CloseIdle ends the connections to this storage that nobody uses now, and those in use when they become
// idle, unless another request is made before. The next request makes new ones.
// A dataset in a store calls it when it is closed. The sockets of a process that goes on would else stay open for a minute.
func (s Storage) CloseIdle() { clientOf(s).web.CloseIdleConnections() }
