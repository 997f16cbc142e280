# Starts 4000 threads.
# loses: nothing
# says: start new thread
import threading, time

threading.stack_size(65536)
for _ in range(4000):
    threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
