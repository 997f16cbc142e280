# Keeps memory that no limit counts, with multiprocessing.
# loses: nothing
# says: OSError|PermissionError
from multiprocessing.shared_memory import SharedMemory

raise ValueError("SECRET" + str(SharedMemory(create=True, size=2**20)))
