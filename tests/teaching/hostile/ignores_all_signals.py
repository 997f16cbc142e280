# Ignores all signals.
# loses: nothing
# says: takes more than 3 s
import signal

for number in range(1, 32):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    pass
