# Starts a fork server of multiprocessing.
# loses: nothing
# says: PermissionError
import multiprocessing

raise ValueError("SECRET" + str(multiprocessing.get_context("forkserver").Process(target=print).start()))
