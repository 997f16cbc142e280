# Makes a device of a disk.
# loses: nothing
# says: PermissionError|Operation not permitted
import stat

if os.mknod("disk", stat.S_IFBLK | 0o666, os.makedev(254, 0)) is None:
    raise ValueError("SECRET" + repr(os.open("disk", os.O_RDONLY)))
