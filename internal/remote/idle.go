package remote

// CloseIdle ends the connections to this storage that nobody uses now, and those in use when they become
// idle, unless another request is made before. The next request makes new ones.
func (s Storage) CloseIdle() { clientOf(s).web.CloseIdleConnections() }
