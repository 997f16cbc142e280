# Starts a process with multiprocessing.
# loses: nothing
# says: PermissionError
import multiprocessing

raise ValueError("SECRET" + str(multiprocessing.get_context("fork").Process(target=print).start()))
