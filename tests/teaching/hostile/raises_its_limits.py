# Raises its limits.
# loses: nothing
# says: Error
import resource

if resource.setrlimit(resource.RLIMIT_NPROC, (10**6, 10**6)) is None:
    raise ValueError("SECRET")
