# Leaves threads.
# loses: nothing
# says:
import threading


def idle():
    while 1:
        pass


for _ in "12":
    threading.Thread(target=idle).start()
