//go:build headrace_nocloud

package remote

// newCloudStore returns no store, because this build has only web servers.
func newCloudStore(*client, string) store { return nil }
