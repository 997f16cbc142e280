"""HTTP server for runs. Importing this package without its extra raises `MissingPackage`."""

from importlib.util import find_spec

from glassformer.config.errors import MissingPackage

for package in ("fastapi", "uvicorn"):
    if find_spec(package) is None:
        raise MissingPackage.needed("serve", package, "serve")
