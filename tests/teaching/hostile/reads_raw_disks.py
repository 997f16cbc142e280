# Reads raw disks.
# loses: nothing
# says: ^$
import stat

for folder, _, names in os.walk("/dev"):
    for name in names:
        try:
            if stat.S_ISBLK(os.stat(os.path.join(folder, name)).st_mode):
                raise ValueError(f"SECRET {name}")
        except OSError:
            pass
