package parts

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/headrace/headrace/internal/fault"
	"golang.org/x/sys/unix"
)

// directory identifies a directory, by whatever path it was opened.
type directory struct {
	device, inode uint64
}

// inspect refuses a directory that other machines or other users can use.
func inspect(root *os.Root, path string) (directory, error) {
	refuse := func(found string) error {
		return fault.New(fault.KindArgument, fault.Argument("cache", path, found))
	}
	dot, err := root.Open(".")
	if err != nil {
		return directory{}, refuse("a directory that can be opened")
	}
	defer dot.Close()
	var system unix.Statfs_t
	var status unix.Stat_t
	if unix.Fstatfs(int(dot.Fd()), &system) != nil || unix.Fstat(int(dot.Fd()), &status) != nil {
		return directory{}, refuse("a directory that can be opened")
	}
	// Mappings of one file on two machines do not show each other's writes, and their locks depend on a server.
	if name := elsewhere(int64(system.Type)); name != "" {
		return directory{}, refuse("a directory of a local file system; this one is " + name)
	}
	// Another user who can write there could put bytes into a training.
	if int(status.Uid) != os.Geteuid() {
		return directory{}, refuse("a directory of one's own")
	}
	if status.Mode&0o077 != 0 {
		if others := foreign(dot); others != "" {
			return directory{}, refuse(fmt.Sprintf("a directory for the cache alone, or one of mode 0700: this one is open to other users (mode %04o) and holds %s", status.Mode&0o7777, others))
		}
		_ = dot.Chmod(0o700)
	}
	return directory{uint64(status.Dev), status.Ino}, nil
}

// foreign names a file of a directory that does not belong to a cache. The directory's mode is not changed then,
// because others may need it.
func foreign(dot *os.File) string {
	names, err := dot.Readdirnames(-1)
	if err != nil {
		return "files that cannot be listed"
	}
	for _, name := range names {
		if !strings.HasPrefix(name, filePrefix) {
			return strconv.Quote(name)
		}
	}
	return ""
}

// elsewhere names a file system to which other machines write as well, or whose locks do not end with a process.
func elsewhere(kind int64) string {
	return map[uint32]string{
		unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB", 0xff534d42: "CIFS",
		unix.V9FS_MAGIC: "9P", unix.FUSE_SUPER_MAGIC: "FUSE", unix.CEPH_SUPER_MAGIC: "Ceph", unix.AFS_SUPER_MAGIC: "AFS",
		unix.CODA_SUPER_MAGIC: "Coda", unix.OCFS2_SUPER_MAGIC: "OCFS2", 0x0bd00bd0: "Lustre", 0x01161970: "GFS2",
		0x47504653: "GPFS", 0x19830326: "BeeGFS", 0x00bacbac: "OrangeFS", 0x20030528: "OrangeFS",
	}[uint32(kind)]
}
