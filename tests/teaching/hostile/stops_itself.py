# Stops itself.
# loses: nothing
# says: takes more than 3 s
import signal

os.kill(os.getpid(), signal.SIGSTOP)
