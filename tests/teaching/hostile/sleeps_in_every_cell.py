# Sleeps in every cell.
# loses: all
# says: takes more than 30 s in all
import time

@@12*time.sleep(99)
@@
