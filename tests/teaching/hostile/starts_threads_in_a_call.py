# Starts threads in a call.
# loses: Layer
# says: start new thread
import threading, time

threading.stack_size(65536)


def Layer(width):
    for _ in range(4000):
        threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
