# Reads its own pipes.
# loses: nothing
# says:
import threading, time


def steal(fd):
    try:
        other = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return
    until = time.monotonic() + 2
    while time.monotonic() < until:
        for take, what in ((os.write, b"x"), (os.read, 65536)):
            try:
                take(fd if take is os.write else other, what)
            except OSError:
                pass


threads = [threading.Thread(target=steal, args=(1,), daemon=True) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
