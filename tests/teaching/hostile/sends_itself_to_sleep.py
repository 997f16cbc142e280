# Sends itself to sleep.
# loses: Layer
# says: takes more than 3 s
import time


def Layer(width):
    time.sleep(10**6)
