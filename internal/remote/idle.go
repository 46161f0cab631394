package remote

// CloseIdle closes the connections to this storage that are not in use. Those in use are closed when they become idle,
// unless another request is made before. The next request makes new ones.
// A dataset in a store calls it when it is closed. Otherwise the sockets would stay open for a minute.
func (s Storage) CloseIdle() { clientOf(s).web.CloseIdleConnections() }
